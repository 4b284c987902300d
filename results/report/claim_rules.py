"""The rules that judge the texts' claims, each a function of the evidence. What a word means is a constant here."""

from results.report.claim_rows import block_medians_ms, decode_step_ms, most_rows, short_answers
from results.report.claims import FAILS, HOLDS, UNJUDGED, Outcome, unjudged
from results.report.evidence import ALIKE, BETTER, MIXED, RESOLVED_RATIO, WORSE, Evidence, loads_text, series
from results.report.figures import amount, fraction, percent
from results.report.grid import rates
from results.report.load_words import short_load

SHARP_RATIO = 1.2
SLIGHT_RATIO = 1.1
NEARLY_ALL_RATIO = 0.9
MUCH_SHARE = 0.25
THIRD, THIRD_TOLERANCE = 1 / 3, 0.05
BLOCK_REQUESTS = 24
"""As many as the first text's runs had."""
TOKENS = ("rates", "output_tokens_per_s")


def ttft_improves(evidence: Evidence) -> Outcome:
    """Static against one by one: the median TTFT at each load."""
    lacks = evidence.lacks("one", "static")
    pairs = evidence.pairs("one", "static", "ttft_ms", "p50")
    if lacks or not pairs:
        return unjudged(lacks or "no load with both engines")
    here = f"TTFT p50, one-by-one → static: {series(pairs, 'ms')}"
    worse, alike, mixed = ([pair for pair in pairs if pair.change() == one] for one in (WORSE, ALIKE, MIXED))
    if worse:
        return Outcome(here, FAILS, f"worse at {loads_text(worse)}")
    if mixed:
        return Outcome(here, UNJUDGED, f"the repeats disagree at {loads_text(mixed)}")
    if alike:
        return Outcome(here, FAILS, f"no improvement seen (within {percent(RESOLVED_RATIO)}) at {loads_text(alike)}")
    return Outcome(here, HOLDS, f"better by more than {percent(RESOLVED_RATIO)} at every load of this sweep")


def throughput_rises(evidence: Evidence) -> Outcome:
    """Static against one by one: output tokens/s at each load."""
    lacks = evidence.lacks("one", "static")
    pairs = evidence.pairs("one", "static", *TOKENS)
    if lacks or not pairs:
        return unjudged(lacks or "no load with both engines")
    here = "static / one-by-one: " + ", ".join(f"{short_load(pair.load)} {amount(pair.ratio)}" for pair in pairs)
    sharp = [pair for pair in pairs if pair.ratio >= SHARP_RATIO]
    flat = [pair for pair in pairs if pair.ratio < SHARP_RATIO]
    if not sharp:
        return Outcome(here, FAILS, f"below {amount(SHARP_RATIO)}x at every load")
    where = f"by {amount(SHARP_RATIO)}x or more at {loads_text(sharp)}"
    below = f"; not at {loads_text(flat)}, where both deliver nearly what is offered" if flat else ""
    return Outcome(here, HOLDS, where + below)


def itl_slightly_worse(evidence: Evidence) -> Outcome:
    """Static against one by one: the text's ITL, which is TPOT."""
    lacks = evidence.lacks("one", "static")
    pairs = evidence.pairs("one", "static", "tpot_ms", "p50")
    if lacks or not pairs:
        return unjudged(lacks or "no load with both engines")
    rises = ", ".join(f"{short_load(pair.load)} {_change(pair.ratio)}" for pair in pairs)
    here = f"TPOT p50, one-by-one → static: {rises} ({series(pairs, 'ms')})"
    far = [pair for pair in pairs if pair.ratio > SLIGHT_RATIO]
    if far:
        return Outcome(here, FAILS, f"far more than slightly (10 %) at {loads_text(far)}")
    if all(pair.change() == WORSE for pair in pairs):
        return Outcome(here, HOLDS, "worse, by at most 10 %, at every load")
    if any(pair.change() == BETTER for pair in pairs):
        return Outcome(here, FAILS, "not worse at every load")
    return Outcome(here, UNJUDGED, f"differences within {percent(RESOLVED_RATIO)}")


