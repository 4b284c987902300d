"""--engine SPEC: our engines with their options, other people's from a file or module, and what cannot be."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engines.engine import JSON, Request
from loadgen.engine_spec import make_engine, split_spec
from results.schedule import Schedule
from tests.engines.playing import column, play, schedule_of, statuses

SCHEDULE = schedule_of([3, 17, 5])

MINE = '''
from pathlib import Path
from typing import Literal

from engines.policies import DurationNs

COUNT = 3


class Plain:
    """One token a step to the oldest."""

    def __init__(self):
        self.queue = []

    def add_request(self, request):
        self.queue.append([request.request_id, request.params.max_tokens])

    def has_work(self):
        return bool(self.queue)

    def step(self):
        one = self.queue[0]
        one[1] -= 1
        if not one[1]:
            del self.queue[0]
        return [(one[0], [1], not one[1])]


class Optioned(Plain):
    def __init__(
        self, depth: int, wait: DurationNs | None = None, eager: bool = False, share: float = 0.5,
        mode: Literal["fast", "slow"] = "fast", name="nobody", max_seqs: int | None = None,
    ):
        super().__init__()
        self.told = dict(depth=depth, wait=wait, eager=eager, share=share, mode=mode, name=name, max_seqs=max_seqs)

    def describe(self):
        return self.told


class Slotted(Plain):
    def __init__(self, slots: int = 2):
        super().__init__()
        self.slots = slots

    def describe(self):
        return {"slots": self.slots}


class Filed(Plain):
    def __init__(self, where: Path = Path("somewhere")):
        super().__init__()


class Half:
    def step(self):
        return []


def made(depth: int = 1):
    return Optioned(depth)
'''


class InThisModule:
    """Three methods, importable as MODULE:CLASS."""

    def add_request(self, request: Request) -> None: ...
    def has_work(self) -> bool:
        return False

    def step(self) -> list[Any]:
        return []


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A user's file."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return str(path)


def described(spec: str, clock: str = "modelled", schedule: Schedule = SCHEDULE) -> Mapping[str, JSON]:
    """What the engine made from a spec says of itself."""
    return make_engine(spec, clock, schedule).describe()


@pytest.mark.parametrize(
    ("spec", "policy", "slots", "options"),
    [
        ("one-by-one", "one-by-one", 1, {}),
        ("naive", "naive", 1, {}),
        ("static", "static", 8, {"batch": 8, "wait": "none", "max_wait_ns": None, "return": "stream"}),
        ("static,batch=3", "static", 3, {"batch": 3}),
        (
            "static,batch=8,wait=full,max-wait=50ms,return=end", "static", 8,
            {"wait": "full", "max_wait_ns": 50_000_000, "return": "end"},
        ),
        ("static, batch=4 , wait=full", "static", 4, {"wait": "full", "max_wait_ns": None}),
        ("static,until=40", "static", 8, {"until_steps": 40}),
        ("static,until=global-max", "static", 8, {"until_steps": 17}),
        ("static-bucketed", "static-bucketed", 8, {"batch": 8, "window": 64}),
        ("static-bucketed,window=16,batch=2", "static-bucketed", 2, {"batch": 2, "window": 16}),
        ("continuous,batch=16", "continuous", 16, {"batch": 16}),
    ],
)  # fmt: skip
def test_our_engines_by_name_with_options(spec: str, policy: str, slots: int, options: dict[str, Any]) -> None:
    """Defaults where nothing is said; durations with their unit; until=global-max is the schedule's longest output."""
    told = described(spec)
    assert (told["policy"], told["slots"]) == (policy, slots)
    assert isinstance(told["options"], dict) and told["options"].items() >= options.items()
    assert told["returns"] == options.get("return", "stream")


