"""The HTTP side of `tokenload serve`: routes, replies, and errors in OpenAI's form."""

import re
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web

from targets.serve.ask import Served, read_ask
from targets.serve.exposition import Exposition
from targets.serve.journal import Journal
from targets.serve.refusal import Refusal
from targets.serve.under_way import Generation, UnderWay
from targets.serve.wording import Wording, event

MOST_BODY_BYTES = 8 << 20
REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STREAM_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Server:
    """What the routes speak for."""

    served: Served
    told: Mapping[str, Any]
    """The engine's own description."""
    under_way: UnderWay
    exposition: Exposition
    journal: Journal
    started_s: int

    def application(self) -> web.Application:
        """All routes, with bodies limited and every error in one form."""
        app = web.Application(client_max_size=MOST_BODY_BYTES, middlewares=[_errors])
        app.add_routes(
            [
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat_completions),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/load", self._load),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/tokenload/engine", self._engine),
                web.get("/tokenload/steps", self._steps),
            ]
        )
        return app

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=False)

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, chat=True)

    async def _generate(self, request: web.Request, chat: bool) -> web.StreamResponse:
        ask = read_ask(await request.read(), chat, self.served)
        given = request.headers.get("X-Request-Id", "")
        name = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        wording = Wording(ask, f"{'chatcmpl' if chat else 'cmpl'}-{name}", self.served.model)
        with self.under_way.enter(ask) as generation:
            return await (_stream(request, generation, wording) if ask.stream else _whole(generation, wording))

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self.served.model, "object": "model", "created": self.started_s, "owned_by": "tokenload"}
        return _json({"object": "list", "data": [model | {"max_model_len": self.served.context_tokens}]})

    async def _health(self, request: web.Request) -> web.Response:
        self.under_way.check_open()
        return web.Response()

    async def _load(self, request: web.Request) -> web.Response:
        return _json({"server_load": len(self.under_way)})

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"version": version("tokenload")})

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self.exposition.text(), headers={"Content-Type": METRICS_TYPE})

    async def _engine(self, request: web.Request) -> web.Response:
        return _json(self.told)

    async def _steps(self, request: web.Request) -> web.Response:
        since = request.query.get("since", "0")
        if not re.fullmatch("[0-9]{1,18}", since):
            raise Refusal("since must be the number of a step, from 0 on", "since")
        told = {"slots": self.told.get("slots"), "started_s": self.started_s}
        return _json(self.journal.document(int(since)) | told)


async def _whole(generation: Generation, wording: Wording) -> web.Response:
    """One JSON document at the end."""
    text: list[str] = []
    token_ids: list[int] = []
    async for piece in generation.pieces():
        text.append(piece.text)
        token_ids += piece.token_ids
    body = wording.whole("".join(text), token_ids, piece, generation.text.tokens)
    return web.Response(body=body, content_type="application/json")


async def _stream(request: web.Request, generation: Generation, wording: Wording) -> web.StreamResponse:
    """Headers at once, then events as tokens come. A client that has gone needs no more of them."""
    response = web.StreamResponse(headers=STREAM_HEADERS)
    with suppress(ConnectionError):
        await response.prepare(request)
        async for events in _events(generation, wording):
            await response.write(events)
        await response.write_eof()
    return response


async def _events(generation: Generation, wording: Wording) -> AsyncIterator[bytes]:
    """What each piece is put into. What fails once the headers are out is told inside the stream."""
    try:
        async for piece in generation.pieces():
            events = wording.events(piece)
            if piece.finish_reason is not None:
                events += wording.closing(generation.text.tokens)
            if events:
                yield events
    except Refusal as refusal:
        yield event(refusal.document())


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error in OpenAI's form; what nobody foresaw as a bare 500, and one line on stderr."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return _refused(refusal)
    except web.HTTPRequestEntityTooLarge:
        too_large = f"the body is larger than {MOST_BODY_BYTES} bytes"
        return _refused(Refusal(too_large, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
    except web.HTTPException as error:
        return _refused(Refusal(error.reason, status=HTTPStatus(error.status)))
    except ConnectionError:
        raise
    except Exception as error:
        print(f"{request.method} {request.path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return _refused(Refusal("internal error", status=HTTPStatus.INTERNAL_SERVER_ERROR))


def _refused(refusal: Refusal) -> web.Response:
    return web.Response(
        status=refusal.status,
        body=orjson.dumps(refusal.document()),
        content_type="application/json",
        headers=refusal.headers,
    )


def _json(document: Mapping[str, Any]) -> web.Response:
    body = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return web.Response(body=body, content_type="application/json")
