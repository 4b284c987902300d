"""How much one decode step costs beyond its matrix products, and beside transformers' model of the same shape.

`step_over_matmul`: `TorchExecutor.run` of one decode step (argmax included) over a bare chain of F.linear on
contiguous tensors of the model's shapes, in the model's order, seven a layer and the head. The two run on one thread
in interleaved blocks of ten; the ratio is that of the medians of 21 blocks in thread CPU time. The same against
transformers, in a pair of its own.
Contexts are ragged, uniform in 64..128 tokens, and grow by one each step of a block; `_1024` has 960..1024.
"""

import json
import random
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn import functional

from engines.engine import Request, SamplingParams
from engines.policies import Row
from engines.slots import Batch
from engines.tinygpt import TinyGPT, TinyGPTConfig
from engines.torch_executor import TorchExecutor

BATCHES = (1, 8, 32, 64)
RAGGED_TOKENS = 64
BLOCK_STEPS = 10
BLOCKS = 21
Run = Callable[[], object]


class DecodeStep:
    """One decode step over rows of an executor whose slots hold `longest_tokens` each."""

    def __init__(self, executor: TorchExecutor, rows: list[Row], longest_tokens: int) -> None:
        self._executor = executor
        self._rows = rows
        self._range = longest_tokens - RAGGED_TOKENS, longest_tokens - BLOCK_STEPS
        self._random = random.Random(0)

    def redraw(self) -> None:
        """New contexts. A row of `prompt_tokens` = c with one output token has its next key at position c."""
        for row in self._rows:
            row.prompt_tokens, row.output_tokens = self._random.randint(*self._range) - 1, 1

    def run(self) -> None:
        """One step; every context is then longer by one."""
        self._executor.run(Batch("decode", self._rows))
        for row in self._rows:
            row.output_tokens += 1


def filled_executor(model: TinyGPT, slots: int, tokens: int) -> tuple[TorchExecutor, list[Row]]:
    """An executor with a prompt of so many tokens in every slot, and their rows."""
    executor = TorchExecutor(model, slots)
    drawn = random.Random(0)
    rows = []
    for slot in range(slots):
        request = Request(slot, [drawn.randrange(256) for _ in range(tokens)], SamplingParams(tokens), 0)
        rows.append(Row(request, slot, slot, tokens, tokens, frozenset(), joined_step=0))
        executor.run(Batch("prefill", rows[-1:]))
    return executor, rows


class LinearChain:
    """F.linear by every weight of the model in its order, on inputs that are there already."""

    def __init__(self, model: TinyGPT, rows: int) -> None:
        self._weights = [
            weight.detach().clone()
            for weight in model.parameters()
            if weight.dim() == 2 and weight is not model.embed.weight
        ]
        sizes = {weight.shape[1] for weight in self._weights}
        self._inputs = {size: torch.randn(rows, size) for size in sizes}
        self.flop = sum(2 * rows * weight.numel() for weight in self._weights)

    def run(self) -> None:
        """One pass."""
        with torch.inference_mode():
            for weight in self._weights:
                functional.linear(self._inputs[weight.shape[1]], weight)

    def rewind(self) -> None:
        """It leaves nothing behind."""


class TransformersStep:
    """LlamaForCausalLM of the same shape, eager attention, StaticCache of 256, not compiled.

    All rows have the same context (96 tokens) and no padding mask, which is the cheapest it can do.
    """

    def __init__(self, config: TinyGPTConfig, rows: int) -> None:
        transformers: Any = import_module("transformers")
        shape = transformers.LlamaConfig(
            vocab_size=config.vocabulary, hidden_size=config.width, intermediate_size=config.ffn,
            num_hidden_layers=config.layers, num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads, max_position_embeddings=config.context_tokens,
            rms_norm_eps=config.norm_eps, attn_implementation="eager", tie_word_embeddings=False,
        )  # fmt: skip
        self._model: Any = transformers.LlamaForCausalLM(shape).eval()
        self._cache: Any = transformers.StaticCache(config=shape, max_cache_len=256)
        self._token = torch.zeros(rows, 1, dtype=torch.int64)
        with torch.inference_mode():
            self._model(input_ids=torch.randint(0, 256, (rows, 96)), past_key_values=self._cache)

    def rewind(self) -> None:
        """Take the block's tokens out of the cache again."""
        self._cache.crop(-BLOCK_STEPS)

    def run(self) -> None:
        """One step."""
        with torch.inference_mode():
            logits = self._model(input_ids=self._token, past_key_values=self._cache).logits
            logits[:, -1].argmax(-1).tolist()


def block_ns(run: Run) -> float:
    """Thread CPU time of one call, averaged over a block."""
    start = time.thread_time_ns()
    for _ in range(BLOCK_STEPS):
        run()
    return (time.thread_time_ns() - start) / BLOCK_STEPS


def step_over(step: DecodeStep, other: LinearChain | TransformersStep) -> tuple[float, float]:
    """(ratio of the medians, the other's median in ns), from interleaved blocks; the first pair is warm-up."""
    step_ns, other_ns = [], []
    for _ in range(BLOCKS + 1):
        step.redraw()
        step_ns.append(block_ns(step.run))
        other_ns.append(block_ns(other.run))
        other.rewind()
    other_median_ns = statistics.median(other_ns[1:])
    return round(statistics.median(step_ns[1:]) / other_median_ns, 3), other_median_ns


def measure_context(longest_tokens: int, cache_tokens: int, beside_transformers: bool) -> dict[str, dict[str, Any]]:
    """By batch size, in a cache of so many tokens: the two ratios and the chain's speed in GFLOP/s."""
    model = TinyGPT(TinyGPTConfig(context_tokens=cache_tokens))
    executor, rows = filled_executor(model, max(BATCHES), longest_tokens)
    figures: dict[str, dict[str, Any]] = {"matmul": {}, "transformers": {}, "gflops": {}}
    for batch in BATCHES:
        step, chain = DecodeStep(executor, rows[:batch], longest_tokens), LinearChain(model, batch)
        figures["matmul"][str(batch)], chain_ns = step_over(step, chain)
        figures["gflops"][str(batch)] = round(chain.flop / chain_ns, 1)
        if beside_transformers:
            figures["transformers"][str(batch)], _ = step_over(step, TransformersStep(model.config, batch))
    return figures


def measure() -> dict[str, Any]:
    """All figures by batch size; the ratio to transformers is None where that is not installed."""
    torch.set_num_threads(1)
    installed = find_spec("transformers") is not None
    near, far = measure_context(128, 256, installed), measure_context(1024, 1280, False)
    return {
        "step_over_matmul": near["matmul"],
        "step_over_matmul_1024": far["matmul"],
        "chain_gflops": near["gflops"],
        "step_over_transformers": near["transformers"] if installed else None,
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
