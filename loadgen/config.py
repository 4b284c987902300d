"""RunConfig: the one table of options. A row is a field; from it come every command's flags, the saved config
and what other front ends offer.

A field holds the parsed value; its `Option` says how it is written, read and shown. Saved configs hold what a
person would type, so they can be read, edited and run again.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from loadgen.units import (
    format_duration_ns,
    parse_count,
    parse_duration_ns,
    parse_number,
    parse_seed,
    parse_span_ns,
    parse_temperature,
    parse_tokens,
)

ARRIVALS = ("poisson", "conditioned", "constant", "gamma", "burst", "closed")
LOWEST_CV, HIGHEST_CV = 0.01, 100.0
CLOCKS = ("charged", "modelled", "real")
CONTEXT_POLICIES = ("error", "drop", "clip-prompt", "clip-output")
PRESETS = ("seed1",)
EOS = ("ignore", "stop")
TIME_UNITS = ("s", "ms", "us", "ns", "iso")

GROUPS = {
    "workload": "Workload",
    "trace": "Trace replay",
    "engine": "Engine and clock",
    "run": "Run and output",
}


@dataclass(frozen=True, slots=True)
class Option:
    """How one field is written on a command line and in a saved config."""

    flag: str
    parse: Callable[[str], Any]
    help: str
    group: str
    unit: str = ""
    """Shown in place of the value in help."""
    show: Callable[[Any], str] = str
    choices: tuple[str, ...] = ()
    many: bool = False
    """May be given more than once."""


def _row(
    flag: str,
    parse: Callable[[str], Any],
    help: str,  # noqa: A002 - the word every command line uses
    group: str,
    default: Any = None,
    **more: Any,
) -> Any:
    return field(default=default, metadata={"option": Option(flag, parse, help, group, **more)})


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return parse


def _show_pair(separator: str, show: Callable[[int], str] = str) -> Callable[[tuple[int, int]], str]:
    def joined(pair: tuple[int, int]) -> str:
        return show(pair[0]) if pair[0] == pair[1] else separator.join(show(part) for part in pair)

    return joined


def parse_slo_text(text: str) -> str:
    """Checked now, kept as written."""
    from results.slo import parse_slo

    return str(parse_slo(text))


def parse_context(text: str) -> tuple[int, str]:
    """`1024:clip-prompt`: tokens that prompt and output must fit into, and what happens to the others."""
    tokens, _, policy = text.partition(":")
    return parse_count(tokens), _choice(CONTEXT_POLICIES)(policy or "error")


def parse_columns(text: str) -> tuple[tuple[str, str], ...]:
    """`time=ts,prompt=in,output=out`: what a trace's columns are called."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name in ("time", "prompt", "output") and separator and column for name, separator, column in pairs):
        raise ValueError(f"{text!r} does not name columns: write time=COLUMN,prompt=COLUMN,output=COLUMN")
    return tuple((name, column) for name, _, column in pairs)


def parse_cv(text: str) -> float:
    """A coefficient of variation for which the gamma distribution can be computed."""
    cv = parse_number(text)
    if not LOWEST_CV <= cv <= HIGHEST_CV:
        raise ValueError(f"{text!r} must be from {LOWEST_CV:g} to {HIGHEST_CV:g}")
    return cv


def parse_load(text: str) -> tuple[str, float]:
    """`16`, `burst` or `closed:8`: (rate | burst | closed, req/s or users)."""
    if text == "burst":
        return "burst", 0.0
    if text.startswith("closed:"):
        return "closed", float(parse_count(text.removeprefix("closed:")))
    return "rate", parse_number(text)


