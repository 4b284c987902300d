"""A server under load: its address, API and model from the options, a warm-up, and the streaming driver."""

import asyncio
import json
import math
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from loadgen.client_processes import Client, play_processes
from loadgen.config import RunConfig
from loadgen.option import FROM_ENVIRONMENT
from loadgen.planned import planned_requests
from loadgen.player import HTTP, Emit
from loadgen.request_warmup import warm_up, warmup_requests
from loadgen.server_watch import ServerWatch
from loadgen.settling import settled
from loadgen.steering import Steering
from loadgen.stream_drive import play_target
from results.columns import Int64, Table, int64
from results.recording import Recording
from results.schedule import Schedule
from targets.api import BodyOptions
from targets.apis.catalog import make_api
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest
from targets.transport.endpoint import Endpoint, parse_endpoint, read_key
from targets.transport.pool import PoolOptions

DRAIN_NS = 60_000_000_000
MOST_PREWARMED = 256
MOST_PROCESSES = 256
Result = TypeVar("Result")
Json = dict[str, Any]


class TargetPlayer:
    """A server behind HTTP."""

    target = HTTP

    def __init__(
        self,
        config: RunConfig,
        schedule: Schedule,
        model: str | None = None,
        mine: Int64 | None = None,
        worker_id: int = 0,
        clients: Sequence[Client] | None = None,
    ) -> None:
        """ValueError in one line when the options cannot be carried out. Connects to nothing yet.

        `model`, `mine`, `worker_id`: of one of several client processes, what the parent has found out, its
        requests, and which it is. `clients`: who plays in its place, where that is not for it to choose.
        """
        self.drain_ns: int | None = DRAIN_NS
        if clients is None and config.processes > MOST_PROCESSES:
            raise ValueError(f"--processes {config.processes} is more than a machine plays: at most {MOST_PROCESSES}")
        self._config = config
        self._schedule = schedule
        self._endpoint = endpoint_of(config)
        self._api = make_api(config.api)
        self._count_tokens = _tokenizer(config.tokenizer) if config.tokenizer else None
        self._is_client = mine is not None
        self._mine = mine
        self._worker_id = worker_id
        self._clients = clients
        self._sends_itself = self._is_client or (clients is None and config.processes == 1)
        self._model = model or config.served_model
        self._planned = planned_requests(schedule, as_ids=config.prompt_as == "ids")
        self._warmup = [] if self._is_client else warmup_requests(config, schedule)
        self._watch = ServerWatch(config, self._endpoint)
        self._target: HttpTarget | None = None
        self._facts: Json = {}
        self._left_requests = 0
        self._converged: bool | None = None
        self._runner: asyncio.Runner | None = None

    def describe(self) -> Mapping[str, Any]:
        """Address, API, model, and what the server says of itself; before `open` without what only it can tell."""
        told = self._target.describe() if self._target is not None else self._endpoint.describe()
        return {"policy": "server", "api": self._api.name, "slots": self._config.slots, **told, **self._facts}

    def open(self) -> None:
        """Ask for the model, encode every body, open connections."""
        import uvloop

        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._run(self._open())

    async def _open(self) -> None:
        if not self._is_client:
            from targets.discovery import discover

            found = await discover(self._endpoint, self._api, self._model)
            self._model, self._facts = found.model, dict(found.facts)
        options = body_options(self._config, self._model or "")
        sent = self._to_send
        pool = pool_options(self._config, len(sent), self._at_once(len(sent)))
        salt = str((self._schedule.recipe.get("prompt") or {}).get("salt") or "")
        self._target = HttpTarget(self._endpoint, self._api, options, limits_of(self._config), pool, salt)
        await self._target.open([*sent, *self._warmup])

    def _at_once(self, requests: int) -> int:
        """How many requests of this process are in flight at the same moment for sure."""
        config = self._config
        if config.arrival == "closed":
            return math.ceil((config.users or 1) / config.processes)
        return min(requests, config.max_concurrency or requests) if config.arrival == "burst" else 0

    @property
    def _to_send(self) -> list[PlannedRequest]:
        """The requests that this process sends."""
        if self._mine is not None:
            return [self._planned[at] for at in self._mine.tolist()]
        return self._planned if self._sends_itself else []

    def warm_up(self, folder: Path) -> Table | None:
        """A few requests, closed loop, all ended before the run begins; the server is watched from now on."""
        self._watch.start(folder)
        return self._run(self._warm_up())

    async def _warm_up(self) -> Table | None:
        (rows, self._left_requests), _ = await asyncio.gather(warm_up(self._opened, self._warmup), self._watch.ready())
        if rows is not None:
            self._converged = settled((int64(rows["end_ns"]) - int64(rows["due_ns"])).tolist())
        return rows

    def play(self, folder: Path, emit: Emit, control: Steering, origin_ns: int | None = None) -> Recording:
        """The streaming driver, here or in several processes. `origin_ns`: time 0, where it is agreed upon."""
        if not self._sends_itself:
            told = (self._config, self._schedule, folder, control, self._model or "", self._watch.begin, self._clients)
            return self._run(play_processes(*told))
        return self._run(
            play_target(
                self._schedule,
                self._opened,
                self._planned,
                emit,
                control,
                mine=self._mine,
                origin_ns=origin_ns,
                begin=self._watch.begin,
                count_tokens=self._count_tokens,
                worker_id=self._worker_id,
            )
        )

    def found(self) -> Mapping[str, Any]:
        """What the server told of itself, and what this client adds to what it measures."""
        watched, counts = self._watch.end(), dict(self._opened.connection_counts)
        self._close_connections()
        calibrated = self._calibration()
        return {**watched, "connections": counts, "calibration": calibrated, "facts": self._found(watched, calibrated)}

    def close(self) -> None:
        """Connections, the scraper, the event loop."""
        self._watch.end()
        self._close_connections()
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _close_connections(self) -> None:
        if self._target is not None:
            self._run(self._target.close())

    def _calibration(self) -> Json | None:
        """Measured after the run where the last one is too old, so that it delays nothing."""
        if self._config.no_calibrate:
            return None
        from loadgen.calibrate import calibration

        try:
            return calibration()
        except OSError:
            return None

    def _found(self, watched: Json, calibrated: Json | None) -> Json:
        server = watched.get("server") or {}
        return {
            "ceiling_eps": calibrated["ceiling_events_per_s"] * self._config.processes if calibrated else None,
            "cap_requests": self._config.max_concurrency,
            "left_in_flight_requests": self._left_requests,
            "warmup_converged": self._converged,
            "synthetic_prompts": True,
            "speculated": server.get("speculating"),
            "slots_observed": server.get("unused_slot_fraction") is not None,
            "server_steps": self._watch.steps_told or None,
        }

    @property
    def _opened(self) -> HttpTarget:
        if self._target is None:
            raise RuntimeError("open() comes first")
        return self._target

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._runner is None:
            raise RuntimeError("open() comes first")
        return self._runner.run(work)


