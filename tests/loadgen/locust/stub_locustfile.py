"""A locustfile for the tests of the UI: plays nothing, tells a live view of a modelled run, a part at a time.

From the environment: STUB_FOLDER (of the run), STUB_EVERY_S (pace of the parts), STUB_ALARMS (a worker is lost),
STUB_LOGIN (nobody may log in), STUB_WAITS (in the middle of each run, for a look at /stub/on), STUB_PREPARES (a run is
about to begin until that look).
"""

import os
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust import LoadTestShape, User, constant, events, task

from loadgen.config import from_texts
from loadgen.locust.live import LiveView
from loadgen.locust.web import install_web
from loadgen.session import execute, prepare
from results.recording import RecordingPart
from results.status import Status
from tests.loadgen.locust.parts import cut_at_steps, played

ENGINE = "static,batch=8"
TEXTS = {"engine": ENGINE, "clock": "modelled", "rate": "12", "requests": "150", "slo": "ttft<=1s,tpot<=50ms"}
PIECES = 24
HOSTILE_PIECE = 2
HOSTILE = "<img src=x onerror=console.error(1)>"
LIVE = LiveView()
OVER = {"yes": False}
GO_ON = Event()


@events.init_command_line_parser.add_listener
def options(parser: Any) -> None:
    """A few of those that the real one has."""
    parser.add_argument("--target", default="", include_in_web_ui=True, help="server under load")
    parser.add_argument("--rate", default="12", include_in_web_ui=True, help="mean arrival rate")
    parser.add_argument("--arrival", default="poisson", choices=["poisson", "gamma"], include_in_web_ui=True)


@events.init.add_listener
def install(environment: Any, **_: Any) -> None:
    """As the real one does."""
    install_web(environment, LIVE)
    if environment.web_ui is not None:
        environment.web_ui.app.add_url_rule("/stub/on", "stub", go_on)
    if "STUB_PREPARES" in os.environ:
        LIVE.prepare()
    if "STUB_LOGIN" in os.environ and environment.web_ui is not None:
        environment.web_ui.app.secret_key = "of a test"
        environment.web_ui.login_manager.user_loader(lambda user_id: None)


def go_on() -> str:
    """What waits goes on."""
    GO_ON.set()
    if LIVE.is_preparing:
        LIVE.prepared()
    return "on"


@events.test_start.add_listener
def start(environment: Any, **_: Any) -> None:
    """Tell a run, a part at a time."""
    gevent.spawn(tell)


def tell() -> None:
    """The whole of it."""
    schedule, part, _ = played(ENGINE)
    config = from_texts(TEXTS)
    LIVE.begin(schedule, config)
    GO_ON.clear()
    for at, piece in enumerate(cut_at_steps(part, PIECES)):
        LIVE.add(with_hostile_error(piece) if at == HOSTILE_PIECE else piece, at % 2)
        if "STUB_ALARMS" in os.environ and at == PIECES // 2:
            LIVE.lost(1)
        if "STUB_WAITS" in os.environ and at == PIECES // 2:
            GO_ON.wait(60)
        gevent.sleep(float(os.environ.get("STUB_EVERY_S", "0.1")))
    folder = Path(os.environ["STUB_FOLDER"]) / f"run-{LIVE.run}"
    outcome = execute(prepare(config), lambda ended: None, folder)
    page(folder)
    LIVE.end(outcome.folder, outcome.summary, outcome.verdict)
    OVER["yes"] = True


def with_hostile_error(piece: RecordingPart) -> RecordingPart:
    """Its first request failed, and the server's words try to be markup."""
    requests = {name: column.copy() for name, column in piece.tables["requests"].items()}
    requests["status"][0], requests["error"][0] = Status.ENGINE_ERROR, HOSTILE
    return RecordingPart({**piece.tables, "requests": requests})


def page(folder: Path) -> None:
    """The report of the run."""
    from results.report.page import write_report

    write_report(folder)


class Placeholder(User):
    """Does nothing, as the real one."""

    wait_time = constant(1)

    @task
    def wait(self) -> None:
        """Nothing."""


class Shape(LoadTestShape):  # type: ignore[misc]
    """One placeholder until the run has been told."""

    def reset_time(self) -> None:
        """A new test begins: what the last one left must not end it."""
        super().reset_time()
        OVER["yes"] = False

    def tick(self) -> tuple[int, float] | None:
        """None ends the test."""
        return None if OVER["yes"] else (1, 1.0)