def a_third_wasted(evidence: Evidence) -> Outcome:
    """wasted_slot_fraction of static batching, beside the closed form for this schedule's lengths."""
    lacks, load = evidence.lacks("static"), evidence.busiest
    wasted = evidence.mean("static", load, "slots", "wasted_slot_fraction")
    if lacks or wasted is None:
        return unjudged(lacks or "the engine does not tell its slots")
    by_load = [(one, evidence.mean("static", one, "slots", "wasted_slot_fraction")) for one in evidence.folder.loads]
    told = ", ".join(f"{short_load(one)} {fraction(value)}" for one, value in by_load if value is not None)
    here = f"wasted_slot_fraction of static: {told}{_closed_form(evidence, load)}"
    if abs(wasted - THIRD) <= THIRD_TOLERANCE:
        why = f"at {short_load(load)}, within {amount(THIRD_TOLERANCE)} of it; less where batches are small"
        return Outcome(here, HOLDS, why)
    return Outcome(here, FAILS, f"{fraction(wasted)} at {short_load(load)}: it is set by the spread of lengths and B")


def eight_for_free(evidence: Evidence) -> Outcome:
    """One decode step of a full batch against one of a single row."""
    lacks, load = evidence.lacks("one", "static"), evidence.busiest
    alone, together = evidence.recording("one", load), evidence.recording("static", load)
    if lacks or alone is None or together is None:
        return unjudged(lacks or f"no rows at {short_load(load)}")
    rows = most_rows(together)
    single_ms, full_ms = decode_step_ms(alone, 1), decode_step_ms(together, rows)
    if single_ms is None or full_ms is None or rows <= 1:
        return unjudged("no decode steps of one row and of a full batch to compare")
    gain = rows * single_ms / full_ms
    here = (
        f"a decode step takes {amount(single_ms)} ms with 1 row, {amount(full_ms)} ms with {rows} "
        f"({_change(full_ms / single_ms)}): {amount(gain)}x the tokens a step-second"
    )
    free = gain >= NEARLY_ALL_RATIO * rows
    why = f"{'at least' if free else 'below'} {percent(NEARLY_ALL_RATIO)} of {rows}x, on this machine and model"
    return Outcome(here, HOLDS if free else FAILS, why)


def gives_back(evidence: Evidence) -> Outcome:
    """How much of what continuous batching adds to one-by-one serving static batching lacks, in busy throughput."""
    lacks, load = evidence.lacks("one", "static", "continuous"), evidence.busiest
    one, static, continuous = (evidence.mean(name, load, *TOKENS) for name in ("one", "static", "continuous"))
    if lacks or one is None or static is None or continuous is None:
        return unjudged(lacks or f"no rows at {short_load(load)}")
    if continuous <= one:
        return unjudged("continuous batching gains nothing over one-by-one here")
    share = (continuous - static) / (continuous - one)
    here = (
        f"output tok/s at {short_load(load)}: one-by-one {amount(one)}, static {amount(static)}, continuous "
        f"{amount(continuous)}"
    )
    if share <= 0:
        return Outcome(here, FAILS, "continuous batching gains no more over one-by-one than static does")
    here += f": static lacks {percent(share)} of the gain that continuous has"
    much = share >= MUCH_SHARE
    return Outcome(here, HOLDS if much else FAILS, f"{'at least' if much else 'below'} a quarter of the gain")


def short_answers_wait(evidence: Evidence) -> Outcome:
    """Between the last computed token and the end of the answer, for the shorter half."""
    lacks, load = evidence.lacks("static"), evidence.saturating
    recording = evidence.recording("static", load)
    found = short_answers(recording) if recording is not None else None
    if lacks or found is None:
        return unjudged(lacks or "the engine does not tell its steps")
    here = (
        f"shorter half at {short_load(load)}, medians: last token computed → answer complete "
        f"{amount(found.answer_wait_ms)} ms; → slot free {amount(found.slot_held_ms)} ms"
    )
    if found.answer_wait_ms > 0:
        return Outcome(here, HOLDS, "answers are handed back at the batch's end (return=end)")
    return Outcome(here, FAILS, "tokens are streamed as they are computed: the slot waits, the answer does not")


def newcomers_wait(evidence: Evidence) -> Outcome:
    """Waiting for a slot, static against continuous, at the same load."""
    lacks, load = evidence.lacks("static", "continuous"), evidence.saturating
    pair = evidence.pair("static", "continuous", load, "admission_wait_ms", "slot_mean")
    if lacks or pair is None:
        static = evidence.mean("static", load, "admission_wait_ms", "slot_mean")
        return unjudged(lacks or ("no waits are told" if static is None else "static waits for no slot here"))
    here = (
        f"mean wait for a slot at {short_load(load)}: static {amount(pair.first)} ms, continuous "
        f"{amount(pair.other)} ms"
    )
    waits = pair.change() == BETTER
    why = "longer than where slots come free after any step" if waits else "not longer than in continuous batching"
    return Outcome(here, HOLDS if waits else FAILS, why)


