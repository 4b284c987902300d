"""The roofline cost model, its tables, and an engine whose cache is as small as a real one."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.cost import ByteCount, DurationPs
from engines.engine import Request, SamplingParams
from engines.hardware import HARDWARE, Hardware, hardware_of
from engines.policies import continuous, static, static_bucketed
from engines.roofline import Efficiency, Roofline, View, roofline
from engines.shapes import SHAPES, shape_of
from engines.slots import SlotEngine
from tests.engines.playing import column, play, schedule_of, statuses
from tests.engines.test_cost import work

H100, LLAMA = HARDWARE["h100-sxm"], SHAPES["llama-3.1-8b"]
MADE_UP = Hardware("made-up", 1e12, 1e9, 1e9, "a test", 1e9, 1e-6)


@pytest.mark.parametrize(
    ("name", "weights", "kv_bytes"),
    [
        ("llama-3.1-8b", 8_030_261_248, 131_072),
        ("llama-3.1-70b", 70_553_706_496, 327_680),
        ("llama-3.1-405b", 405_853_388_800, 516_096),
        ("qwen2.5-7b", 7_615_616_512, 57_344),
        ("mistral-7b", 7_241_732_096, 131_072),
        ("mixtral-8x7b", 46_702_792_704, 131_072),
        ("opt-13b", 12_853_473_280, 819_200),
        ("tinygpt", 5_838_080, 3_072),
    ],
)
def test_a_shape_has_as_many_weights_as_the_model_published(name: str, weights: int, kv_bytes: int) -> None:
    """Counted from its dimensions, to the last one; and the bytes that a token keeps."""
    assert SHAPES[name].weights == weights
    assert SHAPES[name].token_kv_bytes == kv_bytes


@pytest.mark.parametrize("row", [*HARDWARE.values(), *SHAPES.values()], ids=lambda row: row.name)
def test_every_row_says_where_it_is_from(row: object) -> None:
    """A source, and no number below 0."""
    told = asdict(row)  # type: ignore[call-overload]
    assert told["source"] and told["name"]
    assert all(value >= 0 for value in told.values() if isinstance(value, int | float))


def test_a_step_of_llama_on_an_h100() -> None:
    """16.06 GB at 3.35 TB/s; 2 x 8.03 G operations a token; 128 KiB of cache a token of context."""
    cost = Roofline(H100, LLAMA)
    one = cost.parts(work(decoding_slots=1, kv_tokens=1))
    assert one.read_ps == pytest.approx(4.79419e9, rel=1e-4)
    assert cost.decode_row_maths_ps == pytest.approx(16.2392e6, rel=1e-5)
    assert cost.weights_ps(1) / cost.decode_row_maths_ps == pytest.approx(295.224, rel=1e-5)
    assert cost.kv_token_ps == round(131_072 / 3.35e12 * 1e12)
    full = cost.cost_ps(work(decoding_slots=404, kv_tokens=404_000))
    assert full == pytest.approx(20.601e9, rel=1e-4)


def test_what_the_picture_leaves_out() -> None:
    """A gathered embedding is neither read nor multiplied, an ideal cache costs nothing, and weights may be rounded."""
    gathered = Roofline(H100, LLAMA, view=View(reads_embedding=False))
    assert gathered.weights_ps(1) == pytest.approx(4.480e9, rel=1e-3)
    assert gathered.decode_row_maths_ps == round(2 * LLAMA.active_weights / 989e12 * 1e12)
    ideal = Roofline(H100, LLAMA, view=View(reads_cache=False))
    assert ideal.cost_ps(work(decoding_slots=8, kv_tokens=8_000)) == ideal.cost_ps(work(decoding_slots=1, kv_tokens=1))
    rounded = Roofline(H100, LLAMA, view=View(weights_bytes=16_000_000_000))
    assert rounded.weights_ps(1) == round(16e9 / 3.35e12 * 1e12)
    assert rounded.decode_row_maths_ps == round(2 * 8e9 / 989e12 * 1e12)


def test_finished_rows_and_padding_are_work() -> None:
    """A static batch's finished rows are multiplied and their caches read; short prompts cost what long ones do."""
    cost = Roofline(MADE_UP, SHAPES["tinygpt"])
    assert cost.parts(work(decoding_slots=1, finished_slots=7, kv_tokens=90)) == cost.parts(
        work(decoding_slots=8, kv_tokens=90)
    )
    ragged = work(prefilling_slots=2, prefill_tokens=60, padding_tokens=40)
    assert cost.parts(ragged) == cost.parts(work(prefilling_slots=2, prefill_tokens=100))