def parse_loads_text(text: str) -> str:
    """`auto` or a list of loads: checked now, kept as written."""
    if text != "auto":
        loads = [part.strip() for part in text.split(",")]
        for load in loads:
            parse_load(load)
        if len(set(loads)) != len(loads):
            raise ValueError(f"{text!r} names a load twice")
    return text


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides what a run does."""

    arrival: str = _row(
        "--arrival", _choice(ARRIVALS), ", ".join(ARRIVALS), "workload", "poisson", unit="PROCESS", choices=ARRIVALS
    )
    rate_rps: float | None = _row("--rate", parse_number, "mean arrival rate", "workload", unit="REQ/S", show=repr)
    requests: int | None = _row("--requests", parse_count, "how many requests  [200]", "workload", unit="N")
    duration_ns: int | None = _row(
        "--duration", parse_duration_ns, "arrivals for so long, in place of --requests", "workload", unit="60s",
        show=format_duration_ns,
    )  # fmt: skip
    cv: float | None = _row(
        "--cv", parse_cv, "variation of gamma gaps: 1 is Poisson", "workload", unit="CV", show=repr
    )
    users: int | None = _row("--users", parse_count, "users of a closed loop", "workload", unit="N")
    think_ns: int | None = _row(
        "--think", parse_duration_ns, "closed: wait between answer and next request", "workload", unit="1s",
        show=format_duration_ns,
    )  # fmt: skip
    prompt_tokens: tuple[int, int] = _row(
        "--prompt-tokens", parse_tokens, "prompt length, fixed or uniform", "workload", (32, 96), unit="LOW:HIGH",
        show=_show_pair(":"),
    )  # fmt: skip
    output_tokens: tuple[int, int] = _row(
        "--output-tokens", parse_tokens, "output length, fixed or uniform", "workload", (16, 48), unit="LOW:HIGH",
        show=_show_pair(":"),
    )  # fmt: skip
    temperature: float = _row(
        "--temperature", parse_temperature, "0: greedy; else sampled", "workload", 0.0, unit="T", show=repr
    )
    eos: str = _row(
        "--eos", _choice(EOS), "ignore: outputs as long as asked", "workload", "ignore", choices=EOS
    )
    preset: str | None = _row(
        "--preset", _choice(PRESETS), "seed1: the first text's 24 requests", "workload", choices=PRESETS
    )
    seed: int = _row("--seed", parse_seed, "of every stream of the schedule", "workload", 7, unit="N")
    trace: str | None = _row("--trace", str, "Azure CSV, plain CSV/JSONL, saved schedule", "trace",
                             unit="FILE")  # fmt: skip
    columns: tuple[tuple[str, str], ...] | None = _row(
        "--columns", parse_columns, "a plain trace's: time=T,prompt=P,output=O", "trace", unit="NAMES",
        show=lambda pairs: ",".join("=".join(pair) for pair in pairs),
    )  # fmt: skip
    time_unit: str | None = _row(
        "--time-unit", _choice(TIME_UNITS), "of a plain trace's times", "trace", choices=TIME_UNITS
    )
    window_ns: tuple[int, int] | None = _row(
        "--window", parse_span_ns, "the part of the trace to replay", "trace", unit="25m..35m",
        show=_show_pair("..", format_duration_ns),
    )  # fmt: skip
    limit: int | None = _row("--limit", parse_count, "at most so many requests of the trace", "trace", unit="N")
    speed: float | None = _row("--speed", parse_number, "replay so many times as fast", "trace", unit="X", show=repr)
    loop: int | None = _row("--loop", parse_count, "replay so many times over", "trace", unit="K")
    context: tuple[int, str] | None = _row(
        "--context", parse_context, "error, drop, clip-prompt, clip-output", "trace",
        unit="N:POLICY", show=lambda pair: f"{pair[0]}:{pair[1]}",
    )  # fmt: skip
    engine: str = _row("--engine", str, "NAME or FILE.py:CLASS, then ,key=value", "engine", "continuous", unit="SPEC")
    clock: str = _row("--clock", _choice(CLOCKS), "whose time counts", "engine", "charged", choices=CLOCKS)
    timeout_ns: int | None = _row(
        "--timeout", parse_duration_ns, "abort a request so long after it was due", "run", unit="30s",
        show=format_duration_ns,
    )  # fmt: skip
    drain_ns: int | None = _row(
        "--drain", parse_duration_ns, "abort the rest so long after the last was due", "run", unit="60s",
        show=format_duration_ns,
    )  # fmt: skip
    slo: str | None = _row("--slo", parse_slo_text, "limits for goodput", "run", "ttft<=1s,tpot<=50ms", unit="LIMITS")
    out: str = _row("--out", str, "folder for run folders", "run", "runs", unit="DIR")
    name: str | None = _row("--name", str, "part of the run folder's name", "run", unit="NAME")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What a sweep takes beside a run's options: its engines and loads in place of one of each."""

    engine: tuple[str, ...] = _row(
        "--engine",
        str,
        "again for each one",
        "engine",
        ("one-by-one", "static,batch=8", "continuous,batch=8"),
        unit="SPEC",
        show=";".join,
        many=True,
    )
    rates: str = _row(
        "--rates", parse_loads_text, "req/s, burst, closed:USERS; or auto", "workload", "4,8,16,32,burst", unit="LIST"
    )
    repeats: int = _row("--repeats", parse_count, "independent runs of each point", "run", 1, unit="K")


