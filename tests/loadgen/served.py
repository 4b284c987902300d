"""A real server for tests: our own engine behind HTTP, in a process of its own, as cheap as a cost model."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

FAST = "continuous,batch=8,executor=cost,decode-base=1ms,decode-row=0.1ms,prefill-base=1ms,prefill-token=0.01ms"


def tokenload(*words: str) -> list[str]:
    """The command, run by this interpreter."""
    return [sys.executable, "-c", "from loadgen.cli import main; main()", *words]


@contextmanager
def serving(*words: str, engine: str = FAST) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Its base URL and process; killed at the end."""
    command = tokenload("serve", "--engine", engine, "--port", "0", *words)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        yield line.removeprefix("listening on ").strip(), process
    finally:
        process.kill()
        process.wait()
