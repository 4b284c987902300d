"""TinyGPT's layers as an executor runs them: on a flat list of tokens, with fused weights and reused buffers.

The weights stay the model's; what is fused is copied once. Against the spelled-out model: queries, keys and values
are one product; weights lie input-major in narrow panels; each norm's gain is multiplied into the weights behind
it; and the two numbers that a rotary embedding turns together lie side by side, so that it is one complex
multiplication. Attention is not done here: it is handed in, because only it knows which tokens belong together.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engines.tinygpt import Block, TinyGPT, TinyGPTConfig, rope_angles

Panels = tuple[Tensor, ...]
"""A matrix cut into blocks of columns: of a weight (inputs, columns) each, of a result (rows, columns) each."""

PANEL_COLUMNS = 384
"""A weight's panel is contiguous; a wider matrix would be read in jumps that no prefetcher follows. Of 128, 256,
384, 512 and 1,024 columns this one was within 8 % of the fastest for 1 to 64 rows."""

Linear = Callable[[Tensor, Panels, Panels, Panels | None], None]
"""(x, weight, out, base): out = x @ weight, plus base where given, which may be out itself."""


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """One layer's weights."""

    qkv: Panels
    output: Panels
    gate: Panels
    up: Panels
    down: Panels


def whole_linear(x: Tensor, weight: Panels, out: Panels, base: Panels | None = None) -> None:
    """One product over all rows."""
    if base is None:
        for panel, columns in zip(weight, out, strict=True):
            torch.mm(x, panel, out=columns)
    else:
        for panel, columns, before in zip(weight, out, base, strict=True):
            torch.addmm(before, x, panel, out=columns)


def panels(result: Tensor) -> Panels:
    """The blocks of columns of a result that a weight's panels give."""
    starts = range(0, result.shape[1], PANEL_COLUMNS)
    return tuple(result[:, start : start + PANEL_COLUMNS] for start in starts)


def fuse(block: Block, config: TinyGPTConfig) -> FusedLayer:
    """Copies of a layer's weights in the executor's layout."""
    q = _pairs_adjacent(block.q.weight, config.head_dim)
    k = _pairs_adjacent(block.k.weight, config.head_dim)
    qkv = torch.cat((q, k, block.v.weight)) * block.attention_norm.weight
    gate, up = (linear.weight * block.ffn_norm.weight for linear in (block.gate, block.up))
    return FusedLayer(*(_weight_panels(w) for w in (qkv, block.o.weight, gate, up, block.down.weight)))


