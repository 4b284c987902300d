"""TLS: verified unless told otherwise, and stamped apart."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
import uvloop

from results.columns import NULL
from results.status import Status
from targets.api import BodyOptions
from targets.apis.catalog import make_api
from targets.discovery import discover
from targets.http_target import HttpTarget
from targets.target import Reply
from targets.transport.endpoint import parse_endpoint
from tests.targets.scripted_server import PlainApi, answer, planned, serving

LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Certificate and key of localhost, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made, key


def play(certificate: tuple[str, str], loop: str, **tls: object) -> Reply:
    """One request to a server with this certificate."""

    async def one() -> Reply:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        async with serving(answer, tls=context) as served:
            url = f"https://127.0.0.1:{served.address[1]}/v1"
            endpoint = parse_endpoint(url, **tls)  # type: ignore[arg-type]
            target = HttpTarget(endpoint, PlainApi(), BodyOptions("m"))
            await target.open([planned()])
            reply = await asyncio.wait_for(target.send(planned()), 10)
            await target.close()
            return reply

    reply: Reply = LOOPS[loop](one())
    return reply


@pytest.mark.parametrize("loop", LOOPS)
def test_a_certificate_of_the_ca_file_is_accepted(certificate: tuple[str, str], loop: str) -> None:
    """And the handshake has a time of its own."""
    reply = play(certificate, loop, ca_file=certificate[0])
    assert (reply.status, reply.text) == (Status.OK, "abc")
    assert reply.tls_ns > 0 and reply.connect_ns > 0
    assert reply.sent_ns <= reply.uploaded_ns <= reply.header_ns


@pytest.mark.parametrize("loop", LOOPS)
def test_an_unknown_certificate_is_a_row(certificate: tuple[str, str], loop: str) -> None:
    """Nothing was sent."""
    reply = play(certificate, loop)
    assert reply.status is Status.TRANSPORT_ERROR and "certificate" in (reply.error or "").lower()
    assert reply.sent_ns == NULL


def test_verification_can_be_left_out(certificate: tuple[str, str]) -> None:
    """On request."""
    assert play(certificate, "uvloop", verify_tls=False).status is Status.OK


def test_a_server_that_speaks_no_tls_is_a_row() -> None:
    """Whatever it answers to the handshake."""

    async def one() -> Reply:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(plain, "127.0.0.1", 0)
        endpoint = parse_endpoint(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        target = HttpTarget(endpoint, PlainApi(), BodyOptions("m"))
        reply = await asyncio.wait_for(target.send(planned()), 10)
        await target.close()
        server.close()
        return reply

    for run in LOOPS.values():
        reply = run(one())
        assert reply.status is Status.TRANSPORT_ERROR and reply.sent_ns == NULL


def test_a_ca_file_without_certificates_is_refused(tmp_path: Path) -> None:
    """Before the run, in one line."""
    empty = tmp_path / "ca.pem"
    empty.write_text("nothing")
    target = HttpTarget(parse_endpoint("https://127.0.0.1:9", ca_file=str(empty)), PlainApi(), BodyOptions("m"))
    with pytest.raises(ValueError, match="holds no certificates"):
        asyncio.run(target.open([]))


def test_a_server_that_is_asked_for_its_model_and_not_trusted_is_named_with_the_remedy(
    certificate: tuple[str, str],
) -> None:
    """What is wrong with its certificate, and the two options that help."""

    async def one() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        async with serving(answer, tls=context) as served:
            await discover(parse_endpoint(f"https://127.0.0.1:{served.address[1]}/v1"), make_api("openai-chat"))

    with pytest.raises(ValueError, match=r"self-signed certificate.*--ca-file.*--no-verify"):
        asyncio.run(one())
