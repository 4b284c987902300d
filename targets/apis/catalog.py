"""The APIs that can be chosen: name -> ("module:attribute", one help line). Loads the one that is chosen."""

from importlib.metadata import entry_points
from typing import Any

from targets.api import NDJSON, SSE, Api
from targets.apis.guard import Guarded
from targets.loading import load

APIS = {
    "openai-chat": ("targets.apis.openai_chat:OpenAiChat", "/v1/chat/completions, spoken by most servers"),
    "openai-completions": (
        "targets.apis.openai_completions:OpenAiCompletions",
        "/v1/completions; text or token ids",
    ),
    "ollama-chat": ("targets.apis.ollama_chat:OllamaChat", "Ollama's own /api/chat"),
    "ollama-generate": ("targets.apis.ollama_generate:OllamaGenerate", "Ollama's own /api/generate"),
    "tgi": ("targets.apis.tgi:Tgi", "/generate_stream of Text Generation Inference"),
    "llamacpp": ("targets.apis.llamacpp:LlamaCpp", "llama.cpp's own /completion; text or token ids"),
}
GROUP = "tokenload.apis"
"""Entry points of this group are found by their names."""
DATA = ("name", "path", "framing", "models_path")
METHODS = ("body", "event", "whole")


def make_api(spec: str) -> Api:
    """The API that NAME, MODULE:CLASS, FILE.py:CLASS or the name of an entry point stands for.

    ValueError in one line when there is no such API, or it lacks what `targets.api.Api` asks for.
    """
    if ":" in spec:
        return Guarded(_made(load(spec), spec))
    if spec in APIS:
        return _made(load(APIS[spec][0]), spec)
    for found in entry_points(group=GROUP, name=spec):
        return Guarded(_made(_load_entry(found), spec))
    raise ValueError(
        f"unknown API {spec!r}: known are {', '.join(APIS)}, FILE.py:CLASS, MODULE:CLASS and entry points of {GROUP}"
    )


def _load_entry(found: Any) -> Any:
    try:
        return found.load()
    except Exception as error:
        raise ValueError(f"API {found.name} cannot be loaded: {type(error).__name__}: {error}") from error


def _made(maker: Any, spec: str) -> Api:
    if not callable(maker):
        raise ValueError(f"{spec} is not a class: it cannot make an API")
    try:
        api = maker()
    except Exception as error:
        raise ValueError(f"API {spec} cannot be made: {type(error).__name__}: {error}") from error
    missing = [name for name in (*DATA, *METHODS) if not hasattr(api, name)]
    if missing:
        raise ValueError(f"API {spec} has no {', '.join(missing)}: see targets.api.Api")
    _check(api, spec)
    return api  # type: ignore[no-any-return]


def _check(api: Any, spec: str) -> None:
    if api.framing not in (SSE, NDJSON):
        raise ValueError(f"API {spec} has framing {api.framing!r}: write {SSE!r} or {NDJSON!r}")
    if not isinstance(api.path, str) or not api.path.startswith("/"):
        raise ValueError(f"API {spec} has path {api.path!r}: write one that starts with /")
    for name in METHODS:
        if not callable(getattr(api, name)):
            raise ValueError(f"API {spec}: {name} is no method, see targets.api.Api")
