"""What a server says of itself before the run: which models it serves, its name and version. It is asked, not trusted.

Every question is a GET that need not be answered. What is not told is null, with a reason beside it.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from targets.api import Api
from targets.apis.reading import JSON, Object, read_json, word_of
from targets.transport.endpoint import Endpoint
from targets.transport.messages import one_line

WAIT_S = 5.0
LARGEST_ANSWER_BYTES = 1 << 20
LONGEST_NAME_CHARACTERS = 512
MOST_MODELS = 50
MOST_FIELDS = 20
WANTS_A_KEY = (401, 403)
TLS_FAILED = "TLS: "
HTTP_OK, NOT_FOUND = 200, 404


@dataclass(frozen=True, slots=True)
class Discovery:
    """The model to ask for, and what goes into the stamp."""

    model: str
    facts: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one path answered: a document, or a reason for having none."""

    document: JSON = None
    server_header: str | None = None
    http_status: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers tell of themselves, and how to read it there."""

    models: Callable[[Object], Sequence[JSON]] = field(default=lambda document: ())
    version: Callable[[Object], JSON] = field(default=lambda document: None)


PLACES = {
    "/v1/models": Place(models=lambda document: _names(document.get("data"), "id")),
    "/api/tags": Place(models=lambda document: _names(document.get("models"), "model", "name")),
    "/info": Place(
        models=lambda document: [document.get("model_id")],
        version=lambda document: document.get("version"),
    ),
    "/version": Place(version=lambda document: document.get("version")),
    "/api/version": Place(version=lambda document: document.get("version")),
    "/props": Place(
        models=lambda document: [document.get("model_alias")],
        version=lambda document: document.get("build_info"),
    ),
}
"""Of most servers; of Ollama; of TGI; of vLLM; of Ollama; of llama.cpp. Asked at once, read in this order."""


async def discover(endpoint: Endpoint, api: Api, served_model: str | None = None) -> Discovery:
    """Ask the server. Without a `served_model` it is the only one or the first that the server lists.

    ValueError in one line when none is given and none is told.
    """
    paths = [*PLACES] if api.models_path in (None, *PLACES) else [str(api.models_path), *PLACES]
    answers = dict(zip(paths, await _ask_all(endpoint, paths), strict=True))
    models = _models(answers)
    if served_model is None and not models:
        raise ValueError(_no_model(endpoint, answers[api.models_path or paths[0]]))
    model = served_model if served_model is not None else models[0]
    return Discovery(model, _facts(endpoint, answers, models, model, served_model is not None))


def _models(answers: Mapping[str, Answer]) -> list[str]:
    """The models that the first path lists that lists any."""
    for path, answer in answers.items():
        place = PLACES.get(path, PLACES["/v1/models"])
        found = place.models(answer.document) if isinstance(answer.document, dict) else ()
        names = [name for name in found if _is_name(name)]
        if names:
            return names
    return []


def _facts(
    endpoint: Endpoint, answers: Mapping[str, Answer], models: Sequence[str], model: str, is_given: bool
) -> dict[str, JSON]:
    entry = _entry(answers, model)
    told = {
        "served_models": [_shown(one, endpoint) for one in models[:MOST_MODELS]] or None,
        "served_model_entry": {key: _shown(value, endpoint) for key, value in entry.items()} or None,
        "server_header": _shown(_first(answer.server_header for answer in answers.values()), endpoint),
        "server_version": _shown(_version(answers), endpoint),
    }
    reasons = {name: _reason(answers) for name, value in told.items() if value is None}
    chosen = "given" if is_given else "the only one listed" if len(models) == 1 else "the first one listed"
    return {
        "served_model": _shown(model, endpoint), "served_model_is": chosen, "served_model_listed": model in models,
        **told, "not_told": reasons,
    }  # fmt: skip


def _version(answers: Mapping[str, Answer]) -> JSON:
    return _first(
        word_of(PLACES[path].version(answer.document))
        for path, answer in answers.items()
        if path in PLACES and isinstance(answer.document, dict)
    )


def _entry(answers: Mapping[str, Answer], model: str) -> Object:
    """What the list says of the model, without what is nested: its context length is among it on some servers."""
    for answer in answers.values():
        data = answer.document.get("data") if isinstance(answer.document, dict) else None
        for one in data if isinstance(data, list) else ():
            if isinstance(one, dict) and one.get("id") == model:
                told = {key: value for key, value in one.items() if isinstance(value, str | int | float)}
                return dict(list(told.items())[:MOST_FIELDS])
    return {}


def _names(entries: JSON, *keys: str) -> list[JSON]:
    """Of each entry the first of the keys that it has."""
    found = entries if isinstance(entries, list) else []
    return [_first(word_of(one.get(key)) for key in keys) for one in found if isinstance(one, dict)]


def _first(values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _is_name(name: JSON) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME_CHARACTERS and name.isprintable()


def _shown(value: JSON, endpoint: Endpoint) -> JSON:
    return one_line(value, endpoint.secrets) if isinstance(value, str) else value


def _reason(answers: Mapping[str, Answer]) -> str:
    """Of several reasons the one that says most: an HTTP status is what a server without the path answers."""
    return _first(answer.reason for answer in answers.values() if answer.http_status is None) or "NOT_TOLD"


def _no_model(endpoint: Endpoint, answer: Answer) -> str:
    url = endpoint.describe()["url"]
    if answer.http_status in WANTS_A_KEY:
        return (
            f"{url} wants a key (HTTP {answer.http_status}): give --key-env VARIABLE or --key-file FILE; "
            "or name the model with --served-model NAME"
        )
    if answer.http_status is None and str(answer.reason).startswith(TLS_FAILED):
        return f"{url} cannot be trusted ({answer.reason}): name its certificate with --ca-file, or give --no-verify"
    if answer.http_status is None:
        otherwise = "" if "refused" in str(answer.reason) else "; or name the model with --served-model NAME"
        return f"{url} does not answer ({answer.reason}): start the server, or correct --target{otherwise}"
    if answer.http_status == NOT_FOUND:
        return f"{url} has no list of models (HTTP 404): correct the path of --target, or give --served-model NAME"
    return f"{url} lists no model: name it with --served-model NAME"


async def _ask_all(endpoint: Endpoint, paths: Sequence[str]) -> list[Answer]:
    if endpoint.unix_socket is not None:
        connector: aiohttp.BaseConnector = aiohttp.UnixConnector(endpoint.unix_socket)
    else:
        connector = aiohttp.TCPConnector(ssl=_tls(endpoint))
    headers = {**dict(endpoint.headers), "Accept-Encoding": "identity", "User-Agent": "tokenload"}
    timeout = aiohttp.ClientTimeout(total=WAIT_S)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        timeout=timeout,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        return await asyncio.gather(*(_ask(session, endpoint, path) for path in paths))


async def _ask(session: aiohttp.ClientSession, endpoint: Endpoint, path: str) -> Answer:
    """One answer. Redirections are not followed: the key is for this server alone."""
    url = f"{endpoint.scheme}://{endpoint.host_header}{endpoint.path(path)}"
    try:
        async with session.get(URL(url, encoded=True), allow_redirects=False) as response:
            body = await _capped(response.content)
    except TimeoutError:
        return Answer(reason=f"no answer within {WAIT_S:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Answer(reason=_said(error))
    return _answer(response.status, response.headers.get("Server"), body)


def _answer(http_status: int, server_header: str | None, body: bytes | None) -> Answer:
    if http_status != HTTP_OK:
        return Answer(None, server_header, http_status, f"HTTP {http_status}")
    if body is None:
        return Answer(None, server_header, http_status, f"more than {LARGEST_ANSWER_BYTES} bytes")
    try:
        return Answer(read_json(body), server_header, http_status)
    except ValueError:
        return Answer(None, server_header, http_status, "no JSON")


async def _capped(content: aiohttp.StreamReader) -> bytes | None:
    """All of a body, or None for one that is too large."""
    pieces: list[bytes] = []
    size_bytes = 0
    async for piece in content.iter_chunked(1 << 16):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > LARGEST_ANSWER_BYTES:
            return None
    return b"".join(pieces)


def _said(error: BaseException) -> str:
    """The kind of a failure; its text may hold the address."""
    cause = getattr(error, "os_error", None) or error.__cause__ or error
    if isinstance(cause, ssl.SSLError):  # its errno is not the system's
        return f"{TLS_FAILED}{getattr(cause, 'verify_message', None) or cause.reason or type(cause).__name__}"
    number = getattr(cause, "errno", None)
    return os.strerror(number) if number is not None and number > 0 else type(cause).__name__


def _tls(endpoint: Endpoint) -> ssl.SSLContext | bool:
    """As the endpoint says. ValueError when its CA file holds no certificates."""
    if not endpoint.verify_tls:
        return False
    try:
        return ssl.create_default_context(cafile=endpoint.ca_file)
    except (ssl.SSLError, OSError):
        raise ValueError(f"the CA file {endpoint.ca_file!r} holds no certificates: name a PEM file") from None
