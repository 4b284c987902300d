"""`tokenload capacity` and `tokenload ab`: what they print and what their exit codes say."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.cli.capacity_view import answer_lines

MODELLED = ("--clock", "modelled", "--requests", "100")


def tokenload(*words: str | Path) -> Result:
    """The command."""
    return CliRunner().invoke(main, [*map(str, words)])


def test_a_capacity_is_printed_with_what_it_rests_on(tmp_path: Path) -> None:
    """Every rate, the interval, seeds, label, confirmation and the folder; exit code 0 or 6 as it was confirmed."""
    words = ("--engine", "one-by-one", "--slo", "ttft<=300ms", "--repeats", "1", "--start", "6", "--out", tmp_path)
    result = tokenload("capacity", *MODELLED, *words)
    (folder,) = tmp_path.iterdir()
    document = json.loads((folder / "capacity.json").read_text())
    assert result.exit_code == (0 if document["confirmation"]["passed"] else 6), result.output
    for word in ("Rates that were tried", "capacity ", "EXPLORATORY", "onfirmed" if not result.exit_code else "NOT"):
        assert word in result.stdout
    assert result.stdout.splitlines()[-1] == str(folder)
    again = tokenload("capacity", "--resume", folder, "--json")
    assert json.loads(again.stdout)["capacity"] == document["capacity"]


def test_no_capacity_is_exit_code_6(tmp_path: Path) -> None:
    """With the reason."""
    words = ("--engine", "one-by-one", "--slo", "ttft<=1ms", "--repeats", "1", "--start", "2", "--out", tmp_path)
    result = tokenload("capacity", *MODELLED, *words)
    assert result.exit_code == 6
    assert "served alone" in result.stdout


def test_ab_prints_the_comparison_and_gates_decide(tmp_path: Path) -> None:
    """The difference of each request is drawn; a missed gate is exit code 4."""
    words = ("--a", "continuous", "--b", "one-by-one", "--rate", "10", "--pairs", "3", "--out", tmp_path)
    result = tokenload("ab", *MODELLED, *words, "--fail-on", "ttft_p50>+10%", "--junit", tmp_path / "j.xml")
    assert result.exit_code == 4, result.output
    for word in ("B: one-by-one against A: continuous", "per request, TTFT of B - A", "MISSED: ttft_p50>+10%"):
        assert word in result.stdout
    assert (tmp_path / "j.xml").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("capacity", "--concurrency", "4"), "no rate to search"),
        (("capacity", "--attainment", "0.9"), "--attainment"),
        (("capacity", "--arrival", "burst"), "burst has no rate"),
        (("capacity", "--resume", "nowhere"), "nowhere"),
        (("ab", "--a", "static", "--rate", "4"), "--b SPEC"),
        (("ab", "--a", "static", "--b", "one-by-one", *MODELLED), "--rate"),
        (("ab", "--a", "x", "--b", "y", "--fail-on", "nothing"), "nothing"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str) -> None:
    """Exit code 2 and the value or the remedy."""
    result = tokenload(*words)
    assert result.exit_code == 2, result.output
    assert says in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_a_confirmation_that_could_not_be_measured_is_no_refutation() -> None:
    """The line says what the run was, and that it says nothing of the load; a plain failure has no such words."""
    found = {"value": 8.0, "low": None, "high": None, "per_seed_rps": [8.0]}
    sure = {"rate_rps": 8.0, "seed": 9, "requests": 200, "passed": False}
    for more, told in (
        ({"text": "INVALID: CLIENT_LATE", "worthless": ["CLIENT_LATE"]}, True),
        ({"text": "attainment 80 %, STABLE", "worthless": []}, False),
    ):
        document = {"capacity": found, "confirmation": {**sure, **more}, "label": "", "unstable": False}
        lines = list(answer_lines({**document, "not_monotone": [], "worthless": more["worthless"]}))
        (line,) = [one for one in lines if one.startswith("NOT CONFIRMED at")]
        assert str(more["text"]) in line and ("says nothing of the load" in line) is told
