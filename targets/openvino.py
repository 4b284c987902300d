"""OpenVINO GenAI's `ContinuousBatchingPipeline` as an engine: somebody else's scheduler, kernels and KV cache.

    pip install openvino-genai
    tokenload run --engine targets.openvino:OpenVinoEngine,model=DIR,slots=8 --clock real --rate 4

`model` is a folder with an exported `openvino_model.xml` (a stateful language model), or a GGUF file of a Llama or
Qwen model with quantised weights. A tokenizer is not needed: prompts go in as token ids. The pipeline turns the
model's attention into paged attention itself. Weights of 16 bits in a GGUF file want `precision=f32`: the native
precision of a CPU with bfloat16 was seen to crash on them in release 2026.4.1, in native code.

What one step is: one `step()` of the pipeline, reading what it made included. It prefills whole prompts together, as
many as slots and `batch_tokens` have room for, and each gets its first token; only when nobody can join does it decode
every running request by one token. Both yield tokens, so a first token tells of a prefill. `split-fuse=true` mixes
chunks of prompts with decodes instead; the pipeline then ignores its limit of sequences and does not show who holds
what, so slots and work are not told.

What is seen: tokens, ends and the number of scheduled requests. From these follow the counts of a step as long as
nobody was preempted: the work of a step in which a running request got nothing where it should have, or of which
the pipeline counts other requests than those that got a token, is not told, up to the next step that serves everybody.
A slot's number is this adapter's: the lowest free one. Reads no clock.
"""

import hashlib
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from engines.engine import JSON, Request, SamplingParams, Step, StepOutput
from results.slots import StepWork

MODEL_FILE = "openvino_model.xml"
F32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
PRECISIONS: Mapping[str, Mapping[str, str]] = {"native": {}, "f32": F32}
"""native: as the pipeline chooses for this CPU, bfloat16 where it has that. f32: nothing is rounded to fewer
bits, so a request's greedy tokens hardly ever depend on its neighbours."""
GGUF_HEADER_BYTES = 1 << 20
GGUF_CONTEXT = re.compile(rb"\.context_length\x04\0\0\0(.{4})", re.DOTALL)
"""The key, the type of a 32-bit count, the count."""
GGUF_VOCABULARY = re.compile(rb"tokenizer\.ggml\.tokens\x09\0\0\0\x08\0\0\0(.{8})", re.DOTALL)
"""The key, the types of a list and of its strings, how many there are."""
GiB = int
"""The type says the unit."""


@dataclass(slots=True)
class _Held:
    """A request in the pipeline."""

    request: Request
    handle: Any
    tokens: int = 0
    """Delivered so far. 0: it waits."""
    slot: int | None = None


def packages(load: Callable[[str], Any] = importlib.import_module) -> tuple[Any, Any]:
    """OpenVINO GenAI and OpenVINO. ValueError with the command that installs them where one is missing."""
    try:
        return load("openvino_genai"), load("openvino")
    except ImportError as error:
        raise ValueError(f"this engine needs OpenVINO GenAI: pip install openvino-genai ({error})") from None


