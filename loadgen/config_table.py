"""RunConfig: the one table of options. A row is a field; from it come every command's flags, the saved config
and what other front ends offer.

A field holds the parsed value; its `Option` says how it is written, read and shown.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from loadgen.option import (
    CONTEXT_POLICIES,
    Option,
    choice,
    parse_columns,
    parse_context,
    parse_cv,
    parse_flag,
    parse_header,
    parse_json_object,
    parse_loads_text,
    parse_slo_text,
    parse_target,
    parse_threshold,
    row,
    show_flag,
    show_header,
    show_pair,
    show_threshold,
)
from loadgen.units import (
    format_duration_ns,
    parse_count,
    parse_duration_ns,
    parse_number,
    parse_seed,
    parse_span_ns,
    parse_temperature,
    parse_tokens,
    parse_whole,
)

__all__ = ["ARRIVALS", "CLOCKS", "CONTEXT_POLICIES", "GROUPS", "RunConfig", "SweepOptions", "key_of", "options"]

ARRIVALS = ("poisson", "conditioned", "constant", "gamma", "burst", "closed")
CLOCKS = ("charged", "modelled", "real")
PRESETS = ("seed1", "seed2-h100", "anyscale-2023", "orca-2022")
EOS = ("ignore", "stop")
TIME_UNITS = ("s", "ms", "us", "ns", "iso")
CONNECTIONS = ("reuse", "new", "per-session")
PROMPTS_AS = ("text", "ids")

GROUPS = {
    "workload": "Workload",
    "trace": "Trace replay",
    "engine": "Engine and clock",
    "target": "Server under load",
    "run": "Run and output",
}


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that decides what a run does."""

    arrival: str = row(
        "--arrival", choice(ARRIVALS), ", ".join(ARRIVALS), "workload", "poisson", unit="PROCESS", choices=ARRIVALS
    )
    rate_rps: float | None = row("--rate", parse_number, "mean arrival rate", "workload", unit="REQ/S", show=repr)
    requests: int | None = row("--requests", parse_count, "how many requests  [200]", "workload", unit="N")
    duration_ns: int | None = row(
        "--duration", parse_duration_ns, "arrivals for so long, in place of --requests", "workload", unit="60s",
        show=format_duration_ns,
    )  # fmt: skip
    fill_requests: int | None = row(
        "--fill", parse_whole, "before the measured, to bring the load up  [closed: one a user]", "workload", unit="N"
    )
    cooldown_requests: int = row(
        "--cooldown", parse_whole, "requests after them, to keep it up", "workload", 0, unit="N"
    )
    cv: float | None = row("--cv", parse_cv, "variation of gamma gaps: 1 is Poisson", "workload", unit="CV", show=repr)
    users: int | None = row("--users", parse_count, "users of a closed loop", "workload", unit="N")
    think_ns: int | None = row(
        "--think", parse_duration_ns, "closed: wait between answer and next request", "workload", unit="1s",
        show=format_duration_ns,
    )  # fmt: skip
    prompt_tokens: tuple[int, int] = row(
        "--prompt-tokens", parse_tokens, "prompt length, fixed or uniform", "workload", (32, 96), unit="LOW:HIGH",
        show=show_pair(":"),
    )  # fmt: skip
    output_tokens: tuple[int, int] = row(
        "--output-tokens", parse_tokens, "output length, fixed or uniform", "workload", (16, 48), unit="LOW:HIGH",
        show=show_pair(":"),
    )  # fmt: skip
    temperature: float = row(
        "--temperature", parse_temperature, "0: greedy; else sampled", "workload", 0.0, unit="T", show=repr
    )
    eos: str = row("--eos", choice(EOS), "ignore: outputs as long as asked", "workload", "ignore", choices=EOS)
    allow_empty: bool = row(
        "--allow-empty", parse_flag, "an answer without a token may meet the SLO", "workload", False, show=show_flag,
        is_flag=True,
    )  # fmt: skip
    preset: str | None = row(
        "--preset", choice(PRESETS), "the requests of a published text", "workload", choices=PRESETS
    )
    seed: int = row("--seed", parse_seed, "of every stream of the schedule", "workload", 7, unit="N")
    trace: str | None = row("--trace", str, "Azure CSV, plain CSV/JSONL, saved schedule", "trace",
                             unit="FILE")  # fmt: skip
    columns: tuple[tuple[str, str], ...] | None = row(
        "--columns", parse_columns, "a plain trace's: time=T,prompt=P,output=O", "trace", unit="NAMES",
        show=lambda pairs: ",".join("=".join(pair) for pair in pairs),
    )  # fmt: skip
    time_unit: str | None = row(
        "--time-unit", choice(TIME_UNITS), "of a plain trace's times", "trace", choices=TIME_UNITS
    )
    window_ns: tuple[int, int] | None = row(
        "--window", parse_span_ns, "the part of the trace to replay", "trace", unit="25m..35m",
        show=show_pair("..", format_duration_ns),
    )  # fmt: skip
    limit: int | None = row("--limit", parse_count, "at most so many requests of the trace", "trace", unit="N")
    speed: float | None = row("--speed", parse_number, "replay so many times as fast", "trace", unit="X", show=repr)
    loop: int | None = row("--loop", parse_count, "replay so many times over", "trace", unit="K")
    context: tuple[int, str] | None = row(
        "--context", parse_context, "error, drop, clip-prompt, clip-output", "trace",
        unit="N:POLICY", show=lambda pair: f"{pair[0]}:{pair[1]}",
    )  # fmt: skip
    engine: str = row("--engine", str, "NAME or FILE.py:CLASS, then ,key=value", "engine", "continuous", unit="SPEC")
    hardware: str | None = row(
        "--hardware", str, "modelled: NAME or FILE.toml; a wrong name lists all", "engine", unit="NAME"
    )
    model: str | None = row(
        "--model", str, "modelled: NAME or FILE.toml; a wrong name lists all", "engine", unit="NAME"
    )
    clock: str = row("--clock", choice(CLOCKS), "whose time counts", "engine", "charged", choices=CLOCKS)
    target: str | None = row("--target", parse_target, "a server in place of an engine", "target", unit="URL")
    api: str = row("--api", str, "NAME, FILE.py:CLASS or MODULE:CLASS", "target", "openai-chat", unit="API")
    served_model: str | None = row("--served-model", str, "asked of the server where not given", "target", unit="NAME")
    key_env: str | None = row("--key-env", str, "variable that holds the API key", "target", unit="VARIABLE")
    key_file: str | None = row("--key-file", str, "file that holds the API key", "target", unit="FILE")
    header: tuple[tuple[str, str], ...] = row(
        "--header", parse_header, "'Name: value'; again for each", "target", (), unit="HEADER",
        show=show_header, many=True,
    )  # fmt: skip
    body: str | None = row("--body", parse_json_object, "more fields of each request's body", "target", unit="JSON")
    no_stream: bool = row(
        "--no-stream", parse_flag, "ask for whole replies", "target", False, show=show_flag, is_flag=True
    )
    prompt_as: str = row(
        "--prompt-as", choice(PROMPTS_AS), "send text or token ids", "target", "text", choices=PROMPTS_AS
    )
    max_tokens_field: str | None = row(
        "--max-tokens-field", str, "the output limit's name, where it differs", "target", unit="NAME"
    )
    tokenizer: str | None = row(
        "--tokenizer", str, "counts tokens where the server tells none", "target", unit="tokenizer.json"
    )
    same_bytes: bool = row(
        "--same-bytes", parse_flag, "the same prompts at every run: a prompt cache is measured too", "target", False,
        show=show_flag, is_flag=True,
    )  # fmt: skip
    max_concurrency: int | None = row(
        "--max-concurrency", parse_count, "cap on requests in flight: no open loop any more", "target", unit="N"
    )
    connections: str = row(
        "--connections", choice(CONNECTIONS), "whose connection a request takes", "target", "reuse", choices=CONNECTIONS
    )
    keep_alive_ns: int = row(
        "--keep-alive", parse_duration_ns, "a connection idle for longer is not used again", "target", 4_000_000_000,
        unit="4s", show=format_duration_ns,
    )  # fmt: skip
    no_verify: bool = row(
        "--no-verify", parse_flag, "do not check the server's certificate", "target", False, show=show_flag,
        is_flag=True,
    )  # fmt: skip
    ca_file: str | None = row("--ca-file", str, "certificates to trust", "target", unit="FILE")
    unix_socket: str | None = row("--unix-socket", str, "connect to this socket", "target", unit="PATH")
    connect_timeout_ns: int = row(
        "--connect-timeout", parse_duration_ns, "until a connection stands", "target", 10_000_000_000, unit="10s",
        show=format_duration_ns,
    )  # fmt: skip
    first_timeout_ns: int | None = row(
        "--first-timeout", parse_duration_ns, "from sending to the first token", "target", unit="30s",
        show=format_duration_ns,
    )  # fmt: skip
    warmup_requests: int | None = row(
        "--warmup-requests", parse_whole, "served before the run starts  [4]", "target", unit="N"
    )
    metrics_url: tuple[str, ...] = row(
        "--metrics-url", parse_target, "where the server tells its state; again for each", "target", (), unit="URL",
        many=True,
    )  # fmt: skip
    slots: int | None = row(
        "--slots", parse_count, "how many requests the server batches, where it does not tell", "target", unit="N"
    )
    stop_after_failures: int | None = row(
        "--stop-after-failures", parse_count, "end the run after so many failed requests", "target", unit="N"
    )
    processes: int = row("--processes", parse_count, "client processes that share the schedule", "target", 1, unit="N")
    no_calibrate: bool = row(
        "--no-calibrate", parse_flag, "do not measure this client first; stamped", "target", False, show=show_flag,
        is_flag=True,
    )  # fmt: skip
    timeout_ns: int | None = row(
        "--timeout", parse_duration_ns, "abort a request so long after it was due", "run", unit="30s",
        show=format_duration_ns,
    )  # fmt: skip
    drain_ns: int | None = row(
        "--drain", parse_duration_ns, "abort the rest so long after the last due  [servers: 60s or 5 x p99]", "run",
        unit="60s", show=format_duration_ns,
    )  # fmt: skip
    slo: str | None = row("--slo", parse_slo_text, "limits for goodput", "run", "ttft<=1s,tpot<=50ms", unit="LIMITS")
    threshold: tuple[tuple[str, float], ...] = row(
        "--threshold", parse_threshold,
        "a line of the verdict, drawn elsewhere; again for each (doctor --thresholds lists them)", "run", (),
        unit="NAME=X", show=show_threshold, many=True,
    )  # fmt: skip
    out: str = row("--out", str, "folder for run folders", "run", "runs", unit="DIR")
    name: str | None = row("--name", str, "part of the run folder's name", "run", unit="NAME")


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What a sweep takes beside a run's options: its engines and loads in place of one of each."""

    engine: tuple[str, ...] = row(
        "--engine",
        str,
        "again for each one",
        "engine",
        ("one-by-one", "static,batch=8", "continuous,batch=8"),
        unit="SPEC",
        show=";".join,
        many=True,
    )
    target: tuple[str, ...] = row(
        "--target", parse_target, "a server in place of engines; again for each", "target", (), unit="URL", many=True
    )
    rates: str = row(
        "--rates", parse_loads_text, "req/s, burst, closed:USERS; or auto", "workload", "4,8,16,32,burst", unit="LIST"
    )
    repeats: int = row(
        "--repeats", parse_count, "independent runs of each point: 1 a look, 5 to publish", "run", 1, unit="K"
    )


def options(table: type = RunConfig) -> Mapping[str, tuple[Field[Any], Option]]:
    """Field name -> its field and option, in the order of the table."""
    return {one.name: (one, one.metadata["option"]) for one in fields(table)}


def key_of(option: Option) -> str:
    """The option's name in a saved config."""
    return option.flag.removeprefix("--")
