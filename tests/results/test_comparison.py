"""Comparisons: pairing, refusal, decision, and what is written for people and for CI."""

from dataclasses import replace
from math import exp
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from results.comparison.conditions import check_allowed, differences
from results.comparison.decision import MIXED, SAME, UNRESOLVED, WORSE, decide, overall
from results.comparison.document import compare
from results.comparison.junit import junit, suites_of
from results.comparison.markdown import escaped, markdown
from results.comparison.pairing import pair_up
from results.comparison.requests import request_differences
from results.comparison.wording import difference_lines, remarks, rows
from results.gates import parse_gates
from tests.results.summaries import side_of, stamp_of, summary_of, trial_of

JITTER = (0.004, -0.003, 0.002, -0.004, 0.003, -0.002)


def trials(ratio: float, loads: tuple[str, ...] = ("8",), pairs: int = 6, **figures: Any) -> list[Any]:
    """Runs on schedules s0, s1 ...: latencies `ratio` times the base, with a jitter of their own."""
    return [
        trial_of(
            summary_of(
                **{
                    "ttft_p50": 10.0 * (1 + at) * ratio * exp(JITTER[at % 6] * (ratio != 1)),
                    "ttft_p99": 100.0 * (1 + at) * ratio,
                    "e2e_p99": 200.0 * (1 + at) * ratio,
                    **figures,
                }
            ),
            schedule=f"{load}-{at}",
            load=load,
        )
        for load in loads
        for at in range(pairs)
    ]


def test_a_slower_engine_is_worse() -> None:
    """20 % slower on all six schedules, at a spread over schedules of a factor six: found, with its ratio."""
    document = compare([side_of("a", *trials(1.0)), side_of("b", *trials(1.2))])
    (one,) = document["comparisons"]
    figure = one["cells"][0]["figures"]["ttft_p99"]
    assert one["conclusion"] == WORSE
    assert (figure["word"], figure["ratio"]) == (WORSE, pytest.approx(1.2))
    assert figure["p_fraction"] == 2 / 64
    assert one["cells"][0]["figures"]["tpot_p50"]["word"] == SAME


def test_an_engine_equals_itself() -> None:
    """The same figures on the same schedules: same, within what matters, and no p that says otherwise."""
    document = compare([side_of("a", *trials(1.0)), side_of("b", *trials(1.0))])
    assert document["comparisons"][0]["conclusion"] == SAME
    assert {f["p_fraction"] for f in document["comparisons"][0]["cells"][0]["figures"].values()} == {1.0}


def test_higher_goodput_is_better_and_beside_worse_latency_mixed() -> None:
    """The direction of each figure is its own."""
    document = compare([side_of("a", *trials(1.0)), side_of("b", *trials(1.2, goodput=9.0))])
    assert document["comparisons"][0]["cells"][0]["figures"]["goodput"]["word"] == "better"
    assert document["comparisons"][0]["conclusion"] == MIXED


def test_all_loads_are_one_family() -> None:
    """Two loads of six pairs: the p of each figure is adjusted for the figures of both, and can still be found."""
    loads = ("8", "16")
    cells = compare([side_of("a", *trials(1.0, loads)), side_of("b", *trials(1.2, loads))])["comparisons"][0]["cells"]
    assert [cell["load"] for cell in cells] == ["8", "16"]
    assert {cell["figures"]["ttft_p99"]["word"] for cell in cells} == {WORSE}


def test_runs_are_paired_on_the_same_schedules() -> None:
    """In whatever order they stand; what has no partner is counted."""
    a = side_of("a", *(trial_of(schedule=name) for name in ("x", "y", "z")))
    b = side_of("b", *(trial_of(schedule=name) for name in ("z", "q", "x")))
    (cell,), _ = pair_up(a, b)
    assert [(one.schedule_sha256, other.schedule_sha256) for one, other in cell.pairs] == [("x", "x"), ("z", "z")]
    assert cell.unpaired == (1, 1)


def test_the_same_schedule_twice_makes_two_pairs() -> None:
    """Repeats of one schedule are paired in their order, each run once."""
    a = side_of("a", trial_of(), trial_of())
    b = side_of("b", trial_of(), trial_of(), trial_of())
    (cell,), _ = pair_up(a, b)
    assert [(a.trials.index(one), b.trials.index(other)) for one, other in cell.pairs] == [(0, 0), (1, 1)]
    assert cell.unpaired == (0, 1)


