"""Pages as real servers send them, and a server on loopback that sends what it is told to."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, str, bytes]
"""HTTP status, content type, body."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def vllm_page(steps: int, tokens: int, running: int = 0, waiting: int = 0, engines: int = 1) -> str:
    """vLLM's, shortened: python's process metrics, labels of engine and model, histograms, e-notation."""
    lines = [
        "# HELP python_gc_objects_collected_total Objects collected during gc",
        "# TYPE python_gc_objects_collected_total counter",
        'python_gc_objects_collected_total{generation="0"} 12345.0',
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        "process_start_time_seconds 1.79597e+09",
        "# HELP vllm:num_requests_running Number of requests in model execution batches.",
        "# TYPE vllm:num_requests_running gauge",
    ]
    for engine in range(engines):
        labels = f'engine="{engine}",model_name="smollm2-135m"'
        lines += [
            f"vllm:num_requests_running{{{labels}}} {running}.0",
            f"vllm:num_requests_waiting{{{labels}}} {waiting}.0",
            f"vllm:kv_cache_usage_perc{{{labels}}} 0.0625",
            f"vllm:num_preemptions_total{{{labels}}} 0.0",
            f"vllm:generation_tokens_total{{{labels}}} {tokens}.0",
            f'vllm:iteration_tokens_total_bucket{{{labels},le="1.0"}} 3.0',
            f'vllm:iteration_tokens_total_bucket{{{labels},le="+Inf"}} {steps}.0',
            f"vllm:iteration_tokens_total_count{{{labels}}} {steps}.0",
            f"vllm:iteration_tokens_total_sum{{{labels}}} 4096.0",
            f"vllm:request_queue_time_seconds_count{{{labels}}} 16.0",
            f"vllm:request_queue_time_seconds_sum{{{labels}}} 29.77",
        ]
    return "\n".join(lines) + "\n"


def llamacpp_page(steps: int, busy: float, processing: int = 0, deferred: int = 0) -> str:
    """llama.cpp's: no labels, numbers of six digits."""
    told = {
        "n_decode_total": ("counter", steps),
        "n_busy_slots_per_decode": ("counter", f"{busy:.6g}"),
        "requests_processing": ("gauge", processing),
        "requests_deferred": ("gauge", deferred),
        "prompt_tokens_seconds": ("gauge", "nan"),
    }
    return "".join(
        f"# HELP llamacpp:{name} Of the server.\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
        for name, (kind, value) in told.items()
    )


LLAMACPP_SLOTS = [
    {"id": 0, "n_ctx": 512, "speculative": False, "is_processing": True, "params": {"prompt": "a secret"},
     "next_token": [{"has_next_token": True, "n_decoded": 17}]},
    {"id": 1, "n_ctx": 512, "speculative": False, "is_processing": False, "next_token": {"n_decoded": 0}},
]  # fmt: skip
LLAMACPP_PROPS = {"total_slots": 4, "default_generation_settings": {"n_ctx": 512}, "chat_template": "{{ x }}"}
SGLANG_PAGE = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 7.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{engine_type="unified",model_name="m"} 7.557572e+06
"""
SGLANG_INFO = {
    "max_running_requests": 48, "api_key": "sk-live-abcdefgh", "admin_api_key": 12345678,
    "random_seed": 1, "eos_token": 5, "tp_size": 1,
    "internal_states": [{"last_gen_throughput": 12.5, "name": "x"}], "bad name": 1,
}  # fmt: skip
TGI_PAGE = """\
# TYPE tgi_queue_size gauge
tgi_queue_size 3

# TYPE tgi_request_queue_duration histogram
tgi_request_queue_duration_bucket{le="0.0001"} 1
tgi_request_queue_duration_sum 0.25
tgi_request_queue_duration_count 4
# TYPE tgi_request_count counter
tgi_request_count 4
"""


class Site:
    """What a server on loopback answers, by path; and what it was asked."""

    def __init__(self) -> None:
        self.replies: dict[str, Callable[[], Reply] | Reply] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    def text(self, path: str, text: str | Callable[[], str]) -> None:
        """This page, as Prometheus' text."""
        self.replies[path] = (lambda: (200, TEXT, text().encode())) if callable(text) else (200, TEXT, text.encode())

    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [path for path, _ in self.asked]


@contextmanager
def site() -> Iterator[Site]:
    """Serves on a port of loopback; unknown paths are 404."""
    told = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            told.asked.append((self.path, dict(self.headers.items())))
            reply = told.replies.get(self.path, (404, "text/plain", b"no such place"))
            status, kind, body = reply() if callable(reply) else reply
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if 300 <= status < 400:
                    self.send_header("Location", body.decode())
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return

        def log_message(self, *words: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_until(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    """Looks again and again, for a bounded time."""
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.02)
