"""What a plan takes beside a workload; light, because the command's help is made from it."""

from dataclasses import dataclass

from loadgen.capacity_options import PERCENT, parse_share
from loadgen.option import choice, row
from loadgen.units import parse_count, parse_number

ROUTER_NAMES = ("round-robin", "least-loaded", "session")


def parse_counts(text: str) -> tuple[int, ...]:
    """`1,2,4`: each once, in ascending order."""
    return tuple(sorted({parse_count(part.strip()) for part in text.split(",")}))


def show_counts(counts: tuple[int, ...]) -> str:
    """What `parse_counts` reads."""
    return ",".join(map(str, counts))


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
