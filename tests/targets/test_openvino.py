"""The OpenVINO GenAI adapter: every rule on the real pipeline where it is installed, and on a stand-in everywhere.

To run it for real: `pip install openvino-genai gguf`. The model is made here: a Llama of two layers with random
8-bit weights, as a GGUF file of 0.7 MB.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.engine import Engine, Request, SamplingParams, Step
from loadgen.clock import ChargedClock
from loadgen.engine_spec import make_engine
from loadgen.prompts import prompt_source
from results.recording import Recording
from results.schedule import Schedule
from results.slots import SLOT_STATES, StepWork, unused_slot_fraction
from targets.openvino import packages
from tests.engines.playing import column, play, schedule_of, statuses
from tests.targets.openvino_stand_in import CONTEXT_TOKENS, VOCABULARY, empty_model

SLOTS = 4


def random_llama(path: Path) -> Path:
    """Two layers of width 256 with 4 query and 2 key heads; 512 tokens, three of them control tokens."""
    gguf = pytest.importorskip("gguf", reason="pip install gguf")
    layers, width, heads, kv_heads, head_dim, ffn = 2, 256, 4, 2, 64, 256
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([f"<{token_id}>" for token_id in range(VOCABULARY)])
    writer.add_token_types([3] * 3 + [1] * (VOCABULARY - 3))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(2)

    def matrix(name: str, rows: int, columns: int, scale: float = 0.1) -> None:
        kind = gguf.GGMLQuantizationType.Q8_0
        values = (rng.standard_normal((rows, columns)) * scale).astype(np.float32)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    matrix("token_embd", VOCABULARY, width, 0.5)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(layers):
        block = f"blk.{layer}."
        matrix(block + "attn_q", heads * head_dim, width)
        matrix(block + "attn_k", kv_heads * head_dim, width)
        matrix(block + "attn_v", kv_heads * head_dim, width)
        matrix(block + "attn_output", width, heads * head_dim)
        matrix(block + "ffn_gate", ffn, width)
        matrix(block + "ffn_up", ffn, width)
        matrix(block + "ffn_down", width, ffn)
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{block}{norm}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def real_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("openvino_genai", reason="pip install openvino-genai")
    return random_llama(tmp_path_factory.mktemp("model") / "random.gguf")


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """A model folder for the stand-in."""
    return empty_model(tmp_path)


@pytest.fixture(params=["stand-in", "real"])
def model(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue("real_model" if request.param == "real" else "stand_in")


def engine_of(model: Path, options: str = "") -> Engine:
    """Built as the command line builds it, in the precision in which neighbours do not matter."""
    adapter = "targets.openvino:OpenVinoEngine"
    if model.suffix != ".gguf":
        adapter = "tests.targets.openvino_stand_in:StandInEngine"
    return make_engine(f"{adapter},model={model},slots={SLOTS},precision=f32{options}", "real", schedule_of([1]))


def request_of(request_id: int, max_tokens: int = 6, prompt_tokens: int = 10, **sampling: Any) -> Request:
    """Its prompt is made of its own id."""
    params = SamplingParams(max_tokens, **sampling)
    return Request(request_id, [3 + request_id + at % 5 for at in range(prompt_tokens)], params, 0)


def steps_of(engine: Engine, most: int = 1_000) -> Iterator[Step]:
    for _ in range(most):
        if not engine.has_work():
            return
        yield engine.step(0)


def serve(engine: Engine, requests: Sequence[Request]) -> dict[int, list[int]]:
    """Hand over all at once; the tokens of each."""
    for request in requests:
        engine.add_request(request)
    return texts_of(steps_of(engine))


def texts_of(steps: Iterable[Step]) -> dict[int, list[int]]:
    texts: dict[int, list[int]] = {}
    for step in steps:
        for output in step.outputs:
            texts.setdefault(output.request_id, []).extend(output.token_ids)
    return texts


def texts_recorded(recording: Recording) -> list[list[int]]:
    ends = np.concatenate(([0], np.cumsum(recording.token_count)))[recording.token_offsets]
    return [recording.token_ids[one:other].tolist() for one, other in pairwise(ends)]


def state_counts(work: StepWork | None) -> list[int]:
    assert work is not None
    return [getattr(work, name) for name in SLOT_STATES]


def served_alone(model: Path, schedule: Schedule) -> list[list[int]]:
    """Each request on a pipeline that holds nothing else at the time."""
    engine, prompt_of = engine_of(model), prompt_source(schedule, lazy=False)
    texts = []
    for row, tokens in enumerate(schedule.output_tokens.tolist()):
        texts.append(serve(engine, [Request(row, prompt_of(row), SamplingParams(tokens), 0)])[row])
    return texts


def played(model: Path, schedule: Schedule) -> Recording:
    """By the driver; steps are charged by wall time, because they compute on other threads, and idle time is free."""
    return play(schedule, engine_of(model), clock=ChargedClock(time.perf_counter_ns))


def poisson(requests: int, rate_rps: float) -> Schedule:
    rng = np.random.default_rng(3)
    due_ns = np.cumsum(rng.exponential(1e9 / rate_rps, requests)).astype(np.int64)
    outputs, prompts = rng.integers(1, 24, requests), rng.integers(4, 90, requests)
    return schedule_of(outputs.tolist(), due_ns.tolist(), prompts.tolist(), ignore_eos=True)


@pytest.mark.parametrize("schedule", [poisson(12, 1e9), poisson(24, 200.0)], ids=["burst", "poisson"])
def test_every_request_gets_all_its_tokens_and_the_same_as_alone(model: Path, schedule: Schedule) -> None:
    """Who else is in the batch changes neither how many tokens a request gets nor which."""
    recording = played(model, schedule)
    assert statuses(recording) == ["ok"] * len(schedule)
    assert set(column(recording, "finish_reason")) == {"length"}
    texts = texts_recorded(recording)
    assert [len(text) for text in texts] == schedule.output_tokens.tolist()
    assert texts == served_alone(model, schedule)


def test_six_equal_requests_leave_a_quarter_of_four_slots_unused(model: Path) -> None:
    """4 requests for 12 steps, then 2 for 12: 72 of 96 slot-steps."""
    recording = played(model, schedule_of([12] * 6))
    assert len(recording.steps["step"]) == 24 and recording.steps["told"].all()
    assert unused_slot_fraction(recording.steps) == 0.25


def test_a_step_prefills_those_who_join_and_stalls_the_rest_or_decodes_all(model: Path) -> None:
    """What each slot does, step by step: 4 join, one ends at once, the fifth joins, everybody goes on."""
    engine = engine_of(model)
    for request_id, max_tokens in enumerate((1, 3, 3, 3, 2)):
        engine.add_request(request_of(request_id, max_tokens, prompt_tokens=10 + request_id))
    first, second, third, *_ = steps_of(engine)
    assert first.admitted == [(0, 0), (1, 1), (2, 2), (3, 3)] and list(first.released) == list(first.ended) == [0]
    assert second.admitted == [(4, 0)] and [output.request_id for output in second.outputs] == [4]
    works = [step.work for step in (first, second, third)]
    assert [work and work.kind for work in works] == ["prefill", "prefill", "decode"]
    assert [state_counts(work) for work in works] == [[4, 0, 0, 0, 0, 0], [1, 0, 0, 3, 0, 0], [0, 4, 0, 0, 0, 0]]
    assert [work and work.prefill_tokens for work in works] == [46, 14, 0]
    assert [work and work.kv_tokens for work in works] == [46, 50, 54]
    assert [work and work.waiting_requests for work in works] == [1, 0, 0]


def test_an_aborted_request_gets_nothing_more_and_its_slot_is_empty_in_the_next_step(model: Path) -> None:
    """One that runs and one that waits are dropped; the others get the tokens that they get without them."""
    expected = {request_id: serve(engine_of(model), [request_of(request_id)])[request_id] for request_id in (0, 2, 4)}
    engine = engine_of(model)
    for request_id in range(6):
        engine.add_request(request_of(request_id))
    before = texts_of(steps_of(engine, most=2))
    engine.abort(1)
    engine.abort(5)
    engine.abort(77)
    following, *rest = steps_of(engine)
    assert state_counts(following.work) == [0, 3, 0, 0, 1, 0]
    after = texts_of([following, *rest])
    assert set(before) == {0, 1, 2, 3} and set(after) == {0, 2, 3, 4}
    assert {request_id: before.get(request_id, []) + after[request_id] for request_id in expected} == expected


def test_those_who_wait_survive_the_abort_of_all_who_run(model: Path) -> None:
    """The pipeline drops the waiting ones then; they are handed over anew and lose nothing."""
    expected = serve(engine_of(model), [request_of(4), request_of(5)])
    engine = engine_of(model)
    for request_id in range(6):
        engine.add_request(request_of(request_id))
    next(steps_of(engine))
    for request_id in range(4):
        engine.abort(request_id)
    assert texts_of(steps_of(engine)) == expected


def test_an_engine_emptied_by_aborts_serves_the_next_ones(model: Path) -> None:
    """As after a warm-up that ran out of time; ids may come again."""
    expected = serve(engine_of(model), [request_of(request_id) for request_id in range(5)])
    engine = engine_of(model)
    for request_id in range(5):
        engine.add_request(request_of(request_id, max_tokens=50))
    assert len(list(steps_of(engine, most=3))) == 3
    for request_id in range(5):
        engine.abort(request_id)
    assert not engine.has_work()
    assert serve(engine, [request_of(request_id) for request_id in range(5)]) == expected


def test_a_stop_token_ends_a_request_and_is_delivered(model: Path) -> None:
    """Even where the model's own end is ignored; the reason is told."""
    engine = engine_of(model)
    text = serve(engine, [request_of(0, 12)])[0]
    stop = text[4]
    engine.add_request(request_of(1, 12, stop_token_ids=(stop,)))
    engine.abort(1)
    engine.add_request(Request(2, request_of(0).prompt_token_ids, SamplingParams(12, stop_token_ids=(stop,)), 0))
    *_, last = steps = list(steps_of(engine))
    assert texts_of(steps)[2] == text[: text.index(stop) + 1]
    assert [(output.finished, output.finish_reason) for output in last.outputs] == [(True, "stop")]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (request_of(7, 3, 2_046), "request 7 needs 2049 tokens, the context holds 2048"),
        (request_of(7, 0), "request 7 needs at least one prompt and one output token"),
        (request_of(7, 3, 0), "request 7 needs at least one prompt and one output token"),
        (request_of(7, 3, 101), "request 7 has 101 prompt tokens, a step holds 100: write batch-tokens=N"),
        (request_of(600, 3), "request 600 has token id 607, the model's vocabulary ends before 512"),
        (request_of(7, 3, temperature=0.5), "request 7 wants temperature 0.5: this engine is greedy, temperature 0"),
    ],
    ids=["context", "no output", "no prompt", "batch", "vocabulary", "temperature"],
)
def test_what_can_never_be_served_is_refused_in_one_line(model: Path, request_: Request, reason: str) -> None:
    """In place of a failure in some later step, or of garbage."""
    engine = engine_of(model, ",batch-tokens=100")
    with pytest.raises(ValueError, match=f"^{reason}$"):
        engine.add_request(request_)
    assert not engine.has_work()


