"""The table that a sweep shows."""

from typing import Any

import pytest

from loadgen.cli.sweep_view import print_sweep


def point(engine: str, ttft_ms: float, **of_this_run: float) -> dict[str, Any]:
    """One that was measured, with figures that are as long as such figures become."""
    ttft = {"p50": None if of_this_run else ttft_ms, "p95": ttft_ms, "of_this_run": of_this_run}
    summary = {
        "ttft_ms": ttft,
        "tpot_ms": {"p50": 12.345},
        "itl_ms": {"p99": 12345.6},
        "rates": {"output_tokens_per_s": 123456.7},
        "slo": {"goodput_rps": 0.001234},
        "slots": {"wasted_slot_fraction": 0.01234, "unused_slot_fraction": 0.8765, "padding_fraction": 0.001234},
    }
    verdict = {"valid": False, "invalid": [], "warnings": []}
    return {"engine": engine, "load": "closed:100", "repeat": 0, "verdict": verdict, "summary": summary}


@pytest.mark.parametrize("engine", ["static", "static,batch=8,wait=full,max-wait=50ms,return=end,executor=cost"])
def test_no_figure_is_cut_short(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """81578315 with its last digits left out would be another number: a line becomes longer instead."""
    print_sweep([point(engine, 8157831.5), point(engine, 1.0, p50=8157831.5)])
    lines = capsys.readouterr().out.splitlines()
    first, second = lines[-2:]
    figures = ["12.35", "12345.6", "123456.7", "0.001234", "0.01234", "0.8765", "0.001234", "INVALID"]
    assert first.split() == [engine, "closed:100", "0", "8157831.5", "8157831.5", *figures]
    assert second.split() == [engine, "closed:100", "0", "[8157831.5]", "1", *figures]
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)


def test_a_sweep_without_a_point_is_a_heading(capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped before the first one was complete."""
    print_sweep([])
    assert "verdict" in capsys.readouterr().out