class OpenVinoEngine:
    """A pipeline of `slots` sequences on the CPU. Greedy only."""

    def __init__(
        self, model: str = "", slots: int = 8, threads: int = 1, cache_gib: GiB = 1, batch_tokens: int = 4096,
        precision: Literal["native", "f32"] = "native", split_fuse: bool = False,
    ) -> None:  # fmt: skip
        """Load the model. `cache_gib`: of the KV cache; `batch_tokens`: computed in one step at most.

        ValueError with one line for a model that is not there or cannot be loaded, or a missing package.
        """
        path = _model_path(model)
        self._genai, self._openvino = self.packages()
        self._slots = None if split_fuse else slots
        self._batch_tokens = batch_tokens
        self._cache_gib = cache_gib
        self._context_tokens, self._vocabulary = _limits(path)
        scheduler = {
            "max_num_seqs": slots, "max_num_batched_tokens": batch_tokens, "cache_size": cache_gib,
            "dynamic_split_fuse": split_fuse, "enable_prefix_caching": False,
        }  # fmt: skip
        self._facts: Mapping[str, JSON] = {
            "policy": "openvino-genai", "engine_version": str(self._genai.__version__), "slots": self._slots,
            "model": path.name, "weights_sha256": _files_sha256(path), "context_tokens": self._context_tokens,
            "vocabulary": self._vocabulary, "dtype": precision, "device": "CPU", "threads": threads,
            "options": scheduler, "cost_source": "wall", "reads_prompts": True, "computes_tokens": True,
        }  # fmt: skip
        self._pipeline = self._load(path, scheduler, {"INFERENCE_NUM_THREADS": threads, **PRECISIONS[precision]})
        defaults = self._pipeline.get_config()
        self._ends = {token_id for token_id in (*defaults.stop_token_ids, defaults.eos_token_id) if token_id >= 0}
        self._open: dict[int, _Held] = {}
        self._numbers = count()
        self._free_slots = list(range(self._slots or 0))
        self._stopping = False
        """Whether the pipeline still holds a request that was aborted after its last step."""
        self._preempted = False

    def packages(self) -> tuple[Any, Any]:
        """Where the pipeline comes from."""
        return packages()

    def add_request(self, request: Request) -> None:
        """Hand it to the pipeline. ValueError with one line when it can never be served."""
        reason = self._refusal(request)
        if reason:
            raise ValueError(f"request {request.request_id} {reason}")
        self._open[request.request_id] = _Held(request, self._hand_over(request))

    def has_work(self) -> bool:
        """Whether any request waits or runs."""
        return bool(self._open)

    def abort(self, request_id: int) -> None:
        """Stop it through its handle: the pipeline's next step leaves its slot empty, the one after can fill it."""
        held = self._open.pop(request_id, None)
        if held is not None:
            held.handle.stop()
            self._stopping = True
            self._free(held)

    def describe(self) -> Mapping[str, JSON]:
        """Version, model, its files' hash, limits where known, the scheduler's options."""
        return self._facts

    def step(self, now_ns: int) -> Step:
        """One step of the pipeline. RuntimeError when it drops a request."""
        stopping, self._stopping = self._stopping, False
        self._pipeline.step()
        scheduled_requests = int(self._pipeline.get_metrics().scheduled_requests)
        if stopping and not scheduled_requests:
            self._hand_over_anew()
            return Step(())
        outputs = [output for held in self._open.values() if (output := self._read(held))]
        joined = [held for output in outputs if not (held := self._open[output.request_id]).tokens]
        for output in outputs:
            self._open[output.request_id].tokens += len(output.token_ids)
        work = self._work(outputs, joined, scheduled_requests)
        admitted = self._admit(joined)
        ended = [output.request_id for output in outputs if output.finished]
        for request_id in ended:
            self._free(self._open.pop(request_id))
        return Step(outputs, admitted, ended, () if self._slots is None else ended, work)

    def _load(self, path: Path, scheduler: Mapping[str, int], properties: dict[str, str | int]) -> Any:
        config = self._genai.SchedulerConfig()
        for name, value in scheduler.items():
            setattr(config, name, value)
        try:
            return self._genai.ContinuousBatchingPipeline(str(path), config, "CPU", properties)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise ValueError(f"OpenVINO GenAI cannot load model {path.name!r}: {reason}") from None

    def _refusal(self, request: Request) -> str | None:
        """Why the request can never be served; None: it can. The pipeline itself would fail in a later step."""
        prompt_tokens, output_tokens = len(request.prompt_token_ids), request.params.max_tokens
        if request.params.temperature:
            return f"wants temperature {request.params.temperature}: this engine is greedy, temperature 0"
        if not prompt_tokens or output_tokens < 1:
            return "needs at least one prompt and one output token"
        limit = self._context_tokens
        if limit is not None and prompt_tokens + output_tokens > limit:
            return f"needs {prompt_tokens + output_tokens} tokens, the context holds {limit}"
        if self._slots is not None and prompt_tokens > self._batch_tokens:
            return f"has {prompt_tokens} prompt tokens, a step holds {self._batch_tokens}: write batch-tokens=N"
        highest = max(request.prompt_token_ids)
        if self._vocabulary is not None and highest >= self._vocabulary:
            return f"has token id {highest}, the model's vocabulary ends before {self._vocabulary}"
        return None

    def _hand_over(self, request: Request) -> Any:
        ids = self._openvino.Tensor(np.array([request.prompt_token_ids], dtype=np.int64))
        return self._pipeline.add_request(next(self._numbers), ids, self._generation(request.params))

    def _generation(self, params: SamplingParams) -> Any:
        """Greedy, ended by the request's own stop ids and, unless ignored, the model's. The pipeline insists on
        an end id where a model names none, so one is given that it then ignores."""
        stops = {*params.stop_token_ids, *(() if params.ignore_eos else self._ends)}
        config = self._genai.GenerationConfig()
        config.max_new_tokens = params.max_tokens
        config.do_sample = False
        config.ignore_eos = not stops
        config.stop_token_ids = stops or {0}
        config.eos_token_id = min(stops, default=0)
        return config

    def _hand_over_anew(self) -> None:
        """A step that finds only stopped requests in the slots drops those that wait, too: they go in again."""
        for held in self._open.values():
            if not held.tokens and held.handle.get_status().name == "IGNORED":
                held.handle = self._hand_over(held.request)

    def _read(self, held: _Held) -> StepOutput | None:
        """What the last step gave to it; None: nothing."""
        token_ids: list[int] = []
        reason = "NONE"
        while held.handle.can_read():
            for part in held.handle.read().values():
                token_ids += part.generated_ids
                reason = part.finish_reason.name
        status = held.handle.get_status().name
        if status == "IGNORED":
            raise RuntimeError(
                f"OpenVINO GenAI dropped request {held.request.request_id} after {held.tokens} tokens: "
                f"a KV cache of {self._cache_gib} GiB does not hold it, write cache-gib=N"
            )
        if not token_ids and status != "FINISHED":
            return None
        finish_reason = None if reason == "NONE" else reason.lower()
        return StepOutput(held.request.request_id, token_ids, status == "FINISHED", finish_reason)

    def _work(self, outputs: Sequence[StepOutput], joined: Sequence[_Held], scheduled_requests: int) -> StepWork | None:
        """The step's counts; None where slots or what a request got cannot be seen."""
        running = [held for held in self._open.values() if held.tokens]
        if not joined:
            self._preempted = len(outputs) < len(running)
        served = len(joined) or len(running)
        if self._slots is None or self._preempted or not len(outputs) == scheduled_requests == served:
            return None
        waiting, empty = len(self._open) - len(running), self._slots - len(running)
        queued = min(empty, waiting)
        prefill_tokens = sum(len(held.request.prompt_token_ids) for held in joined)
        kv_tokens = sum(len(held.request.prompt_token_ids) + held.tokens - 1 for held in running)
        prefilling, decoding, stalled = (served, 0, len(running) - served) if joined else (0, served, 0)
        return StepWork(
            "prefill" if joined else "decode", prefilling, decoding, 0, stalled, queued, empty - queued,
            waiting, prefill_tokens, 0, kv_tokens,
        )  # fmt: skip

    def _admit(self, joined: Sequence[_Held]) -> list[tuple[int, int]]:
        """Number the slots of those who joined; nobody's while slots cannot be seen."""
        numbered = joined[: len(self._free_slots)]
        for held in numbered:
            held.slot = heappop(self._free_slots)
        return [(held.request.request_id, held.slot) for held in numbered if held.slot is not None]

    def _free(self, held: _Held) -> None:
        if held.slot is not None:
            heappush(self._free_slots, held.slot)


def _model_path(model: str) -> Path:
    """A GGUF file, or a folder with an exported model. ValueError when it is neither."""
    path = Path(model)
    if not model:
        raise ValueError("which model? write model=DIR or model=FILE.gguf")
    wanted = path if path.suffix == ".gguf" else path / MODEL_FILE
    if not wanted.is_file():
        raise ValueError(f"model={model} is no model: there is no file {wanted.name} in {str(wanted.parent)!r}")
    return path.resolve()


def _files_sha256(path: Path) -> str:
    """Over the names and contents of the model's files."""
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(f"{file.name}\0{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _limits(path: Path) -> tuple[int | None, int | None]:
    """Context in tokens and vocabulary, from the model's own description; None: not told there."""
    if path.is_dir():
        file = path / "config.json"
        told = json.loads(file.read_text()) if file.is_file() else {}
        return told.get("max_position_embeddings"), told.get("vocab_size")
    with path.open("rb") as opened:
        header = opened.read(GGUF_HEADER_BYTES)
    context, vocabulary = (
        int.from_bytes(found[1], "little") if (found := key.search(header)) else None
        for key in (GGUF_CONTEXT, GGUF_VOCABULARY)
    )
    return context, vocabulary
