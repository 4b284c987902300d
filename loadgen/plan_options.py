"""What a plan takes beside a workload; light, because the command's help is made from it."""

from dataclasses import dataclass

from loadgen.capacity_options import PERCENT, parse_share
from loadgen.option import choice, row
from loadgen.units import BYTES_PER_UNIT, parse_bytes, parse_count, parse_number

BYTES_PER_GB = BYTES_PER_UNIT["GB"]
ROUTER_NAMES = ("round-robin", "least-loaded", "session")


def parse_counts(text: str) -> tuple[int, ...]:
    """`1,2,4`: each once, in ascending order."""
    return tuple(sorted({parse_count(part.strip()) for part in text.split(",")}))


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
    return f"{size_bytes // BYTES_PER_GB}GB" if size_bytes % BYTES_PER_GB == 0 else f"{size_bytes}B"


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
        "--tp", parse_counts, "tensor parallel degrees to try", "engine", (1, 2, 4, 8), unit="LIST", show=show_counts
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
        "--link", parse_bytes, "a second between --pools, of each device", "engine", 50_000_000_000, unit="SIZE",
        show=show_size,
    )  # fmt: skip
    most_devices: int = row("--devices", parse_count, "at most so many in all", "engine", 64, unit="N", show=str)
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
