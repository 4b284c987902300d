"""The server's side of a finished run, over the same time as its slots."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results.schedule import Schedule
from results.server.step_figures import own_steps
from results.server.step_table import read_server_steps
from results.server.summary import server_summary
from results.server.table import read_server
from results.window import loaded_span_ns, span_name

Json = dict[str, Any]


def server_of_run(folder: Path, info: Mapping[str, Any], schedule: Schedule, window_ns: Sequence[int]) -> Json:
    """What the scrapes in the folder come to: counters from the measured window alone where a fill or a cool-down
    surrounds it; and the server's own steps where it told them, in `own_steps`. As run.json tells it where there are
    no scrapes; {} where nothing was asked."""
    span_ns = loaded_span_ns(schedule, window_ns)
    steps = read_server_steps(folder)
    own = {"own_steps": own_steps(steps, span_ns)} if steps is not None else {}
    table = read_server(folder)
    if table is None or not len(table):
        return {**(info.get("server") or {}), **own}
    slots = str((info.get("config") or {}).get("slots") or "")
    told: Json = server_summary(table, *span_ns, int(slots) if slots.isdigit() else None)["server"]
    return {**told, "span": span_name(span_ns), **own}
