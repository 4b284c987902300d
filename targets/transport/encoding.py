"""Requests as bytes, made before the run. An id of a request is the same in every run with the same salt."""

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from targets.transport.endpoint import Endpoint


def request_uuid(salt: str, request_id: int) -> str:
    """The x-request-id: a UUID (some servers take nothing else) that follows from the run's salt and the request."""
    digest = hashlib.blake2b(f"{salt}\0{request_id}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def encode_post(
    endpoint: Endpoint, path: str, body: Mapping[str, Any], x_request_id: str, keeps_alive: bool = True
) -> bytes:
    """Head and body of a POST of JSON. ValueError when the body is no JSON."""
    try:
        document = orjson.dumps(body)
    except TypeError as error:
        raise ValueError(f"the request's body is no JSON ({error})") from None
    headers = {
        "host": ("Host", endpoint.host_header),
        "content-type": ("Content-Type", "application/json"),
        "accept": ("Accept", "*/*"),
        "user-agent": ("User-Agent", "tokenload"),
    }
    headers |= {name.lower(): (name, value) for name, value in endpoint.headers}
    lines = [
        f"POST {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.values()),
        "Accept-Encoding: identity",
        f"X-Request-Id: {x_request_id}",
        f"Content-Length: {len(document)}",
        f"Connection: {'keep-alive' if keeps_alive else 'close'}",
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + document
