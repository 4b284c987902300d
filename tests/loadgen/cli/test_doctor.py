"""`tokenload doctor` from its command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli.doctor import doctor
from loadgen.doctor import CHECKS
from results.verdicts.thresholds import Thresholds


@pytest.mark.realtime
def test_json_is_one_document_with_every_check(tmp_path: Path) -> None:
    """The exit code is 3 for invalid and 0 for everything else."""
    done = CliRunner().invoke(doctor, ["--json", "--out", str(tmp_path / "runs")])
    document = json.loads(done.stdout)
    assert [finding["name"] for finding in document["findings"]] == list(CHECKS)
    levels = [finding["level"] for finding in document["findings"]]
    assert document["verdict"] == max(levels, key=("ok", "warn", "invalid").index)
    assert done.exit_code == (3 if document["verdict"] == "invalid" else 0)


@pytest.mark.realtime
def test_a_folder_that_cannot_be_written_ends_with_3(tmp_path: Path) -> None:
    """The table on stdout names the check, says how to mend it, and the last line says what follows."""
    (tmp_path / "runs").write_text("")
    done = CliRunner().invoke(doctor, ["--out", str(tmp_path / "runs")])
    assert done.exit_code == 3
    line = next(line for line in done.stdout.splitlines() if "runs folder" in line)
    assert line.startswith("invalid")
    assert "give another folder" in line
    assert "INVALID" in done.stdout.splitlines()[-1]


def test_every_line_of_the_verdict_can_be_looked_up() -> None:
    """A row a threshold, in text and as JSON: what --threshold calls it, its default, and what lies beyond it."""
    text, document = (CliRunner().invoke(doctor, ["--thresholds", *more]).stdout for more in ([], ["--json"]))
    told = json.loads(document)["thresholds"]
    assert {row["name"]: row["default"] for row in told} == Thresholds().to_json()
    assert [line.split()[0] for line in text.splitlines()] == [row["name"] for row in told]
    assert "lag_p99_ns                      5,000,000 ns: CLIENT_LATE: 99 % of hand-overs later than this" in text
    assert all(row["unit"] and row["meaning"] for row in told)


def test_help_names_the_exit_codes_and_imports_nothing_heavy() -> None:
    """The module of the command loads neither numpy nor rich before it is used."""
    code = (
        "import sys; from click.testing import CliRunner; from loadgen.cli.doctor import doctor\n"
        "done = CliRunner().invoke(doctor, ['--help']); assert done.exit_code == 0 and 'Exit code 0' in done.output\n"
        "assert not {'numpy', 'torch', 'rich', 'results.stamp'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
