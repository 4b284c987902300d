"""The stamp: what of program, workload, engine, software, machine and moment may have shaped a run's numbers.

One canonical JSON document of groups; each has its fields, a reason for each field that is null, and the SHA-256
of both. Nothing secret is in it, and nothing that differs from one run to the next outside `run` and `during`.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from results.stamp import during, given, hardware, identity, software
from results.stamp.canonical import Json
from results.stamp.during import NOT_ENDED, Readings
from results.stamp.facts import IDENTITY, INFO, PERFORMANCE, find, seal, take
from results.stamp.surroundings import Surroundings, here

STAMP_VERSION = 1
COMPARABILITY: dict[str, dict[str, str]] = {
    "run": identity.OCCASION,
    "identity": {**{name: fact.comparability for name, fact in identity.FACTS.items()}, **identity.EXPECTED},
    "workload": given.WORKLOAD,
    "engine": given.ENGINE,
    "software": {name: fact.comparability for name, fact in software.FACTS.items()},
    "hardware": {name: fact.comparability for name, fact in hardware.FACTS.items()},
    "during": dict.fromkeys([*during.READINGS, *during.RATES], INFO),
}
"""Group -> field -> identity, performance or info: what it means when two runs differ in it."""
UNLISTED = {"workload": IDENTITY, "engine": PERFORMANCE}
"""What a caller tells beyond the table counts as."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A run's conditions as far as they are known; `during` is filled in by its end."""

    groups: Mapping[str, Json]
    """The groups that do not change any more, sealed."""
    run: Mapping[str, Any]
    start: Readings
    surroundings: Surroundings


def begin_stamp(
    identity_told: Mapping[str, Any],
    workload: Mapping[str, Any],
    engine: Mapping[str, Any],
    surroundings: Surroundings | None = None,
) -> Stamp:
    """Everything that can be known before a run, and the readings at its start.

    `workload` and `engine` are best made by `workload_facts` and `engine_facts`. `identity_told` has
    config_requested and config_effective and what else the caller knows; run_id, started_utc, order_index and
    since_previous_run_s go to the group `run`. Fields that are told win over fields that are found. Raises nothing
    for what cannot be read.
    """
    place = surroundings or here()
    told = {name: value for name, value in identity_told.items() if name not in identity.OCCASION}
    run = {name: value for name, value in identity_told.items() if name in identity.OCCASION}
    own_fields, own_reasons = find({n: f for n, f in identity.FACTS.items() if n not in told}, place)
    told_fields, told_reasons = take(told, identity.EXPECTED)
    groups = {
        "identity": seal({**own_fields, **told_fields}, {**own_reasons, **told_reasons}, place),
        "workload": seal(*take(workload, given.WORKLOAD), place),
        "engine": seal(*take(engine, given.ENGINE), place),
        "software": seal(*find(software.FACTS, place), place, software.AS_IS),
        "hardware": seal(*find(hardware.FACTS, place), place),
    }
    run = {"run_id": uuid.uuid4().hex, "started_utc": _now_utc(), **run}
    return Stamp(groups, run, during.read(place), place)


def start_again(stamp: Stamp) -> Stamp:
    """The same stamp with the readings of its start taken now: after a warm-up, right before the run."""
    return replace(stamp, start=during.read(stamp.surroundings))


def unfinished(stamp: Stamp) -> Json:
    """The document while the run lasts: what only its end can tell is null, NOT_ENDED."""
    return _document(stamp, None, {})


def finish(stamp: Stamp) -> Json:
    """The document of a run that has just ended: call it before anything else is computed."""
    end = during.read(stamp.surroundings)
    return _document(stamp, end, {"ended_utc": _now_utc()})


def comparability(group: str, field: str) -> str:
    """identity, performance or info."""
    return COMPARABILITY.get(group, {}).get(field, UNLISTED.get(group, INFO))


def _document(stamp: Stamp, end: Readings | None, more: Mapping[str, Any]) -> Json:
    place = stamp.surroundings
    fields, reasons = take({**stamp.run, **more}, identity.OCCASION)
    if end is None:
        reasons["ended_utc"] = NOT_ENDED
    groups = {
        **stamp.groups,
        "run": seal(fields, reasons, place),
        "during": seal(*during.fields_during(stamp.start, end), place),
    }
    return {"stamp_version": STAMP_VERSION, "groups": groups}


def _now_utc() -> str:
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
