"""The roofline: what a step costs on hardware that is not here, and an executor that computes nothing on it.

A step takes max(bytes moved / bandwidth, operations / peak) + overheads. The weights are read once a step, the cache
by each row as far as its context goes (the token's own key and value included, which stands for writing them);
padding and finished rows are work. Every coefficient is rounded once, to integer picoseconds, so sums are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from engines.cost import ByteCount, DurationPs, HashExecutor
from engines.engine import JSON
from engines.executor import Mixture
from engines.hardware import MOST_DEVICES, Hardware, hardware_of
from engines.shapes import Shape, shape_of
from results.slots import StepWork

PS_PER_S = 10**12
ALL_REDUCES = 2
"""In each layer, where its matrices are split over several devices: after attention and after the feed-forward."""
NO_OVERHEAD = DurationPs(0)
USABLE_FRACTION = 0.9
"""Of the memory, for weights and cache; the rest is for activations and the program."""
LEAST_FRACTION = 0.0001
"""Of a peak or of the memory: below it a step would take hours."""
LONGEST_OVERHEAD_PS = 60 * PS_PER_S
WEIGHTS_RATIO = 100
"""By how much a rounded figure for all weights may differ from what they are counted to be, either way."""


@dataclass(slots=True)
class Part:
    """A step's time by what it is spent on, in ps; reading and maths overlap. Not frozen: there is one a step."""

    read_ps: int
    maths_ps: int
    overhead_ps: int

    @property
    def step_ps(self) -> int:
        """The whole step."""
        return max(self.read_ps, self.maths_ps) + self.overhead_ps