def test_a_prefill_pays_for_each_pair_of_tokens_once() -> None:
    """Two prompts of 50: 2 x 50 x 51 / 2 pairs, 100 tokens, and the weights read once."""
    cost = Roofline(MADE_UP, SHAPES["tinygpt"])
    part = cost.parts(work(prefilling_slots=2, prefill_tokens=100, stalled_slots=3, kv_tokens=10_000))
    assert part.maths_ps == 100 * cost.prefill_token_maths_ps + 2_550 * cost.prefill_pair_maths_ps
    assert part.read_ps == cost.weights_ps(100) + 100 * cost.kv_token_ps


def test_a_pass_without_a_cache_is_a_prefill_of_the_whole_text() -> None:
    """The step of the engine that keeps nothing."""
    cost = Roofline(MADE_UP, SHAPES["tinygpt"])
    assert cost.parts(work(decoding_slots=1, prefill_tokens=64)) == cost.parts(
        work(prefilling_slots=1, prefill_tokens=64)
    )


def test_efficiency_divides_the_peaks_and_overheads_are_added() -> None:
    """Half the bandwidth doubles reading, a quarter of the peak makes the maths four times as long."""
    half = Roofline(H100, LLAMA, efficiency=Efficiency(0.5, 0.25, 0.125, 1_000, 10))
    whole = Roofline(H100, LLAMA)
    assert half.weights_ps(1) == pytest.approx(2 * whole.weights_ps(1), rel=1e-9)
    assert half.prefill_token_maths_ps == pytest.approx(4 * whole.prefill_token_maths_ps, rel=1e-6)
    assert half.decode_row_maths_ps == pytest.approx(8 * whole.decode_row_maths_ps, rel=1e-6)
    assert half.parts(work(decoding_slots=3, finished_slots=1, kv_tokens=4)).overhead_ps == 1_040


def test_tensor_parallel_divides_the_work_and_pays_for_all_reduces() -> None:
    """Two per layer: a latency a step, and 2 (tp - 1) / tp of each token's activations over the link."""
    one, four = Roofline(H100, LLAMA), Roofline(H100, LLAMA, tp=4)
    assert four.weights_ps(1) == pytest.approx(one.weights_ps(1) / 4, rel=1e-9)
    assert four.decode_row_maths_ps == pytest.approx(one.decode_row_maths_ps / 4, rel=1e-6)
    overhead_ps = four.parts(work(decoding_slots=10, kv_tokens=10)).overhead_ps
    per_token_ps = round(64 * 4096 * 2 * 1.5 / 450e9 * 1e12)
    assert overhead_ps == 64 * 10_000_000 + 10 * per_token_ps
    assert one.parts(work(decoding_slots=10, kv_tokens=10)).overhead_ps == 0


def test_heads_of_the_cache_are_copied_when_there_are_more_devices_than_heads() -> None:
    """8 heads on 16 devices: each device keeps and reads one, so the cache is divided by 8 only."""
    eight, sixteen = Roofline(H100, LLAMA, tp=8), Roofline(H100, LLAMA, tp=16)
    assert sixteen.kv_token_ps == eight.kv_token_ps
    assert sixteen.capacity_tokens(2 * 10**9) == eight.capacity_tokens(10**9)


