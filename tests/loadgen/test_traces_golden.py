"""Public traces, read where TOKENLOAD_TRACES names the folder that holds them; skipped, visibly, elsewhere."""

import os
from pathlib import Path

import pytest

from loadgen.option import parse_context
from loadgen.traces.catalog import read_trace
from loadgen.traces.neutral import write_neutral
from loadgen.traces.replay import Replay, replay
from loadgen.traces.rows import Trace
from loadgen.units import parse_span_ns

FOLDER = os.environ.get("TOKENLOAD_TRACES")
pytestmark = pytest.mark.skipif(not FOLDER, reason="TOKENLOAD_TRACES names no folder with the public traces")
CONV = "azure-llm-2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure-llm-2023/AzureLLMInferenceTrace_code.csv"


def public(name: str, time_unit: str | None = None) -> Trace:
    path = Path(FOLDER or "") / name
    if not path.exists():
        pytest.skip(f"{name} is not in the folder of public traces")
    return read_trace(path, time_unit=time_unit)


def test_azure_conv_is_exact() -> None:
    """Rows, origin, last time and token sums are those of the published file."""
    trace = public(CONV)
    assert trace.header["format"] == "azure-llm"
    assert len(trace) == 19_366
    assert trace.header["time"]["origin_ns"] == 1_700_158_546_680_590_000
    assert int(trace.at_ns[-1]) == 3_501_721_937_000
    assert int(trace.prompt_tokens.sum()) == 22_361_870
    assert int(trace.output_tokens.sum()) == 4_088_665
    counts = trace.header["rows"]
    assert [counts[name] for name in ("failed", "zero_in", "zero_out", "ties", "backward")] == [0] * 5
    assert trace.header["warnings"] == []


@pytest.mark.parametrize(("name", "rows", "cv", "dispersion"), [(CONV, 19_366, 1.09, 1.4), (CODE, 8_819, 13.15, 13.2)])
def test_azure_arrivals_are_as_uneven_as_published(name: str, rows: int, cv: float, dispersion: float) -> None:
    """Gap CV and dispersion per second of both traces are those computed apart from this code."""
    schedule = replay(public(name), Replay(), {})
    assert len(schedule) == rows
    assert schedule.origin["steps"][0]["cv"] == pytest.approx(cv, abs=0.005)
    assert schedule.origin["steps"][0]["dispersion"] == pytest.approx(dispersion, abs=0.05)


def test_over_half_of_conv_does_not_fit_1024_tokens() -> None:
    """The default policy refuses, with the share."""
    with pytest.raises(ValueError, match=r"^58\.0% of the rows \(11,232 of 19,366\) do not fit"):
        replay(public(CONV), Replay(context_tokens=1024), {})


def test_ten_minutes_of_conv_at_one_request_a_second() -> None:
    """A window, a limit, a context and a rate together: 200 requests in 200 s, all of which fit."""
    tokens, policy = parse_context("1024:clip-prompt")
    options = Replay(
        window_ns=parse_span_ns("25m..35m"), limit=200, context_tokens=tokens, context_policy=policy, rate_rps=1
    )
    schedule = replay(public(CONV), options, {})
    assert len(schedule) == 200
    assert int((schedule.prompt_tokens + schedule.output_tokens).max()) <= 1024
    assert schedule.origin["rate_rps"] == 1.0
    assert schedule.origin["window"] == {"kind": "trace", "end_ns": 200 * 10**9}
    steps = {entry["step"]: entry for entry in schedule.origin["steps"]}
    assert list(steps) == ["select", "window", "limit", "context", "time", "origin"]
    assert steps["window"]["rows_out"] == 4_468
    assert steps["time"]["cv"] == pytest.approx(steps["context"]["cv"])


def test_conv_survives_the_neutral_format(tmp_path: Path) -> None:
    """Saved and read back, the replayed trace is the same schedule, and names the file it came from."""
    schedule = replay(public(CONV), Replay(), {})
    write_neutral(schedule, tmp_path / "conv.jsonl.gz")
    trace = read_trace(tmp_path / "conv.jsonl.gz")
    assert replay(trace, Replay(), {}).sha256 == schedule.sha256
    assert trace.header["declared"]["source"]["file"] == "AzureLLMInferenceTrace_conv.csv"


@pytest.mark.parametrize("name", ["code", "conv"])
def test_azure_2024_is_the_same_format(name: str) -> None:
    """The published rows of the week of 2024 are recognised and read."""
    trace = public(f"azure-llm-2024-excerpt/{name}_1week.head.csv")
    assert trace.header["format"] == "azure-llm"
    assert len(trace) == 5
    assert trace.header["time"]["tz"] == "+00:00"


@pytest.mark.parametrize(
    ("name", "unit", "rows", "last_ns", "prompt", "output"),
    [
        ("mooncake/conversation_trace.jsonl", "ms", 12_031, 3_536_999_000_000, 144_793_823, 4_122_048),
        ("vidur/splitwise_conv.csv", "s", 19_366, 3_501_721_937_000, 22_361_870, 4_088_665),
    ],
)
def test_other_traces_are_read_as_plain_files(
    name: str, unit: str, rows: int, last_ns: int, prompt: int, output: int
) -> None:
    """CSV and JSON Lines of others need a unit and no columns, and give the published sums."""
    trace = public(name, unit)
    assert (len(trace), int(trace.at_ns[-1])) == (rows, last_ns)
    assert (int(trace.prompt_tokens.sum()), int(trace.output_tokens.sum())) == (prompt, output)