def _pairs_adjacent(weight: Tensor, head_dim: int) -> Tensor:
    """Rows i and i + head_dim / 2 of every head side by side. Scores do not change: both sides of the inner
    product are reordered alike."""
    return weight.view(-1, 2, head_dim // 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _weight_panels(weight: Tensor) -> Panels:
    return tuple(panel.contiguous() for panel in panels(weight.t()))


class Workspace:
    """Buffers for so many token rows, and the views of them that a layer needs."""

    def __init__(self, config: TinyGPTConfig, rows: int) -> None:
        """Nothing is filled in."""
        q, kv, head_dim = config.width, config.kv_width, config.head_dim
        self.config = config
        self.x = torch.empty(rows, config.width)
        self.normed = torch.empty(rows, config.width)
        self.scale = torch.empty(rows, 1)
        self.epsilon = (torch.full((rows, 1), config.norm_eps),)
        qkv = torch.empty(rows, q + 2 * kv)
        self.raw_queries = qkv[:, :q].view(rows, config.heads, head_dim)
        self.queries = torch.empty(rows, config.heads, head_dim)
        """(rows, heads, head_dim), scaled and with their positions."""
        self.keys = qkv[:, q : q + kv].view(rows, config.kv_heads, head_dim)
        """(rows, kv_heads, head_dim), with their positions."""
        self.values = qkv[:, q + kv :].view(rows, config.kv_heads, head_dim)
        self.raw_query_pairs, self.query_pairs, self.key_pairs = (
            torch.view_as_complex(heads.view(*heads.shape[:2], head_dim // 2, 2))
            for heads in (self.raw_queries, self.queries, self.keys)
        )
        self.gate = torch.empty(rows, config.ffn)
        self.up = torch.empty(rows, config.ffn)
        self.x_panels, self.qkv_panels = panels(self.x), panels(qkv)
        self.gate_panels, self.up_panels = panels(self.gate), panels(self.up)


class TokenBatch(Protocol):
    """Tokens to be computed in one pass, in a flat list; who may look at whom is its own affair."""

    work: Workspace
    token_ids: Tensor
    """(rows,)"""
    positions: Tensor
    """(rows,)"""

    def attend(self, layer: int) -> Tensor:
        """(rows, width) mixed values of the workspace's queries; its keys and values are the layer's new ones."""
        ...


class FusedLayers:
    """The model from token ids to logits, but for attention."""

    def __init__(self, model: TinyGPT) -> None:
        """Fuses copies of the layers' weights; the tables that are only looked up in stay the model's."""
        config = model.config
        self.config = config
        self._embed = model.embed.weight.detach()
        self._learned = None if model.position is None else model.position.weight.detach()
        self._layers = [fuse(block, config) for block in model.blocks if isinstance(block, Block)]
        self._head = _weight_panels(model.head.weight * model.norm.weight)
        self._mean = (torch.full((config.width, 1), 1 / config.width),)
        self._query_scale = config.head_dim**-0.5
        angles = rope_angles(config, torch.float64)
        self._key_turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        self._query_turns = torch.polar(torch.full_like(angles, self._query_scale), angles).to(torch.complex64)

    def run(self, batch: TokenBatch, linear: Linear = whole_linear) -> Tensor:
        """The residual stream (rows, width) after all layers, in the batch's workspace.

        `linear` does every product with a weight.
        """
        work = batch.work
        x = torch.index_select(self._embed, 0, batch.token_ids, out=work.x)
        place = self._placing(x, batch.positions)
        for index, layer in enumerate(self._layers):
            linear(self._normalise(work, linear), layer.qkv, work.qkv_panels, None)
            place(work)
            linear(batch.attend(index), layer.output, work.x_panels, work.x_panels)
            normed = self._normalise(work, linear)
            linear(normed, layer.gate, work.gate_panels, None)
            linear(normed, layer.up, work.up_panels, None)
            hidden = functional.silu(work.gate, inplace=True).mul_(work.up)
            linear(hidden, layer.down, work.x_panels, work.x_panels)
        return x

    def logits(self, work: Workspace, linear: Linear = whole_linear) -> Tensor:
        """(rows, vocabulary) of a residual stream."""
        out = torch.empty(work.x.shape[0], self.config.vocabulary)
        linear(self._normalise(work, linear), self._head, panels(out), None)
        return out

    def _normalise(self, work: Workspace, linear: Linear) -> Tensor:
        """x / sqrt(mean(x^2) + eps) by row; the mean is a product too."""
        squares = torch.mul(work.x, work.x, out=work.normed)
        linear(squares, self._mean, (work.scale,), work.epsilon)
        return torch.mul(work.x, work.scale.rsqrt_(), out=work.normed)

    def _placing(self, x: Tensor, positions: Tensor) -> Callable[[Workspace], None]:
        """What gives a layer's queries and keys their positions, and the queries their scale."""
        if self._learned is not None:
            x.add_(self._learned.index_select(0, positions))
            return self._scale_queries
        query_turns = self._query_turns.index_select(0, positions).unsqueeze(1)
        key_turns = self._key_turns.index_select(0, positions).unsqueeze(1)

        def turn(work: Workspace) -> None:
            torch.mul(work.raw_query_pairs, query_turns, out=work.query_pairs)
            work.key_pairs.mul_(key_turns)

        return turn

    def _scale_queries(self, work: Workspace) -> None:
        torch.mul(work.raw_queries, self._query_scale, out=work.queries)
