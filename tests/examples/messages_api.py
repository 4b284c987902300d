import json

from targets.api import SSE, Delta, Usage

REASONS = {"max_tokens": "length", "end_turn": "stop", "stop_sequence": "stop"}


class Messages:
    """Anthropic's /v1/messages, which vLLM and llama.cpp have too."""

    name = "messages"
    path = "/v1/messages"
    framing = SSE
    models_path = "/v1/models"

    def body(self, request, options):
        if options.token_prompts:
            raise ValueError("messages takes text, not token ids: give --prompt-as text")
        message = {"role": "user", "content": request.prompt_text}
        limits = {"max_tokens": request.max_tokens, "temperature": request.temperature}
        return {"model": options.model, "messages": [message], "stream": options.stream, **limits, **options.extra}

    def event(self, data, event_type):
        fields = json.loads(data)
        delta, counts = fields.get("delta", {}), fields.get("usage", {})
        if event_type == "message_stop":
            return None
        if event_type == "error":
            return Delta(error=fields["error"]["message"])
        if event_type == "content_block_delta":
            thinking = delta.get("thinking", "")
            return Delta(thinking or delta.get("text", ""), reasoning=bool(thinking))
        if event_type == "message_delta":
            usage = Usage(counts.get("output_tokens"), counts.get("input_tokens"))
            return Delta(finish_reason=REASONS.get(delta["stop_reason"]), usage=usage)
        return Delta()

    def whole(self, body):
        reply = json.loads(body)
        usage = Usage(reply["usage"]["output_tokens"], reply["usage"]["input_tokens"])
        text = "".join(block.get("text", "") for block in reply["content"])
        return [Delta(text, finish_reason=REASONS.get(reply["stop_reason"]), usage=usage, reply_id=reply["id"])]
