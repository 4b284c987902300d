"""The cheapest fleet that meets an SLO: policy, batch size, tensor parallel degree and replicas, each tried by playing.

For each policy, batch size and degree the replicas are doubled until the SLO is met and then bisected, which takes it
for granted that more of them do not make it worse. What costs far more than what has met it already is not tried.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from engines.catalog import POLICIES
from engines.shapes import shape_of
from loadgen.engine_spec import make_engine, split_spec
from loadgen.fleet import Served, Values, play_fleet
from loadgen.plan_options import PlanOptions
from loadgen.pools import Link, Pool, play_pools
from loadgen.routing import MakeEngine
from results.schedule import MEASURE, Schedule
from results.slo import FLUIDITY, Slo
from results.stats import quantile

NS_PER_MS = 1e6
SMALL = 1e-9
"""So that 99 % of 100 are 99, whatever the rounding of the product."""
WITHOUT_BATCH = ("one-by-one", "naive")
PREFILLED = "decode-only"
BOUGHT = {"executor", "hardware", "model", "tp"}
"""What a plan puts into the spec itself."""
NOT_THERE = ("take more of them", "has no link", "splits over")
"""What is said of a replica that this hardware cannot be, where another may."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is bought again and again: a replica, or several in two pools, on so many devices of a kind."""

    engine: str
    """A spec as `run` takes it."""
    hardware: str
    batch: int | None
    tp: int
    price_per_h: float
    """Of all its devices."""
    prefill_engine: str | None = None
    """Of the pool that computes prompts; None: there is one kind of replica, and one of it."""
    prefill_replicas: int = 0
    decode_replicas: int = 1

    @property
    def devices(self) -> int:
        """How many are bought at once."""
        return self.tp * (self.prefill_replicas + self.decode_replicas)

    @property
    def words(self) -> str:
        """Its spec, or those of its two pools."""
        if self.prefill_engine is None:
            return self.engine
        return f"({self.prefill_replicas} x {self.prefill_engine} + {self.decode_replicas} x {self.engine})"


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
    """Everything to try, small replicas first. ValueError in one line for options that cannot be."""
    _check(options)
    prices = zip(options.hardware, options.price_per_h, strict=True)
    for tp, (hardware, price) in product(options.degrees, prices):
        machine = f",executor=roofline,hardware={hardware},model={options.model},tp={tp}"
        for engine in options.engine:
            if _name_of(engine) == PREFILLED:
                raise ValueError(f"engine {engine!r} computes no prompts: give --pools, as in 1:3")
            for spec, batch in _sized(engine, options):
                yield Setup(spec + machine, hardware, batch, tp, price * tp)
        for prefill, decode in options.pools:
            for spec, batch in _sized(PREFILLED, options):
                yield Setup(
                    spec + machine, hardware, batch, tp, price * tp * (prefill + decode),
                    options.prefill_engine + machine, prefill, decode,
                )  # fmt: skip


def _check(options: PlanOptions) -> None:
    """ValueError for prices that do not match the hardware, and for what would find the wrong fleet."""
    if len(options.price_per_h) != len(options.hardware):
        raise ValueError(
            f"--price is given {len(options.price_per_h)} times for {len(options.hardware)} kinds of hardware: "
            "give one price an hour and device for each --hardware"
        )
    if len(set(options.hardware)) < len(options.hardware):
        raise ValueError(f"--hardware {','.join(options.hardware)}: give each kind once, with one --price")
    if options.dearer_ratio < 1:
        raise ValueError(f"--dearer {options.dearer_ratio:g} would leave out what is cheaper: give 1 or more")
    if options.pools and _name_of(options.prefill_engine) == PREFILLED:
        raise ValueError(f"--prefill-engine {options.prefill_engine!r} computes no prompts: give another")


def _sized(engine: str, options: PlanOptions) -> Iterator[tuple[str, int | None]]:
    """The spec with each batch size to try, where it leaves that open."""
    own = _name_of(engine) in WITHOUT_BATCH or "batch" in split_spec(engine)[1]
    for batch in (None,) if own else reversed(options.batches):
        yield engine if batch is None else f"{engine},batch={batch}", batch


def _name_of(engine: str) -> str:
    """The policy of a spec. ValueError for one that a plan does not know."""
    name, told = split_spec(engine)
    if name not in POLICIES:
        raise ValueError(f"unknown engine {name!r}: a plan knows {', '.join(POLICIES)}")
    for option in sorted(told.keys() & BOUGHT):
        article = "an" if option == "executor" else "a"
        raise ValueError(f"engine {engine!r} names {article} {option}: a plan runs on the roofline of --hardware")
    return name


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
    if not tried:
        raise ValueError(f"--devices {options.most_devices} is too few for any fleet: give more, or smaller --tp")
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
        if not any(words in str(error) for words in NOT_THERE):
            raise
        yield Tried(setup, 1, setup.devices, setup.price_per_h, None, None, False, reason=str(error))
        return
    most = options.most_devices // setup.devices
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
    served = _served(schedule, options, setup, replicas)
    values_ns = {name: values[schedule.phase == MEASURE] for name, values in served.values_ns.items()}
    attained = slo.attained(values_ns)
    ratio = _limit_ratio(values_ns, slo, options.attainment_fraction)
    return Tried(
        setup, replicas, replicas * setup.devices, replicas * setup.price_per_h, float(attained.mean()), ratio,
        ratio is not None and ratio <= 1, served.busy_fraction, _figures(values_ns),
    )  # fmt: skip


def _served(schedule: Schedule, options: PlanOptions, setup: Setup, replicas: int) -> Served:
    """So many times the setup, with every request of the schedule."""

    def maker(spec: str) -> MakeEngine:
        return lambda: make_engine(spec, "modelled", schedule)

    if setup.prefill_engine is None:
        return play_fleet(schedule, maker(setup.engine), replicas, options.router)
    link = Link(round(shape_of(options.model).token_kv_bytes), options.link_bytes * setup.tp)
    prefill = Pool(maker(setup.prefill_engine), replicas * setup.prefill_replicas)
    decode = Pool(maker(setup.engine), replicas * setup.decode_replicas)
    return play_pools(schedule, prefill, decode, link, options.router)


def _limit_ratio(values_ns: Values, slo: Slo, share_fraction: float) -> float | None:
    """At most 1 exactly when that share of the requests meets every limit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.nan_to_num(values_ns[name] / limit_ns) for name, limit_ns in slo.limits_ns.items()]
    failed = np.isinf(values_ns["e2e"])
    worst = np.where(failed, np.inf, np.max(ratios, axis=0))
    ratio = float(np.sort(worst)[int(np.ceil(share_fraction * len(worst) - SMALL)) - 1])
    return ratio if np.isfinite(ratio) else None


def _figures(values_ns: Values) -> dict[str, float | None]:
    told: dict[str, float | None] = {}
    for name in ("ttft", "tpot"):
        values = values_ns[name]
        for word, q in (("p50", 0.5), ("p99", 0.99)):
            value = quantile(values[~np.isnan(values)], q)[0]
            told[f"{name}_{word}"] = None if value is None else value / NS_PER_MS
    return told
