"""Asking one place once: a GET with a limit in time and size, and what came of it."""

import asyncio
import json
import os
import ssl
import time
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

import aiohttp

from targets.observe.documents import read_document
from targets.observe.exposition import Exposition, Page
from targets.observe.order import Order
from targets.observe.places import Place, origin

LARGEST_BYTES = 16 * 2**20
READ_BYTES = 2**16
ACCEPT = "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1"
OK = 200
GONE = (401, 403, 404, 405, 410, 501)
"""HTTP statuses of a place that will not tell a second later either."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came from a place, not yet read, or why nothing did."""

    place: Place
    t_ns: int
    """Just before the request."""
    request_ns: int
    """Until the last byte of the answer."""
    body: bytes = b""
    reason: str = ""
    """Empty: it answered."""
    final: bool = False
    """It is of no use to ask again."""


class RefusedError(Exception):
    """A place does not tell: why, in one line, and whether it is of no use to ask again."""

    def __init__(self, reason: str, final: bool = False) -> None:
        """`reason`: without secrets."""
        super().__init__(reason)
        self.reason, self.final = reason, final


class Asker:
    """Asks the places of one run."""

    def __init__(self, order: Order) -> None:
        """Opens nothing; must be made inside a running loop."""
        self._order = order
        self._home = origin(order.origin_url) if order.origin_url else None
        self._ssl = _tls(order)
        self._abroad = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        path = order.unix_socket
        self._at_home = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) if path else self._abroad

    async def close(self) -> None:
        """Close every connection."""
        await self._abroad.close()
        await self._at_home.close()

    async def ask(self, place: Place, within_s: float | None = None) -> Answer:
        """One answer, in the order's time unless told otherwise; never raises for a place that does not tell."""
        limit_s = self._order.timeout_s if within_s is None else within_s
        begun_ns = time.perf_counter_ns()
        body, reason, final = b"", "", False
        try:
            async with asyncio.timeout(limit_s):
                body = await self._get(place)
        except RefusedError as error:
            reason, final = error.reason, error.final
        except TimeoutError:
            reason = f"no answer within {limit_s:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = _named(error)
        return Answer(place, begun_ns, time.perf_counter_ns() - begun_ns, body, reason, final)

    async def _get(self, place: Place) -> bytes:
        at_home = origin(place.url) == self._home
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity", **(self._order.headers if at_home else {})}
        url, login = _without_login(place.url)
        if login is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        session = self._at_home if at_home else self._abroad
        async with session.get(url, headers=headers, auth=login, allow_redirects=False, ssl=self._ssl) as response:
            if response.status != OK:
                raise RefusedError(f"HTTP {response.status}", response.status in GONE)
            body = bytearray()
            async for piece in response.content.iter_chunked(READ_BYTES):
                body += piece
                if len(body) > LARGEST_BYTES:
                    raise RefusedError(f"answer larger than {LARGEST_BYTES} bytes", final=True)
            return bytes(body)


def read_page(place: Place, body: bytes, exposition: Exposition) -> Page:
    """What an answer says. RefusedError where it is not what such a place tells."""
    if place.document is not None:
        try:
            return read_document(place.document, json.loads(body))
        except (ValueError, RecursionError):
            raise RefusedError("not JSON", final=True) from None
    page = exposition.read(body.decode("utf-8", errors="replace"))
    if not page.samples:
        raise RefusedError(
            "not Prometheus text" if page.skipped_rows else "no metrics in it", final=bool(page.skipped_rows)
        )
    return page


def secrets_of(order: Order) -> tuple[str, ...]:
    """What must not come back out: every header's value, its words, and logins in URLs, the longest first."""
    values = [word for value in order.headers.values() for word in (value, *value.split())]
    for url in order.urls:
        parts = urlsplit(url)
        values += [unquote(text) for text in (parts.password, parts.query) if text]
    return tuple(sorted(set(values), key=len, reverse=True))


def _tls(order: Order) -> ssl.SSLContext | bool:
    if not order.verify_tls:
        return False
    return ssl.create_default_context(cafile=order.ca_file) if order.ca_file else True


def _without_login(url: str) -> tuple[str, aiohttp.BasicAuth | None]:
    """A login that stands in a URL goes into a header, in place of the target's own."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    name, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=host)), aiohttp.BasicAuth(unquote(name), unquote(password))


def _named(error: Exception) -> str:
    """What happened, in words that cannot hold a secret."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return "TLS failed"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host's name is not known"
    system = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(system, OSError) and system.errno:
        return os.strerror(system.errno).lower()
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "connection closed without an answer"
    return type(error).__name__
