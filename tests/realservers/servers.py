"""Real servers on this CPU, each found through an environment variable; a test that lacks one is skipped.

TOKENLOAD_LLAMACPP_PYTHON, TOKENLOAD_VLLM_PYTHON and TOKENLOAD_TRANSFORMERS_PYTHON name interpreters of virtual
environments that have the server; TOKENLOAD_SMOLLM2 names the folder of a small model for the last two.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("serve_llamacpp.py")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
STARTS_WITHIN_S = 240
OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
           "VLLM_CPU_OMP_THREADS_BIND": "nobind"}  # fmt: skip


def named(variable: str) -> str:
    """What the variable names; skips the test when it is not set."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{variable} names no real server")
    return found


@contextmanager
def llamacpp(slots: int) -> Iterator[str]:
    """Its base URL."""
    python = Path(named("TOKENLOAD_LLAMACPP_PYTHON"))
    models = list(python.parent.parent.rglob(MODEL))
    if not models:
        pytest.skip(f"{MODEL} is not installed beside {python.name}")
    command = [str(python), str(SCRIPT), str(models[0]), str(slots)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)  # fmt: skip
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("listening on "):
                yield line.removeprefix("listening on ").strip()
                return
        raise AssertionError("llama.cpp's server did not start")
    finally:
        process.kill()
        process.wait()


@contextmanager
def vllm(slots: int) -> Iterator[str]:
    """Its base URL."""
    python, model = named("TOKENLOAD_VLLM_PYTHON"), named("TOKENLOAD_SMOLLM2")
    port = _free_port()
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name",
               "smollm2-135m", "--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16", "--max-model-len",
               "2048", "--max-num-seqs", str(slots), "--enforce-eager", "--no-enable-prefix-caching"]  # fmt: skip
    with _started(command, OFFLINE, port) as url:
        yield url


@contextmanager
def transformers(continuous: bool) -> Iterator[str]:
    """Its base URL; one by one, or with continuous batching."""
    python, model = named("TOKENLOAD_TRANSFORMERS_PYTHON"), named("TOKENLOAD_SMOLLM2")
    port = _free_port()
    flags = ["--continuous-batching", "--cb-num-blocks", "64", "--cb-block-size", "32", "--cb-max-batch-tokens", "256"]
    command = [str(Path(python).with_name("transformers")), "serve", model, "--host", "127.0.0.1", "--port", str(port),
               "--device", "cpu", "--dtype", "bfloat16", *(flags if continuous else [])]  # fmt: skip
    with _started(command, OFFLINE, port) as url:
        yield url


@contextmanager
def _started(command: Sequence[str], variables: Mapping[str, str], port: int) -> Iterator[str]:
    process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + STARTS_WITHIN_S
        while not _answers(f"{url}/v1/models"):
            assert process.poll() is None and time.monotonic() < until, f"{command[0]} did not start"
            time.sleep(0.5)
        yield url
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
