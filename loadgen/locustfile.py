"""A locustfile: `locust -f` this file, or import from it in one's own.

    from loadgen.locustfile import OpenLoopUser, ScheduleShape, configure

    configure(target="http://127.0.0.1:8000/v1", rate="8", duration="60s")
"""

import loadgen.locust.hooks  # noqa: F401 - hangs the listeners on locust
from loadgen.locust.form import configure
from loadgen.locust.users import OpenLoopUser, ScheduleShape

__all__ = ["OpenLoopUser", "ScheduleShape", "configure"]