def check_fraction(option: str, told_fraction: float, whole: str) -> None:
    """ValueError for a share that is too small to mean anything, or more than all."""
    if not LEAST_FRACTION <= told_fraction <= 1:
        raise ValueError(f"{option}={told_fraction:g}: a share of the {whole} is from {LEAST_FRACTION:g} to 1")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How much of the peaks is reached, and what comes on top."""

    bandwidth_fraction: float = 1.0
    prefill_fraction: float = 1.0
    """Of the peak arithmetic, in prefills."""
    decode_fraction: float = 1.0
    step_overhead_ps: int = 0
    row_overhead_ps: int = 0
    """For each row that is computed."""

    def __post_init__(self) -> None:
        """ValueError for a share or a duration that no machine has."""
        for name in ("bandwidth_fraction", "prefill_fraction", "decode_fraction"):
            check_fraction(name.replace("_", "-"), getattr(self, name), "peak")
        for name in ("step_overhead_ps", "row_overhead_ps"):
            if not 0 <= getattr(self, name) <= LONGEST_OVERHEAD_PS:
                option = name.removesuffix("_ps").replace("_", "-")
                raise ValueError(f"{option}={getattr(self, name) / PS_PER_S:g}s: write 0s to 60s")


@dataclass(frozen=True, slots=True)
class View:
    """What the picture leaves out or rounds."""

    reads_embedding: bool = True
    """Whether the input embedding is streamed and multiplied like any other matrix, or a row of it gathered."""
    reads_cache: bool = True
    """False: the idealised picture, in which a context costs nothing."""
    weights_bytes: int | None = None
    """A rounded figure for all weights, which the maths follow. None: as the shape has them."""


class Roofline:
    """A cost model of one model on one or `tp` devices of a kind."""

    def __init__(
        self, hardware: Hardware, shape: Shape, tp: int = 1, efficiency: Efficiency | None = None,
        view: View | None = None,
    ) -> None:  # fmt: skip
        """ValueError for a model that cannot be split over so many devices, or devices without a link."""
        _check_split(hardware, shape, tp)
        self.hardware, self.shape, self.tp = hardware, shape, tp
        self._efficiency = told = efficiency or Efficiency()
        self._kv_copies = Fraction(max(tp, shape.kv_heads), shape.kv_heads)
        self._view = view = view or View()
        bandwidth = Fraction(hardware.bandwidth_bytes_per_s) * Fraction(told.bandwidth_fraction) * tp
        embedding = shape.embedding_weights if view.reads_embedding and not shape.tied else 0
        weight_bytes = Fraction(shape.weight_bytes)
        told_bytes = _told_bytes(view.weights_bytes, shape.weights * weight_bytes)
        scale = Fraction(told_bytes) / (shape.weights * weight_bytes)
        self._byte_ps = PS_PER_S / bandwidth
        self._shared_bytes = (shape.shared_weights + embedding) * weight_bytes * scale
        self._experts_bytes = shape.layers * shape.experts * shape.expert_weights * weight_bytes * scale
        self._weights_ps: dict[int, int] = {}
        kv_bytes = Fraction(shape.token_kv_bytes) * self._kv_copies
        self.kv_token_ps = round(kv_bytes * self._byte_ps) if view.reads_cache else 0
        decode_ps, prefill_ps = (
            PS_PER_S / (Fraction(hardware.peak_flop_per_s) * Fraction(fraction) * tp)
            for fraction in (told.decode_fraction, told.prefill_fraction)
        )
        row_flop = 2 * (shape.active_weights + embedding) * scale
        attention_flop = shape.attention_flop_per_token if view.reads_cache else 0
        self.decode_row_maths_ps = round(row_flop * decode_ps)
        self.decode_kv_maths_ps = round(attention_flop * decode_ps)
        self.prefill_token_maths_ps = round(row_flop * prefill_ps)
        self.prefill_pair_maths_ps = round(attention_flop * prefill_ps)
        self._link_step_ps, self._link_token_ps = self._link_costs()

    def weights_ps(self, tokens: int) -> int:
        """Reading the weights for a step of so many tokens: of the experts those that some token goes through.

        Each token takes its experts evenly and by itself: N (1 - (1 - k/N)^tokens) of N are hit on average.
        """
        known = self._weights_ps.get(tokens)
        if known is None:
            shape = self.shape
            missed = (1 - Fraction(shape.active_experts, shape.experts)) if shape.experts > 1 else Fraction(0)
            hit = 1 - Fraction(float(missed) ** tokens) if missed else Fraction(1)
            known = self._weights_ps[tokens] = round((self._shared_bytes + self._experts_bytes * hit) * self._byte_ps)
        return known

    def parts(self, work: StepWork) -> Part:
        """Where the time of a step goes."""
        if work.prefill_tokens:
            return self._prefill(work)
        rows = work.decoding_slots + work.finished_slots
        return Part(
            self.weights_ps(rows) + self.kv_token_ps * work.kv_tokens,
            self.decode_row_maths_ps * rows + self.decode_kv_maths_ps * work.kv_tokens,
            self._overhead_ps(rows, rows),
        )

    def cost_ps(self, work: StepWork) -> int:
        """Picoseconds of one step."""
        return self.parts(work).step_ps

    def mixed_cost_ps(self, work: StepWork, mixture: Mixture) -> int:
        """Chunks of prompts beside decodes: the weights are read once for all of them."""
        decoded = work.decoding_slots + mixture.drafted_tokens
        tokens = work.prefill_tokens + decoded
        kv_tokens = mixture.decode_kv_tokens + mixture.drafted_tokens + mixture.prefill_kv_tokens
        return Part(
            self.weights_ps(tokens) + self.kv_token_ps * kv_tokens,
            self.decode_row_maths_ps * decoded
            + self.decode_kv_maths_ps * (mixture.decode_kv_tokens + mixture.draft_attended_tokens)
            + self.prefill_token_maths_ps * work.prefill_tokens
            + self.prefill_pair_maths_ps * mixture.attended_tokens,
            self._overhead_ps(work.prefilling_slots + work.decoding_slots, tokens),
        ).step_ps

    def decode_laws_ps(self, rows: int) -> tuple[int, int, int, int]:
        """A decode of so many rows costs the greater of a + b x tokens in the cache and c + d x the same."""
        overhead_ps = self._overhead_ps(rows, rows)
        return (
            self.weights_ps(rows) + overhead_ps, self.kv_token_ps,
            self.decode_row_maths_ps * rows + overhead_ps, self.decode_kv_maths_ps,
        )  # fmt: skip

    def decode_slope_ps(self, work: StepWork) -> tuple[int, int | None]:
        """Both laws grow with the cache; the greater rules, until the other overtakes it."""
        part = self.parts(work)
        read = part.read_ps, self.kv_token_ps * work.decoding_slots
        maths = part.maths_ps, self.decode_kv_maths_ps * work.decoding_slots
        (ahead_ps, slope_ps), (behind_ps, other_slope_ps) = (read, maths) if read >= maths else (maths, read)
        if other_slope_ps <= slope_ps:
            return slope_ps, None
        return slope_ps, (ahead_ps - behind_ps) // (other_slope_ps - slope_ps) + 1

    def capacity_tokens(self, cache_bytes: int | None = None, memory_fraction: float = USABLE_FRACTION) -> int:
        """How many tokens the caches hold: what of the memory the weights leave. ValueError when they do not fit."""
        check_fraction("memory-fraction", memory_fraction, "memory")
        if cache_bytes is None:
            weight_bytes = self.shape.weights * self.shape.weight_bytes
            cache_bytes = int(self.hardware.memory_bytes * self.tp * memory_fraction - weight_bytes)
            if cache_bytes < self.shape.token_kv_bytes:
                raise ValueError(
                    f"model {self.shape.name} has {weight_bytes / 1e9:.1f} GB of weights, {self.tp} x "
                    f"{self.hardware.name} offers {self.hardware.memory_bytes * self.tp * memory_fraction / 1e9:.1f} "
                    "GB: take more of them (tp=N) or another"
                )
        token_bytes = Fraction(self.shape.token_kv_bytes) * self._kv_copies
        if cache_bytes < token_bytes:
            raise ValueError(f"{cache_bytes} bytes of cache hold no token of {self.shape.name}: one takes "
                             f"{float(token_bytes):g} bytes, give it a larger kv-cache")  # fmt: skip
        return int(cache_bytes // token_bytes)

    def describe(self) -> Mapping[str, JSON]:
        """Model, hardware and every coefficient."""
        told = self._efficiency
        return {
            "name": "roofline",
            "model": self.shape.name, "model_source": self.shape.source, "weights": self.shape.weights,
            "hardware": self.hardware.name, "hardware_source": self.hardware.source, "tensor_parallel": self.tp,
            "reads_embedding": self._view.reads_embedding, "reads_cache": self._view.reads_cache,
            "weights_bytes": self._view.weights_bytes,
            "bandwidth_fraction": told.bandwidth_fraction, "prefill_fraction": told.prefill_fraction,
            "decode_fraction": told.decode_fraction, "step_overhead_ps": told.step_overhead_ps,
            "row_overhead_ps": told.row_overhead_ps, "weights_ps": self.weights_ps(1), "kv_token_ps": self.kv_token_ps,
            "decode_row_maths_ps": self.decode_row_maths_ps, "decode_kv_maths_ps": self.decode_kv_maths_ps,
            "prefill_token_maths_ps": self.prefill_token_maths_ps,
            "prefill_pair_maths_ps": self.prefill_pair_maths_ps,
            "link_step_ps": self._link_step_ps, "link_token_ps": self._link_token_ps,
        }  # fmt: skip

    def _prefill(self, work: StepWork) -> Part:
        """A rectangle of prompts, or the full passes of an engine without a cache.

        Attention is causal: a prompt of n tokens has n (n + 1) / 2 pairs of a query and a token before it.
        """
        tokens = work.prefill_tokens + work.padding_tokens
        rows = work.prefilling_slots or work.decoding_slots + work.finished_slots
        pairs = tokens * (tokens // rows + 1) // 2
        return Part(
            self.weights_ps(tokens) + self.kv_token_ps * tokens,
            self.prefill_token_maths_ps * tokens + self.prefill_pair_maths_ps * pairs,
            self._overhead_ps(rows, tokens),
        )

    def _overhead_ps(self, rows: int, tokens: int) -> int:
        told = self._efficiency
        return (
            told.step_overhead_ps + told.row_overhead_ps * rows + self._link_step_ps + self._link_token_ps * tokens
        )

    def _link_costs(self) -> tuple[int, int]:
        """All-reduces of a step: their latencies, and what each token adds. A ring moves 2 (tp - 1) / tp of it."""
        if self.tp == 1:
            return 0, 0
        calls = ALL_REDUCES * self.shape.layers
        token_bytes = self.shape.width * Fraction(self.shape.weight_bytes) * Fraction(2 * (self.tp - 1), self.tp)
        return (
            round(calls * Fraction(self.hardware.link_latency_s) * PS_PER_S),
            round(calls * token_bytes * PS_PER_S / Fraction(self.hardware.link_bytes_per_s)),
        )


def _check_split(hardware: Hardware, shape: Shape, tp: int) -> None:
    splits = shape.splits(MOST_DEVICES)
    if tp not in splits:
        over = ", ".join(map(str, splits))
        raise ValueError(f"tp={tp}: {shape.name}, of {shape.heads} heads and {shape.kv_heads} for keys and values, "
                         f"splits over {over} devices")  # fmt: skip
    if tp > 1 and not hardware.link_bytes_per_s:
        raise ValueError(f"tp={tp}: {hardware.name} has no link to a second device: leave tp at 1")


def _told_bytes(told_bytes: int | None, counted_bytes: Fraction) -> Fraction:
    """All weights as they were told, or as they are counted. ValueError for another model's."""
    if told_bytes is None:
        return counted_bytes
    least, most = counted_bytes / WEIGHTS_RATIO, counted_bytes * WEIGHTS_RATIO
    if not least <= told_bytes <= most:
        span = f"{float(least) / 1e6:.1f}MB to {float(most) / 1e6:.0f}MB"
        raise ValueError(f"weights={told_bytes}B: this model's are {float(counted_bytes) / 1e6:.0f}MB, write {span}")
    return Fraction(told_bytes)


