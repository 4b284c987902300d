"""The verdict on runs against servers: every code that a server or its client can raise fires; a clean run passes."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from loadgen.arrivals import due_times_ns
from results.columns import NULL, int64
from results.recording import PART_TABLES, Recording
from results.slo import parse_slo
from results.status import Status
from results.verdicts.applicability import CODES, Outcome, applies
from results.verdicts.client_waits import overdue_fraction
from results.verdicts.judged import facts_of, judged
from results.verdicts.run_facts import STATED, stamp_facts
from results.verdicts.stream_rules import OF_STREAMS
from results.verdicts.verdict import RULES, Verdict, judge
from tests.results.streams import Stream, streamed
from tests.results.verdicts.test_verdict import FIRES, MS, STEADY, S, check_fires, facts

US = 1_000
REQUESTS, RATE = 1200, 80.0


def stream_at(due_ns: int, tokens: int, first_ms=20, gap_ms=5, handed_us=50, **more) -> Stream:
    """A reply of so many events of one token, all of it told as a well-behaved server tells it."""
    first = due_ns + first_ms * MS
    told = {
        "dispatched_ns": due_ns + 30 * US, "connected_ns": due_ns + 40 * US, "header_ns": first - MS,
        "first_byte_ns": first, "connection_reused": 1, "http_status": 200, "told_output_tokens": tokens,
        "counted_tokens": tokens, "told_prompt_tokens": 10, "cached_tokens": 0, **more.pop("told", {}),
    }  # fmt: skip
    events = more.pop("events", [first + at * gap_ms * MS for at in range(tokens)])
    return Stream(events, due_ns, handed_ns=due_ns + handed_us * US, told=told, **more)


def refused(due_ns: int, error="connection refused", **more) -> Stream:
    """No reply at all, a millisecond after it was sent."""
    status = more.pop("status", Status.TRANSPORT_ERROR)
    return Stream((), due_ns, 4, status, None, error, due_ns + 50 * US, due_ns + MS, **more)


def client_host(cpu=0.1, seconds=15, waited=0.0):
    """Samples of a client that uses this much of a core, and waits for it for that share of its time."""
    t_ns = int64(np.arange(seconds + 1) * S)
    table = {name: np.zeros(seconds + 1, dtype=np.int64) for name in PART_TABLES["host"]}
    return {**table, "t_ns": t_ns, "wall_ns": t_ns, "process_cpu_ns": int64(t_ns * cpu),
            "run_queue_wait_ns": int64(t_ns * waited)}  # fmt: skip


def served(make=stream_at, requests=REQUESTS, rate=RATE, host=None, process="poisson", **columns) -> Recording:
    """Requests at Poisson times; `make(due_ns, tokens)` may look at its due time to go wrong there."""
    dues = due_times_ns(process, requests, rate, 3).tolist()
    lengths = np.random.default_rng(5).integers(4, 12, requests, endpoint=True).tolist()
    streams = [make(due, tokens) for due, tokens in zip(dues, lengths, strict=True)]
    host = host or client_host()
    return streamed(*streams, host=host, origin=STEADY, **columns)


@cache
def clean() -> Recording:
    """A run against a server without a fault; nobody changes it."""
    return served()


def verdict_on(recording: Recording, **more) -> Verdict:
    return judge(recording, facts(recording, "real", target="http", **more))


def some(of, every, wrong):
    """One request in `every` goes wrong, counted by its due time's order."""
    count = iter(range(10**9))
    return lambda due, tokens: (wrong if next(count) % every == every - 1 else of)(due, tokens)


def whole(due, tokens):
    return stream_at(due, tokens, events=[due + 60 * MS])


def together(due, tokens, **told):
    """All events in one read, at the end."""
    return stream_at(due, tokens, events=[due + 60 * MS] * tokens, told={"content_reads": 1, **told})


def fours(due, tokens):
    """Four tokens an event, as usage tells; the events do not."""
    return stream_at(due, 4 * tokens, events=[due + (20 + 20 * at) * MS for at in range(tokens)])


def hidden(due, tokens):
    told = {"told_output_tokens": tokens + 900, "told_reasoning_tokens": 900}
    return stream_at(due, tokens, told=told, asked=tokens + 900)


