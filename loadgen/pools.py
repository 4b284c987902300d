"""Two pools: some replicas compute prompts, others answer, and each prompt's cache goes from one to the other.

The first token comes out of the prefill and reaches whoever asked when the cache is where the answer goes on. Each
replica of the prefill pool sends one cache after the other, in the order in which they are ready. A link has a
bandwidth and nothing else, and sending costs the replicas nothing.
"""

from dataclasses import dataclass

import numpy as np

from loadgen.fleet import Float64, Served, play_fleet
from loadgen.routing import MakeEngine
from results.columns import Int64, int64
from results.schedule import Schedule, make_schedule

PS_PER_S, PS_PER_NS = 10**12, 1_000


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one engine."""

    make_engine: MakeEngine
    replicas: int


@dataclass(frozen=True, slots=True)
class Link:
    """What a replica sends caches over."""

    token_kv_bytes: int
    """What a token keeps in the cache."""
    second_bytes: int
    """What goes over it in a second."""

    def transfer_ps(self, prompt_tokens: int) -> int:
        """How long a prompt's cache is under way."""
        return round(prompt_tokens * self.token_kv_bytes * PS_PER_S / self.second_bytes)


def play_pools(schedule: Schedule, prefill: Pool, decode: Pool, link: Link, router: str = "round-robin") -> Served:
    """The engines of `decode` must take prompts that come computed.

    ValueError where requests wait for answers of others, and as `play_fleet`.
    """
    if len(schedule.after_ids):
        raise ValueError("requests wait for answers of others, and two pools play due times alone: leave --pools out")
    prompts = _schedule(schedule, np.arange(len(schedule)), schedule.due_ns, 0, schedule.output_tokens * 0 + 1)
    prompted = play_fleet(prompts, prefill.make_engine, prefill.replicas, router)
    arrived_ns = _arrived_ns(schedule, prompted, link)
    goes_on = np.isfinite(arrived_ns) & (schedule.output_tokens > 1)
    rows = np.argsort(np.where(goes_on, arrived_ns, np.inf), kind="stable")[: int(goes_on.sum())]
    if not len(rows):
        return _together(schedule, arrived_ns, prompted, None, int64(rows), decode.replicas)
    answers = _schedule(schedule, int64(rows), int64(arrived_ns[rows]), 1, schedule.output_tokens[rows] - 1)
    answered = play_fleet(answers, decode.make_engine, decode.replicas, router)
    return _together(schedule, arrived_ns, prompted, answered, int64(rows), decode.replicas)


def _schedule(schedule: Schedule, rows: Int64, due_ns: Int64, more_tokens: int, output_tokens: Int64) -> Schedule:
    """These requests at other times, with `more_tokens` of their answers before them."""
    return make_schedule(
        due_ns, schedule.prompt_tokens[rows] + more_tokens, output_tokens, session=schedule.session[rows],
        turn=schedule.turn[rows], request_class=schedule.request_class[rows], class_names=schedule.class_names,
        phase=schedule.phase[rows], recipe=schedule.recipe,
    )  # fmt: skip


def _arrived_ns(schedule: Schedule, prompted: Served, link: Link) -> Float64:
    """When each request's cache is in the decoding pool; when its answer is complete, where it has one token."""
    arrived_ns = schedule.due_ns + prompted.values_ns["e2e"]
    free_ps = dict.fromkeys(range(prompted.replicas), 0)
    for request_id in np.argsort(arrived_ns, kind="stable").tolist():
        if np.isinf(arrived_ns[request_id]) or schedule.output_tokens[request_id] == 1:
            continue
        replica = int(prompted.replica[request_id])
        begin_ps = max(free_ps[replica], int(arrived_ns[request_id]) * PS_PER_NS)
        free_ps[replica] = begin_ps + link.transfer_ps(int(schedule.prompt_tokens[request_id]))
        arrived_ns[request_id] = -(-free_ps[replica] // PS_PER_NS)
    return arrived_ns


def _together(
    schedule: Schedule, arrived_ns: Float64, prompted: Served, answered: Served | None, rows: Int64,
    decode_replicas: int,
) -> Served:  # fmt: skip
    """The latencies of whole requests: `rows` are those that went on to the second pool."""
    e2e_ns, tpot_ns, stall_ns = arrived_ns - schedule.due_ns, *np.full((2, len(schedule)), np.nan)
    ttft_ns = e2e_ns.copy()
    if answered is not None:
        told = answered.values_ns
        e2e_ns[rows] += told["e2e"]
        tpot_ns[rows] = told["e2e"] / (schedule.output_tokens[rows] - 1)
        stall_ns[rows] = np.fmax(told["ttft"], told["stall"])
    values_ns = {"ttft": ttft_ns, "tpot": tpot_ns, "e2e": e2e_ns, "stall": stall_ns}
    values_ns["norm"] = e2e_ns / schedule.output_tokens
    for values in values_ns.values():
        values[np.isinf(e2e_ns)] = np.inf
    served = [prompted] if answered is None else [prompted, answered]
    return Served(
        values_ns, prompted.replica, sum(one.output_tokens for one in served), prompted.replicas + decode_replicas,
        sum(one.busy_ns for one in served), max(one.end_ns for one in served),
    )  # fmt: skip
