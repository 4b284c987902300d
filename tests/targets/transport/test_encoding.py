"""Requests as bytes."""

import json
import uuid

import pytest

from targets.transport.encoding import encode_post, request_uuid
from targets.transport.endpoint import parse_endpoint


def test_an_id_is_a_uuid_that_follows_from_salt_and_request() -> None:
    """The same in every process, another for each request and each salt."""
    assert request_uuid("a", 7) == request_uuid("a", 7)
    assert len({request_uuid(salt, request_id) for salt in "ab" for request_id in range(50)}) == 100
    assert uuid.UUID(request_uuid("a", 7)).version == 4


def test_a_request_is_written_as_servers_expect_it() -> None:
    """Uncompressed replies are asked for, the length is that of the bytes, headers of the user win over ours."""
    endpoint = parse_endpoint("http://host:81/v1", ["User-Agent: mine", "X-A: b"], key="abcd")
    encoded = encode_post(endpoint, "/v1/x", {"prompt": "é"}, "the-id")
    head, _, body = encoded.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x HTTP/1.1"
    assert set(lines[1:]) == {
        "Host: host:81", "Content-Type: application/json", "Accept: */*", "User-Agent: mine", "X-A: b",
        "Authorization: Bearer abcd", "Accept-Encoding: identity", "X-Request-Id: the-id",
        f"Content-Length: {len(body)}", "Connection: keep-alive",
    }  # fmt: skip
    assert json.loads(body) == {"prompt": "é"}


def test_a_connection_of_its_own_is_said_to_be_one() -> None:
    """So that the server closes it, and not we: the port is free again at once."""
    assert b"Connection: close\r\n" in encode_post(parse_endpoint("http://a"), "/", {}, "x", keeps_alive=False)


def test_a_body_that_is_no_json_is_refused() -> None:
    """In one line."""
    with pytest.raises(ValueError, match="no JSON"):
        encode_post(parse_endpoint("http://a"), "/", {"a": object()}, "x")
