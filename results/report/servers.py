"""Servers on the page: what they are called, how their load was limited, and what they told of themselves."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

Json = dict[str, Any]
HTTP = "http"
ADDRESSES = ("http://", "https://")
LONGEST_MODEL = 48
BETWEEN = " · "


def is_server(info: Mapping[str, Any], engine: str = "") -> bool:
    """Whether a server was under load; of a point that never ran, what the sweep calls it must say."""
    return info.get("target") == HTTP if info else engine.startswith(ADDRESSES)


def server_name(target: str, info: Mapping[str, Any]) -> str:
    """`127.0.0.1:8000 · Llama-3.1-8B`: without scheme, user, path and query, the model without its folders."""
    engine = _mapping(info.get("engine"))
    socket = _mapping(engine.get("endpoint")).get("unix_socket")
    place = f"unix:{str(socket).rpartition('/')[2]}" if socket else _host(target)
    model = str(engine.get("served_model") or "").rstrip("/").rpartition("/")[2]
    short = model if len(model) <= LONGEST_MODEL else model[: LONGEST_MODEL - 1] + "…"
    return BETWEEN.join([place, short] if short else [place])


def unlike_names(targets: Iterable[str], infos: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Target -> name; where two would have the same one, with their paths or else their places in the list."""
    names = {target: server_name(target, infos.get(target, {})) for target in targets}
    for target, name in list(names.items()):
        if sum(other == name for other in names.values()) > 1:
            names[target] = f"{name}{BETWEEN}{_path(target)}"
    known = list(names)
    return {
        target: name if sum(other == name for other in names.values()) == 1 else f"{name} [{known.index(target) + 1}]"
        for target, name in names.items()
    }


def cap_text(config: Mapping[str, Any]) -> str:
    """Said with every figure of a schedule that waits for a free place: it is no open loop any more."""
    most = config.get("max-concurrency")
    return f"capped at {most} in flight" if most else ""


def told_by_server(info: Mapping[str, Any]) -> Json:
    """The summary of the server's side; empty where nothing was asked."""
    return _mapping(info.get("server"))


def calibration_of(info: Mapping[str, Any]) -> Json:
    """What this client adds to what it measures; empty where that was not measured."""
    return _mapping(info.get("calibration"))


def _host(target: str) -> str:
    try:
        return urlsplit(target).netloc.rpartition("@")[2] or "server"
    except ValueError:
        return "server"


def _path(target: str) -> str:
    try:
        return urlsplit(target).path or "/"
    except ValueError:
        return "/"


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
