"""Runs of so many tokens that none has a row: chosen by themselves, steered, killed, read by everything else."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from engines.cost import HashExecutor
from engines.engine import Engine
from engines.policies import Policy, chunked, continuous, static
from engines.slots import SlotEngine
from loadgen.cli import main
from loadgen.clock import ModelledClock
from loadgen.config import from_texts
from loadgen.drive import Decision, play_compact
from loadgen.fused_rows import CHUNK_NUMBERS, DECODES
from loadgen.long_runs import LISTED_TOKENS, is_long, play_long
from loadgen.session import execute, prepare
from results.columns import NULL
from results.recording import Recording, RecordingPart
from results.recovery import recover
from results.schedule import Schedule, make_schedule
from results.slo import parse_slo
from results.status import Status
from results.store import PartWriter, load_run
from results.summary import summarise
from tests.engines.playing import Numbering, Steering, engine_of, linear_ps, paged_engine_of, play

COST = linear_ps(9_000_000, 20_000, 5_000_000, 300)
ENGINE = "continuous,batch=64,decode-base=1ms,decode-row=10us,prefill-base=1ms,prefill-token=1us"
TEXTS = {"requests": "30000", "rate": "110", "prompt-tokens": "32", "output-tokens": "100:300", "clock": "modelled"}
ROWS = ("requests.parquet", "tokens.parquet", "steps.parquet", "schedule.parquet", "summary.json")
OF_THE_OCCASION = ("started_utc", "ended_utc", "facts", "info_sha256", "files_sha256", "verdict", "clean_tree")
"""Of run.json: when it was, what the machine and the checkout were doing meanwhile, and hashes of such."""


def workload(requests: int, gap_ns: int = 40_000) -> Schedule:
    generator = np.random.default_rng(4)
    due = np.cumsum(generator.integers(0, gap_ns, requests))
    return make_schedule(due, generator.integers(1, 20, requests), generator.integers(1, 30, requests))


class StopsAt:
    """A control that decides something once so many requests have ended."""

    timeout_ns: int | None = None
    drain_ns: int | None = None

    def __init__(self, decision: Decision, after_requests: int) -> None:
        self.decision, self.after_requests, self.ended_requests = decision, after_requests, 0

    def count_ended(self, ended_requests: int) -> None:
        self.ended_requests = ended_requests

    def __call__(self, now_ns: int, newest: RecordingPart | None) -> Decision:
        return self.decision if self.ended_requests >= self.after_requests else Decision.GO


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 million tokens, by the command line's own way."""
    config = from_texts({**TEXTS, "engine": ENGINE, "out": str(tmp_path_factory.mktemp("runs"))})
    return execute(prepare(config), lambda ended: None).folder


@pytest.mark.parametrize(
    ("engine", "takes"),
    [
        (engine_of(continuous(2)), True),
        (engine_of(static(2)), True),
        (engine_of(static(2, return_="end")), False),
        (paged_engine_of(chunked(2)), False),
        (SlotEngine(continuous(2), Numbering(), None), False),
    ],
    ids=["continuous", "static", "handed back at the end", "prompts in chunks", "tokens that mean something"],
)
def test_only_what_streams_one_token_a_decode_goes_without_rows(engine: Engine, takes: bool) -> None:
    """And only above the number of tokens that are given rows."""
    schedule = make_schedule([0, 0], [1, 1], [LISTED_TOKENS, 1])
    assert is_long(schedule, engine) is takes
    assert not is_long(make_schedule([0, 0], [1, 1], [LISTED_TOKENS - 1, 1]), engine)


def test_a_long_run_says_so_and_keeps_every_token(long_run: Path) -> None:
    """In run.json and in the stamp; two steps a request in place of a list of tokens."""
    run = load_run(long_run)
    conditions = json.loads((long_run / "conditions.json").read_text())
    assert run.info["engine"]["token_rows"] == conditions["groups"]["engine"]["fields"]["token_rows"]
    assert run.recording.spans is not None and not len(run.recording.token_count)
    assert run.recording.requests["output_tokens"].tolist() == run.recording.schedule.output_tokens.tolist()
    assert run.info["verdict"]["valid"] and run.info["verdict"]["checks"]["LITTLE_MISMATCH"] == "passed"
    tokens = int(run.recording.schedule.output_tokens.sum())
    assert tokens > LISTED_TOKENS
    assert sum((long_run / name).stat().st_size for name in ROWS) < tokens // 2


