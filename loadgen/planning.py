"""The cheapest fleet that meets an SLO: policy, batch size, tensor parallel degree and replicas, each tried by playing.

For each policy, batch size and degree the replicas are doubled until the SLO is met and then bisected, which takes it
for granted that more of them do not make it worse. What costs far more than what has met it already is not tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engines.catalog import POLICIES
from loadgen.engine_spec import make_engine, split_spec
from loadgen.fleet import Served, play_fleet
from loadgen.plan_options import PlanOptions
from results.schedule import Schedule
from results.slo import FLUIDITY, Slo
from results.stats import quantile

NS_PER_MS = 1e6
SMALL = 1e-9
"""So that 99 % of 100 are 99, whatever the rounding of the product."""
WITHOUT_BATCH = ("one-by-one", "naive")


@dataclass(frozen=True, slots=True)
class Setup:
    """One replica: what runs on how many devices of which kind."""

    engine: str
    """A spec as `run` takes it."""
    hardware: str
    batch: int | None
    tp: int
    price_per_h: float
    """Of the replica."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A fleet that was played, or a replica that cannot be."""

    setup: Setup
    replicas: int
    devices: int
    price_per_h: float
    attainment_fraction: float | None
    limit_ratio: float | None
    """Of each request the worst of value / limit; of these the quantile that --attainment asks for. Above 1: missed.
    None: it failed."""
    meets: bool
    busy_fraction: float | None = None
    figures_ms: dict[str, float | None] | None = None
    """p50 and p99 of TTFT and TPOT; null where too many failed or too few have it."""
    reason: str | None = None
    """Why it cannot be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What came out."""

    cheapest: Tried | None
    tried: tuple[Tried, ...]
    pareto: tuple[Tried, ...]
    """Fleets that none beats in price and distance from the limits at once, from the cheapest up."""


def setups(options: PlanOptions) -> Iterator[Setup]:
    """Everything to try, small replicas first. ValueError when prices do not match the hardware."""
    if len(options.price_per_h) != len(options.hardware):
        raise ValueError(
            f"--price is given {len(options.price_per_h)} times for {len(options.hardware)} kinds of hardware: "
            "give one price an hour and device for each --hardware"
        )
    for tp, (hardware, price), engine in product(
        options.degrees, zip(options.hardware, options.price_per_h, strict=True), options.engine
    ):
        name, told = split_spec(engine)
        if name not in POLICIES:
            raise ValueError(f"unknown engine {name!r}: a plan knows {', '.join(POLICIES)}")
        if "executor" in told:
            raise ValueError(f"engine {engine!r} names an executor: a plan runs on the roofline of --hardware")
        own = name in WITHOUT_BATCH or "batch" in told
        for batch in (None,) if own else reversed(options.batches):
            size = "" if batch is None else f",batch={batch}"
            spec = f"{engine}{size},executor=roofline,hardware={hardware},model={options.model},tp={tp}"
            yield Setup(spec, hardware, batch, tp, price * tp)


def plan(
    schedule: Schedule, slo: Slo, options: PlanOptions, progress: Callable[[Tried], None] = lambda tried: None
) -> Plan:
    """Try, and choose. ValueError in one line for options that cannot be, or when no setup can be built at all."""
    if FLUIDITY in slo.metrics:
        raise ValueError("a plan judges by limits of times: leave fluidity out of --slo")
    tried: list[Tried] = []
    cheapest: Tried | None = None
    for setup in setups(options):
        for one in _search(schedule, slo, options, setup, cheapest):
            tried.append(one)
            progress(one)
            if one.meets and (cheapest is None or one.price_per_h < cheapest.price_per_h):
                cheapest = one
    impossible = [one.reason for one in tried if one.reason]
    if impossible and len(impossible) == len(tried):
        raise ValueError(impossible[0])
    return Plan(cheapest, tuple(tried), pareto(tried))


def pareto(tried: Sequence[Tried]) -> tuple[Tried, ...]:
    """Those that none beats in price and distance from the limits at once; the first of equals."""
    front: list[Tried] = []
    known = [(one, one.limit_ratio) for one in tried if one.limit_ratio is not None]
    best_ratio = np.inf
    for one, ratio in sorted(known, key=lambda pair: (pair[0].price_per_h, pair[1])):
        if ratio < best_ratio:
            front.append(one)
            best_ratio = ratio
    return tuple(front)


def _search(
    schedule: Schedule, slo: Slo, options: PlanOptions, setup: Setup, cheapest: Tried | None
) -> Iterator[Tried]:
    """Fleets of one setup, up to the fewest replicas that meet the SLO and cost less than what is known."""
    try:
        make_engine(setup.engine, "modelled", schedule)
    except ValueError as error:
        if "take more of them" not in str(error):
            raise
        yield Tried(setup, 1, setup.tp, setup.price_per_h, None, None, False, reason=str(error))
        return
    most = options.most_devices // setup.tp
    if cheapest is not None:
        most = min(most, int(options.dearer_ratio * cheapest.price_per_h / setup.price_per_h))
    below, replicas = 0, 1
    while replicas <= most:
        one = _play(schedule, slo, options, setup, replicas)
        yield one
        if one.meets:
            break
        below, replicas = replicas, min(2 * replicas, most) if replicas < most else most + 1
    else:
        return
    above = replicas
    while above - below > 1:
        middle = (above + below) // 2
        one = _play(schedule, slo, options, setup, middle)
        yield one
        below, above = (below, middle) if one.meets else (middle, above)


def _play(schedule: Schedule, slo: Slo, options: PlanOptions, setup: Setup, replicas: int) -> Tried:
    served = play_fleet(schedule, lambda: make_engine(setup.engine, "modelled", schedule), replicas, options.router)
    attained = slo.attained(served.values_ns)
    ratio = _limit_ratio(served, slo, options.attainment_fraction)
    return Tried(
        setup, replicas, replicas * setup.tp, replicas * setup.price_per_h, float(attained.mean()), ratio,
        ratio is not None and ratio <= 1, served.busy_fraction, _figures(served),
    )  # fmt: skip


def _limit_ratio(served: Served, slo: Slo, share_fraction: float) -> float | None:
    """At most 1 exactly when that share of the requests meets every limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.nan_to_num(served.values_ns[name] / limit_ns) for name, limit_ns in slo.limits_ns.items()]
    failed = np.isinf(served.values_ns["e2e"])
    worst = np.where(failed, np.inf, np.max(ratios, axis=0))
    ratio = float(np.sort(worst)[int(np.ceil(share_fraction * len(worst) - SMALL)) - 1])
    return ratio if np.isfinite(ratio) else None


def _figures(served: Served) -> dict[str, float | None]:
    told: dict[str, float | None] = {}
    for name in ("ttft", "tpot"):
        values = served.values_ns[name]
        for word, q in (("p50", 0.5), ("p99", 0.99)):
            value = quantile(values[~np.isnan(values)], q)[0]
            told[f"{name}_{word}"] = None if value is None else value / NS_PER_MS
    return told
