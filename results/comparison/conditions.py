"""In which conditions two runs differ, by what a difference means."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from results.conditions import COMPARABILITY, comparability
from results.report.plain import value_text
from results.stamp.facts import IDENTITY

Json = dict[str, Any]
NOT_COMPARED = ("run", "during")
"""Groups that differ from one run to the next by their nature."""
LONGEST_TEXT = 60
NEAR_RATIO = 0.5
"""How alike, by difflib, a field's name must be to be offered in place of one that there is not."""
FOR_EXAMPLE = ("workload.rate_rps", "engine.model", "engine.clock")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of the stamp."""

    group: str
    field: str
    comparability: str
    """identity, performance or info."""
    a: Any
    b: Any

    @property
    def name(self) -> str:
        """As --allow takes it."""
        return f"{self.group}.{self.field}"

    def __str__(self) -> str:
        """`workload.rate_rps (8, 16)`."""
        a, b = apart(self.a, self.b)
        return f"{self.name} ({_short(a)}, {_short(b)})"

    def to_json(self) -> Json:
        """By name."""
        return {"field": self.name, "a": self.a, "b": self.b}


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Every field that is not the same in both stamps; a field that only one has differs."""
    groups_a, groups_b = _groups(a), _groups(b)
    found = []
    for group in sorted({*groups_a, *groups_b} - set(NOT_COMPARED)):
        fields_a, fields_b = groups_a.get(group, {}), groups_b.get(group, {})
        for name in sorted({*fields_a, *fields_b}):
            a_value, b_value = fields_a.get(name), fields_b.get(name)
            if a_value != b_value:
                found.append(Difference(group, name, comparability(group, name), a_value, b_value))
    return found


def together(lists: Iterable[Sequence[Difference]]) -> list[Difference]:
    """Each field once, as it first differed."""
    found: dict[str, Difference] = {}
    for one in (difference for differences_ in lists for difference in differences_):
        found.setdefault(one.name, one)
    return list(found.values())


def check_allowed(allowed: Sequence[str], *stamps: Mapping[str, Any]) -> None:
    """ValueError in one line for a name that is no field of the conditions, with those that are most like it.

    `stamps`: of the runs, as far as there are some: a workload or an engine may tell more than the table has.
    """
    known = dict.fromkeys(_names(COMPARABILITY))
    for stamp in stamps:
        known |= dict.fromkeys(_names(_groups(stamp)))
    for name in allowed:
        if name not in known:
            near = get_close_matches(name, known, cutoff=NEAR_RATIO) or FOR_EXAMPLE
            raise ValueError(
                f"--allow {name}: the conditions have no such field; near are {', '.join(near)}. Without --allow the "
                "fields are named that stand in the way; conditions.json of a run has all"
            )


def _names(groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Every field as GROUP.FIELD, and as FIELD."""
    pairs = [(group, field) for group, fields in groups.items() if group not in NOT_COMPARED for field in fields]
    return [*(f"{group}.{field}" for group, field in pairs), *(field for _, field in pairs)]


def forbidden(found: Sequence[Difference], allowed: Sequence[str]) -> list[Difference]:
    """Differences that make it another question, less those that were allowed, by GROUP.FIELD or FIELD."""
    return [one for one in found if one.comparability == IDENTITY and not {one.name, one.field} & set(allowed)]


def refuse(found: Sequence[Difference], allowed: Sequence[str], label_a: str, label_b: str) -> None:
    """ValueError in one line when runs of different workloads, models or clocks would be compared."""
    wrong = forbidden(found, allowed)
    if wrong:
        told = ", ".join(str(one) for one in wrong)
        more = " ".join(f"--allow {one.name}" for one in wrong)
        raise ValueError(f"{label_a} and {label_b} are not runs of the same thing: {told}; to compare anyway: {more}")


def apart(a: Any, b: Any) -> tuple[Any, Any]:
    """Of two objects only what differs: the rest would be the same text twice."""
    if not isinstance(a, Mapping) or not isinstance(b, Mapping):
        return a, b
    names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
    inner = [apart(a.get(name), b.get(name)) for name in names]
    pairs = dict(zip(names, inner, strict=True))
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def _groups(stamp: Mapping[str, Any]) -> dict[str, Json]:
    groups = stamp.get("groups")
    return {
        str(name): group["fields"]
        for name, group in (groups.items() if isinstance(groups, Mapping) else ())
        if isinstance(group, Mapping) and isinstance(group.get("fields"), dict)
    }


def _short(value: Any) -> str:
    text = "null" if value is None else value_text(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
