"""Placeholders: the user and the shape that locust needs to count something while the schedule is played elsewhere."""

from collections.abc import Callable

import gevent
from locust import LoadTestShape, User, task

STANDS_STILL_S = 3600.0


class OpenLoopUser(User):
    """One in all, and it does nothing: requests come from the schedule, never from users."""

    fixed_count = 1

    @task
    def stand_still(self) -> None:
        """Until locust stops it."""
        gevent.sleep(STANDS_STILL_S)


class ScheduleShape(LoadTestShape):
    """As long as the run lasts; beside the placeholder, the users of a mixed locustfile."""

    is_over: Callable[[], bool] = staticmethod(lambda: False)
    """Set by the controller of the process."""

    def tick(self) -> tuple[int, float] | None:
        """(users, users a second); None ends locust's run."""
        if self.is_over():
            return None
        runner = self.runner
        return 1 + self._others(runner), 100.0

    def _others(self, runner: object) -> int:
        environment = getattr(runner, "environment", None)
        classes = [] if environment is None else environment.user_classes
        if all(issubclass(one, OpenLoopUser) for one in classes):
            return 0
        return int(getattr(environment.parsed_options, "num_users", None) or 1) if environment is not None else 0