def test_two_long_runs_have_the_same_rows_and_figures(long_run: Path, tmp_path: Path) -> None:
    """Byte for byte."""
    config = from_texts({**TEXTS, "engine": ENGINE, "out": str(tmp_path)})
    again = execute(prepare(config), lambda ended: None).folder
    for name in ROWS:
        assert (again / name).read_bytes() == (long_run / name).read_bytes(), name


@pytest.mark.parametrize("engine", ["one-by-one", "static,batch=8", "continuous,batch=8"])
def test_two_modelled_runs_give_the_same_folder(engine: str, tmp_path: Path) -> None:
    """All rows and figures byte for byte; else only what is of the occasion differs: time, id, state of the machine."""
    folders = []
    for name in ("first", "again"):
        texts = {"rate": "12", "requests": "150", "clock": "modelled", "engine": engine, "out": str(tmp_path)}
        folder = execute(prepare(from_texts(texts)), lambda ended: None, tmp_path / name).folder
        folders.append(folder)
    first, again = folders
    assert {path.name for path in first.iterdir()} == {path.name for path in again.iterdir()}
    for name in ROWS:
        assert (first / name).read_bytes() == (again / name).read_bytes(), name
    told, retold = (json.loads((folder / "run.json").read_text()) for folder in folders)
    assert told["digest_sha256"] == retold["digest_sha256"]
    assert _without(told, OF_THE_OCCASION) == _without(retold, OF_THE_OCCASION)
    stamps = [json.loads((folder / "conditions.json").read_text())["groups"] for folder in folders]
    for group in ("workload", "engine"):
        assert stamps[0][group] == stamps[1][group], group


