"""`tokenload roofline`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import main
from loadgen.cli.exit_codes import Exit


def test_without_options_the_figures_of_the_text_stand_beside_ours(tmp_path: Path) -> None:
    """One JSON document and a page that needs no network."""
    page = tmp_path / "pages" / "roofline.html"
    done = CliRunner().invoke(main, ["roofline", "--out", str(page), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    figures = {one["figure"]: one for one in found["figures"]}
    assert figures["throughput there"]["round_weights"] == pytest.approx(19_628, rel=1e-3)
    assert found["curves"]["caches read"][-1]["rows"] == 404
    assert found["cost_model"]["hardware"] == "h100-sxm"
    text = page.read_text()
    assert "19628" in text and "sequences in the batch" in text and '<script src="http' not in text


def test_another_machine_has_curves_and_no_text(tmp_path: Path) -> None:
    """The text speaks of one machine only."""
    page = tmp_path / "roofline.html"
    words = ["--hardware", "b200", "--model", "llama-3.1-70b", "--kv-cache", "8GB", "--context", "512"]
    done = CliRunner().invoke(main, ["roofline", *words, "--out", str(page)])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(page)
    assert "A text on batching" not in done.stdout
    assert "llama-3.1-70b on 1 x b200, 512 tokens of context" in page.read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--model", "nope"], "unknown model 'nope'"),
        (["--kv-cache", "8"], "is not a size"),
        (["--model", "llama-3.1-405b"], "take more of them (tp=N)"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    """Exit code 2, the value and the remedy; no page."""
    page = tmp_path / "roofline.html"
    done = CliRunner().invoke(main, ["roofline", *words, "--out", str(page)])
    assert done.exit_code == Exit.USAGE
    assert line in done.output and not page.exists()


def test_a_published_comparison_is_shown_by_load_too(tmp_path: Path) -> None:
    """The text's figures beside ours, and throughput by the cap on the answers: policies gain with its length."""
    page = tmp_path / "roofline.html"
    done = CliRunner().invoke(main, ["roofline", "--preset", "anyscale-2023", "--out", str(page), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    head, *rows = found["loads"]
    assert head[3:] == [f"{one}, tok/s" for one in ("to the longest of all", "static", "continuous", "paged")]
    gains = [float(row[6].replace(",", "")) / float(row[3].replace(",", "")) for row in rows if row[2] == "answers"]
    assert [row[0] for row in rows[::2]] == ["32", "128", "512", "1536"] and gains == sorted(gains)
    assert found["figures"][0]["text"] == 15.4 and "longest answer" in page.read_text()
