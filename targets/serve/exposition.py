"""`/metrics`: the tally in Prometheus' text format, under the names that vLLM gives, and the slots under our own."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from results.slots import SLOT_STATES
from targets.serve.tally import BUCKET_TOKENS, Counts, Tally

LABELS = ("model_name", "engine")


class Exposition(Collector):
    """The metrics of one engine, in a registry of their own."""

    def __init__(self, tally: Tally, model: str, slots: int | None, kv_limit_tokens: int | None) -> None:
        """`slots`, `kv_limit_tokens` None: not told, and not exposed."""
        self._tally = tally
        self._of_engine = (model, "0")
        self._slots = slots
        self._kv_limit_tokens = kv_limit_tokens
        self._started_s = time.time()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """The page as it is now."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead: everything is made at the moment it is asked for."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family, from one snapshot."""
        counts = self._tally.snapshot()
        yield self._gauge("vllm:num_requests_running", "Requests in a slot.", counts.running_requests)
        yield self._gauge("vllm:num_requests_waiting", "Requests waiting for a slot.", counts.waiting_requests)
        if self._kv_limit_tokens and counts.kv_tokens is not None:
            used_share = counts.kv_tokens / self._kv_limit_tokens
            yield self._gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 1 is all.", used_share)
        yield self._counter("vllm:num_preemptions", "Requests put back into the queue.", counts.preempted_requests)
        yield self._counter("vllm:prompt_tokens", "Prompt tokens of requests begun.", counts.prompt_tokens)
        yield self._counter("vllm:generation_tokens", "Tokens generated.", counts.generated_tokens)
        yield self._step_tokens(counts)
        yield self._by("vllm:request_success", "Requests that have ended.", "finished_reason", counts.finished_requests)
        yield self._counter("tokenload:steps", "Steps of the engine.", counts.steps)
        if self._slots is not None:
            yield self._gauge("tokenload:slots", "Slots of the engine.", self._slots)
        slot_steps = dict.fromkeys(SLOT_STATES, 0) if self._slots and not counts.steps else counts.slot_steps
        if slot_steps is not None:
            states = {name.removesuffix("_slots"): spent for name, spent in slot_steps.items()}
            yield self._by("tokenload:slot_steps", "What each slot was doing, step by step.", "state", states)
        yield GaugeMetricFamily("process_start_time_seconds", "Start, since the epoch.", value=self._started_s)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=LABELS)
        family.add_metric(self._of_engine, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=LABELS)
        family.add_metric(self._of_engine, value)
        return family

    def _by(self, name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
        family = CounterMetricFamily(name, text, labels=(*LABELS, label))
        for key, value in values.items():
            family.add_metric((*self._of_engine, key), value)
        return family

    def _step_tokens(self, counts: Counts) -> Metric:
        """The histogram of tokens a step; its count is the number of steps."""
        bounds = (*BUCKET_TOKENS, float("inf"))
        below = [0] * len(bounds)
        for tokens, steps in counts.step_tokens.items():
            below[next(at for at, bound in enumerate(bounds) if tokens <= bound)] += steps
        buckets = [(_bound(bound), total) for bound, total in zip(bounds, accumulate(below), strict=True)]
        spent_tokens = sum(tokens * steps for tokens, steps in counts.step_tokens.items())
        family = HistogramMetricFamily("vllm:iteration_tokens_total", "Tokens computed in a step.", labels=LABELS)
        family.add_metric(self._of_engine, buckets, spent_tokens)
        return family


def _bound(value: float) -> str:
    return "+Inf" if value == float("inf") else str(float(value))