def _without(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def test_report_and_compare_read_a_long_run(long_run: Path, tmp_path: Path) -> None:
    """The page is rebuilt to the byte, and a run is as good as itself."""
    folder = tmp_path / "run"
    shutil.copytree(long_run, folder)
    pages = []
    for _ in range(2):
        done = CliRunner().invoke(main, ["report", str(folder)])
        assert done.exit_code == 0, done.output
        pages.append((folder / "report.html").read_bytes())
    assert pages[0] == pages[1] and b"cannot be read" not in pages[0] and b"is not what the rows give" not in pages[0]
    done = CliRunner().invoke(main, ["compare", str(long_run), str(folder), "--json"])
    assert done.exit_code == 0, done.output
    (cell,) = json.loads(done.stdout)["comparisons"][0]["cells"]
    figure = cell["figures"]["ttft_p50"]
    assert figure["a"]["value"] == figure["b"]["value"] > 0


@pytest.mark.slow
def test_a_long_run_is_reproduced(long_run: Path) -> None:
    """To the bit, as any run in modelled time."""
    done = CliRunner().invoke(main, ["reproduce", str(long_run), "--json"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("policy", [continuous(4), static(4)], ids=["continuous", "static"])
def test_the_figures_are_those_of_a_run_with_all_rows(policy: Policy) -> None:
    """Fused or apart."""
    schedule = workload(300)
    long = play_long(schedule, engine_of(policy, COST), lambda part: None, StopsAt(Decision.GO, 10**9))
    full = play(schedule, engine_of(policy, COST))
    slo = parse_slo("ttft<=100us,tpot<=12us")
    one, other = summarise(long, slo), summarise(full, slo)
    assert one["ttft_ms"] == other["ttft_ms"] and one["slo"] == other["slo"] and one["fluidity"] == other["fluidity"]
    assert one["little_error_ns"] == 0


def stopped(decision: Decision, make: Callable[[], Engine]) -> Recording:
    """Asked for after 2,000 of the requests that a chunk of rows holds have ended."""
    schedule = workload(CHUNK_NUMBERS // len(DECODES), gap_ns=60_000)
    return play_long(schedule, make(), lambda part: None, StopsAt(decision, 2_000))


def test_a_fused_run_that_is_stopped_serves_whom_it_has_taken() -> None:
    """Nobody is handed over any more; the rest was never sent."""
    run = stopped(Decision.STOP, lambda: engine_of(continuous(4), COST))
    status = run.requests["status"]
    sent = int((status != Status.NOT_DISPATCHED).sum())
    assert run.stopped_ns is not None and 2_000 <= sent < len(status)
    assert (status[:sent] == Status.OK).all() and (status[sent:] == Status.NOT_DISPATCHED).all()
    assert summarise(run)["little_error_ns"] == 0


def test_a_fused_run_that_is_cancelled_ends_at_once() -> None:
    """Whoever waits or runs is cancelled, with the tokens it had, and nothing comes after that."""
    run = stopped(Decision.CANCEL, lambda: engine_of(continuous(4), COST))
    requests = run.requests
    cancelled = requests["status"] == Status.CANCELLED
    assert run.stopped_ns is not None and cancelled.any()
    assert (requests["end_ns"][cancelled] == run.stopped_ns).all()
    got, asked = requests["output_tokens"][cancelled], requests["output_tokens_asked"][cancelled]
    assert (got < asked).all() and got.max() > 1
    spans = run.spans
    assert spans is not None and int(spans.decode_ends_ns.max()) <= run.stopped_ns
    assert (spans.last_step[spans.seated] != NULL).all()
    assert (spans.high[cancelled[spans.seated]] == len(spans.decode_ends_ns)).all()
    assert summarise(run)["little_error_ns"] == 0


def test_what_can_never_fit_is_refused_with_its_reason() -> None:
    """In the words of the engine that is asked."""
    schedule = make_schedule([0, 0], [5, 90], [3, 30])

    class Small(HashExecutor):
        kv_capacity_tokens = 50

    texts = []
    for policy in (continuous(2), static(2)):
        engine = SlotEngine(policy, Small(), COST)
        run = play_long(schedule, engine, lambda part: None, StopsAt(Decision.GO, 10**9))
        assert run.requests["status"].tolist() == [Status.OK, Status.ENGINE_ERROR]
        texts.append(run.requests["error"][1])
    assert texts[0] == texts[1] == "request 1 keeps 119 tokens in the cache, which holds 50"


@pytest.mark.parametrize("tokens", [200, 40_000], ids=["short", "long"])
def test_a_killed_long_run_is_read_from_its_parts(tokens: int, tmp_path: Path) -> None:
    """Whether its tokens are few enough to be written out or not: the same requests, the same figures."""
    requests = 150
    outputs = [tokens + 5 * row for row in range(requests)]
    schedule = make_schedule(range(requests), [4] * requests, outputs)
    with PartWriter(tmp_path, 0) as writer:
        run = play_compact(schedule, engine_of(continuous(64), COST), ModelledClock(), writer.write, Steering())
    recovered = recover(schedule, tmp_path)
    assert (recovered.spans is not None) is (tokens * requests > LISTED_TOKENS)
    assert run.steps["n_steps"][-1] > 1
    assert recovered.requests["output_tokens"].tolist() == outputs
    for name in ("end_ns", "admitted_step", "ended_step", "released_step", "slot"):
        assert recovered.requests[name].tolist() == run.requests[name].tolist(), name


def test_engines_on_one_schedule_are_compared(tmp_path: Path) -> None:
    """One by one, static and continuous: static carries more than one, and makes nobody's first token earlier."""
    folders = []
    for name, engine in (("one", "one-by-one"), ("static", "static,batch=8"), ("continuous", "continuous,batch=8")):
        texts = {"rate": "14", "requests": "400", "clock": "modelled", "engine": engine, "out": str(tmp_path)}
        folders.append(execute(prepare(from_texts(texts)), lambda ended: None, tmp_path / name).folder)
    done = CliRunner().invoke(main, ["compare", *map(str, folders), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["comparisons"]
    values = [
        {side: cell["figures"]["ttft_p50"][side]["value"] for side in ("a", "b")}
        for one in found for cell in one["cells"]
    ]  # fmt: skip
    assert [one["b"]["label"] for one in found] == ["static", "continuous"]
    assert values[0]["a"] == values[1]["a"] > values[0]["b"] > values[1]["b"]
