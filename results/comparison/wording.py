"""A comparison in words: the same cells and sentences for the terminal, for Markdown and for JUnit."""

from collections.abc import Iterator, Mapping
from math import expm1, log
from typing import Any

from results.comparison.conditions import apart
from results.figures import shown
from results.outputs import LENGTH_MARGIN_RATIO
from results.report.plain import plain

Json = Mapping[str, Any]
COLUMNS = ("", "A", "B", "B / A", "95 % interval", "p", "finding")
LONGEST_VALUE = 60
BARS = " ▁▂▃▄▅▆▇█"
PERCENT = 100.0


def title_of(document: Json, comparison: Json) -> str:
    """`A against B: worse`."""
    return f"{label(comparison['b'])} against {label(document['a'])}: {comparison['conclusion']}"


def label(side: Json) -> str:
    """A side's name, safe to show."""
    return plain(str(side["label"]))


def cell_title(cell: Json) -> str:
    """Engine, load, and on how many pairs its figures stand."""
    names = [plain(str(cell["engine"])), f"at {plain(str(cell['load']))}" if cell["load"] else ""]
    where = " ".join(name for name in names if name)
    pairs = f"{cell['pairs']} pair(s) of runs" + ("" if cell["same_schedules"] else " on DIFFERENT schedules")
    return f"{where}: {pairs}" if where else pairs


def rows(cell: Json) -> Iterator[tuple[str, ...]]:
    """One row a headline figure, in the order of COLUMNS."""
    for name, figure in cell["figures"].items():
        yield (
            figure["title"],
            _side(name, figure["a"]),
            _side(name, figure["b"]),
            _centre(name, figure),
            _interval(name, figure),
            f"{figure['p_fraction']:.3g}" if "p_fraction" in figure else "-",
            finding(figure),
        )


def finding(figure: Json) -> str:
    """The word, and what it would take where nothing is resolved."""
    if "p_fraction" not in figure:
        return f"not compared: {figure['reason']}"
    word = str(figure["word"])
    if word == "same":
        return f"same within {PERCENT * figure['practical_ratio']:g} %"
    needed = figure["needed"]
    more = f"; about {needed} pairs would" if word == "unresolved" and needed and needed > figure["pairs"] else ""
    return f"{word}{more}"


def remarks(comparison: Json) -> Iterator[str]:
    """What has to be said beside the table."""
    for one in comparison["invalid"]:
        yield f"INVALID: {plain(str(one['run']))} of {plain(str(one['side']))}: {one['codes']}"
    if comparison["different_conditions"]:
        yield "different conditions: fields that should match do not (below)"
    for cell in comparison["cells"]:
        yield from _remarks_of(cell)


def request_lines(cell: Json) -> Iterator[str]:
    """Request by request, B - A: the spread, its shape, and who fared better how often."""
    for name, one in cell["requests"].items():
        if "reason" in one:
            continue
        spread = ", ".join(f"{q} {one[f'{q}_ms']:+.4g}" for q in ("p5", "p25", "p50", "p75", "p95"))
        share = f"lower in {PERCENT * one['lower_share']:.0f} %, equal in {PERCENT * one['equal_share']:.0f} %"
        yield f"per request, {name.upper()} of B - A in ms: {spread}; {share} of {one['n']}"
        counts = one["histogram"]["counts"]
        low, high = one["histogram"]["edges_ms"][0], one["histogram"]["edges_ms"][-1]
        yield f"{low:+.4g} ms {bars(counts)} {high:+.4g} ms"


def bars(counts: list[int]) -> str:
    """A histogram in one line: what is there at all is seen."""
    most = max(counts)
    return "".join(BARS[(count * (len(BARS) - 1) + most - 1) // most] for count in counts) if most else ""


def difference_lines(comparison: Json) -> Iterator[str]:
    """Every difference of conditions that matters: by class, identity first."""
    for kind in ("identity", "performance"):
        for one in comparison["differences"][kind]:
            a, b = apart(one["a"], one["b"])
            yield f"{kind}: {plain(one['field'])}: {_value(a)}, {_value(b)}"


def _remarks_of(cell: Json) -> Iterator[str]:
    where = cell_title(cell)
    unstable = [f["title"] for f in cell["figures"].values() if f["a"].get("unstable") or f["b"].get("unstable")]
    if unstable:
        yield f"UNSTABLE ({where}): {', '.join(unstable)} vary by more than 10 % from run to run"
    ratio = cell["output_lengths"]["ratio"]
    if ratio is not None and abs(ratio - 1) > LENGTH_MARGIN_RATIO:
        yield (
            f"OTHER LENGTHS ({where}): the answers of B are {ratio:.3g} x as long as those of A: E2E, throughput and "
            "goodput are of other work (pin the lengths with --eos ignore)"
        )
    if cell["schedules"] == 1 and cell["pairs"] > 1:
        yield (
            f"ONE WORKLOAD ({where}): all pairs are on one schedule, as a trace's are: what is found is of this "
            "workload, and its interval of nothing but what changes from run to run"
        )
    if cell["alpha_fraction"] is None:
        more = f"{cell['next_stage_pairs']} pairs are the fewest that can show a difference"
        yield f"{where}: {more} (--repeats {cell['next_stage_pairs']}, or tokenload ab)"
    for name, one in cell["requests"].items():
        if one.get("two_modes"):
            yield f"TWO MODES ({where}): per request the differences of {name.upper()} fall into two heaps"
    if any(cell["unpaired"]):
        yield f"{where}: runs without a partner on the same schedule: {cell['unpaired'][0]}, {cell['unpaired'][1]}"


def _side(name: str, over: Json) -> str:
    cv = over.get("run_cv")
    return shown(name, over["value"]) + (f" (CV {PERCENT * cv:.1f} %)" if cv is not None else "")


def _centre(name: str, figure: Json) -> str:
    if "ratio" in figure:
        return "-" if figure["ratio"] is None else f"{figure['ratio']:.4f}"
    return f"{shown(name, figure['difference'])} apart"


def _interval(name: str, figure: Json) -> str:
    low, high = figure.get("low"), figure.get("high")
    if low is None or high is None:
        return "-"
    if figure.get("ratio") is None:
        return f"{shown(name, low)} to {shown(name, high)}"
    return f"{PERCENT * expm1(log(low)):+.2f} % to {PERCENT * expm1(log(high)):+.2f} %"


def _value(value: Any) -> str:
    text = plain(str(value)).replace("\n", " ")
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
