"""Where all of this hangs on locust: one place for every listener, so that one import of a locustfile is enough."""

import gc
import logging
import signal
import sys
from functools import cache, partial
from typing import Any

import gevent
from locust import argument_parser, events
from locust.exception import StopTest
from locust.runners import STATE_INIT, STATE_MISSING, LocalRunner, MasterRunner, WorkerRunner

from loadgen.cli.exit_codes import Exit
from loadgen.locust.agent import Agent
from loadgen.locust.controller import Controller, Links, RunError
from loadgen.locust.form import add_arguments, texts_of
from loadgen.locust.live import LiveView
from loadgen.locust.messages import TO_MASTER, TO_WORKER
from loadgen.locust.users import ScheduleShape
from loadgen.locust.web import install_web

LOCAL = "local"
Json = dict[str, Any]
logger = logging.getLogger(__name__)


def offer_options(parser: Any) -> None:
    """The options of `tokenload run`."""
    add_arguments(parser)


def install(environment: Any, **_: Any) -> None:
    """In each process, after locust's fork: what its role needs."""
    runner = environment.runner
    gc.freeze()  # a collection then looks at what runs have left, not at all of locust
    hub = gevent.get_hub()
    hub.NOT_ERROR = (*hub.NOT_ERROR, StopTest)  # a run that cannot start is told in a line, without a traceback
    if isinstance(runner, WorkerRunner):
        _install_worker(environment, runner)
    elif isinstance(runner, MasterRunner | LocalRunner):
        _Master(environment, runner)


def remember_defaults() -> None:
    """Locust builds a parser for each option of a spawn message: in every worker a fifth of a second, at time 0."""
    found: Any = argument_parser
    found.default_args_dict = cache(found.default_args_dict)
    found.default_args_dict()


def _install_worker(environment: Any, runner: WorkerRunner) -> None:
    remember_defaults()

    def send(kind: str, data: Json) -> None:
        runner.send_message(kind, data)

    agent = Agent(send, lambda: runner.last_heartbeat_timestamp)
    _register_worker(runner, agent)
    gevent.spawn(agent.offer_left_behind)
    presses = 0

    def interrupted() -> None:
        nonlocal presses
        presses += 1
        if agent.is_playing and presses == 1:
            logger.warning("a run is on, and the master ends it: Ctrl-C again to leave it at once")
            return
        runner.quit()

    gevent.signal_handler(signal.SIGINT, interrupted)
    environment.events.quitting.add_listener(lambda **_: agent.close())


def _register_worker(runner: Any, agent: Agent) -> None:
    for kind in TO_WORKER:
        runner.register_message(kind, lambda msg, kind=kind, **_: agent.hear(kind, msg.data))


class _Master:
    """The controller, hung on a master or on the one process of a local run."""

    def __init__(self, environment: Any, runner: Any) -> None:
        self._environment = environment
        self._runner = runner
        self._live = _live_view(environment)
        out = str(getattr(environment.parsed_options, "out", None) or "runs")
        self._controller = Controller(Links(self._send, self._alive), self._live, out)
        self._agent: Agent | None = None
        self._interrupts = 0
        for kind in TO_MASTER:
            runner.register_message(kind, partial(self._hear, kind))
        if isinstance(runner, LocalRunner):
            self._agent = Agent(lambda kind, data: runner.send_message(kind, data))
            _register_worker(runner, self._agent)
        shape = environment.shape_class
        if isinstance(shape, ScheduleShape):
            shape.is_over = lambda: not self._controller.is_running and self._runner.state != STATE_INIT
        self._listen()

    def _listen(self) -> None:
        listeners = self._environment.events
        listeners.test_start.add_listener(self._start)
        listeners.test_stopping.add_listener(self._stop)
        listeners.quitting.add_listener(self._quit)
        for number in (signal.SIGINT, signal.SIGTERM):
            gevent.signal_handler(number, self._interrupted, number)

    def _hear(self, kind: str, msg: Any, **_: Any) -> None:
        self._controller.hear(kind, msg.data, msg.node_id)

    def _send(self, kind: str, data: Json, worker: str) -> None:
        self._runner.send_message(kind, data, client_id=worker)

    def _alive(self) -> list[str]:
        if isinstance(self._runner, LocalRunner):
            return [LOCAL]
        return [client.id for client in self._runner.clients.all if client.state != STATE_MISSING]

    def _start(self, **_: Any) -> None:
        """Before locust tells the workers anything: until time 0 is set."""
        options = vars(self._environment.parsed_options)
        try:
            self._controller.start(texts_of(options), self._alive())
        except RunError as failed:
            self._environment.process_exit_code = failed.exit_code
            self._ready_again()
            raise StopTest(str(failed)) from None

    def _ready_again(self) -> None:
        """A master whose shape fails in its first breath would think for ever that it is still at work."""
        if isinstance(self._runner, MasterRunner):
            self._runner.shape_greenlet = None
            self._runner.shape_last_tick = None
            self._runner._users_dispatcher = None

    def _stop(self, **_: Any) -> None:
        """Before locust stops its users: the run is stopped where it still lasts, and its folder written."""
        if self._controller.is_running:
            self._controller.stop()
        self._finish()

    def _finish(self) -> None:
        self._controller.wait()
        if self._controller.exit_code is not None:
            self._environment.process_exit_code = self._controller.exit_code

    def _quit(self, **_: Any) -> None:
        if self._controller.is_running:
            self._stop()
        self._controller.close()
        if self._agent is not None:
            self._agent.close()

    def _interrupted(self, number: int) -> None:
        """Ctrl-C or a polite kill: the run is stopped and written, then locust ends; again: it is aborted."""
        self._interrupts += 1
        if self._controller.is_running:
            self._controller.stop()
            if self._interrupts == 1:
                gevent.spawn(self._leave)
            return
        self._leave()

    def _leave(self) -> None:
        ran = self._controller.exit_code is not None or self._controller.is_running
        self._finish()
        self._runner.quit()
        if self._environment.web_ui is not None:
            self._environment.web_ui.stop()
        elif not ran:
            sys.exit(Exit.INTERRUPTED)  # locust would wait for its workers for ever


def _live_view(environment: Any) -> Any:
    """What shows a run: in locust's own tables, and in the UI where there is one."""
    live = LiveView()
    install_web(environment, live)
    return live


_events: Any = events
_events.init_command_line_parser.add_listener(offer_options)
_events.init.add_listener(install)
