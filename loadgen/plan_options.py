"""What a plan takes beside a workload; light, because the command's help is made from it."""

from dataclasses import dataclass

from engines.hardware import MOST_DEVICES
from loadgen.capacity_options import PERCENT, parse_share
from loadgen.option import choice, row
from loadgen.units import BYTES_PER_UNIT, parse_bytes, parse_count, parse_number

BYTES_PER_GB, BYTES_PER_MB = BYTES_PER_UNIT["GB"], BYTES_PER_UNIT["MB"]
SLOWEST_BYTES, FASTEST_BYTES = BYTES_PER_MB, 100_000 * BYTES_PER_GB
"""A second, of a --link."""
MOST_IN_ALL = 65_536
"""Devices of a fleet."""
ROUTER_NAMES = ("round-robin", "least-loaded", "session")


def parse_counts(text: str) -> tuple[int, ...]:
    """`1,2,4`: each once, in ascending order."""
    return tuple(sorted({parse_count(part.strip()) for part in text.split(",")}))


def parse_degrees(text: str) -> tuple[int, ...]:
    """As `parse_counts`, of devices that a model may be split over."""
    degrees = parse_counts(text)
    if degrees[-1] > MOST_DEVICES:
        raise ValueError(f"{text!r}: a model is split over 1 to {MOST_DEVICES} devices")
    return degrees


def parse_devices(text: str) -> int:
    """As many as a fleet can be played with."""
    devices = parse_count(text)
    if devices > MOST_IN_ALL:
        raise ValueError(f"{text!r}: a fleet has 1 to {MOST_IN_ALL} devices")
    return devices


def parse_link(text: str) -> int:
    """Bytes a second: from a slow network to more than any link has."""
    second_bytes = parse_bytes(text)
    if not SLOWEST_BYTES <= second_bytes <= FASTEST_BYTES:
        raise ValueError(f"{text!r} a second must be from {show_size(SLOWEST_BYTES)} to {show_size(FASTEST_BYTES)}")
    return second_bytes


def show_counts(counts: tuple[int, ...]) -> str:
    """What `parse_counts` reads."""
    return ",".join(map(str, counts))


def parse_pools(text: str) -> tuple[tuple[int, int], ...]:
    """`1:1,1:3`: replicas that compute prompts to replicas that answer."""
    pairs = [part.split(":") for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - two pools
        raise ValueError(f"{text!r} does not say two pools: write replicas for prompts and for answers, as in 1:3")
    return tuple(dict.fromkeys((parse_count(prefill), parse_count(decode)) for prefill, decode in pairs))


def show_pools(pools: tuple[tuple[int, int], ...]) -> str:
    """What `parse_pools` reads."""
    return ",".join(f"{prefill}:{decode}" for prefill, decode in pools)


def show_size(size_bytes: int) -> str:
    """What `parse_bytes` reads."""
    for unit, unit_bytes in (("GB", BYTES_PER_GB), ("MB", BYTES_PER_MB)):
        if size_bytes % unit_bytes == 0:
            return f"{size_bytes // unit_bytes}{unit}"
    return f"{size_bytes}B"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What may be bought, and what it must do."""

    hardware: tuple[str, ...] = row(
        "--hardware", str, "NAME or FILE.toml; again for each kind", "engine", ("h100-sxm",), unit="NAME", many=True
    )
    price_per_h: tuple[float, ...] = row(
        "--price", parse_number, "of a device an hour, in the order of --hardware", "engine", (), unit="PRICE",
        show=repr, many=True,
    )  # fmt: skip
    model: str = row("--model", str, "NAME or FILE.toml", "engine", "llama-3.1-8b", unit="NAME")
    engine: tuple[str, ...] = row(
        "--engine", str, "policies to try; again for each", "engine", ("continuous", "static"), unit="SPEC", many=True
    )
    batches: tuple[int, ...] = row(
        "--batch", parse_counts, "batch sizes to try", "engine", (8, 32, 128, 256), unit="LIST", show=show_counts
    )
    degrees: tuple[int, ...] = row(
        "--tp", parse_degrees, "tensor parallel degrees to try", "engine", (1, 2, 4, 8), unit="LIST", show=show_counts
    )
    pools: tuple[tuple[int, int], ...] = row(
        "--pools", parse_pools, "also fleets in two pools: so many replicas for prompts to so many for answers",
        "engine", (), unit="P:D,...", show=show_pools,
    )  # fmt: skip
    prefill_engine: str = row(
        "--prefill-engine", str, "the policy of --pools for prompts", "engine", "chunked,batch=16,budget-tokens=2048",
        unit="SPEC",
    )  # fmt: skip
    link_bytes: int = row(
        "--link", parse_link, "a second between --pools, of each device", "engine", 50_000_000_000, unit="SIZE",
        show=show_size,
    )  # fmt: skip
    most_devices: int = row("--devices", parse_devices, "at most so many in all", "engine", 64, unit="N", show=str)
    dearer_ratio: float = row(
        "--dearer", parse_number, "try what costs up to so many times the cheapest", "engine", 2.0, unit="X", show=repr
    )
    router: str = row(
        "--router", choice(ROUTER_NAMES), "who sends requests to replicas", "engine", "round-robin",
        choices=ROUTER_NAMES,
    )  # fmt: skip
    attainment_fraction: float = row(
        "--attainment", parse_share, "share of requests that must meet --slo", "run", 0.99, unit="SHARE",
        show=lambda value: f"{PERCENT * value:g}%",
    )  # fmt: skip