def options(table: type = RunConfig) -> Mapping[str, tuple[Field[Any], Option]]:
    """Field name -> its field and option, in the order of the table."""
    return {one.name: (one, one.metadata["option"]) for one in fields(table)}


def key_of(option: Option) -> str:
    """The option's name in a saved config."""
    return option.flag.removeprefix("--")


def to_json(config: RunConfig) -> dict[str, str]:
    """What a person would type, without what was left at its default."""
    shown = {}
    for name, (one, option) in options().items():
        value = getattr(config, name)
        if value != one.default and value is not None:
            shown[key_of(option)] = option.show(value)
    return shown


def to_full_json(config: RunConfig) -> dict[str, str | None]:
    """Every option with the value in force, as a person would type it; None: not set."""
    shown = {}
    for name, (_, option) in options().items():
        value = getattr(config, name)
        shown[key_of(option)] = None if value is None else option.show(value)
    return shown


def from_texts(texts: Mapping[str, str], complete: bool = True) -> RunConfig:
    """A config from option texts by key. ValueError names the option.

    Not complete: options that a sweep sets at each point may still be missing.
    """
    by_key = {key_of(option): (name, option) for name, (_, option) in options().items()}
    values: dict[str, Any] = {}
    for key, text in texts.items():
        if key not in by_key:
            raise ValueError(f"unknown option {key!r}: known are {', '.join(by_key)}")
        name, option = by_key[key]
        if not isinstance(text, str):
            raise ValueError(f"option {key!r} must be a text, as it would be typed, not {text!r}")
        try:
            values[name] = option.parse(text)
        except ValueError as error:
            raise ValueError(f"{option.flag}: {error}") from None
    config = RunConfig(**values)
    if complete:
        check(config)
    return config


def check(config: RunConfig) -> None:
    """ValueError when options contradict each other or something is missing."""
    _check_arrivals(config)
    _check_source(config)


def _check_arrivals(config: RunConfig) -> None:
    closed, burst, replay = config.arrival == "closed", config.arrival == "burst", config.trace is not None
    _refuse(config.requests is not None and config.duration_ns is not None, "give --requests or --duration, not both")
    _refuse(
        config.rate_rps is None and not (closed or burst or replay), f"--arrival {config.arrival} needs --rate (req/s)"
    )
    _refuse(closed and config.users is None, "--arrival closed needs --users")
    _refuse(not closed and config.users is not None, "--users needs --arrival closed")
    _refuse(not closed and config.think_ns is not None, "--think needs --arrival closed")
    _refuse(config.arrival == "gamma" and config.cv is None, "--arrival gamma needs --cv")
    _refuse(config.arrival != "gamma" and config.cv is not None, "--cv needs --arrival gamma")
    no_duration = f"--arrival {config.arrival} needs --requests in place of --duration"
    _refuse((closed or burst) and config.duration_ns is not None, no_duration)
    no_rate = f"--arrival {config.arrival} has no rate: leave --rate out"
    _refuse((closed or burst) and config.rate_rps is not None, no_rate)


def _check_source(config: RunConfig) -> None:
    """A trace or a preset brings its own times and lengths."""
    table, replay, preset = options(), config.trace is not None, config.preset is not None
    own = "a trace" if replay else "a preset"
    _refuse(replay and preset, "give --trace or --preset, not both")
    _refuse(config.speed is not None and config.rate_rps is not None, "give --speed or --rate, not both")
    for name in ("columns", "time_unit", "window_ns", "limit", "speed", "loop", "context"):
        _refuse(not replay and getattr(config, name) is not None, f"{table[name][1].flag} needs --trace")
    if replay or preset:
        own_times = f"{own} has its own times: leave --arrival {config.arrival} out"
        _refuse(config.arrival not in ("poisson", "burst"), own_times)
        _refuse(config.duration_ns is not None, f"{own} has its own times: use --{'window' if replay else 'requests'}")
        _refuse(replay and config.requests is not None, "a trace has its own requests: use --limit")
        for name in ("prompt_tokens", "output_tokens"):
            changed = getattr(config, name) != table[name][0].default
            _refuse(changed, f"{own} has its own lengths: leave {table[name][1].flag} out")


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ValueError(message)