def endpoint_of(config: RunConfig) -> Endpoint:
    """Address, key and headers, secrets read from where they stand. ValueError names what is missing."""
    headers = [f"{name}: {_header_value(name, value)}" for name, value in config.header]
    return parse_endpoint(
        config.target or "",
        headers,
        key=read_key(config.key_env, config.key_file),
        unix_socket=config.unix_socket,
        verify_tls=not config.no_verify,
        ca_file=config.ca_file,
    )


def body_options(config: RunConfig, model: str) -> BodyOptions:
    """How bodies are written."""
    return BodyOptions(
        model=model,
        stream=not config.no_stream,
        max_tokens_field=config.max_tokens_field,
        pin_lengths=config.eos == "ignore",
        token_prompts=config.prompt_as == "ids",
        extra=json.loads(config.body) if config.body else {},
    )


def limits_of(config: RunConfig) -> Limits:
    """How long the parts of a request may take."""
    return Limits(connect_ns=config.connect_timeout_ns, first_ns=config.first_timeout_ns)


def pool_options(config: RunConfig, requests: int, peak: int) -> PoolOptions:
    """How connections are used. `requests`: sent by this process; `peak`: of those, at the same moment for sure."""
    a_second = math.ceil(config.rate_rps or 0)
    return PoolOptions(
        connections=config.connections,
        keep_alive_s=config.keep_alive_ns / 1e9,
        prewarm=min(requests, max(a_second, peak, 1), MOST_PREWARMED) if config.connections == "reuse" else 0,
        peak=peak,
    )


def _header_value(name: str, value: str) -> str:
    if not value.startswith(FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(FROM_ENVIRONMENT)
    found = os.environ.get(variable)
    if not found:
        raise ValueError(f"--header {name}: the environment variable {variable!r} is not set")
    return found


def _tokenizer(path: str) -> Callable[[str], int]:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ValueError("--tokenizer needs the package tokenizers: pip install 'tokenload[tokenizers]'") from None
    if not Path(path).is_file():
        raise ValueError(f"--tokenizer: no file {path!r}")
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise ValueError(f"--tokenizer: {path!r} is no tokenizer.json: {error}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