def test_modelled_time_has_the_executor_that_computes_nothing() -> None:
    """With the default costs, which options change exactly, in picoseconds."""
    told = described("continuous")
    assert isinstance(told["executor"], dict) and told["executor"]["name"] == "cost"
    costs = described("static,decode-base=1ms,decode-row=0.0000005us,prefill-base=2us,prefill-token=0ns")["cost_model"]
    assert isinstance(costs, dict)
    assert [costs[f"{name}_ps"] for name in ("decode_base", "decode_row", "prefill_base", "prefill_token")] == [
        1_000_000_000, 0, 2_000_000, 0,
    ]  # fmt: skip
    exact = described("static,decode-row=0.205ms")["cost_model"]
    assert isinstance(exact, dict) and exact["decode_row_ps"] == 205_000_000


def test_the_executor_can_be_named_on_any_clock() -> None:
    """executor=cost in charged and real time."""
    for clock in ("charged", "real"):
        executor = described("static,executor=cost", clock)["executor"]
        assert isinstance(executor, dict) and executor["name"] == "cost"


def test_every_engine_made_is_fresh() -> None:
    """Two of one spec share nothing."""
    one, other = (make_engine("static", "modelled", SCHEDULE) for _ in range(2))
    play(SCHEDULE, one)
    assert statuses(play(SCHEDULE, other)) == ["ok"] * 3


def test_a_users_engine_from_a_file(mine: str) -> None:
    """FILE.py:CLASS: three methods, no options, and slots where one says how many it has."""
    engine = make_engine(f"{mine}:Plain", "charged", SCHEDULE)
    assert engine.describe() == {"policy": "Plain", "slots": None, "aborts": False}
    assert make_engine(f"{mine}:Plain,slots=8", "charged", SCHEDULE).describe()["slots"] == 8
    assert not engine.has_work()


def test_a_users_options_are_read_by_their_annotations(mine: str) -> None:
    """Whole numbers, durations, truth, fractions, one of a few words, and text where nothing is said."""
    spec = f"{mine}:Optioned,depth=4,wait=5ms,eager=true,share=0.25,mode=slow,name=x=y,max-seqs=9,slots=8"
    told = dict(make_engine(spec, "charged", SCHEDULE).describe())
    assert told == {
        "depth": 4, "wait": 5_000_000, "eager": True, "share": 0.25, "mode": "slow", "name": "x=y", "max_seqs": 9,
        "policy": "Optioned", "slots": 8, "aborts": False,
    }  # fmt: skip
    assert make_engine(f"{mine}:Optioned,depth=4,eager=false", "charged", SCHEDULE).describe()["eager"] is False


def test_a_users_own_slots_are_its_own(mine: str) -> None:
    """A class that takes slots gets them."""
    assert make_engine(f"{mine}:Slotted,slots=5", "charged", SCHEDULE).describe()["slots"] == 5
    assert make_engine(f"{mine}:Slotted", "charged", SCHEDULE).describe()["slots"] == 2


def test_a_function_that_makes_an_engine_will_do(mine: str) -> None:
    """FILE.py:FUNCTION, with its parameters as options."""
    assert make_engine(f"{mine}:made,depth=7", "charged", SCHEDULE).describe()["depth"] == 7


def test_a_users_engine_from_a_module() -> None:
    """MODULE:CLASS, as Python would import it."""
    engine = make_engine(f"{__name__}:InThisModule", "charged", SCHEDULE)
    assert engine.describe()["policy"] == "InThisModule"


def test_a_users_engine_is_played_to_the_end(mine: str) -> None:
    """From the spec to rows: in charged time, one step after another."""
    from loadgen.clock import ChargedClock

    readings = iter(range(10**6))
    engine = make_engine(f"{mine}:Plain,slots=8", "charged", SCHEDULE)
    recording = play(SCHEDULE, engine, clock=ChargedClock(lambda: next(readings)))
    assert statuses(recording) == ["ok"] * 3
    assert column(recording, "end_ns") == [3, 20, 25]


def test_name_and_options_of_a_spec() -> None:
    """Split at commas, each option at its first equals sign, blanks around them left out."""
    assert split_spec("static") == ("static", {})
    assert split_spec(" a:b , k=v,w=x=y") == ("a:b", {"k": "v", "w": "x=y"})


