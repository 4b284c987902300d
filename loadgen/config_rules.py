"""Which options contradict each other, and which need one another. One line names the remedy."""

from loadgen.config_table import RunConfig, options
from loadgen.option import unique


def check(config: RunConfig) -> None:
    """ValueError when options contradict each other or something is missing."""
    _check_thresholds(config)
    _check_arrivals(config)
    _check_source(config)
    _check_target(config)
    _check_modelled(config)


def _check_thresholds(config: RunConfig) -> None:
    """A line is drawn in one place."""
    try:
        unique(config.threshold)
    except ValueError as error:
        raise ValueError(f"--threshold: {error}") from None


def _check_arrivals(config: RunConfig) -> None:
    closed, burst, replay = config.arrival == "closed", config.arrival == "burst", config.trace is not None
    _refuse(config.requests is not None and config.duration_ns is not None, "give --requests or --duration, not both")
    _refuse(
        config.rate_rps is None and not (closed or burst or replay), f"--arrival {config.arrival} needs --rate (req/s)"
    )
    phased = bool(config.fill_requests or config.cooldown_requests)
    own_end = f"--arrival {config.arrival} draws a fixed number: with --fill or --cooldown give --requests"
    _refuse(phased and config.arrival == "conditioned" and config.duration_ns is not None, own_end)
    _refuse(phased and burst, "a burst is all due at once: leave --fill and --cooldown out")
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
        fixed = ("prompt_tokens", "output_tokens", *(() if replay else ("fill_requests", "cooldown_requests")))
        for name in fixed:
            changed = getattr(config, name) != table[name][0].default
            _refuse(changed, f"{own} has its own requests: leave {table[name][1].flag} out")


def _check_target(config: RunConfig) -> None:
    """A server runs in real time; its options are nothing to an engine."""
    if config.target is None:
        for name, (one, option) in options().items():
            changed = option.group == "target" and getattr(config, name) != one.default
            _refuse(changed, f"{option.flag} needs --target")
        return
    _refuse(config.clock != "real", f"--clock {config.clock} needs --engine: a server runs in real time")
    _refuse(config.key_env is not None and config.key_file is not None, "give --key-env or --key-file, not both")
    _refuse(config.no_verify and config.ca_file is not None, "give --no-verify or --ca-file, not both")
    closed = config.arrival == "closed"
    capped = closed and config.max_concurrency is not None
    _refuse(capped, "--max-concurrency caps an open schedule: a closed loop has its --users")


def _check_modelled(config: RunConfig) -> None:
    """Hardware that is not here has no time of its own."""
    for flag, value in (("--hardware", config.hardware), ("--model", config.model)):
        _refuse(value is not None and config.target is not None, f"{flag} is of an engine's roofline: leave it out")
        _refuse(value is not None and config.clock != "modelled", f"{flag} {value} needs --clock modelled")


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise ValueError(message)
