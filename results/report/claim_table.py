"""What the two texts claim, beside what this sweep's rows say. To add a claim: one rule, one row of the table.

The quotations and the figures in the third column are the texts' own; every other number is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from results.report.claim_rules import (
    a_third_wasted,
    eight_for_free,
    gap_tail,
    gives_back,
    itl_slightly_worse,
    largest_improvement,
    newcomers_wait,
    short_answers_wait,
    throughput_rises,
    ttft_improves,
    twenty_four_requests,
)
from results.report.claims import Claim, Outcome, Source
from results.report.evidence import Evidence
from results.report.folder import Folder


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim and the rule that judges it."""

    quote: str
    source: Source
    theirs: str
    """The texts' own figures."""
    rule: Callable[[Evidence], Outcome]


FIRST = Source("first text", "24 requests a point, once; 4x x86_64 CPU, torch 2.14.0+cu130")
MIX = Source("first text", "one batch of outputs 8, 4 and 12")
SECOND = Source("second text", "computed: Llama 3.1 8B, BF16, one H100, 8 requests")
NEITHER = Source("in neither text", "the first text's")
LENGTHS = Source("second text", "computed: replies of 100, 200, 300 and 1,000 tokens")

CLAIMS = (
    ClaimRow("“TTFT improves at every load”", FIRST, "16/s: 1.322 → 0.2694 s", ttft_improves),
    ClaimRow("“Throughput rises sharply”", FIRST, "16/s: 204.7 → 355.8 tok/s", throughput_rises),
    ClaimRow("ITL “got slightly worse than the one-at-a-time engine”", FIRST, "16/s: 0.0044 → 0.0106 s",
             itl_slightly_worse),
    ClaimRow("“A third of the slots computed in that batch produced tokens nobody received”", MIX,
             "a third, counted by a test", a_third_wasted),
    ClaimRow("“Throughput goes up ~8× and nobody's step got noticeably slower”", SECOND,
             "~4.8 ms with 1 request and with 8", eight_for_free),
    ClaimRow("“Static batching gives much of its gain back”", FIRST, "16/s: one 204.7, static 355.8, continuous "
             "444.3 tok/s", gives_back),
    ClaimRow("“short answers wait for long ones”", LENGTHS, "ready after 0.5 s, handed back after 5 s",
             short_answers_wait),
    ClaimRow("“new requests wait at the door”", LENGTHS, "5 s", newcomers_wait),
    ClaimRow("Removing the boundary “produces the largest single improvement in the scorecard”", FIRST,
             "16/s: 355.8 → 444.3 tok/s, TTFT p50 0.2694 → 0.0235 s", largest_improvement),
    ClaimRow("Not said: continuous batching has a longer tail of gaps", NEITHER, "ITL as a mean per request only",
             gap_tail),
    ClaimRow("Not said: 24 requests a point cannot carry these claims", NEITHER, "24 requests a point, once",
             twenty_four_requests),
)  # fmt: skip


def judged_claims(folder: Folder) -> tuple[Claim, ...]:
    """In the order of the table."""
    evidence = Evidence(folder)
    return tuple(Claim(row.quote, row.source, row.theirs, row.rule(evidence)) for row in CLAIMS)
