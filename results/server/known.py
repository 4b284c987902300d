"""What servers call the things that everybody wants to see: one row a panel and kind of server.

Names as of vLLM 0.6 to 0.32, SGLang 0.4 to 0.5, llama.cpp of 2024 to 2026 and TGI 2 and 3; the first name that a
server tells is taken. A further server is rows of `TOLD` and a prefix in `PREFIXES`.
"""

from dataclasses import dataclass

VLLM, SGLANG, LLAMACPP, TGI, TOKENLOAD = "vllm", "sglang", "llamacpp", "tgi", "tokenload"
UNKNOWN, MIXED = "unknown", "mixed"
PREFIXES = {
    "tokenload:": TOKENLOAD,
    "vllm:": VLLM,
    "sglang:": SGLANG,
    "llamacpp:": LLAMACPP,
    "llamacpp_slots:": LLAMACPP,
    "llamacpp_props:": LLAMACPP,
    "tgi_": TGI,
}
"""By what a kind of server is known, in this order: `serve` tells vLLM's names besides its own."""
PROCESS_START = "process_start_time_seconds"
SAME_IN_EVERY_RANK = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of processes that share one engine's batch and tell the same numbers: one of them counts."""

GAUGE, RATE, COUNT, MEAN, PRODUCT_RATE = "gauge", "rate", "count", "mean", "product_rate"
"""As it stands; growth a second; growth since the first scrape; growth of NAME_sum over growth of NAME_count; growth a
second of the product of the two names (a count, and an average over that count)."""
SUM, MAX = "sum", "max"


@dataclass(frozen=True, slots=True)
class PanelKind:
    """One picture over time, the same for all kinds of server."""

    title: str
    unit: str
    over_engines: str = SUM
    """How engines and servers are put together: fractions by the largest, everything else by the sum."""


PANELS = {
    "running_requests": PanelKind("Running", "requests"),
    "waiting_requests": PanelKind("Waiting", "requests"),
    "kv_used_fraction": PanelKind("KV cache in use, fullest engine", "fraction", MAX),
    "preempted_requests": PanelKind("Preemptions since the first scrape", "requests"),
    "queue_time_ms": PanelKind("Mean time in the queue of those that left it", "ms"),
    "output_tokens_per_s": PanelKind("Output tokens", "tokens/s"),
}


@dataclass(frozen=True, slots=True)
class Told:
    """Under what name a kind of server tells a panel's value."""

    panel: str
    kind: str
    how: str
    names: tuple[str, ...]
    scale_ratio: float = 1.0
    """From the server's unit to the panel's."""


_S_TO_MS = 1e3
TOLD = (
    Told("running_requests", VLLM, GAUGE, ("vllm:num_requests_running",)),
    Told("running_requests", SGLANG, GAUGE, ("sglang:num_running_reqs",)),
    Told("running_requests", LLAMACPP, GAUGE, ("llamacpp:requests_processing", "llamacpp_slots:processing")),
    Told("running_requests", TGI, GAUGE, ("tgi_batch_current_size",)),
    Told("waiting_requests", VLLM, GAUGE, ("vllm:num_requests_waiting",)),
    Told("waiting_requests", SGLANG, GAUGE, ("sglang:num_queue_reqs",)),
    Told("waiting_requests", LLAMACPP, GAUGE, ("llamacpp:requests_deferred",)),
    Told("waiting_requests", TGI, GAUGE, ("tgi_queue_size",)),
    Told("kv_used_fraction", VLLM, GAUGE, ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")),
    Told("kv_used_fraction", SGLANG, GAUGE, ("sglang:token_usage",)),
    Told("kv_used_fraction", LLAMACPP, GAUGE, ("llamacpp:kv_cache_usage_ratio",)),
    Told("preempted_requests", VLLM, COUNT, ("vllm:num_preemptions_total",)),
    Told(
        "preempted_requests", SGLANG, COUNT, ("sglang:num_retracted_requests_total", "sglang:num_retracted_reqs_total")
    ),
    Told("queue_time_ms", VLLM, MEAN, ("vllm:request_queue_time_seconds",), _S_TO_MS),
    Told("queue_time_ms", SGLANG, MEAN, ("sglang:queue_time_seconds",), _S_TO_MS),
    Told("queue_time_ms", TGI, MEAN, ("tgi_request_queue_duration",), _S_TO_MS),
    Told("output_tokens_per_s", VLLM, RATE, ("vllm:generation_tokens_total",)),
    Told("output_tokens_per_s", SGLANG, RATE, ("sglang:generation_tokens_total",)),
    # its tokens_predicted_total moves only when a request ends, as TGI's does; what follows is live
    Told(
        "output_tokens_per_s", LLAMACPP, PRODUCT_RATE, ("llamacpp:n_decode_total", "llamacpp:n_busy_slots_per_decode")
    ),
    Told("output_tokens_per_s", TGI, RATE, ("tgi_request_generated_tokens_sum",)),
)
"""vLLM's `..._perc` and SGLang's token_usage are fractions of 1, whatever the name says."""

SPECULATING = {
    VLLM: ("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"),
    LLAMACPP: ("llamacpp:spec_decode_num_draft_tokens_total",),
}
"""Counters that move only while tokens are drafted."""
SPECULATING_NOW = {SGLANG: "sglang:spec_accept_length", LLAMACPP: "llamacpp_slots:speculative"}
"""Gauges that are above 0 only where tokens are drafted."""


def dialect_of(kind: str) -> str:
    """Whose names a kind of server tells: `serve` tells vLLM's."""
    return VLLM if kind == TOKENLOAD else kind


def told_by(panel: str, kind: str) -> Told | None:
    """How a kind of server tells a panel; None: it does not."""
    return next((one for one in TOLD if one.panel == panel and one.kind == dialect_of(kind)), None)
