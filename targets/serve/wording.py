"""How a reply is put: the JSON of OpenAI's two APIs, streamed and not, with the field names that vLLM adds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from targets.serve.ask import Ask
from targets.serve.generated_text import Piece

Json = dict[str, Any]
END = b"data: [DONE]\n\n"


@dataclass(slots=True)
class Wording:
    """One request's replies."""

    ask: Ask
    reply_id: str
    model: str
    created_s: int = field(default_factory=lambda: int(time.time()))
    _begun: bool = False

    def events(self, piece: Piece) -> bytes:
        """A piece's SSE events: none where there is nothing to say, and a chat's role before its first one."""
        events = b""
        if self.ask.chat and not self._begun:
            events += self._event([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
        self._begun = True
        if piece.text or piece.finish_reason is not None or self.ask.return_token_ids:
            events += self._event([self._streamed(piece)])
        return events

    def closing(self, output_tokens: int) -> bytes:
        """What follows the last piece: usage where it was asked for, and the end marker."""
        if not self.ask.include_usage:
            return END
        return self._event([], usage=self._usage(output_tokens)) + END

    def whole(self, text: str, token_ids: Sequence[int], last: Piece, output_tokens: int) -> bytes:
        """The reply in one piece."""
        choice: Json = {"index": 0}
        choice |= {"message": {"role": "assistant", "content": text}} if self.ask.chat else {"text": text}
        choice |= {"logprobs": None, "finish_reason": last.finish_reason, "stop_reason": last.stop_reason}
        if self.ask.return_token_ids:
            choice["token_ids"] = list(token_ids)
        kind = "chat.completion" if self.ask.chat else "text_completion"
        return orjson.dumps(self._head(kind) | {"choices": [choice], "usage": self._usage(output_tokens)})

    def _streamed(self, piece: Piece) -> Json:
        choice: Json = {"index": 0}
        choice |= {"delta": {"content": piece.text} if piece.text else {}} if self.ask.chat else {"text": piece.text}
        choice |= {"logprobs": None, "finish_reason": piece.finish_reason, "stop_reason": piece.stop_reason}
        if self.ask.return_token_ids:
            choice["token_ids"] = list(piece.token_ids)
        return choice

    def _event(self, choices: list[Json], **more: Any) -> bytes:
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return event(self._head(kind) | {"choices": choices} | more)

    def _head(self, kind: str) -> Json:
        return {"id": self.reply_id, "object": kind, "created": self.created_s, "model": self.model}

    def _usage(self, output_tokens: int) -> Json:
        prompt_tokens = len(self.ask.prompt_token_ids)
        total_tokens = prompt_tokens + output_tokens
        return {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens, "total_tokens": total_tokens}


def event(document: Json) -> bytes:
    """One SSE event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"
