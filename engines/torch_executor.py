"""The torch executor: computes TinyGPT's next tokens for the batches that an engine plans.

Prefill is one pass over the prompts that join; decode is one pass over all rows, each at its own context, finished
rows again at their last position. It keeps by slot: keys and values, and the token ids of what stands there.
It knows no policy, no queue and no clock.
"""

from engines.tinygpt import EOS_TOKEN_ID, Positions, TinyGPT, TinyGPTConfig

# isort: split
# The model comes first: it says in one line what to do when torch is missing.
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

import torch
from torch import Tensor

from engines.attention import AttentionName
from engines.batch_invariant import InvariantForward
from engines.engine import JSON
from engines.fused_layers import FusedLayers
from engines.kv_cache import KVCache
from engines.padded_forward import PaddedForward
from engines.policies import Row
from engines.sampling import choose
from engines.slots import Batch


class Forward(Protocol):
    """How a batch is computed. Logits are (rows, vocabulary), in the order of the slots given."""

    def prefill(self, texts: Sequence[Sequence[int]], slots: Sequence[int], keep: bool) -> Tensor:
        """Logits after each text; `keep`: its keys and values will be needed by `decode`."""
        ...

    def decode(self, slots: Sequence[int], ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Logits after one more token a slot, whose keys and values are written at its position."""
        ...


class TorchExecutor:
    """Runs a model for an engine of so many slots."""

    eos_token_id = EOS_TOKEN_ID

    def __init__(
        self,
        model: TinyGPT,
        slots: int,
        cached: bool = True,
        attention: AttentionName = "eager",
        batch_invariant: bool = False,
        threads: int = 1,
        pad: int = 0,
    ) -> None:
        """As `tinygpt_executor`. ValueError with one line for what cannot be had."""
        config = model.config
        _check(config, slots, batch_invariant, threads, pad)
        self.context_tokens: int | None = config.context_tokens
        self.last_logits = torch.empty(0, config.vocabulary)
        """(rows, vocabulary) of the last step, in the order of its batch."""
        self._cached = cached
        self._threads = threads
        self._texts: list[list[int]] = [[] for _ in range(slots)]
        self._facts: dict[str, JSON] = {
            "config": asdict(config), "weights_sha256": model.weights_sha256(), "parameters": model.parameter_count(),
            "cached": cached, "attention": attention, "batch_invariant": batch_invariant, "threads": threads,
            "pad_id": pad, "vocabulary": config.vocabulary,
        }  # fmt: skip
        self._use_threads()
        with torch.inference_mode():
            layers, cache = FusedLayers(model), KVCache(config, slots, attention == "sdpa")
            self._forward: Forward = (
                InvariantForward(layers, cache, attention)
                if batch_invariant
                else PaddedForward(layers, cache, attention, pad)
            )

    def run(self, batch: Batch) -> Sequence[int]:
        """The next token id of each row. A finished row's last token is computed once more, and not kept."""
        self._use_threads()
        rows = batch.rows
        if batch.kind == "prefill":
            for row in rows:
                self._texts[row.slot] = list(row.request.prompt_token_ids)
        with torch.inference_mode():
            whole_texts = batch.kind == "prefill" or not self._cached
            self.last_logits = logits = self._compute_texts(rows) if whole_texts else self._compute_last(rows)
            tokens = choose(logits, rows)
        for row, token in zip(rows, tokens, strict=True):
            if not row.finished:
                self._texts[row.slot].append(token)
        return tokens

    def describe(self) -> Mapping[str, JSON]:
        """Everything that decides its tokens, and how its steps are billed: by thread CPU time only where the
        whole step is computed on the calling thread."""
        return {
            "name": "tinygpt",
            **self._facts,
            "dtype": "float32",
            "eos_token_id": self.eos_token_id,
            "reads_prompts": True,
            "computes_tokens": True,
            "cost_source": "thread_cpu" if self._threads == 1 else "wall",
        }

    def _compute_texts(self, rows: Sequence[Row]) -> Tensor:
        texts = [self._texts[row.slot][: _tokens(row)] for row in rows]
        return self._forward.prefill(texts, [row.slot for row in rows], self._cached)

    def _compute_last(self, rows: Sequence[Row]) -> Tensor:
        slots = [row.slot for row in rows]
        positions = [_tokens(row) - 1 for row in rows]
        ids = [self._texts[slot][position] for slot, position in zip(slots, positions, strict=True)]
        return self._forward.decode(slots, ids, positions)

    def _use_threads(self) -> None:
        """torch has one number for the whole process, and another executor may have set it."""
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)


def _tokens(row: Row) -> int:
    """Tokens whose keys and values a step must know: all, but for the last one of a finished row."""
    return row.prompt_tokens + row.output_tokens - row.finished


def _check(config: TinyGPTConfig, slots: int, batch_invariant: bool, threads: int, pad: int) -> None:
    if slots < 1 or threads < 1:
        raise ValueError(f"slots and threads must be at least 1, not {min(slots, threads)}")
    if not 0 <= pad < config.vocabulary:
        raise ValueError(f"pad={pad} is no token id: they go from 0 to {config.vocabulary - 1}")
    if batch_invariant and threads > 1:
        raise ValueError("batch-invariant needs threads=1: several threads cut the work where the batch decides")


def tinygpt_executor(
    slots: int,
    cached: bool = True,
    attention: AttentionName = "eager",
    batch_invariant: bool = False,
    positions: Positions = "rope",
    threads: int = 1,
    context: int = 2048,
    seed: int = 0,
    pad: int = 0,
    layers: int = 6,
    width: int = 256,
    heads: int = 8,
    kv_heads: int = 2,
    ffn: int = 1024,
) -> TorchExecutor:
    """TinyGPT on the CPU. attention=eager is written out, sdpa is torch's kernel; batch-invariant gives a request
    the same bits alone and in any batch; positions=learned is for tests; context in tokens."""
    config = TinyGPTConfig(
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        positions=positions,
        context_tokens=context,
        seed=seed,
    )
    return TorchExecutor(TinyGPT(config), slots, cached, attention, batch_invariant, threads, pad)
