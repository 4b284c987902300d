"""Real servers: no failure, tokens as the servers count them, and their slots from their own metrics."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.loadgen.served import tokenload
from tests.realservers.servers import llamacpp, transformers, vllm

pytestmark = pytest.mark.realtime
SHORT = ("--prompt-tokens", "8:16", "--output-tokens", "8:12", "--no-calibrate", "--warmup-requests", "1")


def run(out: Path, url: str, *words: str) -> dict[str, Any]:
    """A run's JSON document; the machine may be too busy for it to be valid."""
    command = tokenload("run", "--target", f"{url}/v1", "--out", str(out), "--json", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 3), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows_of(found: dict[str, Any]) -> pd.DataFrame:
    """The requests table."""
    return pd.read_parquet(Path(found["folder"]) / "requests.parquet")


def assert_all_ok(found: dict[str, Any], requests: int) -> None:
    """Every request ended as it should, with the tokens that it asked for and that the server counted."""
    rows = rows_of(found)
    assert found["requests"]["by_status"] == {"ok": requests}, rows.error.dropna().tolist()
    assert (rows.told_output_tokens == rows.output_tokens_asked).all()
    assert (rows.output_tokens == rows.told_output_tokens).all()
    assert found["ttft_ms"]["p50"] > 0


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    """llama.cpp with 4 slots."""
    with llamacpp(4) as url:
        yield url


@pytest.mark.parametrize("api", ["openai-chat", "openai-completions", "llamacpp"])
def test_llamacpp_by_each_of_its_apis(llama: str, tmp_path: Path, api: str) -> None:
    """An open loop: no failure, token counts equal to the server's."""
    assert_all_ok(run(tmp_path, llama, "--rate", "2", "--requests", "4", "--api", api, *SHORT), 4)


def test_llamacpp_one_user_on_four_slots(llama: str, tmp_path: Path) -> None:
    """One request at a time leaves three of four slots unused, by the server's own counters."""
    found = run(tmp_path, llama, "--concurrency", "1", "--requests", "4", *SHORT[:-1], "0")
    assert_all_ok(found, 4)
    assert found["server"]["slots"] == 4
    assert found["server"]["unused_slot_fraction"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--concurrency", "1"), ("--concurrency", "8"), ("--rate", "1")])
def test_vllm(tmp_path: Path, words: tuple[str, ...]) -> None:
    """vLLM on the CPU with 4 sequences: no failure, usage equal; alone it leaves three quarters unused."""
    with vllm(4) as url:
        found = run(tmp_path, url, *words, "--requests", "16", "--slots", "4", *SHORT)
    assert_all_ok(found, 16)
    if words == ("--concurrency", "1"):
        assert found["server"]["unused_slot_fraction"] == pytest.approx(0.75, abs=0.03)


@pytest.mark.slow
def test_transformers_in_both_modes(tmp_path: Path) -> None:
    """One by one against continuous batching, same model and wire: the second carries more, and starts sooner."""
    words = ("--concurrency", "4", "--requests", "16", "--eos", "stop", "--output-tokens", "16",
             "--prompt-tokens", "16", "--warmup-requests", "1", "--no-calibrate")  # fmt: skip
    found = {}
    for continuous in (False, True):
        with transformers(continuous) as url:
            found[continuous] = run(tmp_path, url, *words)
        rows = rows_of(found[continuous])
        assert set(found[continuous]["requests"]["by_status"]) == {"ok"}, rows.error.dropna().tolist()
        assert (rows.output_tokens == rows.told_output_tokens).all()
    assert found[True]["ttft_ms"]["p50"] < found[False]["ttft_ms"]["p50"]
    rates = {mode: one["rates"]["makespan_output_tokens_per_s"] for mode, one in found.items()}
    assert rates[True] > 1.3 * rates[False]
