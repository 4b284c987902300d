"""A/B sessions in modelled time: order, stages, what is kept, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.ab import Session, order_of, plan_ab, run_ab, side_config
from loadgen.ab_options import AbOptions
from loadgen.config import RunConfig, from_texts
from loadgen.stopped import StoppedError
from results.comparison.document import compare
from results.comparison.trials import read_sides
from results.gates import parse_gates
from results.store import load_run

MINE = """
from engines.engine import Step, StepOutput


class Mine:
    def __init__(self):
        self.open = []

    def add_request(self, request):
        self.open.append(request)

    def has_work(self):
        return bool(self.open)

    def step(self):
        request = self.open.pop(0)
        output = StepOutput(request.request_id, [0] * request.params.max_tokens, True, "length")
        return Step([output], modelled_cost_ps=10**9)
"""


def config(out: Path, **texts: str) -> RunConfig:
    """100 requests at 12 a second."""
    given = {"rate": "12", "requests": "100", "clock": "modelled", "out": str(out)}
    return from_texts({**given, **texts}, complete=False)


def planned(out: Path, a: str, b: str, pairs: int | None = None, share_cache: bool = False, **texts: str) -> Session:
    """A session of these two."""
    return plan_ab(config(out, **texts), AbOptions(a, b, pairs), share_cache)


def silent(text: str, ended_requests: int, requests: int) -> None:
    """Shows nothing."""


def test_the_order_is_abba() -> None:
    """Over four runs in a row each side stands as early as the other."""
    assert [side for pair in range(4) for side in order_of(pair)] == [0, 1, 1, 0, 0, 1, 1, 0]
    places = [(at, side) for at, side in enumerate(side for pair in range(4) for side in order_of(pair))]
    assert sum(at for at, side in places if side == 0) == sum(at for at, side in places if side == 1)


def test_a_clear_winner_takes_six_pairs(tmp_path: Path) -> None:
    """Each pair on a schedule of its own, both sides on the same; run in alternation; kept as run folders."""
    session = planned(tmp_path, "one-by-one", "continuous,batch=8")
    document = run_ab(session, silent, parse_gates("ttft_p99>+10%"))
    (one,) = document["comparisons"]
    assert one["cells"][0]["figures"]["ttft_p50"]["word"] == "better"
    assert one["gates"][0]["passed"]
    points = json.loads((session.folder / "ab.json").read_text())["points"]
    assert "".join(point["side"] for point in points) == "abbaabbaabba"
    hashes = {side: [] for side in "ab"}
    for point in sorted(points, key=lambda point: point["repeat"]):
        hashes[point["side"]].append(load_run(session.folder / point["folder"]).recording.schedule.sha256)
    assert hashes["a"] == hashes["b"]
    assert len(set(hashes["a"])) == 6


def test_an_undecided_session_is_extended_to_ten(tmp_path: Path) -> None:
    """Two ways of static batching that differ now this way, now that."""
    session = planned(tmp_path, "static,batch=4", "static-bucketed,batch=4")
    document = run_ab(session, silent)
    assert document["comparisons"][0]["cells"][0]["pairs"] == 10
    assert document["comparisons"][0]["cells"][0]["alpha_fraction"] == 0.01875


def test_an_engine_against_itself_is_the_same(tmp_path: Path) -> None:
    """A/A: both sides have names of their own, and the folder can be compared again."""
    session = planned(tmp_path, "static,batch=4", "static,batch=4", pairs=3)
    document = run_ab(session, silent)
    assert document["comparisons"][0]["conclusion"] == "same"
    again = compare(read_sides((session.folder,)))
    assert again["a"]["label"] == "A: static,batch=4"
    assert again["comparisons"][0]["cells"][0]["figures"] == document["comparisons"][0]["cells"][0]["figures"]


def test_a_number_of_pairs_that_was_asked_for_is_kept_to(tmp_path: Path) -> None:
    """Two pairs decide nothing, and are not extended."""
    document = run_ab(planned(tmp_path, "one-by-one", "continuous", pairs=2), silent)
    assert document["comparisons"][0]["cells"][0]["pairs"] == 2
    assert document["comparisons"][0]["conclusion"] == "unresolved"


@pytest.mark.parametrize(
    ("a", "b", "share_cache", "same_bytes"),
    [
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", False, True),
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", True, False),
        ("continuous", "http://127.0.0.1:2/v1", False, False),
    ],
)
def test_servers_of_a_pair_get_the_same_bytes_unless_they_share_a_cache(
    tmp_path: Path, a: str, b: str, share_cache: bool, same_bytes: bool
) -> None:
    """Before one cache the second would be answered from what the first left there."""
    clock = "real"
    whole = from_texts({"rate": "12", "requests": "100", "clock": clock, "out": str(tmp_path)}, complete=False)
    session = Session(tmp_path, whole, (a, b), None, share_cache, "")
    made = [side_config(session, side, 3) for side in (0, 1)]
    assert [one.same_bytes for one in made] == [same_bytes] * 2
    assert [one.seed for one in made] == [10, 10]
    assert [one.target for one in made] == [a if a.startswith("http") else None, b]


class Interrupts:
    """A progress that is interrupted in the fourth run."""

    def __init__(self) -> None:
        self._seen: list[str] = []

    def __call__(self, text: str, ended_requests: int, requests: int) -> None:
        if text not in self._seen:
            self._seen.append(text)
        if len(self._seen) == 4:
            raise KeyboardInterrupt


def test_a_stopped_session_keeps_what_there_is(tmp_path: Path) -> None:
    """Three whole runs: the pair that both sides have run can be compared."""
    session = planned(tmp_path, "one-by-one", "continuous")
    with pytest.raises(StoppedError):
        run_ab(session, Interrupts())
    told: dict[str, Any] = json.loads((session.folder / "ab.json").read_text())
    assert (told["status"], len(told["points"])) == ("stopped", 3)
    assert compare(read_sides((session.folder,)))["comparisons"][0]["cells"][0]["pairs"] == 1


@pytest.mark.parametrize(
    ("chosen", "texts", "says"),
    [
        (AbOptions("static", None), {}, "--b SPEC"),
        (AbOptions("static", "nothing"), {}, "nothing"),
        (AbOptions("static", "http://user:hunter2@127.0.0.1:1/v1"), {}, "key"),
        (AbOptions("static", "continuous"), {"requests": "99"}, "--requests 100"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(
    tmp_path: Path, chosen: AbOptions, texts: dict[str, str], says: str
) -> None:
    """In one line."""
    with pytest.raises(ValueError, match=says) as error:
        plan_ab(config(tmp_path, **texts), chosen, share_cache=False)
    assert "hunter2" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_sides_that_are_not_comparable_are_refused_after_the_first_pair(tmp_path: Path) -> None:
    """Another model: two runs are lost, not twenty; allowed by name, the session goes on."""
    (tmp_path / "mine.py").write_text(MINE)
    session = planned(tmp_path / "out", "continuous", f"{tmp_path / 'mine.py'}:Mine", pairs=3)
    with pytest.raises(ValueError, match="--allow engine") as error:
        run_ab(session, silent)
    assert len(session.points) == 2
    allowed = tuple(str(error.value).partition("to compare anyway: ")[2].replace("--allow ", "").split())
    again = planned(tmp_path / "again", "continuous", f"{tmp_path / 'mine.py'}:Mine", pairs=1)
    assert run_ab(again, silent, (), allowed)["comparisons"][0]["cells"][0]["pairs"] == 1
