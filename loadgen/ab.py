"""An A/B session: pairs of runs on the same schedules, in the order A B B A, so that drift cannot fake a winner.

Six pairs, extended to ten when they do not decide; a number of pairs that was asked for is kept to. Each run is a
folder of its own; `tokenload compare FOLDER` reads the session again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.ab_options import AbOptions
from loadgen.config import RunConfig, check, to_json
from loadgen.option import parse_target
from loadgen.run_folders import new_folder
from loadgen.session import Prepared, execute, prepare, utc_text
from loadgen.stopped import StoppedError
from loadgen.sweep import is_address
from results.comparison.conditions import check_allowed
from results.comparison.decision import UNRESOLVED
from results.comparison.document import compare
from results.comparison.pairing import pair_up
from results.comparison.trials import Side, Trial, read_trial
from results.gates import LEAST_REQUESTS, Gate
from results.paired import STAGES
from results.stamp.given import workload_facts
from results.store import COMPLETE, RUNNING, STOPPED, write_json

SCHEMA_VERSION = 1
Json = dict[str, Any]
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Session:
    """A session that could start now."""

    folder: Path
    config: RunConfig
    """What both sides share; repeat k has its seed + k."""
    specs: tuple[str, str]
    pairs: int | None
    """None: as many stages as it takes."""
    share_cache: bool
    started_utc: str
    points: list[Json] = field(default_factory=list)
    trials: tuple[list[Trial], list[Trial]] = field(default_factory=lambda: ([], []))

    @property
    def labels(self) -> tuple[str, str]:
        """What the sides are called; one engine against itself is A and B all the same."""
        return f"A: {self.specs[0]}", f"B: {self.specs[1]}"


def plan_ab(config: RunConfig, chosen: AbOptions, share_cache: bool, allowed: tuple[str, ...] = ()) -> Session:
    """ValueError in one line where a side is missing or cannot be made, the runs would be too short, or a field
    that is allowed to differ is none."""
    if not chosen.a or not chosen.b:
        raise ValueError("ab needs two sides: --a SPEC and --b SPEC, engines or addresses of servers")
    specs = (_spec(chosen.a), _spec(chosen.b))
    started = datetime.now(UTC)
    folder = new_folder(config.out, started, "ab")
    session = Session(folder, config, specs, chosen.pairs, share_cache, utc_text(started))
    for side in (0, 1):
        schedule = _prepared(session, side, 0).schedule
        check_allowed(allowed, {"groups": {"workload": {"fields": workload_facts(schedule)}}})
        requests = len(schedule)
        if requests < LEAST_REQUESTS:
            raise ValueError(f"{requests} requests a run decide nothing: ask for --requests {LEAST_REQUESTS} or more")
    return session


def run_ab(session: Session, progress: Progress, gates: tuple[Gate, ...] = (), allowed: tuple[str, ...] = ()) -> Json:
    """Run the pairs and decide. StoppedError when somebody stopped it; ValueError when the sides are not comparable."""
    session.folder.mkdir(parents=True, exist_ok=True)
    _write(session, RUNNING)
    document: Json = {}
    try:
        for target in [session.pairs] if session.pairs else [pairs for pairs, _ in STAGES]:
            while len(session.trials[0]) < target:
                _run_pair(session, progress)
                pair_up(*_sides(session), allowed)
            document = compare(_sides(session), gates, allowed)
            if document["comparisons"][0]["conclusion"] != UNRESOLVED:
                break
    except (StoppedError, KeyboardInterrupt):
        _write(session, STOPPED)
        raise StoppedError from None
    _write(session, COMPLETE)
    write_json(session.folder / "comparison.json", document)
    return document


def side_config(session: Session, side: int, pair: int) -> RunConfig:
    """The config of one run: both sides of a pair have the same seed and, from servers, the same bytes.

    Not the same bytes where both stand before one cache: the second would be answered from it.
    """
    spec = session.specs[side]
    subject: Json = {"target": spec, "clock": "real"} if is_address(spec) else {"engine": spec, "target": None}
    servers = all(is_address(one) for one in session.specs)
    if servers and not session.share_cache:
        subject["same_bytes"] = True
    config = replace(session.config, **subject, seed=session.config.seed + pair)
    check(config)
    return config


def _spec(text: str) -> str:
    """An engine's spec as it is, an address checked: no secret may stand in it."""
    return parse_target(text) if is_address(text) else text


def order_of(pair: int) -> tuple[int, int]:
    """A B, then B A, then A B: a drift of the machine falls on both alike."""
    return (0, 1) if pair % 2 == 0 else (1, 0)


def _run_pair(session: Session, progress: Progress) -> None:
    """Both runs of the next pair; the pair counts when both are there."""
    pair = len(session.trials[0])
    found: dict[int, Trial] = {}
    for side in order_of(pair):
        prepared = _prepared(session, side, pair)
        rows, label = len(prepared.schedule), session.labels[side]
        folder = session.folder / "pairs" / f"{pair:03d}-{'ab'[side]}"
        text = f"pair {pair + 1}, {label}"

        def show(ended_requests: int, text: str = text, rows: int = rows) -> None:
            progress(text, ended_requests, rows)

        outcome = execute(prepared, show, folder, session.pairs or STAGES[-1][0], len(session.points))
        point = {"engine": label, "load": "all", "repeat": pair, "order": len(session.points)}
        session.points.append({"folder": f"pairs/{folder.name}", **point, "side": "ab"[side]})
        if outcome.stopped:
            raise StoppedError
        found[side] = read_trial(folder, session.config.slo, point)
    for side, trial in found.items():
        session.trials[side].append(trial)
    _write(session, RUNNING)


def _prepared(session: Session, side: int, pair: int) -> Prepared:
    return prepare(side_config(session, side, pair))


def _sides(session: Session) -> tuple[Side, Side]:
    a, b = (Side(label, tuple(trials)) for label, trials in zip(session.labels, session.trials, strict=True))
    return a, b


def _write(session: Session, status: str) -> None:
    write_json(
        session.folder / "ab.json",
        {
            "schema_version": SCHEMA_VERSION,
            "kind": "ab",
            "status": status,
            "started_utc": session.started_utc,
            "ended_utc": None if status == RUNNING else utc_text(datetime.now(UTC)),
            "config": to_json(session.config),
            "engines": list(session.labels),
            "loads": ["all"],
            "share_cache": session.share_cache,
            "points": session.points,
        },
    )
