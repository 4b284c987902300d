"""What is counted, and when; and how it is written for Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engines.engine import Request, SamplingParams, Step, StepOutput
from engines.policies import static
from results.slots import StepWork
from targets.serve.exposition import Exposition
from targets.serve.tally import Counts, Tally
from tests.engines.playing import engine_of


def work(kind: str = "decode", decoding: int = 1, prefilling: int = 0, prompt_tokens: int = 0) -> StepWork:
    """A step's work on two slots."""
    return StepWork(kind, prefilling, decoding, 0, 0, 0, 2 - decoding - prefilling, 0, prompt_tokens, 0, 7)


def test_tokens_count_when_they_are_computed() -> None:
    """Also where they are handed back later: a server's counter moves with its steps."""
    engine, tally = engine_of(static(2, return_="end")), Tally()
    for request_id in range(2):
        engine.add_request(Request(request_id, [1, 2], SamplingParams(3), 0))
        tally.entered(request_id, 2)
    seen = []
    while engine.has_work():
        tally.stepped(engine.step(0))
        counts = tally.snapshot()
        seen.append((counts.generated_tokens, counts.running_requests, counts.finished_requests["length"]))
    assert seen == [(2, 2, 0), (4, 2, 0), (6, 0, 2)]


def test_a_request_waits_runs_and_leaves() -> None:
    """It runs from its admission, or from its first token where no admission is told; its prompt counts from then."""
    tally = Tally()
    tally.entered(0, 5)
    tally.entered(1, 6)
    tally.stepped(Step([], admitted=[(0, 0)], work=work("prefill", 0, 1, 5)))
    assert _queue(tally.snapshot()) == (1, 1, 5)
    tally.stepped(Step([StepOutput(1, [7])], work=None))
    assert _queue(tally.snapshot()) == (0, 2, 11)
    tally.left(0, "abort")
    tally.stepped(Step([StepOutput(1, [7], True, "stop")], work=work()))
    counts = tally.snapshot()
    assert _queue(counts) == (0, 0, 11)
    assert counts.finished_requests == {"stop": 1, "length": 0, "abort": 1, "error": 0}
    assert not tally.holds(0)
    assert tally.open_ids() == []


def _queue(counts: Counts) -> tuple[int, int, int]:
    return counts.waiting_requests, counts.running_requests, counts.prompt_tokens


def test_a_snapshot_does_not_change() -> None:
    """What has been read stays as it was."""
    tally = Tally()
    before = tally.snapshot()
    tally.stepped(Step([], work=work()))
    assert (before.steps, before.slot_steps, dict(before.step_tokens)) == (0, None, {})


@pytest.mark.parametrize(
    ("tokens", "below"), [(1, "1.0"), (2, "2.0"), (3, "4.0"), (16_384, "16384.0"), (16_385, "+Inf")]
)
def test_a_step_falls_into_the_bucket_of_its_tokens(tokens: int, below: str) -> None:
    """Upper bounds belong to their bucket; buckets add up; sum and count are exact."""
    tally = Tally()
    tally.stepped(Step([], work=work("prefill", 0, 1, tokens)))
    page = Exposition(tally, "m", 2, None).text().decode()
    samples = [
        sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("vllm:iteration_tokens_total")
    ]
    buckets = {sample.labels["le"]: sample.value for sample in samples if sample.name.endswith("_bucket")}
    assert next(bound for bound, count in buckets.items() if count) == below
    assert buckets["+Inf"] == 1
    assert [sample.value for sample in samples if sample.name.endswith("_sum")] == [tokens]
    assert [sample.value for sample in samples if sample.name.endswith("_count")] == [1]


def test_a_name_cannot_break_the_page() -> None:
    """Quotes and backslashes of a served model's name are escaped."""
    page = Exposition(Tally(), 'a"b\\c', 2, None).text().decode()
    names = {
        sample.labels["model_name"]
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "model_name" in sample.labels
    }
    assert names == {'a"b\\c'}