def test_it_describes_itself_in_json_without_the_model_s_place(model: Path) -> None:
    """Name and hash of the model, not where it lies."""
    told = json.loads(json.dumps(dict(engine_of(model).describe())))
    assert told["slots"] == SLOTS and told["threads"] == 1 and told["cost_source"] == "wall" and told["aborts"]
    assert (told["context_tokens"], told["vocabulary"]) == (CONTEXT_TOKENS, VOCABULARY)
    assert told["model"] == model.name and str(model.parent) not in json.dumps(told)
    assert len(told["weights_sha256"]) == 64 and told["reads_prompts"] and told["computes_tokens"]
    assert told["options"]["dynamic_split_fuse"] is False


def test_slots_and_work_are_not_told_when_prompts_and_decodes_are_mixed(model: Path) -> None:
    """The pipeline then ignores its limit of sequences."""
    engine = engine_of(model, ",split-fuse=true")
    assert engine.describe()["slots"] is None
    engine.add_request(request_of(0))
    steps = list(steps_of(engine))
    assert len(texts_of(steps)[0]) == 6
    assert all(step.work is None and not step.admitted and not step.released for step in steps)


def test_work_is_not_told_while_somebody_is_preempted(tmp_path: Path) -> None:
    """From the step that leaves a running request out up to the next that serves all."""
    engine = engine_of(empty_model(tmp_path, starved={3: [2], 4: [2], 5: [2]}))
    for request_id in range(3):
        engine.add_request(request_of(request_id, 8))
    assert all(step.work is not None for step in steps_of(engine, most=2))
    assert [step.work for step in steps_of(engine, most=2)] == [None, None]
    engine.add_request(request_of(3, 8))
    assert [step.work for step in steps_of(engine, most=1)] == [None]
    assert all(step.work is not None for step in steps_of(engine))