class RooflineExecutor(HashExecutor):
    """Computes nothing; its steps are billed by a roofline, and its cache holds only so much."""

    def __init__(self, cost_model: Roofline, kv_capacity_tokens: int | None) -> None:
        """kv_capacity_tokens None: no limit."""
        self.cost_model = cost_model
        self.kv_capacity_tokens = kv_capacity_tokens

    def describe(self) -> Mapping[str, JSON]:
        """No prompt is read; whose steps are billed, and what its cache holds."""
        told = {"name": "roofline", "model": self.cost_model.shape.name, "kv_capacity_tokens": self.kv_capacity_tokens}
        return {**super().describe(), **told}


def roofline(
    slots: int, cached: bool = True, hardware: str = "h100-sxm", model: str = "llama-3.1-8b", tp: int = 1,
    kv_cache: ByteCount | None = None, memory_fraction: float = USABLE_FRACTION, bandwidth_fraction: float = 1.0,
    prefill_fraction: float = 1.0, decode_fraction: float = 1.0, step_overhead: DurationPs = NO_OVERHEAD,
    row_overhead: DurationPs = NO_OVERHEAD, embedding: Literal["read", "gathered"] = "read",
    cache: Literal["read", "free"] = "read", weights: ByteCount | None = None,
) -> RooflineExecutor:  # fmt: skip
    """For any number of slots. The cache is what `memory_fraction` of the memory leaves, unless it is given."""
    efficiency = Efficiency(bandwidth_fraction, prefill_fraction, decode_fraction, step_overhead, row_overhead)
    view = View(embedding == "read", cache == "read", weights)
    cost_model = Roofline(hardware_of(hardware), shape_of(model), tp, efficiency, view)
    capacity_tokens = cost_model.capacity_tokens(kv_cache, memory_fraction)
    return RooflineExecutor(cost_model, capacity_tokens if cached else None)
