"""What a search for a capacity takes beside a run's options; light, because the command's help is made from it."""

from dataclasses import dataclass

from loadgen.option import row
from loadgen.units import parse_count, parse_number

SEEDS, REQUESTS, BRACKET_REQUESTS = 5, 1_000, 300
PERCENT = 100.0


def parse_share(text: str) -> float:
    """`90%`: above 0, at most 1."""
    value = parse_number(text.removesuffix("%")) / (PERCENT if text.endswith("%") else 1.0)
    if not 0 < value <= 1 or not text.endswith("%"):
        raise ValueError(f"{text!r} is not a share: write it in percent, as in 99%")
    return value


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """What a search takes beside a run's options."""

    attainment_fraction: float = row(
        "--attainment", parse_share, "share of requests that must meet --slo", "run", 0.9, unit="SHARE",
        show=lambda value: f"{PERCENT * value:g}%",
    )  # fmt: skip
    requests: int | None = row("--requests", parse_count, f"of each probe  [{REQUESTS}]", "workload", unit="N")
    start_rps: float | None = row("--start", parse_number, "the first rate to try", "workload", unit="REQ/S", show=repr)
    repeats: int | None = row("--repeats", parse_count, f"seeds, each searched alone  [{SEEDS}]", "run", unit="K")
