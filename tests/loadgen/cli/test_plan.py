"""`tokenload plan`, and hardware that is not here in `run` and `sweep`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadgen.cli import main
from loadgen.cli.exit_codes import Exit

WORDS = ["plan", "--rate", "2", "--requests", "60", "--batch", "8", "--tp", "1", "--price", "2.5"]


def test_a_plan_is_a_document_and_a_page(tmp_path: Path) -> None:
    """One JSON document on stdout, and a page that needs no network and names the answer."""
    page = tmp_path / "pages" / "plan.html"
    done = CliRunner().invoke(main, [*WORDS, "--out", str(page), "--json"])
    assert done.exit_code == Exit.OK, done.output
    found = json.loads(done.stdout)
    assert found["cheapest"]["replicas"] == 1 and found["cheapest"]["price_per_h"] == 2.5
    assert found["prices_per_h"] == {"h100-sxm": 2.5} and found["requests"] == 60
    assert found["cheapest"] in found["tried"] and found["cheapest"] in found["pareto"]
    text = page.read_text()
    assert "1 x continuous,batch=8" in text and '<script src="http' not in text


def test_pools_are_named_with_both_of_their_engines(tmp_path: Path) -> None:
    """In the document, on the page and in the table, with the link between them."""
    page = tmp_path / "plan.html"
    words = [*WORDS, "--pools", "1:2", "--link", "25GB", "--dearer", "4", "--out", str(page)]
    found = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    pools = [one for one in found["tried"] if one["prefill_replicas"]]
    assert pools and all(one["devices"] == 3 and one["decode_replicas"] == 2 for one in pools)
    assert found["link_bytes"] == 25_000_000_000
    assert "1 x (1 x chunked,batch=16" in page.read_text() and "+ 2 x decode-only,batch=8" in page.read_text()
    assert "chunked + decode-only" in page.read_text()


def test_a_plan_without_an_answer_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    """6, with page and table all the same."""
    page = tmp_path / "plan.html"
    done = CliRunner().invoke(main, [*WORDS, "--slo", "tpot<=1us", "--devices", "1", "--out", str(page)])
    assert done.exit_code == Exit.INCONCLUSIVE
    assert "No fleet that was tried meets the SLO" in page.read_text()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([*WORDS, "--hardware", "l4", "--hardware", "h200"], "--price is given 1 times for 2"),
        ([*WORDS, "--pools", "1-3"], "--pools: '1-3' does not say two pools"),
        ([*WORDS, "--pools", "1:0"], "--pools: '0' is not a whole number"),
        ([*WORDS, "--pools", "1:1", "--link", "1B"], "--link: '1B' a second must be from 1MB to 100000GB"),
        ([*WORDS, "--pools", "1:1", "--link", "0B"], "--link: '0B' must be a size from 1B to 1000000TB"),
        ([*WORDS, "--pools", "1:1", "--link", "1000TB"], "--link: '1000TB' a second must be from 1MB to 100000GB"),
        ([*WORDS, "--tp", "1,1025"], "--tp: '1,1025': a model is split over 1 to 1024 devices"),
        ([*WORDS, "--tp", "3"], "tp=3: llama-3.1-8b, of 32 heads and 8 for keys and values, splits over 1, 2, 4"),
        ([*WORDS, "--devices", "65537"], "--devices: '65537': a fleet has 1 to 65536 devices"),
        ([*WORDS, "--router", "best"], "--router: 'best' is not one of"),
        ([*WORDS, "--attainment", "99"], "--attainment: '99' is not a share"),
        (["run", "--rate", "4", "--hardware", "h100-sxm", "--clock", "real"], "--hardware h100-sxm needs --clock"),
        (["run", "--rate", "4", "--model", "nope"], "unknown model 'nope'"),
        (["run", "--rate", "4", "--engine", "static,executor=cost", "--model", "opt-13b"], "is of executor=roofline"),
        (["run", "--rate", "4", "--target", "http://127.0.0.1:1", "--model", "opt-13b"], "leave it out"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    """Exit code 2, the value and the remedy."""
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == Exit.USAGE, done.output
    assert line in done.output and "Traceback" not in done.output


def test_a_degree_that_a_model_does_not_split_over_is_told_beside_those_that_it_does(tmp_path: Path) -> None:
    """The plan goes on with the others: the degrees that are tried unless told suit most models, and not all."""
    words = [*WORDS, "--model", "qwen2.5-7b", "--tp", "1,8", "--out", str(tmp_path / "plan.html"), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == Exit.OK, done.output
    found = json.loads(done.stdout)
    reasons = {one["tp"]: one["reason"] for one in found["tried"]}
    assert found["cheapest"]["tp"] == 1 and reasons[1] is None
    assert "splits over 1, 2, 4, 28 devices" in reasons[8]


def test_a_run_on_hardware_that_is_not_here_is_billed_by_its_roofline(tmp_path: Path) -> None:
    """--hardware and --model choose executor and clock, stand in the saved config and in the engine's description."""
    words = ["run", "--rate", "4", "--requests", "20", "--hardware", "h200", "--model", "mistral-7b"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path), "--json"])
    assert done.exit_code == Exit.OK, done.output
    info = json.loads((Path(json.loads(done.stdout)["folder"]) / "run.json").read_text())
    cost = info["engine"]["cost_model"]
    assert (cost["hardware"], cost["model"], info["clock"]) == ("h200", "mistral-7b", "modelled")
    assert info["config"] == {
        "hardware": "h200", "model": "mistral-7b", "clock": "modelled", "rate": "4.0", "requests": "20",
        "out": str(tmp_path),
    }  # fmt: skip


def test_an_engines_own_words_come_before_the_options(tmp_path: Path) -> None:
    """A sweep may hold engines on other hardware beside those of --hardware."""
    own = "static,executor=roofline,hardware=l4"
    words = ["sweep", "--hardware", "h200", "--engine", own, "--engine", "static", "--rates", "4", "--requests", "20"]
    done = CliRunner().invoke(main, [*words, "--out", str(tmp_path), "--json"])
    assert done.exit_code == Exit.OK, done.output
    folder = Path(json.loads(done.stdout)["folder"])
    infos = [json.loads(path.read_text()) for path in sorted(folder.glob("points/*/run.json"))]
    hardware = {info["config"]["engine"]: info["engine"]["cost_model"]["hardware"] for info in infos}
    assert hardware == {own: "l4", "static": "h200"}
