"""The recipe in a report: what it takes to run each of its points again, without the folder it was made from."""

import json
from collections.abc import Mapping
from typing import Any

from results.report.folder import COMPLETE, Folder, Point

FORMAT = "tokenload-recipe/1"
SCRIPT_ID = "recipe"
KEPT = (
    "config", "config_effective", "clock", "target", "schedule_sha256", "content_sha256", "digest_sha256",
    "files_sha256", "tokenload_version", "engine",
)  # fmt: skip
Json = dict[str, Any]


def recipe(folder: Folder) -> Json:
    """Config, hashes, conditions and summary of each point that came to its end and fits together.

    Groups of conditions that points have in common are there once, under their hash. The other points are named.
    """
    groups: Json = {}
    runs = [_run(point, groups) for point in folder.points if _is_whole(point)]
    left_out = [point.name for point in folder.points if not _is_whole(point)]
    return {"format": FORMAT, "runs": runs, "groups": groups, **({"left_out": left_out} if left_out else {})}


def conditions_of(run: Mapping[str, Any], groups: Mapping[str, Any]) -> Json:
    """A run's conditions put together again."""
    return {"groups": {name: groups[sha256] for name, sha256 in run["conditions"].items()}}


def _is_whole(point: Point) -> bool:
    return point.state == COMPLETE and not point.faults


def _run(point: Point, groups: Json) -> Json:
    info = {name: point.info[name] for name in KEPT if name in point.info}
    found = {}
    for name, group in point.conditions.get("groups", {}).items():
        found[name] = str(group.get("sha256"))
        groups.setdefault(found[name], group)
    return {"name": point.name, "info": info, "summary": _stored_summary(point), "conditions": found}


def _stored_summary(point: Point) -> Json:
    """With what its verdict withholds withheld: a figure that was never given is not to be reproduced."""
    document: Json = json.loads((point.folder / "summary.json").read_text())
    return document
