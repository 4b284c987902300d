"""Where requests go, and that nothing secret is shown."""

from pathlib import Path

import pytest

from targets.transport.endpoint import Endpoint, parse_endpoint, read_key

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("url", "host_header", "path"),
    [
        ("http://a:8000", "a:8000", CHAT),
        ("http://a:8000/", "a:8000", CHAT),
        ("http://a:8000/v1", "a:8000", CHAT),
        ("http://a:8000/v1/", "a:8000", CHAT),
        ("https://a/proxy/v1", "a", f"/proxy{CHAT}"),
        ("https://a:443/proxy", "a", f"/proxy{CHAT}"),
        ("http://[::1]:80/v1", "[::1]", CHAT),
        (f"http://a{CHAT}", "a", CHAT),
        ("https://a/v1?api-version=2", "a", f"{CHAT}?api-version=2"),
        ("https://münchen.example/v1", "xn--mnchen-3ya.example", CHAT),
    ],
)
def test_the_base_url_may_have_its_version_or_not(url: str, host_header: str, path: str) -> None:
    """And a path before it, a query, the whole path of the API."""
    endpoint = parse_endpoint(url)
    assert (endpoint.host_header, endpoint.path(CHAT)) == (host_header, path)


def test_a_unix_socket_goes_in_the_url_or_beside_it() -> None:
    """The host is then only a header."""
    assert parse_endpoint("unix:///run/llm.sock").unix_socket == "/run/llm.sock"
    assert parse_endpoint("http://llm/v1", unix_socket="/run/llm.sock").unix_socket == "/run/llm.sock"


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://a", "http://", "http://a:99999", "http://a:0", "http://me:hunter22@a", "http://a/b c",
     "http://a/\r\nX: y", "unix:relative.sock"],
)  # fmt: skip
def test_what_is_no_target_is_refused_in_one_line_without_secrets(url: str) -> None:
    """The line says how one is written."""
    with pytest.raises(ValueError) as refused:
        parse_endpoint(url)
    assert "\n" not in str(refused.value) and "hunter22" not in str(refused.value)


@pytest.mark.parametrize("header", ["no colon", "X y: z", "A: b\r\nC: d", "A: é", "Content-Length: 5", "host: x"])
def test_headers_that_cannot_be_sent_are_refused(header: str) -> None:
    """Line ends would be headers of their own; some are the client's business."""
    with pytest.raises(ValueError):
        parse_endpoint("http://a", [header])


def secretive() -> Endpoint:
    """Everything that may hold a secret holds one."""
    return parse_endpoint(
        "https://a/v1?sig=hunter22-query", ["X-Tenant: hunter22-tenant", "Authorization: Bearer hunter22-old"],
        key="hunter22-key",
    )  # fmt: skip


def test_nothing_secret_is_shown() -> None:
    """Neither by repr nor for the stamp; names are."""
    endpoint = secretive()
    shown = repr(endpoint) + repr(endpoint.describe())
    assert "hunter22" not in shown
    assert "X-Tenant" in shown and "sig" in shown


def test_the_key_replaces_a_header_of_the_same_name() -> None:
    """As a bearer token, unless it goes into another header."""
    assert ("Authorization", "Bearer hunter22-key") in secretive().headers
    assert len(secretive().headers) == 2
    assert parse_endpoint("http://a", key="abcd", key_header="api-key").headers == (("api-key", "abcd"),)


def test_every_form_of_a_secret_is_known_for_cutting_it_out() -> None:
    """The header's value and its bare word, the query's values."""
    assert {"hunter22-key", "hunter22-tenant", "hunter22-query", "hunter22-old"} <= set(secretive().secrets)


def test_the_key_comes_from_a_file_or_a_variable(tmp_path: Path) -> None:
    """Without the line end around it."""
    (tmp_path / "key").write_text("abc-123\n")
    assert read_key(file=str(tmp_path / "key")) == "abc-123"
    assert read_key() is None


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", "clé".encode(), b"a\x00b", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused(content: bytes, tmp_path: Path) -> None:
    """By its name, never by what is in it."""
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ValueError, match="key file"):
        read_key(file=str(tmp_path / "key"))


def test_an_endless_key_file_is_refused() -> None:
    """Its beginning is enough to see that it holds no key."""
    with pytest.raises(ValueError, match="/dev/zero"):
        read_key(file="/dev/zero")


def test_missing_sources_of_a_key_are_named() -> None:
    """And two at a time are one too many."""
    with pytest.raises(ValueError, match="TOKENLOAD_TEST_NO_SUCH_KEY"):
        read_key(variable="TOKENLOAD_TEST_NO_SUCH_KEY")
    with pytest.raises(ValueError, match="''"):
        read_key(variable="")
    with pytest.raises(ValueError, match="no-such-file"):
        read_key(file="no-such-file")
    with pytest.raises(ValueError, match="not both"):
        read_key(variable="A", file="b")


def test_a_ca_file_that_is_missing_is_refused() -> None:
    """Before the run."""
    with pytest.raises(ValueError, match=r"no-such\.pem"):
        parse_endpoint("https://a", ca_file="no-such.pem")
