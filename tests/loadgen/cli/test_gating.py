"""--fail-on of `run` and `sweep`: absolute gates, which fail closed."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from loadgen.cli import main
from loadgen.cli.exit_codes import Exit, exit_code

SUMMARY = {"requests": {"failed": 0, "completed": 5}}
FAILED = {"requests": {"failed": 5, "completed": 0}}
VALID, INVALID = {"valid": True}, {"valid": False}
MISSED = [{"passed": True}, {"passed": False}]


def tokenload(*words: str | Path) -> Result:
    """The command."""
    return CliRunner().invoke(main, [*map(str, words)])


def run(out: Path, gates: str, *words: str | Path, requests: int = 120) -> Result:
    """A run in modelled time."""
    given = ("--clock", "modelled", "--rate", "8", "--requests", str(requests), "--out", out, "--fail-on", gates)
    return tokenload("run", *given, *words)


@pytest.mark.parametrize(
    ("gates", "requests", "code"),
    [
        ("ttft_p99>10s", 120, 0),
        ("ttft_p99>1us", 120, 4),
        ("ttft_p99>10s,attainment<100%,failed>0%", 120, 0),
        ("ttft_p99>10s", 99, 4),
        ("queue_wait_p99<0.001ns,goodput<1000000", 120, 4),
    ],
)
def test_gates_decide_the_exit_code_of_a_run(tmp_path: Path, gates: str, requests: int, code: int) -> None:
    """4 when one is missed, also when too few requests leave it unknown; the report is written all the same."""
    result = run(tmp_path, gates, requests=requests)
    assert result.exit_code == code, result.output
    assert ("MISSED" in result.stderr) is (code == 4)
    assert len(list(tmp_path.glob("*/report.html"))) == 1


def test_the_document_and_junit_have_the_gates(tmp_path: Path) -> None:
    """--json stays one document on stdout; JUnit has a test a gate."""
    result = run(tmp_path / "runs", "ttft_p99>1us,e2e_p50>10s", "--json", "--junit", tmp_path / "j.xml")
    document = json.loads(result.stdout)
    assert [gate["passed"] for gate in document["gates"]] == [False, True]
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_a_junit_file_without_a_gate_is_refused(tmp_path: Path) -> None:
    """It would not be written, and a CI system would wait for it: told before anything runs."""
    for command in (("run", "--rate", "8"), ("sweep", "--rates", "8")):
        words = ("--clock", "modelled", "--out", tmp_path / "runs", "--junit", tmp_path / "j.xml")
        result = tokenload(*command, *words)
        assert result.exit_code == 2
        assert "--fail-on" in result.stderr and len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_run_passes_no_gate(tmp_path: Path) -> None:
    """Exit code 3, and the gate says why it is missed."""
    result = run(tmp_path, "failed>99%", "--timeout", "100ms")
    assert result.exit_code == 3
    assert "MISSED: failed>99%: INVALID: FAILURES" in result.stderr


def test_a_sweep_judges_each_engine_at_each_load_over_its_repeats(tmp_path: Path) -> None:
    """Two engines, one load, two repeats, one gate: two results, each on the mean of two runs."""
    given = ("--engine", "one-by-one", "--engine", "continuous", "--rates", "8", "--repeats", "2")
    base = ("--clock", "modelled", "--requests", "120", "--out", tmp_path, "--fail-on", "ttft_p50>20ms", "--json")
    result = tokenload("sweep", *base, *given)
    assert result.exit_code == 4, result.output
    gates = {gate["at"]: gate for gate in json.loads(result.stdout)["gates"]}
    assert {at: gate["passed"] for at, gate in gates.items()} == {"one-by-one at 8": False, "continuous at 8": True}
    assert all("mean of 2 runs" in gate["text"] for gate in gates.values())


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize(("gate", "says"), [("ttft_p99>+10%", "tokenload compare"), ("ttft>1", "not a gate|no figure")])
def test_gates_that_cannot_be_are_refused_before_anything_runs(
    tmp_path: Path, command: str, gate: str, says: str
) -> None:
    """A change needs a baseline; a gate that cannot be read is named."""
    rate = ("--rate", "4") if command == "run" else ()
    result = tokenload(command, "--clock", "modelled", *rate, "--out", tmp_path, "--fail-on", gate)
    assert result.exit_code == 2
    assert gate in result.stderr
    assert any(word in result.stderr for word in says.split("|"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("summaries", "verdicts", "stopped", "gates", "code"),
    [
        ([SUMMARY], [VALID], False, MISSED, Exit.GATE_MISSED),
        ([SUMMARY], [VALID], False, MISSED[:1], Exit.OK),
        ([SUMMARY], [INVALID], False, MISSED, Exit.INVALID),
        ([FAILED], [INVALID], False, MISSED, Exit.ALL_FAILED),
        ([SUMMARY], [VALID], True, MISSED, Exit.INTERRUPTED),
        ([FAILED, FAILED], [VALID, VALID], False, MISSED, Exit.GATE_MISSED),
        ([FAILED, FAILED], [VALID, INVALID], False, MISSED, Exit.INVALID),
        ([FAILED, FAILED], [VALID, VALID], False, [], Exit.ALL_FAILED),
    ],
)
def test_which_exit_code_comes_first(
    summaries: list[dict[str, object]], verdicts: list[dict[str, bool]], stopped: bool, gates: list[dict[str, bool]],
    code: Exit,
) -> None:  # fmt: skip
    """Interrupted; of a sweep INVALID before gates before failures; of a run failures before INVALID before gates."""
    assert exit_code(summaries, verdicts, stopped, gates) == code