def twenty_four_requests(evidence: Evidence) -> Outcome:
    """Blocks of 24 consecutive requests of these same runs: do they agree on which engine has the lower TTFT?"""
    lacks = evidence.lacks("one", "static")
    parts, undecided = [], []
    for load in rates(evidence.folder):
        recordings = evidence.recording("one", load), evidence.recording("static", load)
        if recordings[0] is None or recordings[1] is None:
            continue
        one, static = (block_medians_ms(recording, BLOCK_REQUESTS) for recording in recordings if recording)
        if len(one) > 1 and len(one) == len(static):
            better = sum(b < a for a, b in zip(one, static, strict=True))
            spread = f"one-by-one {amount(min(one))} to {amount(max(one))} ms"
            parts.append(f"{short_load(load)}: {spread}, static lower in {better} of {len(one)}")
            undecided += [load] if 0 < better < len(one) else []
    if lacks or not parts:
        return unjudged(lacks or f"no rate with two blocks of {BLOCK_REQUESTS} requests")
    here = f"TTFT p50 of blocks of {BLOCK_REQUESTS} requests: {'; '.join(parts)}"
    if undecided:
        where = ", ".join(short_load(load) for load in undecided)
        return Outcome(here, HOLDS, f"blocks of one and the same run disagree on which engine is better at {where}")
    return Outcome(here, FAILS, "all blocks agree on which engine is better, at every rate here")


def largest_improvement(evidence: Evidence) -> Outcome:
    """Two steps of the scorecard: one-by-one to static, static to continuous; throughput and TTFT."""
    lacks, load = evidence.lacks("one", "static", "continuous"), evidence.busiest
    first, second = evidence.pair("one", "static", load, *TOKENS), evidence.pair("static", "continuous", load, *TOKENS)
    if lacks or first is None or second is None:
        return unjudged(lacks or f"no rows at {short_load(load)}")
    rate = evidence.saturating
    waits = [evidence.pair(*names, rate, "ttft_ms", "p50") for names in (("one", "static"), ("static", "continuous"))]
    ttft = [f"{amount(1 / pair.ratio)}x" for pair in waits if pair is not None]
    here = (
        f"output tok/s at {short_load(load)}: to static {amount(first.ratio)}x, to continuous {amount(second.ratio)}x"
        + (f"; TTFT p50 at {short_load(rate)}: {' and '.join(ttft)} lower" if ttft else "")
    )
    if second.ratio > first.ratio:
        return Outcome(here, HOLDS, "the larger step in throughput")
    larger = waits[0] is not None and waits[1] is not None and waits[1].ratio < waits[0].ratio
    also = f"; in TTFT p50 at {short_load(rate)} it is the {'larger' if larger else 'smaller'} step"
    return Outcome(here, FAILS, "the smaller step in throughput" + (also if len(ttft) > 1 else ""))


def gap_tail(evidence: Evidence) -> Outcome:
    """Static against continuous: the p99 of every gap between tokens."""
    lacks = evidence.lacks("static", "continuous")
    pairs = evidence.pairs("static", "continuous", "itl_ms", "p99")
    if lacks or not pairs:
        return unjudged(lacks or "no load with both engines")
    here = f"ITL p99 of each gap, static → continuous: {series(pairs, 'ms')}"
    worse = [pair for pair in pairs if pair.change() == WORSE]
    if worse:
        return Outcome(here, HOLDS, f"longer at {loads_text(worse)}: running requests stall for others' prefill")
    return Outcome(here, FAILS, "not longer at any load here")


def _change(other_ratio: float) -> str:
    return f"{100 * (other_ratio - 1):+.0f} %".replace("-", "−")


def _closed_form(evidence: Evidence, load: str) -> str:
    recording = evidence.recording("static", load)
    engine = evidence.names["static"]
    workload = evidence.folder.at(engine, load)[0].workload if engine and recording is not None else None
    rows = most_rows(recording) if recording is not None else 0
    if workload is None or not 1 < rows <= len(workload.longest_of_batch):
        return ""
    expected = 1 - workload.mean_output_tokens / workload.longest_of_batch[rows - 1]
    return f"; 1 - E[n] / E[max of {rows}] of these lengths: {fraction(expected)}"