BAD = [
    ("nosuch", ["'nosuch'", "one-by-one", "static-bucketed", "FILE.py:CLASS"]),
    ("", ["''", "continuous"]),
    ("Static", ["'Static'", "static"]),
    ("static,batch", ["'batch'", "key=value"]),
    ("static,", ["''", "key=value"]),
    ("static,=3", ["'=3'", "key=value"]),
    ("static,batch=", ["'batch='", "key=value"]),
    ("static,batch=8,batch=16", ["batch twice", "batch=8", "batch=16"]),
    ("static,batch=8, batch=8", ["batch twice"]),
    ("{mine}:Plain,slots=1,slots=1", ["slots twice"]),
    ("static,size=3", ["'size'", "batch", "max-wait", "return", "decode-base", "executor"]),
    ("one-by-one,batch=2", ["'batch'", "decode-base", "executor"]),
    ("continuous,until=global-max", ["'until'", "batch"]),
    ("continuous,slots=3", ["'slots'", "batch"]),
    ("static,batch=x", ["batch=x", "whole number"]),
    ("static,batch=-1", ["batch=-1", "whole number"]),
    ("static,batch=2.5", ["batch=2.5", "whole number"]),
    ("static,batch=0", ["batch=0", "at least 1"]),
    ("static-bucketed,window=0", ["window=0", "at least 1"]),
    ("static,wait=maybe", ["wait=maybe", "none", "full"]),
    ("static,return=later", ["return=later", "stream", "end"]),
    ("static,max-wait=50ms", ["max-wait", "wait=full"]),
    ("static,wait=full,max-wait=50", ["max-wait=50", "50ms"]),
    ("static,until=longest", ["until=longest", "whole number"]),
    ("continuous,executor=gpu", ["'gpu'", "cost", "tinygpt"]),
    ("continuous,decode-base=1", ["decode-base=1", "ms"]),
    ("continuous,decode-base=0ms", ["decode-base", "above 0"]),
    ("nosuch:Engine", ["'nosuch'", "FILE.py:CLASS"]),
    ("nosuch.deeper:Engine", ["nosuch.deeper", "FILE.py:CLASS"]),
    ("json.nosuch:Engine", ["'json.nosuch'"]),
    ("./nosuch:Engine", ["./nosuch", "FILE.py:CLASS"]),
    (":Engine", [":Engine"]),
    ("json:Engine", ["json", "'Engine'"]),
    ("json:JSONDecoder", ["JSONDecoder", "add_request", "has_work", "step"]),
    ("nosuch.py:Engine", ["'nosuch.py'"]),
    ("{mine}:Nobody", ["'Nobody'"]),
    ("{mine}:", ["''"]),
    ("{mine}:COUNT", ["COUNT"]),
    ("{mine}:Half", ["Half", "lacks add_request, has_work"]),
    ("{mine}:Plain,depth=3", ["'depth'", "slots"]),
    ("{mine}:Plain,slots=many", ["slots=many", "whole number"]),
    ("{mine}:Optioned", ["depth"]),
    ("{mine}:Optioned,depth=deep", ["depth=deep", "whole number"]),
    ("{mine}:Optioned,depth=1,share=half", ["share=half"]),
    ("{mine}:Optioned,depth=1,eager=yes", ["eager=yes", "true", "false"]),
    ("{mine}:Optioned,depth=1,mode=odd", ["mode=odd", "fast", "slow"]),
    ("{mine}:Optioned,depth=1,wait=5", ["wait=5", "50ms"]),
    ("{mine}:Optioned,depth=1,colour=red", ["'colour'", "depth", "max-seqs", "slots"]),
    ("{mine}:Filed,where=here", ["where=here"]),
]


@pytest.mark.parametrize(("spec", "words"), BAD, ids=[spec.replace("{mine}", "mine.py") for spec, _ in BAD])
def test_a_spec_that_cannot_be_is_refused_in_one_line(spec: str, words: list[str], mine: str) -> None:
    """ValueError with the value in question, and what is known or how to write it."""
    with pytest.raises(ValueError) as caught:
        make_engine(spec.replace("{mine}", mine), "modelled", SCHEDULE)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert re.search(re.escape(word), message), message