def test_a_request_that_the_pipeline_drops_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """Its cache is full: nothing of this is passed over in silence."""
    engine = engine_of(empty_model(tmp_path, starved={2: [0]}))
    engine.add_request(request_of(0))
    next(steps_of(engine))
    with pytest.raises(RuntimeError, match=r"dropped request 0 after 1 tokens: a KV cache of 1 GiB .* cache-gib=N"):
        next(steps_of(engine))


@pytest.mark.parametrize("missing", ["openvino_genai", "openvino"])
def test_a_missing_package_is_one_line_with_the_command(missing: str) -> None:
    """Whichever of the two it is."""

    def load(name: str) -> object:
        if name == missing:
            raise ImportError(f"No module named {name!r}")
        return object()

    said = rf"^this engine needs OpenVINO GenAI: pip install openvino-genai \(No module named '{missing}'\)$"
    with pytest.raises(ValueError, match=said):
        packages(load)


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    """A folder, a file in it, a GGUF file, or the option itself."""
    for model, missing in ((tmp_path / "no", "openvino_model.xml"), (tmp_path, "openvino_model.xml"),
                           (tmp_path / "m.gguf", "m.gguf")):  # fmt: skip
        with pytest.raises(ValueError, match=rf"^model=.* is no model: there is no file {missing} in '.*'$"):
            engine_of(model)
    with pytest.raises(ValueError, match=r"^which model"):
        make_engine("targets.openvino:OpenVinoEngine", "real", schedule_of([1]))


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    """The pipeline's own reason, without its stack."""
    pytest.importorskip("openvino_genai", reason="pip install openvino-genai")
    with pytest.raises(ValueError, match=r"^OpenVINO GenAI cannot load model '.*': [^\n]+$"):
        engine_of(empty_model(tmp_path))