def drifting(due, tokens):
    return stream_at(due, tokens, handed_us=50 + due * 4_000 // (15 * S))


def heaped(due, tokens):
    """Ten requests due within 90 ms go out together at its end."""
    late = max(5 * S + 90 * MS - due, 0) if due >= 5 * S else 0
    return stream_at(due, tokens, handed_us=50 + late // US)


def limited(due, tokens):
    return refused(due, "429: too many requests", status=Status.SHED, told={"http_status": 429, "header_ns": due + MS})


def expired(due, tokens):
    """From the tenth second on the key is no longer valid."""
    if due < 10 * S:
        return stream_at(due, tokens)
    return refused(due, "401", status=Status.HTTP_ERROR, told={"http_status": 401, "header_ns": due + MS})


def no_ports(due, tokens):
    return refused(due, "[Errno 99] Cannot assign requested address")


def crowd(rho_ns: int):
    """A server that falls behind by so much a second: what is due later waits longer."""
    return lambda due, tokens: stream_at(due, tokens, first_ms=20 + due * rho_ns // S // MS)


HTTP_FIRES = {
    "CLIENT_LATE": lambda: (served(lambda due, tokens: stream_at(due, tokens, handed_us=6_000)), {}),
    "SCHEDULE_DRIFT": lambda: (served(drifting), {}),
    "BURSTED": lambda: (served(heaped, process="constant", rate=100.0), {}),
    "CLIENT_SATURATED": lambda: (served(host=client_host(cpu=0.8)), {}),
    "CLOCK_SKEW": lambda: (clean(), {"wall_over_monotonic_ratio": 1.02}),
    "HOST_CONTENTION": lambda: (served(host=client_host(waited=0.1)), {}),
    "WARMUP_LEAK": lambda: (clean(), {"left_in_flight_requests": 2}),
    "FAILURES": lambda: (served(some(stream_at, 50, lambda due, tokens: refused(due))), {}),
    "RATE_LIMITED": lambda: (served(some(stream_at, 500, limited)), {}),
    "AUTH_EXPIRED": lambda: (served(expired), {}),
    "PORTS_EXHAUSTED": lambda: (served(some(stream_at, 500, no_ports)), {}),
    "WRONG_LENGTHS": lambda: (
        served(some(stream_at, 50, lambda due, tokens: stream_at(due, tokens, asked=tokens + 1))), {}
    ),
    "OVERLOADED": lambda: (served(crowd(250 * MS)), {}),
    "NOT_STREAMING": lambda: (served(some(stream_at, 10, whole)), {}),
    "BUFFERED": lambda: (served(together), {}),
    "CHUNKED": lambda: (served(fours), {}),
    "NOT_OBSERVABLE": lambda: (clean(), {"slots_observed": False}),
    "CAPPED": lambda: (clean(), {"cap_requests": 64}),
    "TOKEN_COUNT_MISMATCH": lambda: (
        served(lambda due, tokens: stream_at(due, tokens, told={"counted_tokens": tokens + 3})), {}
    ),
    "CLOCK_UNCERTAIN": lambda: (clean(), {"clock_uncertainty_ns": 3 * MS}),
    "HIDDEN_TOKENS": lambda: (served(some(stream_at, 300, hidden)), {}),
    "SPECULATION_ON_RANDOM_TEXT": lambda: (clean(), {"speculated": True}),
    "CACHE_UNEXPECTED": lambda: (
        served(lambda due, tokens: stream_at(due, tokens, told={"cached_tokens": 9})), {}
    ),
}  # fmt: skip
"""Code -> a run with that fault and further facts."""


@pytest.mark.parametrize("code", HTTP_FIRES)
def test_each_code_fires(code):
    """On the run with its fault: in its own list, with what was seen and what to do."""
    recording, more = HTTP_FIRES[code]()
    check_fires(code, verdict_on(recording, **more))


def test_every_rule_has_a_run_that_fires_it():
    """A rule without a negative test rots; a rule for a code outside the list cannot be read."""
    assert set(FIRES) | set(HTTP_FIRES) == set(RULES)
    assert set(CODES) - set(RULES) == {"TOO_FEW_REQUESTS"}


def test_a_clean_run_passes_everything():
    """Whatever applies to a server passes; nothing is withheld; no warning."""
    verdict = verdict_on(clean())
    assert verdict.valid
    assert not verdict.withheld
    assert not verdict.warnings
    for code, outcome in verdict.checks.items():
        assert outcome is (Outcome.PASSED if applies(code, "http") else Outcome.NOT_APPLICABLE), code
    assert verdict.load.state == "STABLE"


@pytest.mark.parametrize(
    ("facts_left_out", "codes"),
    [
        (("ceiling_eps",), ["CLIENT_SATURATED"]),
        (("cache_state",), ["CACHE_UNEXPECTED"]),
        (("speculated",), ["SPECULATION_ON_RANDOM_TEXT"]),
        (("slots_observed",), ["NOT_OBSERVABLE"]),
        (("clock_uncertainty_ns",), ["CLOCK_UNCERTAIN"]),
        (("pressure_fraction", "steal_fraction"), ["CONTENDED_HOST"]),
    ],
)
def test_what_nobody_told_is_not_said_to_have_passed(facts_left_out, codes):
    """A rule whose fact is missing says that it has too little, and does not stand against the run."""
    verdict = verdict_on(clean(), **dict.fromkeys(facts_left_out))
    assert [code for code, outcome in verdict.checks.items() if outcome == "too little to judge"] == codes
    assert verdict.valid


@pytest.mark.parametrize("code", ["NOT_STREAMING", "BUFFERED"])
def test_what_is_no_stream_has_no_times_of_tokens(code):
    """TTFT, TPOT and every gap are null with the code and without a figure beside; E2E and throughput stand."""
    recording, _ = HTTP_FIRES[code]()
    summary, _ = judged(recording, parse_slo("ttft<=1s,e2e<=2s"), facts(recording, "real", target="http"))
    for metric in ("ttft_ms", "ttft_ok_ms", "ttft_net_ms", "tpot_ms", "tpot_std_ms", "itl_ms", "icl_ms", "stall_ms"):
        assert summary[metric]["p50"] is summary[metric]["p99"] is summary[metric]["max"] is None, metric
        assert summary[metric]["reasons"]["p50"] == summary[metric]["withheld"] == code
        assert "of_this_run" not in summary[metric]
    assert summary["stalls"]["share"] is None
    assert summary["rates"]["decode_tokens_per_s"] is None
    assert summary["rates"]["reasons"]["decode_tokens_per_s"] in (code, "NO_TIME")
    assert summary["slo"]["attainment"] is summary["slo"]["goodput_rps"] is None
    assert summary["slo"]["reasons"] == {"attainment": code, "goodput_rps": code}
    assert summary["e2e_ms"]["p50"] > 0
    assert summary["rates"]["output_tokens_per_s"] > 0


def test_a_limit_on_what_stands_is_attained_all_the_same():
    """An SLO on E2E alone says nothing of tokens: a server that does not stream can meet it."""
    recording = served(whole)
    summary, _ = judged(recording, parse_slo("e2e<=1s"), facts(recording, "real", target="http"))
    assert summary["slo"]["attainment"] == 1.0


def test_chunks_take_the_name_itl_away_and_nothing_else():
    """Gaps between events of several tokens are given as what they are; TPOT counts tokens and stands."""
    recording = served(fours)
    summary, verdict = judged(recording, None, facts(recording, "real", target="http"))
    assert set(verdict.withheld) == {"itl_ms"}
    assert summary["itl_ms"]["p50"] is None
    assert summary["icl_ms"]["p50"] == 20
    assert summary["tpot_ms"]["p50"] > 0


def test_an_overload_withholds_its_latencies_in_every_split():
    """Also by class; in an overload the figures of this run stand beside, in brackets."""
    recording = served(crowd(250 * MS), request_class=[at % 2 for at in range(REQUESTS)], class_names=("a", "b"))
    summary, verdict = judged(recording, parse_slo("ttft<=2s"), facts(recording, "real", target="http"))
    assert verdict.load.latency_p_fraction is not None
    assert 0 < summary["slo"]["attainment"] < 1
    for place in (summary, *summary["by_class"].values()):
        assert place["ttft_ms"]["p50"] is None
        assert place["ttft_ms"]["of_this_run"]["p50"] > 0
        assert place["tpot_ms"]["p50"] > 0
    assert summary["ttft_net_ms"]["withheld"] == "OVERLOADED"
    assert summary["queue_wait_ms"]["p50"] == 0.05


def test_of_several_reasons_the_first_counts():
    """A server that does not stream is not said to send in blocks or chunks as well."""
    verdict = verdict_on(served(some(together, 2, whole)))
    assert verdict.checks["NOT_STREAMING"] == verdict.checks["BUFFERED"] == "failed"
    assert {finding.code for finding in verdict.withheld.values()} == {"NOT_STREAMING"}
    assert set(verdict.withheld) == set(OF_STREAMS)


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda due, tokens: together(due, tokens, content_encoding="gzip"), "compressed on the way (gzip)"),
        (lambda due, tokens: together(due, tokens, content_encoding="\x1b[31m" + "x" * 99), "(?[31mxxx"),
        (together, "in one piece"),
        (lambda due, tokens: stream_at(due, tokens, told={"content_reads": tokens // 3}), "sends in blocks"),
    ],
)
def test_the_likely_cause_of_buffering_is_named(make, cause):
    """A compressed reply, a proxy that keeps it, a network that sends in blocks; a server's text is made harmless."""
    verdict = verdict_on(served(make, requests=200))
    assert cause in verdict.withheld["ttft_ms"].text
    assert len(verdict.withheld["ttft_ms"].text) < 300


@pytest.mark.parametrize(
    ("reads_per_event", "outcome"),
    [(1.0, "passed"), (0.81, "passed"), (0.75, "warned"), (0.51, "warned"), (0.4, "failed")],
)
def test_buffering_is_judged_on_the_reads_that_carry_content(reads_per_event, outcome):
    """Up to a fifth of the events may come with the one before; below half of a read an event nothing is believed."""
    make = lambda due, tokens: stream_at(due, 100, gap_ms=1, told={"content_reads": round(100 * reads_per_event)})  # noqa: E731
    assert verdict_on(served(make, requests=200)).checks["BUFFERED"] == outcome


def test_where_reads_are_not_told_gaps_of_nothing_give_buffering_away():
    """More than half of the gaps are 0 with one token an event; with several tokens an event it is no sign."""
    pairs = lambda due, tokens: stream_at(  # noqa: E731
        due, 10, events=[due + (20 + 5 * (at // 5)) * MS for at in range(10)], told={"content_reads": NULL}
    )
    assert verdict_on(served(pairs, requests=200)).checks["BUFFERED"] == "failed"
    fours_in_pairs = lambda due, tokens: replace(  # noqa: E731
        pairs(due, tokens), told={**pairs(due, tokens).told, "told_output_tokens": 40}
    )
    assert verdict_on(served(fours_in_pairs, requests=200)).checks["BUFFERED"] == "passed"
    singles = lambda due, tokens: stream_at(due, tokens, told={"content_reads": NULL})  # noqa: E731
    assert verdict_on(served(singles, requests=200)).checks["BUFFERED"] == "passed"


def dies(at_s: int, before=stream_at):
    """A server that is gone from then on."""
    return lambda due, tokens: refused(due) if due >= at_s * S else before(due, tokens)


def nonsense(due):
    return refused(due, "no HTTP", status=Status.PROTOCOL_ERROR)


def test_a_server_that_died_is_said_to_have_died():
    """Since when nothing answered, and that everything due after it failed."""
    text = next(finding.text for finding in verdict_on(served(dies(12))).invalid if finding.code == "FAILURES")
    assert "nothing answered any more, all 2" in text
    assert "since 12.0" in text
    assert "the server died or could not be reached" in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda due, tokens: refused(due), "nothing ever answered"),
        (lambda due, tokens: stream_at(due, tokens) if due > 14 * S else refused(due), ""),
        (lambda due, tokens: refused(due, "500", status=Status.HTTP_ERROR, told={"header_ns": due + MS}), ""),
        (lambda due, tokens: nonsense(due) if due > S else stream_at(due, tokens), ""),
    ],
    ids=["never there", "there again at the end", "answers with errors", "answers with nonsense"],
)
def test_a_server_that_answers_has_not_died(make, said):
    """Failures while something still answers, errors among the answers, are failures and nothing more."""
    text = next(finding.text for finding in verdict_on(served(make)).invalid if finding.code == "FAILURES")
    assert said in text
    assert ("nothing" in text) is bool(said)


def test_a_single_last_failure_is_no_death():
    """So many that no accident explains them, three or more."""
    last = due_times_ns("poisson", 100, RATE, 3).tolist()[-2:]
    recording = served(lambda due, tokens: refused(due) if due in last else stream_at(due, tokens), requests=100)
    assert "nothing" not in next(one.text for one in verdict_on(recording).invalid if one.code == "FAILURES")


@pytest.mark.parametrize(
    ("error", "status", "fires"),
    [
        ("[Errno 24] Too many open files", Status.TRANSPORT_ERROR, True),
        ("OSError: EMFILE", Status.TIMEOUT_CONNECT, True),
        ("connection refused", Status.TRANSPORT_ERROR, False),
        ("[Errno 111] Connect call failed", Status.TRANSPORT_ERROR, False),
        ("500: Too many open files", Status.HTTP_ERROR, False),
    ],
)
def test_only_our_own_errors_say_that_our_ports_are_exhausted(error, status, fires):
    """A server that says so in its reply speaks of itself."""
    recording = served(some(stream_at, 100, lambda due, tokens: refused(due, error, status=status)), requests=200)
    assert (verdict_on(recording).checks["PORTS_EXHAUSTED"] == "failed") is fires


def test_a_key_that_never_worked_has_not_expired():
    """All refused from the start: FAILURES, and nothing said of a key that ran out."""
    always = lambda due, tokens: refused(due, "401", status=Status.HTTP_ERROR, told={"http_status": 401})  # noqa: E731
    checks = verdict_on(served(always, requests=200)).checks
    assert (checks["FAILURES"], checks["AUTH_EXPIRED"]) == ("failed", "too little to judge")
    at_first = lambda due, tokens: always(due, tokens) if due < S else stream_at(due, tokens)  # noqa: E731
    assert verdict_on(served(at_first, requests=200)).checks["AUTH_EXPIRED"] == "passed"


@pytest.mark.parametrize(
    ("state", "expected", "cached", "outcome"),
    [
        ("cold", None, 0, "passed"), ("cold", None, 1, "warned"), ("primed", 0.8, 8, "passed"),
        ("primed", 0.8, 5, "warned"), ("primed", None, 8, "too little to judge"), ("as-is", None, 9, "does not apply"),
        ("cold", None, NULL, "too little to judge"), ("lukewarm", 0.0, 0, "too little to judge"),
    ],
)  # fmt: skip
def test_a_cache_is_held_against_what_was_declared(state, expected, cached, outcome):
    """Cold: nothing comes from it; primed: the expected share; as-is: nothing was promised."""
    recording = served(lambda due, tokens: stream_at(due, tokens, told={"cached_tokens": cached}), requests=200)
    checks = verdict_on(recording, cache_state=state, expected_hit_fraction=expected).checks
    assert checks["CACHE_UNEXPECTED"] == outcome


def test_a_cap_waits_in_the_latency_and_not_in_the_clients_lateness():
    """Held back by --max-concurrency, requests go out late by wish: CAPPED, not CLIENT_LATE; without a cap, late."""
    recording = served(lambda due, tokens: stream_at(due, tokens, handed_us=500_000, first_ms=520))
    capped = verdict_on(recording, cap_requests=8)
    assert (capped.checks["CAPPED"], capped.checks["CLIENT_LATE"]) == ("warned", "passed")
    assert capped.valid
    assert verdict_on(recording).checks["CLIENT_LATE"] == "failed"
    late = served(lambda due, tokens: stream_at(due, tokens, told={"dispatched_ns": due + 6 * MS}))
    assert verdict_on(late, cap_requests=8).checks["CLIENT_LATE"] == "failed"
    untold = replace(recording, requests={**recording.requests, "dispatched_ns": np.full(REQUESTS, NULL)})
    assert verdict_on(untold, cap_requests=8).checks["CLIENT_LATE"] == "failed"


def test_a_clients_cpu_is_judged_over_five_seconds():
    """A busy second is none; five are; of several processes the busiest counts."""
    calm = client_host()
    used = calm["process_cpu_ns"].copy()
    used[6:] += S // 2
    assert verdict_on(replace(clean(), host={**calm, "process_cpu_ns": used})).checks["CLIENT_SATURATED"] == "passed"
    busy = np.concatenate([[0], np.cumsum(np.where(np.arange(15) // 5 == 1, 0.75, 0.1) * S)]).astype(np.int64)
    assert verdict_on(replace(clean(), host={**calm, "process_cpu_ns": busy})).checks["CLIENT_SATURATED"] == "failed"
    hot = client_host(cpu=0.9)
    both = {name: np.concatenate([calm[name], hot[name]]) for name in calm}
    both["worker_id"] = int64([0] * 16 + [1] * 16)
    assert verdict_on(replace(clean(), host=both)).checks["CLIENT_SATURATED"] == "failed"


def test_events_are_held_against_half_of_the_calibrated_ceiling():
    """In the busiest second."""
    moments = clean().token_t_ns
    assert moments is not None
    most = int(np.unique(moments // S, return_counts=True)[1].max())
    assert verdict_on(clean(), ceiling_eps=2.0 * most).checks["CLIENT_SATURATED"] == "passed"
    assert verdict_on(clean(), ceiling_eps=2.0 * most - 1).checks["CLIENT_SATURATED"] == "failed"


def test_many_sends_a_little_late_are_no_contention():
    """A tenth of a millisecond a thousand times a second is the usual; ten milliseconds fifty times is not."""
    usual = served(lambda due, tokens: stream_at(due, tokens, handed_us=900))
    assert verdict_on(usual).checks["HOST_CONTENTION"] == "passed"
    late = served(lambda due, tokens: stream_at(due, tokens, handed_us=4_000))
    assert verdict_on(late).checks["HOST_CONTENTION"] == "failed"


def test_time_in_which_several_are_late_counts_once():
    """Three due within 2 ms and sent together at 11 ms: 10 ms of 100 beyond the first millisecond, and not 27."""
    streams = [Stream([100 * MS], at * MS, handed_ns=11 * MS) for at in range(3)]
    assert overdue_fraction(streamed(*streams), False, MS) == pytest.approx(0.1)
    assert overdue_fraction(streamed(Stream((), status=None, asked=1)), False, MS) is None


@pytest.mark.parametrize(
    ("off", "outcome"), [(0.0005, "passed"), (0.002, "warned"), (-0.002, "warned"), (0.02, "failed")]
)
def test_clocks_may_differ_by_a_thousandth(off, outcome):
    """Warned above .1 %, INVALID above 1 %."""
    assert verdict_on(clean(), wall_over_monotonic_ratio=1 + off).checks["CLOCK_SKEW"] == outcome


def test_requests_that_overtake_one_another_are_told():
    """By more than a millisecond, whoever was first in the plan."""
    handed = int64(clean().requests["handed_ns"]).copy()
    handed[100] = handed[103]
    handed[103] -= 1
    recording = replace(clean(), requests={**clean().requests, "handed_ns": handed})
    verdict = verdict_on(recording)
    assert verdict.checks["BURSTED"] == "warned"
    assert "requests were overtaken by later ones" in verdict.warnings[0].text
    close = int(np.argmin(np.diff(int64(clean().requests["due_ns"]))))
    handed = int64(clean().requests["handed_ns"]).copy()
    handed[close] = handed[close + 1] + MS // 2
    near = replace(clean(), requests={**clean().requests, "handed_ns": handed})
    assert verdict_on(near).checks["BURSTED"] == "passed"


def test_every_fact_comes_from_run_json():
    """What stands under `facts` there is what the rules get, and what it does not know stays untold."""
    info = {"clock": "real", "schedule_sha256": "0", "target": "http", "clean_tree": True}
    bare = facts_of(info, None)
    assert (bare.kind_of_run, bare.calibrated) == ("http", False)
    assert all(getattr(bare, name) is None for name in STATED)
    stated = {"ceiling_eps": 5.0, "governors": ["a"], "cap_requests": None, "new": 1}
    told = facts_of({**info, "facts": stated}, None, 3)
    assert (told.ceiling_eps, told.governors, told.cap_requests, told.repeats) == (5.0, ("a",), None, 3)
    assert told.calibrated


def test_the_stamp_tells_its_facts():
    """Clocks, quotas, neighbours, governors and changes of the checkout, each only where the stamp knows it."""
    fields = {
        "during": {"wall_over_monotonic_ratio": 1.0, "throttled_fraction": None, "psi_cpu_some_fraction": 0.3},
        "hardware": {"governor": ["powersave"]},
        "identity": {"git": {"dirty": True}},
    }
    document = {"groups": {group: {"fields": told} for group, told in fields.items()}}
    assert json.loads(json.dumps(stamp_facts(document))) == {
        "wall_over_monotonic_ratio": 1.0, "pressure_fraction": 0.3, "governors": ["powersave"], "dirty_tree": True
    }  # fmt: skip
    assert stamp_facts({"groups": {"identity": {"fields": {"git": None}}}}) == {}


def told(tokens, events, **more):
    """One reply in 50 whose usage says so many tokens, of so many events of one token each."""

    def wrong(due, _):
        return stream_at(due, events, told={"told_output_tokens": tokens, "counted_tokens": NULL, **more}, asked=events)

    return served(some(stream_at, 50, wrong))


@pytest.mark.parametrize(("tokens", "events", "outcome"), [(5, 8, "warned"), (0, 8, "warned"), (8, 8, "passed")])
def test_a_usage_below_the_events_that_came_is_a_mismatch(tokens, events, outcome):
    """Nobody needs a tokenizer to see that 8 events that bore tokens are not 5 tokens, and not none."""
    verdict = verdict_on(told(tokens, events))
    assert verdict.checks["TOKEN_COUNT_MISMATCH"] == outcome
    (finding,) = [one for one in verdict.warnings if one.code == "TOKEN_COUNT_MISMATCH"] or [None]
    if finding is not None:
        assert "24 of 1200 replies" in finding.text
        assert f"{24 * tokens} tokens, and {24 * events} events" in finding.text
        assert ("24 of them of no token" in finding.text) == (tokens == 0)


@pytest.mark.parametrize("make", [fours, together, hidden])
def test_fewer_events_than_tokens_are_no_mismatch(make):
    """Several tokens in an event, a reply in one read, reasoning that was not sent."""
    untold = served(lambda due, tokens: replace(one := make(due, tokens), told={**one.told, "counted_tokens": NULL}))
    assert verdict_on(untold).checks["TOKEN_COUNT_MISMATCH"] == "too little to judge"


def test_a_few_contradicting_usages_are_below_the_threshold():
    """One in 300 is no more than the hundredth that may differ."""
    recording = served(some(stream_at, 300, lambda due, tokens: stream_at(due, 8, told={"told_output_tokens": 5})))
    assert verdict_on(recording).checks["TOKEN_COUNT_MISMATCH"] == "passed"


@pytest.mark.parametrize(
    ("off_ns", "first_ms", "outcome"),
    [(MS, 5, "passed"), (MS + 1, 5, "warned"), (2 * MS, 20, "passed"), (2 * MS + 1, 20, "warned")],
)
def test_a_workers_clock_may_be_off_by_a_tenth_of_ttft_or_a_millisecond(off_ns, first_ms, outcome):
    """The greater of both: 1 ms where TTFT is 5 ms, 2 ms where it is 20 ms."""
    recording = served(lambda due, tokens: stream_at(due, tokens, first_ms=first_ms))
    assert verdict_on(recording, clock_uncertainty_ns=off_ns).checks["CLOCK_UNCERTAIN"] == outcome


CLOCK = {"offset_ns": 9 * S, "uncertainty_ns": 300_000, "round_trip_ns": 600_000, "shared": False}


@pytest.mark.parametrize(
    ("workers", "off_ns"),
    [
        (None, 0),
        ([], 0),
        ([{"rank": 0, "clock": {**CLOCK, "uncertainty_ns": 0, "shared": True}}], 0),
        ([{"rank": 0, "clock": CLOCK}, {"rank": 1, "clock": {**CLOCK, "uncertainty_ns": 5}}], 300_000),
        ([{"rank": 0, "clock": {**CLOCK, "drift_ns": -200_000}}, {"rank": 1, "clock": CLOCK}], 500_000),
        ([{"rank": 0, "clock": CLOCK}, {"rank": 1, "clock": {**CLOCK, "uncertainty_ns": None}}], None),
        ([{"rank": 0, "clock": {}}], None),
        ([{"rank": 0}, 7], None),
    ],
)
def test_the_clocks_of_workers_come_from_run_json(workers, off_ns):
    """The worst counts, with its drift; where there are none there is one clock; one never measured is not known."""
    info = {"clock": "real", "schedule_sha256": "0", "target": "http", "workers": workers}
    assert facts_of(info, None).clock_uncertainty_ns == off_ns