@pytest.mark.parametrize(
    ("field", "values"),
    [("workload__rate_rps", (8, 16)), ("engine__clock", ("real", "modelled")), ("engine__weights_sha256", ("a", None))],
)
def test_runs_of_different_things_are_refused(field: str, values: tuple[Any, Any]) -> None:
    """Another workload, clock or model: one line with both values and the way to insist; allowed by name, it goes."""
    a, b = (trial_of(conditions=stamp_of(**{field: value})) for value in values)
    sides = [side_of("a", a), side_of("b", b)]
    name = field.replace("__", ".")
    with pytest.raises(ValueError, match=f"--allow {name}") as error:
        compare(sides)
    assert "\n" not in str(error.value)
    for allowed in (name, name.partition(".")[2]):
        (one,) = compare(sides, allowed=[allowed])["comparisons"]
        assert one["differences"]["identity"][0]["field"] == name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rate", "rate_rps"),
        ("workload.rate", "workload.rate_rps"),
        ("engine.weight_sha256", "engine.weights_sha256"),
        ("modell", "model"),
        ("zzzzzzzz", "engine.model"),
        ("", "engine.model"),
        ("run.run_id", ""),
        ("during.steal_fraction", ""),
    ],
)
def test_a_field_that_there_is_not_cannot_be_allowed(name: str, near: str) -> None:
    """One line with the names most like it and where to see all; a group that is never compared has no fields."""
    with pytest.raises(ValueError, match=r"no such field; near are .*conditions\.json") as error:
        check_allowed(["rate_rps", name])
    assert near in str(error.value).partition("near are ")[2] and "\n" not in str(error.value)


def test_a_field_that_only_these_runs_have_can_be_allowed() -> None:
    """A workload may tell more than the table has, and what it tells counts."""
    check_allowed(["workload.rate_rps", "rate_rps", "engine.clock"])
    with pytest.raises(ValueError, match=r"workload\.tenants"):
        check_allowed(["workload.tenants"], stamp_of(workload__rate_rps=8))
    check_allowed(["workload.tenants", "tenants"], stamp_of(workload__rate_rps=8), stamp_of(workload__tenants=3))


def test_different_schedules_are_refused_and_never_called_pairs() -> None:
    """No schedule in common: refused; allowed, the runs are taken in order and the page says so."""
    sides = [side_of("a", trial_of(schedule="x")), side_of("b", trial_of(schedule="y"))]
    with pytest.raises(ValueError, match="schedule_sha256"):
        compare(sides)
    (one,) = compare(sides, allowed=["schedule_sha256"])["comparisons"]
    assert one["same_schedules"] is False
    assert "DIFFERENT schedules" in markdown({**compare(sides, allowed=["schedule_sha256"])})


@pytest.mark.parametrize(("schedules", "told"), [("xxxxxx", True), ("abcdef", False), ("x", False)])
def test_pairs_on_one_schedule_are_of_one_workload(schedules: str, told: bool) -> None:
    """Six runs of one trace have no spread of workloads in their interval, and that is said; one pair claims none."""
    sides = [side_of(name, *(trial_of(schedule=one) for one in schedules)) for name in "ab"]
    (one,) = compare(sides)["comparisons"]
    assert one["cells"][0]["schedules"] == len(set(schedules))
    assert any(line.startswith("ONE WORKLOAD") for line in remarks(one)) is told


def test_conditions_are_listed_by_class() -> None:
    """Performance makes it a comparison under different conditions, info does not, runs differ by nature."""
    a = stamp_of(hardware__cpu_model="x", identity__argv=["1"], run__run_id="1", engine__slots=1, software__gone=3)
    b = stamp_of(hardware__cpu_model="y", identity__argv=["2"], run__run_id="2", engine__slots=8)
    found = {one.name: one.comparability for one in differences(a, b)}
    assert "run.run_id" not in found
    assert found["engine.slots"] == "performance"
    assert found["identity.argv"] == "info"
    assert "software.gone" in found
    sides = [side_of("a", trial_of(conditions=a)), side_of("b", trial_of(conditions=b))]
    assert compare(sides)["comparisons"][0]["different_conditions"] is True
    only_engine = [side_of(n, trial_of(conditions=stamp_of(engine__slots=s))) for n, s in (("a", 1), ("b", 8))]
    assert compare(only_engine)["comparisons"][0]["different_conditions"] is False


def test_of_two_objects_the_lines_show_what_differs() -> None:
    """Not the long beginning that they have in common, which would be the same text twice."""
    same = {"branch": "main", "commit": "c" * 60}
    a, b = (stamp_of(identity__git={**same, "diff": {"files": 3, "sha256": word}}) for word in ("aaaa", "bbbb"))
    (one,) = compare([side_of("a", trial_of(conditions=a)), side_of("b", trial_of(conditions=b))])["comparisons"]
    (line,) = difference_lines(one)
    assert line == "performance: identity.git: {'diff': {'sha256': 'aaaa'}}, {'diff': {'sha256': 'bbbb'}}"
    assert one["differences"]["performance"][0]["a"]["commit"] == "c" * 60


def test_a_figure_missing_in_one_run_is_not_compared() -> None:
    """Leaving the run out would be choosing: the figure has its reason, the others stand."""
    pairs = [(summary_of(), summary_of(ttft_p99=None if at == 3 else 100.0, reason="OVERLOADED")) for at in range(6)]
    figures = {one.name: one for one in decide([pairs])[0]}
    assert (figures["ttft_p99"].contrast, figures["ttft_p99"].reason) == (None, "OVERLOADED")
    assert figures["ttft_p50"].contrast is not None
    assert overall(decide([pairs])[0]) == UNRESOLVED


