"""The verdict of a point: the one stored with it, held against what its rows give now; or, where none is, that one."""

from typing import Any

from results.recording import Recording
from results.report.verdicts import NOT_JUDGED, Verdict, read_verdict
from results.verdicts.judged import facts_of
from results.verdicts.thresholds import Thresholds
from results.verdicts.verdict import judge

Json = dict[str, Any]


def verdict_of(info: Json, recording: Recording, label: str | None, count: int) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of one of `count` repeats, and where the stored one is not what the rows give."""
    stored, fresh = read_verdict(info.get("verdict")), _from_rows(info, recording, label, count)
    if stored.valid is None:
        return fresh, ()
    if fresh.valid is None or info["verdict"].get("thresholds") not in (None, _thresholds(info).to_json()):
        return stored, ()
    told, found = _in_short(stored), _in_short(fresh)
    return stored, (f"the verdict in run.json is {told}, the rows give {found}",) if told != found else ()


def _from_rows(info: Json, recording: Recording, label: str | None, count: int) -> Verdict:
    """`NOT_JUDGED` where run.json does not say what a verdict needs."""
    try:
        return read_verdict(judge(recording, facts_of(info, label, count)).to_json())
    except (ValueError, KeyError, TypeError):
        return NOT_JUDGED


def _thresholds(info: Json) -> Thresholds:
    """Those that the run was to be judged by."""
    try:
        return Thresholds().override(info.get("thresholds") or {})
    except (ValueError, TypeError, AttributeError):
        return Thresholds()


def _in_short(verdict: Verdict) -> str:
    codes = ", ".join(sorted(reason.code for reason in verdict.invalid))
    return f"{'VALID' if verdict.valid else f'INVALID ({codes})'} with a load that is {verdict.load_state}"
