"""How much one decode step costs beyond its matrix products, and beside transformers' model of the same shape.

`step_over_matmul`: `TorchExecutor.run` of one decode step (argmax included) over a bare chain of F.linear on
contiguous tensors of the model's shapes, in the model's order, seven a layer and the head. Both run on one thread
in interleaved blocks of ten; the ratio is that of the medians of 21 blocks in thread CPU time.
Contexts are ragged, uniform in 64..128 tokens, and grow by one each step of a block; `_1024` has 960..1024.
"""

import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from engines.engine import Request, SamplingParams
from engines.policies import Row
from engines.slots import Batch
from engines.torch_executor import TinyGPT, TinyGPTConfig, TorchExecutor

BATCHES = (1, 8, 32, 64)
BLOCK_STEPS = 10
BLOCKS = 21
Run = Callable[[], object]


class DecodeStep:
    """One decode step of so many rows, of an executor whose slots hold `longest` tokens each."""

    def __init__(self, executor: TorchExecutor, rows: list[Row], shortest: int, longest: int) -> None:
        self._executor = executor
        self._rows = rows
        self._range = shortest, longest - BLOCK_STEPS
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
            weight.detach().clone() for weight in model.parameters() if weight.dim() == 2 and weight is not model.embed.weight
        ]
        sizes = {weight.shape[1] for weight in self._weights}
        self._inputs = {size: torch.randn(rows, size) for size in sizes}
        self.flop = sum(2 * rows * weight.numel() for weight in self._weights)

    def run(self) -> None:
        """One pass."""
        with torch.inference_mode():
            for weight in self._weights:
                functional.linear(self._inputs[weight.shape[1]], weight)


class TransformersStep:
    """LlamaForCausalLM of the same shape, eager attention, StaticCache of 256, not compiled.

    All rows have the same context (96 tokens) and no padding mask, which is the cheapest it can do.
    """

    def __init__(self, config: TinyGPTConfig, rows: int) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

        shape = LlamaConfig(
            vocab_size=config.vocabulary, hidden_size=config.width, intermediate_size=config.ffn,
            num_hidden_layers=config.layers, num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads, max_position_embeddings=config.context_tokens,
            rms_norm_eps=config.norm_eps, attn_implementation="eager", tie_word_embeddings=False,
        )  # fmt: skip
        self._model: Any = LlamaForCausalLM(shape).eval()
        self._cache: Any = StaticCache(config=shape, max_cache_len=256)
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


def measure_batch(model: TinyGPT, executor: TorchExecutor, rows: list[Row], longest: int) -> dict[str, float | None]:
    """Median times in ns of a step, the chain and transformers' step, from interleaved blocks."""
    step = DecodeStep(executor, rows, longest - 64, longest)
    chain = LinearChain(model, len(rows))
    try:
        other = TransformersStep(model.config, len(rows))
    except ModuleNotFoundError:
        other = None
    samples: dict[str, list[float]] = {"step": [], "chain": [], "transformers": []}
    for _ in range(BLOCKS + 1):
        step.redraw()
        samples["step"].append(block_ns(step.run))
        samples["chain"].append(block_ns(chain.run))
        if other is not None:
            samples["transformers"].append(block_ns(other.run))
            other.rewind()
    medians = {name: statistics.median(taken[1:]) if taken else None for name, taken in samples.items()}
    return {**medians, "chain_gflops": chain.flop / (medians["chain"] or 1)}


def measure() -> dict[str, Any]:
    """Ratios and the chain's speed in GFLOP/s by batch size; what transformers would give is None without it."""
    torch.set_num_threads(1)
    result: dict[str, dict[str, float | None]] = {}
    for longest, context, suffix in ((128, 256, ""), (1024, 1280, "_1024")):
        model = TinyGPT(TinyGPTConfig(context_tokens=context))
        executor, rows = filled_executor(model, max(BATCHES), longest)
        for batch in BATCHES:
            times = measure_batch(model, executor, rows[:batch], longest)
            for name, other in (("step_over_matmul", "chain"), ("step_over_transformers", "transformers")):
                ratio = times["step"] / times[other] if times["step"] and times[other] else None
                result.setdefault(name + suffix, {})[str(batch)] = ratio and round(ratio, 3)
            result.setdefault("chain_gflops" + suffix, {})[str(batch)] = round(times["chain_gflops"] or 0, 2)
    del result["step_over_transformers_1024"], result["chain_gflops_1024"]
    return result


if __name__ == "__main__":
    print(json.dumps(measure()))
