"""What an A/B session takes beside a run's options; light, because the command's help is made from it."""

from dataclasses import dataclass

from loadgen.option import row
from loadgen.units import parse_count


@dataclass(frozen=True, slots=True)
class AbOptions:
    """The two sides, and how many pairs of runs."""

    a: str | None = row("--a", str, "engine spec or address of a server: the baseline", "engine", unit="SPEC|URL")
    b: str | None = row("--b", str, "what is compared with it", "engine", unit="SPEC|URL")
    pairs: int | None = row(
        "--pairs", parse_count, "pairs of runs  [6, extended to 10 when undecided]", "run", unit="K"
    )
