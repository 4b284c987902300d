"""A list of rates: stages one after the other, each as it would be alone, in a run that its own config repeats."""

from pathlib import Path

import pytest

from loadgen.config import from_texts
from loadgen.locust.stages import GAP_NS, staged
from loadgen.workload import build_schedule

TARGET = {"target": "http://127.0.0.1:1", "same-bytes": "true"}


def test_each_stage_is_what_it_would_be_alone(tmp_path: Path) -> None:
    """Gaps, lengths and counts of each rate's own schedule, after a pause; its class is named by the rate."""
    texts = {**TARGET, "rate": "4, 8", "requests": "20", "out": str(tmp_path)}
    whole = build_schedule(from_texts(staged(texts)))
    assert whole.class_names == ("rate=4", "rate=8")
    begin_ns = 0
    for index, rate in enumerate(("4", "8")):
        alone = build_schedule(from_texts({**texts, "rate": rate}))
        rows = whole.request_class == index
        assert (whole.due_ns[rows] - begin_ns == alone.due_ns).all()
        assert (whole.output_tokens[rows] == alone.output_tokens).all()
        begin_ns = int(alone.due_ns[-1]) + GAP_NS


def test_a_duration_is_that_of_each_stage(tmp_path: Path) -> None:
    """The next begins a pause after the whole of it, wherever its last request was due."""
    texts = {**TARGET, "rate": "4,8", "duration": "5s", "out": str(tmp_path)}
    whole = build_schedule(from_texts(staged(texts)))
    second = whole.due_ns[whole.request_class == 1]
    assert int(second[0]) >= 5_000_000_000 + GAP_NS and int(second[-1]) < 10_000_000_000 + GAP_NS


def test_one_rate_is_left_alone(tmp_path: Path) -> None:
    """No list, no trace."""
    texts = {**TARGET, "rate": "4"}
    assert staged(texts) == texts


@pytest.mark.parametrize(
    ("texts", "told"),
    [({"rate": "4,4"}, "twice"), ({"rate": "4,x"}, "--rate: 'x'"), ({"rate": "4,8", "trace": "t.csv"}, "--trace")],
)
def test_a_list_that_cannot_be_is_told(tmp_path: Path, texts: dict[str, str], told: str) -> None:
    """In a line that names the value."""
    with pytest.raises(ValueError, match=told):
        staged({**TARGET, "requests": "5", "out": str(tmp_path), **texts})
