"""What a server told, from the folder of its run: also of one that did not come to its end."""

from pathlib import Path
from typing import Any

from results.report.servers import told_by_server
from results.server.summary import server_summary
from results.server.table import ServerTable, read_scrapes, read_server

Json = dict[str, Any]


def table_of(folder: Path) -> ServerTable | None:
    """The finished table, else the parts of it; None: nothing was scraped."""
    parts = folder / "parts"
    table = read_server(folder) or (read_scrapes(parts) if parts.is_dir() else None)
    return table if table is not None and len(table) else None


def with_server(folder: Path, info: Json) -> Json:
    """run.json with the summary of the server's side, which a run that died had no time to write."""
    if told_by_server(info):
        return info
    try:
        table = table_of(folder)
        slots = str((info.get("config") or {}).get("slots") or "")
        told = server_summary(table, 0, None, int(slots) if slots.isdigit() else None) if table is not None else {}
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return info
    return {**info, **told}
