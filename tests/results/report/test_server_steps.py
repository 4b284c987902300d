"""The page of a server that told its own steps: the same stacked chart and fractions as of an engine in process."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engines.policies import static
from results.columns import int64
from results.report import write_report
from results.server.step_figures import own_steps
from results.server.step_table import STEP_COLUMNS, ServerSteps
from results.server.summary import server_summary
from results.steps import ends_ns, starts_ns
from tests.engines.playing import engine_of, play, schedule_of
from tests.results.report.reading import Reading, read
from tests.results.report.servers import Served, answers, make_served, make_served_sweep, scrapes
from tests.results.report.test_escaping import HOSTILE

NAME = "127.0.0.1:8000 · tiny-1b"
WHOLE = (0, None)
STATES = ("prefilling", "decoding", "finished", "stalled", "empty_queued", "idle")


def steps(**changes: Any) -> ServerSteps:
    """The first text's mix in one static batch of 3."""
    played = play(schedule_of([8, 4, 12]), engine_of(static(3))).steps
    times = {"start_ns": starts_ns(played), "end_ns": ends_ns(played)}
    table = {name: int64({**played, **times}[name]) for name in STEP_COLUMNS}
    return ServerSteps(**{"steps": table, "begin_step": 0, "same_clock": True, **changes})


def served(told: dict[str, Any], **options: Any) -> Served:
    """A run whose server told this of its steps."""
    server = {**server_summary(scrapes(), 0, None, 4)["server"], "own_steps": told}
    return Served(answers(), scrapes=scrapes(), slots=4, info={"server": server}, **options)


def page_of(folder: Path) -> Reading:
    """Written and read."""
    return read(write_report(folder).read_text())


def words(found: Reading) -> str:
    """All text, its spaces made single."""
    return " ".join(found.text.split())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return page_of(make_served(tmp_path_factory.mktemp("run") / "run", served(own_steps(steps(), WHOLE))))


def test_the_slot_time_is_drawn_as_of_an_engine_in_process(found: Reading) -> None:
    """One stacked bar of six states that add up to 1, called what it is."""
    chart = found.charts["shares-0"]
    assert chart["layout"]["barmode"] == "stack"
    shares = {trace["name"]: trace["y"][0] for trace in chart["data"]}
    assert sum(shares.values()) == pytest.approx(1)
    assert (shares["finished"], shares["prefilling"]) == (pytest.approx(12 / 36), pytest.approx(3 / 36))
    assert f"Slot time of {NAME}, by its own steps" in found.text


def test_the_fractions_stand_under_the_servers_side(found: Reading) -> None:
    """Named as the server's own, beside the counters' figure and apart from it."""
    row = f"{NAME} @ 10/s"
    assert found.values["scorecard", row, "server.own_steps.wasted_slot_fraction"] == pytest.approx(1 / 3)
    assert found.values["scorecard", row, "server.own_steps.unused_slot_fraction"] == pytest.approx(12 / 36)
    assert found.values["scorecard", row, "server.unused_slot_fraction"] == pytest.approx(0.5)
    assert found.values["scorecard", row, "server.own_steps.finished"] == pytest.approx(12 / 36)
    assert "Slots, by the server's own steps" in found.text and "12 steps" in found.text
    assert "measured window; fill" not in words(found).partition("Slots, by the server's own steps")[2][:500]


def test_what_the_table_uses_is_defined(found: Reading) -> None:
    """Slot states and the fractions, each once; nothing of the texts on engines."""
    definitions = words(found).partition("How each figure is defined")[2]
    for name in ("Slot states", "wasted_slot_fraction", "unused_slot_fraction", "slot_time_share", "own steps"):
        assert definitions.count(f"{name}") >= 1, name
    assert definitions.count("unused_slot_fraction") == 1 and "first text" not in found.text


def test_another_hosts_clock_and_another_window_are_said(tmp_path: Path) -> None:
    """Which steps these are, where they are not simply those of the run."""
    other = page_of(make_served(tmp_path / "other", served(own_steps(steps(same_clock=False), WHOLE))))
    assert "all steps since time 0, by their numbers" in words(other)
    window = page_of(make_served(tmp_path / "window", served(own_steps(steps(), (4, 9)))))
    assert "Of the steps in the measured window; fill and cool-down are left out." in words(window)


def test_withheld_figures_have_their_reason_and_no_chart(tmp_path: Path) -> None:
    """Dropped steps: no fraction, no bar, and what to do."""
    told = own_steps(steps(missed_steps=7), (-1, None))
    page = page_of(make_served(tmp_path / "run", served(told)))
    assert page.texts["scorecard", f"{NAME} @ 10/s", "server.own_steps.wasted_slot_fraction"] == "not told"
    assert "Withheld, for they need every step: the server had dropped 7 steps" in words(page)
    assert "shares-0" not in page.charts


def test_a_sweep_has_a_bar_a_load(tmp_path: Path) -> None:
    """Of the loads whose steps were told; the others have none, and no row."""
    told = [served(own_steps(steps(), WHOLE), load=load) for load in ("10", "20")]
    page = page_of(make_served_sweep(tmp_path, *told, Served(answers(), load="5")))
    finished = next(one for one in page.charts["shares-0"]["data"] if one["name"] == "finished")
    assert finished["y"] == [None, pytest.approx(12 / 36), pytest.approx(12 / 36)]
    heads = {head for _, head, metric in page.values if metric == "server.own_steps.wasted_slot_fraction"}
    assert heads == {f"{NAME} @ 10/s", f"{NAME} @ 20/s"}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_foreign_text_in_it_is_only_text(text: str, tmp_path: Path, found: Reading) -> None:
    """Whatever a file says of the steps, the page has one list more, of its advice, and no control character."""
    own = own_steps(steps(), WHOLE)
    shares = {**own["slot_time_share"], text: text}
    told = {**own, "span": text, "advice": {"wasted_slot_fraction": text}, "slot_time_share": shares, text: text}
    html = write_report(make_served(tmp_path / "run", served(told))).read_text()
    page = read(html)
    plain, hostile = (Counter(tag for tag, _ in one.elements) for one in (found, page))
    assert hostile - plain == Counter(ul=1, li=1) and not plain - hostile
    assert not [char for char in html if ord(char) < 32 and char not in "\n\t"]


@pytest.mark.parametrize(
    "shares",
    [None, [], {"idle": 1.0}, dict.fromkeys(STATES, "<b>"), dict.fromkeys(STATES, float("nan")),
     dict.fromkeys(STATES, 10**400), dict.fromkeys(STATES, -0.5)],
    ids=["none", "a list", "one state", "texts", "not finite", "huge", "negative"],
)  # fmt: skip
def test_shares_that_are_none_are_not_drawn(shares: Any, tmp_path: Path) -> None:
    """A damaged file costs the chart, not the page."""
    folder = make_served(tmp_path / "run", served({**own_steps(steps(), WHOLE), "slot_time_share": None}))
    info = json.loads((folder / "run.json").read_text())
    info["server"]["own_steps"]["slot_time_share"] = shares
    (folder / "run.json").write_text(json.dumps(info))
    assert "shares-0" not in page_of(folder).charts
