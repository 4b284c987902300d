"""Where requests go: the parsed URL, the headers and the key. Nothing secret is ever shown."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from results.stamp.redaction import REDACTED

PORTS = {"http": 80, "https": 443}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION_PATH = "/v1"
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection", "accept-encoding", "x-request-id"))
"""Headers that the transport writes itself."""
MOST_KEY_CHARACTERS = 16_384


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, by its base URL."""

    scheme: str
    host: str
    port: int
    base_path: str = ""
    """Without a slash at its end and without /v1."""
    query: str = field(default="", repr=False)
    unix_socket: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """As they are sent, the key's among them."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must be cut out of any text that a server sends back."""
    verify_tls: bool = True
    ca_file: str | None = None

    @property
    def host_header(self) -> str:
        """The name, and the port where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    def path(self, api_path: str) -> str:
        """Of an API's path under this base: the whole one, with the query."""
        base = self.base_path.removesuffix(api_path)
        return f"{base}{api_path}?{self.query}" if self.query else base + api_path

    def describe(self) -> Mapping[str, Any]:
        """For the stamp: names of headers and of the query's fields, never their values."""
        base = f"{self.scheme}://{self.host_header}{self.base_path}"
        return {
            "url": base,
            "query": {name: REDACTED for name, _ in parse_qsl(self.query, keep_blank_values=True)},
            "headers": {name: REDACTED for name, _ in self.headers},
            "unix_socket": self.unix_socket,
            "verify_tls": self.verify_tls if self.scheme == "https" else None,
            "ca_file": self.ca_file,
        }


def parse_endpoint(
    url: str,
    headers: Sequence[str] = (),
    *,
    key: str | None = None,
    key_header: str = "Authorization",
    unix_socket: str | None = None,
    verify_tls: bool = True,
    ca_file: str | None = None,
) -> Endpoint:
    """From the options; headers as `Name: value`, the key from `read_key`. ValueError in one line, without secrets."""
    scheme, host, port, path, query, url_socket = _parse_url(url)
    pairs = [_header(header) for header in headers]
    secrets = [value for name, value in pairs if name.lower() not in ("accept", "content-type", "user-agent")]
    if key is not None:
        pairs = [pair for pair in pairs if pair[0].lower() != key_header.lower()]
        pairs.append((key_header, f"Bearer {key}" if key_header.lower() == "authorization" else key))
        secrets.append(key)
    for value in tuple(secrets):
        secrets += [word for word in value.split() if word.lower() not in ("bearer", "basic")]
    secrets += [value for _, value in parse_qsl(query)]
    if ca_file is not None and not Path(ca_file).is_file():
        raise ValueError(f"the CA file {ca_file!r} does not exist: name a PEM file")
    return Endpoint(
        scheme, host, port, path, query, unix_socket or url_socket, tuple(pairs),
        tuple(sorted({secret for secret in secrets if len(secret) >= len("key4")}, key=len, reverse=True)),
        verify_tls, ca_file,
    )  # fmt: skip


def read_key(variable: str | None = None, file: str | None = None) -> str | None:
    """The key that a variable or a file holds; None: neither is named. ValueError when the named one holds none."""
    if variable is not None and file is not None:
        raise ValueError("the key is to come from one place: name a variable or a file, not both")
    if variable is None and file is None:
        return None
    if variable is not None:
        source, text = f"the environment variable {variable!r}", os.environ.get(variable, "")
    else:
        source = f"the key file {file!r}"
        try:
            with Path(str(file)).open(encoding="utf-8") as opened:
                text = opened.read(MOST_KEY_CHARACTERS)
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{source} cannot be read ({type(error).__name__}): name a file of one line") from None
    key = text.strip()
    if not key:
        raise ValueError(f"{source} holds no key: set it, or name another")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"{source} holds something that is no key: one word of ASCII is")
    return key


def _parse_url(url: str) -> tuple[str, str, int, str, str, str | None]:
    """Scheme, host, port, base path, query, unix socket."""
    if url.startswith("unix:"):
        socket_path = url.removeprefix("unix:").replace("//", "", 1)
        if not socket_path.startswith("/"):
            raise ValueError("a unix socket is written unix:///path/of/the/socket")
        return "http", "localhost", PORTS["http"], "", "", unquote(socket_path)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the target is no URL: write http://HOST:PORT/v1") from None
    if parts.scheme not in PORTS or not parts.hostname or port == 0:
        raise ValueError("the target is no URL with http or https and a host: write http://HOST:PORT/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a login does not go into the target's URL: name a variable or file that holds the key")
    if not url.isprintable() or " " in url:
        raise ValueError("the target's URL has blanks or control characters in it: write http://HOST:PORT/v1")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._").removesuffix(_VERSION_PATH).rstrip("/")
    return parts.scheme, host, port or PORTS[parts.scheme], path, parts.query, None


def _header(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    value = value.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise ValueError("a header is written 'Name: value'")
    if not value.isprintable() or not value.isascii():
        raise ValueError(f"the header {name!r} has characters that do not go into one: printable ASCII does")
    if name.lower() in _OURS:
        raise ValueError(f"the header {name!r} is written by the client itself: leave it out")
    return name, value
