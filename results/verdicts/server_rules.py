"""Rules about a server's side: its limits on us, its caches and its tricks, and what it tells."""

import numpy as np

from results.columns import NULL, int64, is_null
from results.metrics import completed
from results.remote import column
from results.verdicts.applicability import Outcome
from results.verdicts.case import NOT_APPLICABLE, PASSED, TOO_LITTLE, Case, Ruling
from results.verdicts.run_facts import AS_IS, CACHE_STATES, COLD

TOO_MANY_REQUESTS = 429
NOT_LET_IN = (401, 403)
NS_PER_S = 1e9
SLOT_FIGURES = ("slots.unused_slot_fraction", "slots.wasted_slot_fraction", "slots.slot_time_share")


def rate_limited(case: Case) -> Ruling:
    """Nobody was turned away by a rate limit: what is left then is the contract's capacity, not the server's."""
    limited = case.expected & (column(case.recording.requests, "http_status") == TOO_MANY_REQUESTS)
    count = int(limited.sum())
    if count <= case.thresholds.rate_limited_requests:
        return PASSED
    return Ruling(
        Outcome.FAILED,
        f"{count} of {int(case.expected.sum())} requests were answered with 429: this is the contract's limit, not "
        "the server's capacity",
        "offer less than the limit, or have it raised for this key",
    )


def auth_expired(case: Case) -> Ruling:
    """A key that worked goes on working."""
    requests = case.recording.requests
    ended = int64(requests["end_ns"])
    good = case.expected & completed(case.recording) & (ended != NULL)
    if not good.any():
        return TOO_LITTLE
    refused = np.isin(column(requests, "http_status"), NOT_LET_IN) & case.expected
    after = refused & (ended > int(ended[good].min()))
    count = int(after.sum())
    if count <= case.thresholds.auth_expired_requests:
        return PASSED
    since_s = int(ended[after].min()) / NS_PER_S
    return Ruling(
        Outcome.FAILED,
        f"{count} requests were refused with 401 or 403 after others had been let in, the first at {since_s:.3f} s",
        "use a key that outlives the run",
    )


def cache_unexpected(case: Case) -> Ruling:
    """Prompt tokens came from a cache as often as was declared: never, or at the expected share."""
    facts, requests = case.facts, case.recording.requests
    prompts, cached = column(requests, "told_prompt_tokens"), column(requests, "cached_tokens")
    tells = case.counted & completed(case.recording) & ~is_null(prompts) & ~is_null(cached)
    total = int(prompts[tells].sum())
    if facts.cache_state == AS_IS:
        return NOT_APPLICABLE
    expected = 0.0 if facts.cache_state == COLD else facts.expected_hit_fraction
    if facts.cache_state not in CACHE_STATES or expected is None or not total:
        return TOO_LITTLE
    share = int(cached[tells].sum()) / total
    if abs(share - expected) <= case.thresholds.cache_fraction:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"{share:.1%} of the prompt tokens came from a cache; declared is {facts.cache_state}, {expected:.1%}",
        "prompts that differ from run to run are not cached; or declare the cache as it is",
    )


def speculation_on_random_text(case: Case) -> Ruling:
    """Drafting is measured on text that a model would write: random text and forced lengths make it look bad."""
    facts = case.facts
    if facts.speculated is None:
        return TOO_LITTLE
    forced = case.recording.schedule.recipe.get("sampling", {}).get("ignore_eos", True)
    reasons = {"prompts are random text": facts.synthetic_prompts, "the end of text is ignored": forced}
    why = [reason for reason, is_so in reasons.items() if is_so]
    if not facts.speculated or not why:
        return PASSED
    return Ruling(
        Outcome.WARNED,
        f"the server drafts tokens ahead while {' and '.join(why)}",
        "use real prompts and --eos stop to see what speculation is worth, or turn it off",
    )


def not_observable(case: Case) -> Ruling:
    """The slots of the target can be seen."""
    told = case.facts.slots_observed if case.over_wire else bool(case.recording.steps["told"].any())
    if told is None:
        return TOO_LITTLE
    if told:
        return PASSED
    text = "the server tells nothing of its slots" if case.over_wire else "the engine tells nothing of its slots"
    remedy = (
        "point --metrics-url at its metrics, and give --slots where it does not tell how many it has"
        if case.over_wire
        else "return the work of each step from step()"
    )
    return Ruling(Outcome.FAILED, text, remedy, dict.fromkeys(SLOT_FIGURES, text))
