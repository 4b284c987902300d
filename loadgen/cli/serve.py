"""`tokenload serve`: an engine behind HTTP."""

from typing import TYPE_CHECKING, Any

import click

from loadgen.cli.exit_codes import Exit
from loadgen.cli.options import one_line_errors
from loadgen.cli.places import folder_place
from loadgen.units import parse_count, parse_duration_ns

if TYPE_CHECKING:
    from targets.serve.running import ServeOptions

NS_PER_S = 1_000_000_000
HIGHEST_PORT = 65_535


@click.command()
@click.option("--engine", default="continuous,batch=8", metavar="SPEC", help="as of `run`  [continuous,batch=8]")
@click.option("--host", default="127.0.0.1", help="address to listen on  [127.0.0.1]")
@click.option("--port", default="8000", help="port to listen on; 0 takes a free one  [8000]")
@click.option("--served-model", metavar="NAME", help="name the model is served under  [the executor's]")
@click.option("--max-queue", default="4096", metavar="N", help="waiting requests, above which comes 503  [4096]")
@click.option("--drain", default="30s", metavar="DURATION", help="how long running requests may finish  [30s]")
@click.option("--record", metavar="FOLDER", help="append the engine's steps to an Arrow stream there")
@click.pass_context
def serve(ctx: click.Context, /, engine: str, **given: Any) -> None:
    """Serve an engine over HTTP: the OpenAI API, streamed and not, and /metrics.

    \b
    tokenload serve --engine static,batch=8 --port 8000
    tokenload serve --engine continuous,executor=cost --record steps

    Prompts are UTF-8 bytes or token ids. An engine with executor=cost computes nothing, and its steps take as
    long as its cost model says. The first line on stdout is the address. SIGTERM and Ctrl-C let what runs finish;
    a second one ends at once.
    """
    with one_line_errors():
        options = _options(given)
        _check_engine(engine)
        from loadgen.engine_spec import make_engine
        from targets.serve.running import serve as serve_engine

        failure = serve_engine(make_engine(engine, "real", None), options, _announce)
    if failure is not None:
        click.echo(f"Error: the engine failed: {failure}", err=True)
        ctx.exit(Exit.ALL_FAILED)


def _announce(url: str) -> None:
    click.echo(f"listening on {url}")


def _options(given: dict[str, Any]) -> "ServeOptions":
    """ValueError names the flag."""
    name = given["served_model"]
    if name is not None and not (name.strip() and name.isprintable()):
        raise ValueError(f"--served-model {name!r} is no name: write printable characters")
    if not given["host"].strip():
        raise ValueError("--host is empty: write an address, 127.0.0.1 or 0.0.0.0 for all")
    record = given["record"]
    from targets.serve.running import ServeOptions

    return ServeOptions(
        address=(given["host"], _port(given["port"])),
        served_model=name,
        most_waiting_requests=_read("--max-queue", parse_count, given["max_queue"]),
        drain_s=_read("--drain", parse_duration_ns, given["drain"]) / NS_PER_S,
        record=None if record is None else folder_place("--record", record, "steps"),
    )


def _read(flag: str, parse: Any, text: str) -> int:
    try:
        value: int = parse(text)
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None
    return value


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > HIGHEST_PORT:
        raise ValueError(f"--port {text!r} is not a port: write a number from 0 to {HIGHEST_PORT}")
    return int(text)


def _check_engine(spec: str) -> None:
    """A server knows no end of the arrivals: what waits for it would never be served."""
    from loadgen.engine_spec import split_spec

    _, options = split_spec(spec)
    if options.get("wait") == "full" and "max-wait" not in options:
        raise ValueError(f"--engine {spec}: a server never knows that nobody else will come; add max-wait=50ms")
