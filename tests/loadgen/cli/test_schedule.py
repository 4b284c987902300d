"""`tokenload schedule`: make one, show it, save it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.config import from_texts
from loadgen.workload import build_schedule


def schedule(*words: str) -> Result:
    """The command, which must succeed."""
    result = CliRunner().invoke(main, ["schedule", *words])
    assert result.exit_code == 0, result.output
    return result


def test_a_schedule_is_shown_in_figures() -> None:
    """Requests, rate, spread, lengths, hash and a histogram, on stdout."""
    text = schedule("--rate", "8", "--requests", "1000").stdout
    made = build_schedule(from_texts({"rate": "8", "requests": "1000"}))
    for word in ("1000 requests", "poisson", "8 req/s", "gap_cv", "dispersion_1s", "lag1_correlation", made.sha256):
        assert word in text
    assert any(bar in text for bar in "▁▂▃▄▅▆▇█")


def test_json_is_the_figures_alone() -> None:
    """--json: one document with the schedule's hash, nothing else on stdout."""
    document = json.loads(schedule("--rate", "8", "--json").stdout)
    assert document["sha256"] == build_schedule(from_texts({"rate": "8"})).sha256
    assert document["requests"] == 200
    assert document["offered_rps"] == 8


def nulls(document: Any, path: str = "") -> Iterator[str]:
    """Where a null stands without a reason beside it."""
    if isinstance(document, dict):
        for name, value in document.items():
            if value is None and not document.get("reasons", {}).get(name):
                yield f"{path}.{name}"
            yield from nulls(value, f"{path}.{name}")


def test_every_null_of_the_figures_has_a_reason() -> None:
    """Undefined is null with a reason beside it, in this document as in every other."""
    document = json.loads(schedule("--arrival", "burst", "--requests", "5", "--json").stdout)
    del document["origin"]
    assert list(nulls(document)) == []


def test_a_saved_schedule_is_replayed_as_it_was(tmp_path: Path) -> None:
    """--save writes what --trace reads: the same times and lengths come back, followers included."""
    for number, words in enumerate((("--rate", "8"), ("--arrival", "closed", "--users", "3", "--think", "1s"))):
        rows = 40 + 3 * number  # one a user comes before the measured ones
        for suffix in ("jsonl", "jsonl.gz"):
            path = tmp_path / f"{number}.{suffix}"
            first = json.loads(schedule(*words, "--requests", "40", "--save", str(path), "--json").stdout)
            again = json.loads(schedule("--trace", str(path), "--json").stdout)
            assert again["requests"] == first["requests"] == rows
            for name in ("waiting_for_others", "prompt_tokens", "output_tokens", "sha256"):
                assert again[name] == first[name]


def test_a_saved_schedule_can_be_run(tmp_path: Path) -> None:
    """What was saved is what a run plays: the same shape."""
    path = tmp_path / "saved.jsonl"
    schedule("--rate", "8", "--requests", "10", "--save", str(path))
    result = CliRunner().invoke(
        main, ["run", "--trace", str(path), "--clock", "modelled", "--out", str(tmp_path / "runs"), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["requests"]["by_status"] == {"ok": 10}


def test_a_schedule_is_made_from_a_saved_run(tmp_path: Path) -> None:
    """--config RUN_FOLDER shows the schedule of that run; options of the engine in it do no harm."""
    words = ["--rate", "9", "--seed", "3", "--requests", "20"]
    CliRunner().invoke(main, ["run", "--clock", "modelled", "--out", str(tmp_path), "--engine", "naive", *words])
    (folder,) = tmp_path.iterdir()
    shown = json.loads(schedule("--config", str(folder), "--json").stdout)
    assert shown["sha256"] == json.loads((folder / "run.json").read_text())["schedule_sha256"]


def test_every_kind_of_schedule_can_be_shown() -> None:
    """Bursts, closed loops and single requests print too, whatever cannot be computed of them."""
    for line in (
        "--arrival burst",
        "--arrival closed --users 2",
        "--rate 1 --requests 1",
        "--preset seed1 --rate 2",
        "--arrival constant --rate 2 --duration 3s",
    ):
        words = line.split()
        assert "sha256" in schedule(*words).stdout
        json.loads(schedule(*words, "--json").stdout)