def test_a_zero_has_no_ratio() -> None:
    """Goodput 0 on one side: differences are compared, and it is said."""
    pairs = [(summary_of(goodput=4.0 + at), summary_of(goodput=0.0)) for at in range(6)]
    (found,) = decide([pairs], ["goodput"])[0]
    told = found.to_json()
    assert (found.word, told["difference"]) == (WORSE, -6.5)
    assert "ratio" not in told and "NO_RATIO" in told["reason"]


def test_gates_of_a_comparison() -> None:
    """Relative to A on the pairs, absolute on B; a run that is INVALID passes none."""
    gates = parse_gates("ttft_p99>+10%,attainment<99%,e2e_p99>10s")
    a, b = trials(1.0), trials(1.2)
    found = compare([side_of("a", *a), side_of("b", *b)], gates)["comparisons"][0]["gates"]
    assert [gate["passed"] for gate in found] == [False, False, True]
    bad = [*b[:-1], trial_of(b[-1].summary, b[-1].schedule_sha256, invalid=("FAILURES",))]
    one = compare([side_of("a", *a), side_of("b", *bad)], gates)["comparisons"][0]
    assert not any(gate["passed"] for gate in one["gates"])
    assert one["invalid"] == [{"side": "b", "run": bad[-1].folder.name, "codes": "FAILURES"}]


def test_few_pairs_say_how_many_it_takes() -> None:
    """Three pairs can show nothing; the remark says six."""
    document = compare([side_of("a", *trials(1.0, pairs=3)), side_of("b", *trials(1.2, pairs=3))])
    assert document["comparisons"][0]["conclusion"] == UNRESOLVED
    assert "6 pairs are the fewest" in markdown(document)


@pytest.mark.parametrize(
    ("b_tokens", "ratio", "flagged"), [(32.0, 1.0, False), (34.9, 1.09, False), (26.0, 0.81, True)]
)
def test_answers_of_another_length_are_flagged(b_tokens: float, ratio: float, flagged: bool) -> None:
    """More than 10 % longer or shorter: E2E and throughput are of other work, and the remark says so."""
    sides = [
        side_of(name, *(replace(one, mean_output_tokens=tokens) for one in trials(1.0)))
        for name, tokens in (("a", 32.0), ("b", b_tokens))
    ]
    (one,) = compare(sides)["comparisons"]
    assert one["cells"][0]["output_lengths"]["ratio"] == pytest.approx(ratio, abs=0.005)
    assert any("OTHER LENGTHS" in line for line in remarks(one)) is flagged


def test_request_differences_are_a_picture() -> None:
    """Of the requests that both served: quantiles, share that fared better, and two heaps where there are two."""
    draw = np.random.default_rng(1)
    a = draw.normal(100, 1, 2_000) * 1e6
    b = a + (draw.normal(0, 1, 2_000) + 9 * (np.arange(2_000) % 4 == 0)) * 1e6
    b[0] = np.inf
    found = request_differences([({"ttft": a}, {"ttft": b})])["ttft"]
    assert (found["n"], found["left_out"], found["two_modes"]) == (1_999, 1, True)
    assert found["lower_share"] == pytest.approx(0.375, abs=0.03)
    assert sum(found["histogram"]["counts"]) == pytest.approx(1_999, rel=0.03)
    assert "reason" in request_differences([({"ttft": a[:3]}, {"ttft": b[:3]})])["ttft"]


def test_markdown_cannot_be_broken_by_a_name() -> None:
    """Bars, backticks, tags and line ends of a label stay text in their cell."""
    evil = "a|b`<img src=x>\n# head"
    text = markdown(compare([side_of(evil, *trials(1.0)), side_of("b", *trials(1.2))], parse_gates("ttft_p99>+10%")))
    assert "\n# head" not in text
    assert "<img" not in text.replace("\\<img", "")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {8}
    assert escaped("a_b") == "a\\_b"


def test_junit_is_xml_whatever_the_names_are() -> None:
    """A test a gate, failures with their line; control characters cannot break the document."""
    gates = parse_gates("ttft_p99>+10%,e2e_p99>10s")
    document = compare([side_of("a\x00\x1b<", *trials(1.0)), side_of("b", *trials(1.2))], gates)
    root = ElementTree.fromstring(junit(suites_of(document)).encode())
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failures = [case.find("failure") for case in suite]
    assert failures[0] is not None and "changed by" in (failures[0].get("message") or "")
    assert failures[1] is None


def test_rows_for_people_have_every_column() -> None:
    """Also for what is missing, zero or withheld."""
    pairs = [side_of("a", trial_of(summary_of(ttft_p50=None))), side_of("b", trial_of(summary_of(goodput=0.0)))]
    cell = compare(pairs)["comparisons"][0]["cells"][0]
    told = {row[0]: row for row in rows(cell)}
    assert all(len(row) == 7 for row in told.values())
    assert told["TTFT p50"][6] == "not compared: N_TOO_SMALL"
    assert "apart" in told["goodput"][3]