def test_experts_are_read_as_far_as_a_step_hits_them() -> None:
    """One token reads 2 of 8 experts, many tokens read all; the maths are those of 2 for each token."""
    shape = SHAPES["mixtral-8x7b"]
    cost = Roofline(H100, shape)
    experts_bytes = 2 * 32 * 8 * 3 * 4096 * 14336
    shared_bytes = 2 * shape.weights - experts_bytes
    assert cost.weights_ps(1) == pytest.approx((shared_bytes + experts_bytes / 4) / 3.35, rel=1e-6)
    assert cost.weights_ps(2) == pytest.approx((shared_bytes + experts_bytes * (1 - 0.75**2)) / 3.35, rel=1e-6)
    assert cost.weights_ps(500) == pytest.approx(2 * shape.weights / 3.35, rel=1e-6)
    embedding = 32_000 * 4096
    assert cost.decode_row_maths_ps == round(2 * (shape.active_weights + embedding) / 989)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 500), finished=st.integers(0, 100), kv_tokens=st.integers(1, 500_000),
    fraction=st.floats(0.001, 1), steps=st.integers(1, 3_000),
)  # fmt: skip
def test_the_course_of_a_decode_is_its_cost_step_by_step(
    rows: int, finished: int, kv_tokens: int, fraction: float, steps: int
) -> None:
    """first + j x slope equals the cost of step j, for as many steps as the law is said to hold."""
    cost = Roofline(H100, LLAMA, efficiency=Efficiency(decode_fraction=fraction))
    first = work(decoding_slots=rows, finished_slots=finished, kv_tokens=kv_tokens)
    slope_ps, holds_steps = cost.decode_slope_ps(first)
    last = steps if holds_steps is None else min(steps, holds_steps)
    for step in {0, last // 2, last - 1}:
        later = work(decoding_slots=rows, finished_slots=finished, kv_tokens=kv_tokens + step * rows)
        assert cost.cost_ps(later) == cost.cost_ps(first) + step * slope_ps
    if holds_steps is not None:
        beyond = work(decoding_slots=rows, finished_slots=finished, kv_tokens=kv_tokens + holds_steps * rows)
        assert cost.cost_ps(beyond) != cost.cost_ps(first) + holds_steps * slope_ps


def test_the_cache_is_what_the_weights_leave() -> None:
    """90 % of 80 GB less 16.06 GB, at 128 KiB a token; or as many bytes as told; or an error that says what fits."""
    cost = Roofline(H100, LLAMA)
    assert cost.capacity_tokens() == int((72e9 - 2 * 8_030_261_248) // 131_072)
    assert cost.capacity_tokens(53 * 10**9) == 404_357
    with pytest.raises(ValueError, match=r"141\.1 GB of weights, 1 x h100-sxm offers 72\.0 GB") as caught:
        Roofline(H100, SHAPES["llama-3.1-70b"]).capacity_tokens()
    assert "\n" not in str(caught.value)


def small_engine(policy_slots: int, kv_tokens: int, build: Callable[..., object] = continuous) -> SlotEngine:
    """TinyGPT with a cache of so many tokens."""
    executor = roofline(
        policy_slots, hardware="cpu-core", model="tinygpt", kv_cache=ByteCount(kv_tokens * 3_072)
    )
    return SlotEngine(build(policy_slots), executor, executor.cost_model)  # type: ignore[arg-type]


@pytest.mark.parametrize("build", [continuous, static, lambda slots: static_bucketed(slots, 64)])
def test_the_cache_limits_the_batch(build: Callable[..., object]) -> None:
    """Requests of 10 + 11 tokens keep 20: of 8 slots, 5 can be taken in a cache of 100; all are served in the end."""
    recording = play(schedule_of([11] * 17, prompts=10), small_engine(8, 100, build))
    assert statuses(recording) == ["ok"] * 17
    taken = recording.steps["prefilling_slots"] + recording.steps["decoding_slots"] + recording.steps["stalled_slots"]
    assert int(taken.max()) == 5
    assert int(recording.steps["kv_tokens"].max()) <= 100
    assert int(recording.steps["empty_queued_slots"].max()) == 3


def test_who_does_not_fit_yet_is_waited_for_in_the_order_of_the_queue() -> None:
    """A large request at the front is not overtaken by a small one that would fit."""
    recording = play(schedule_of([30, 60, 2], prompts=10), small_engine(8, 100))
    admitted = column(recording, "admitted_step")
    assert admitted[0] < admitted[1] <= admitted[2]


def test_a_request_larger_than_the_cache_is_refused() -> None:
    """It could never be served: one line, and its row says so."""
    engine = small_engine(2, 50)
    with pytest.raises(ValueError, match="request 0 keeps 51 tokens in the cache, which holds 50"):
        engine.add_request(Request(0, range(40), SamplingParams(12), 0))
    recording = play(schedule_of([11, 12], prompts=40), small_engine(2, 50))
    assert statuses(recording) == ["ok", "engine_error"]


def test_a_row_of_ones_own(tmp_path: Path) -> None:
    """A TOML file with the names of the table; its own name is the file's, unless it has one."""
    machine = tmp_path / "mine.toml"
    machine.write_text("peak_flop_per_s = 2e12\nbandwidth_bytes_per_s = 1e11\nmemory_bytes = 8e9\n")
    assert hardware_of(str(machine)) == Hardware("mine", 2e12, 1e11, 8e9, str(machine))
    model = tmp_path / "model.toml"
    model.write_text(
        'name = "small"\nlayers = 2\nwidth = 64\nheads = 4\nkv_heads = 2\nhead_dim = 16\nffn = 128\nvocabulary = 99\n'
        "tied = true\n"
    )
    shape = shape_of(str(model))
    assert (shape.name, shape.layers, shape.tied, shape.matrices) == ("small", 2, True, 3)
    assert roofline(4, hardware=str(machine), model=str(model)).describe()["name"] == "roofline"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("peak_flop_per_s = 1e12", "lacks bandwidth_bytes_per_s"),
        ("peak_flop_per_s = 1e12\nbandwidth_bytes_per_s = 1e9\nmemory_bytes = 1e9\nfans = 3", "has fans"),
        ("peak_flop_per_s = 'fast'\nbandwidth_bytes_per_s = 1e9\nmemory_bytes = 1e9", "peak_flop_per_s = 'fast'"),
        ("peak_flop_per_s = -1\nbandwidth_bytes_per_s = 1e9\nmemory_bytes = 1e9", "not below 0"),
        ("peak_flop_per_s = 0\nbandwidth_bytes_per_s = 1e9\nmemory_bytes = 1e9", "must be above 0"),
        ("peak_flop_per_s = true\nbandwidth_bytes_per_s = 1e9\nmemory_bytes = 1e9", "must be of type float"),
        ("peak_flop_per_s", "is not TOML"),
    ],
)
def test_a_file_that_is_no_row_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    """The line names the file and what is wrong."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        hardware_of(str(path))
    assert "mine.toml" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("kv_heads = 0", "kv_heads = 0 in .*mine.toml' must be above 0"),
        ("kv_heads = 2\nweight_bytes = 0", "weight_bytes = 0 in .* must be above 0"),
        ("kv_heads = 2\nexperts = 4\nactive_experts = 5", "model mine: active_experts = 5 of 4 experts"),
    ],
)
def test_a_shape_without_heads_bytes_or_enough_experts_is_refused(tmp_path: Path, more: str, words: str) -> None:
    """0 is for what a model may go without, as positions of its own and ties; nothing else divides by it later."""
    path = tmp_path / "mine.toml"
    path.write_text(f"layers = 2\nwidth = 64\nheads = 4\nhead_dim = 16\nffn = 128\nvocabulary = 99\n{more}\n")
    with pytest.raises(ValueError, match=words):
        shape_of(str(path))
    path.write_text(path.read_text().replace(more, "kv_heads = 2\nposition_rows = 0\ntied = false"))
    assert shape_of(str(path)).position_rows == 0


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: hardware_of("h1000"), "unknown hardware 'h1000': known are h100-sxm"),
        (lambda: shape_of("nowhere.toml"), "cannot be read"),
        (lambda: roofline(1, bandwidth_fraction=1.5), r"bandwidth-fraction=1\.5"),
        (lambda: roofline(1, decode_fraction=0), "decode-fraction=0: .*from 0.0001 to 1"),
        (lambda: roofline(1, prefill_fraction=1e-9), "prefill-fraction=1e-09: .*from 0.0001 to 1"),
        (lambda: roofline(1, bandwidth_fraction=float("nan")), "bandwidth-fraction=nan: .*from 0.0001 to 1"),
        (lambda: roofline(1, memory_fraction=0), "memory-fraction=0: .*from 0.0001 to 1"),
        (lambda: roofline(1, memory_fraction=1.01), "memory-fraction=1.01: .*from 0.0001 to 1"),
        (lambda: roofline(1, step_overhead=DurationPs(61 * 10**12)), "step-overhead=61s: write 0s to 60s"),
        (lambda: roofline(1, row_overhead=DurationPs(-1)), "row-overhead=.*: write 0s to 60s"),
        (lambda: roofline(1, weights=ByteCount(0)), "weights=0B: .*16061MB, write 160.6MB to 1606052MB"),
        (lambda: roofline(1, weights=ByteCount(10**13)), "weights=10000000000000B"),
        (lambda: roofline(1, kv_cache=ByteCount(131_071)), "131071 bytes of cache hold no token.* 131072 bytes"),
        (lambda: roofline(1, hardware="cpu-core", model="tinygpt", tp=2), "tp=2: cpu-core has no link"),
        (lambda: roofline(1, tp=0), "tp=0: llama-3.1-8b, .* splits over 1, 2, 4, 8, 16, 32 devices"),
        (lambda: roofline(1, tp=3), "tp=3: .*32 heads and 8 .*1, 2, 4, 8, 16, 32 devices"),
        (lambda: roofline(1, tp=64), "tp=64: .*1, 2, 4, 8, 16, 32 devices"),
        (lambda: roofline(1, tp=7, model="qwen2.5-7b"), "tp=7: .*28 heads and 4 .*1, 2, 4, 28 devices"),
        (lambda: replace(H100, bandwidth_bytes_per_s=1.0), "bandwidth_bytes_per_s = 1 is not from 1e.06 to 1e.18"),
        (lambda: replace(H100, link_bytes_per_s=1.0), "link_bytes_per_s = 1 is not"),
        (lambda: replace(H100, link_latency_s=2.0), "link_latency_s = 2 is not from 0 to 1"),
        (lambda: replace(LLAMA, weight_bytes=1e-9), "weight_bytes = 1e-09 is not from 0.01 to 16"),
        (lambda: replace(LLAMA, kv_bytes=99.0), "kv_bytes = 99 is not from 0.01 to 16"),
        (lambda: replace(LLAMA, heads=10, kv_heads=3), "heads = 10 is no multiple of kv_heads = 3"),
        (lambda: replace(LLAMA, layers=10**9), "weights: at most 1e.15"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    """ValueError names the option."""
    with pytest.raises(ValueError, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shape", "most", "splits"), [
    ("llama-3.1-8b", 1024, [1, 2, 4, 8, 16, 32]),
    ("llama-3.1-8b", 4, [1, 2, 4]),
    ("qwen2.5-7b", 1024, [1, 2, 4, 28]),
    ("opt-13b", 1024, [1, 2, 4, 5, 8, 10, 20, 40]),
    ("tinygpt", 1024, [1, 2, 4, 8]),
])  # fmt: skip
def test_heads_are_split_evenly_and_those_for_keys_and_values_too_or_copied(
    shape: str, most: int, splits: list[int]
) -> None:
    """28 heads on 7 devices are 4 each, and 4 key-value heads on 7 are neither split nor copied alike."""
    assert shape_of(shape).splits(most) == splits
    for tp in splits:
        assert Roofline(H100, shape_of(shape), tp=tp).tp == tp


def test_a_device_may_have_no_link() -> None:
    """0 is that there is none, and no slip."""
    assert replace(H100, link_bytes_per_s=0.0).link_bytes_per_s == 0


def test_the_description_has_model_hardware_and_coefficients() -> None:
    """What a run's figures were made with can be read from its stamp."""
    told = roofline(8, step_overhead=DurationPs(5)).cost_model.describe()
    assert (told["model"], told["hardware"], told["tensor_parallel"]) == ("llama-3.1-8b", "h100-sxm", 1)
    assert (told["step_overhead_ps"], told["kv_token_ps"], told["weights"]) == (5, 39_126, 8_030_261_248)
