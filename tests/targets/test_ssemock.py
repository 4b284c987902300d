"""Against a server that logs when it wrote what: nothing lost, doubled or out of order, no stamp before its event."""

import asyncio
from pathlib import Path

import pytest
import uvloop

from results.status import Status
from targets.api import BodyOptions
from targets.apis.openai_chat import OpenAiChat
from targets.http_target import HttpTarget, Limits
from targets.target import PlannedRequest, Reply
from targets.transport.encoding import request_uuid
from targets.transport.endpoint import parse_endpoint
from tests.targets.ssemock_process import read_truth, ssemock

TOKENS = 12


async def send_all(port: int, requests: int) -> list[Reply]:
    """All at once."""
    target = HttpTarget(
        parse_endpoint(f"http://127.0.0.1:{port}/v1"), OpenAiChat(), BodyOptions("mock"),
        Limits(total_ns=20_000_000_000), salt="mock",
    )  # fmt: skip
    planned = [PlannedRequest(k, "one two three", None, TOKENS) for k in range(requests)]
    await target.open(planned)
    replies = await asyncio.gather(*map(target.send, planned))
    await target.close()
    return replies


@pytest.mark.parametrize(
    "options",
    ["--dialect openai", "--dialect vllm", "--dialect llamacpp", "--dialect transformers",
     "--split --crlf --comment --role-chunk", "--split --split-gap-us 300", "--late-headers --tail-join", "--itl-us 0"],
)  # fmt: skip
def test_every_token_of_every_dialect_arrives_after_it_was_written(options: str, tmp_path: Path) -> None:
    """In order, with the server's own count of them.

    A cut may leave nothing of an event for the second write but the end of its chunk: it was complete before that.
    """
    log = tmp_path / "truth.bin"
    with ssemock("--itl-us", "2000", "--ttft-us", "5000", "--log", str(log), *options.split()) as port:
        replies = uvloop.run(send_all(port, 20))
    truth = read_truth(log)
    for reply in replies:
        written_ns = truth[request_uuid("mock", reply.request_id)].written_ns
        assert reply.status is Status.OK and reply.text == "".join(f" {at}" for at in range(TOKENS))
        assert len(reply.event_t_ns) == len(written_ns) == TOKENS
        earliest_ns = [0, *written_ns[:-1]] if "--split" in options else written_ns
        assert all(stamp >= write for stamp, write in zip(reply.event_t_ns, earliest_ns, strict=True))
        assert reply.told_output_tokens == TOKENS and reply.told_prompt_tokens == 3


@pytest.mark.parametrize(
    ("options", "status"),
    [("--drop-rate 1", Status.TRUNCATED), ("--drop-rate 1 --rst", Status.TRANSPORT_ERROR),
     ("--stream-error-rate 1", Status.ENGINE_ERROR), ("--error-rate 1 --error-status 503", Status.SHED),
     ("--error-rate 1", Status.HTTP_ERROR)],
)  # fmt: skip
def test_what_the_server_had_written_before_it_failed_is_kept(options: str, status: Status, tmp_path: Path) -> None:
    """Token for token."""
    log = tmp_path / "truth.bin"
    with ssemock("--itl-us", "3000", "--log", str(log), *options.split()) as port:
        replies = uvloop.run(send_all(port, 10))
    truth = read_truth(log)
    for reply in replies:
        assert reply.status is status, reply.error
        assert len(reply.event_t_ns) <= len(truth[request_uuid("mock", reply.request_id)].written_ns)
        if status in (Status.TRUNCATED, Status.ENGINE_ERROR):
            assert len(reply.event_t_ns) == truth[request_uuid("mock", reply.request_id)].output_tokens


def test_a_server_that_closes_after_some_replies_loses_none() -> None:
    """The connection is replaced, by a resend where the server closed it unannounced."""
    with ssemock("--itl-us", "500", "--keepalive-max", "2") as port:

        async def in_turn() -> list[Reply]:
            target = HttpTarget(parse_endpoint(f"http://127.0.0.1:{port}"), OpenAiChat(), BodyOptions("mock"))
            replies = [await target.send(PlannedRequest(k, "a", None, 2)) for k in range(7)]
            await target.close()
            return replies

        assert {reply.status for reply in uvloop.run(in_turn())} == {Status.OK}
