"""TinyGPT's layers as an executor runs them: on a flat list of tokens, with fused weights and reused buffers.

The weights stay the model's; what is fused is copied once. Against the spelled-out model: queries, keys and values
are one product; weights lie input-major in narrow panels; each norm's gain is multiplied into the weights behind
it; and the two numbers that a rotary embedding turns together lie side by side, so that it is one complex
multiplication. Attention is not done here: it is handed in, because only it knows which tokens belong together.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engines.tinygpt import Block, TinyGPT, TinyGPTConfig, rope_angles

Panels = tuple[Tensor, ...]
"""A matrix cut into blocks of columns: of a weight (inputs, columns) each, of a result (rows, columns) each."""

PANEL_COLUMNS = 384
"""A weight's panel is contiguous. Wider rows than this are read in jumps that no prefetcher follows: of 256, 384,
512 and 1,024 columns this was the fastest for 8 to 64 rows whose weights do not lie in the nearest cache."""

Linear = Callable[[Tensor, Panels, Panels, bool], None]
"""(x, weight, out, add): out = x @ weight, or out += x @ weight when add."""

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, queries (tokens, heads, head_dim) scaled, keys_values (tokens, 2 x kv_heads, head_dim)) to the mixed
values (tokens, width)."""


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """One layer's weights."""

    qkv: Panels
    output: Panels
    gate: Panels
    up: Panels
    down: Panels


def whole_linear(x: Tensor, weight: Panels, out: Panels, add: bool) -> None:
    """One product over all rows."""
    for panel, columns in zip(weight, out, strict=True):
        if add:
            columns.addmm_(x, panel)
        else:
            torch.mm(x, panel, out=columns)


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
        self.x = torch.empty(rows, config.width)
        self.normed = torch.empty(rows, config.width)
        self.scale = torch.empty(rows, 1)
        qkv = torch.empty(rows, q + 2 * kv)
        self.queries_in = qkv[:, :q].view(rows, config.heads, head_dim)
        self.keys_in = qkv[:, q : q + kv].view(rows, config.kv_heads, head_dim)
        self.keys_values = qkv[:, q:].view(rows, 2 * config.kv_heads, head_dim)
        self.queries = torch.empty(rows, config.heads, head_dim)
        self.queries_in_pairs, self.keys_in_pairs, self.queries_pairs = (
            torch.view_as_complex(heads.view(*heads.shape[:2], head_dim // 2, 2))
            for heads in (self.queries_in, self.keys_in, self.queries)
        )
        self.gate = torch.empty(rows, config.ffn)
        self.up = torch.empty(rows, config.ffn)
        self.x_panels, self.qkv_panels = panels(self.x), panels(qkv)
        self.gate_panels, self.up_panels = panels(self.gate), panels(self.up)


class FusedLayers:
    """The model from token ids to logits, but for attention."""

    def __init__(self, model: TinyGPT) -> None:
        """Copies the weights: later changes of the model are not seen."""
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

    def run(
        self, work: Workspace, token_ids: Tensor, positions: Tensor, attend: Attend, linear: Linear = whole_linear
    ) -> Tensor:
        """The residual stream (rows, width) after all layers; token_ids and positions (rows,).

        `linear` does every product with a weight. The result is overwritten by the workspace's next use.
        """
        x = torch.index_select(self._embed, 0, token_ids, out=work.x)
        place = self._positions(x, positions)
        for index, layer in enumerate(self._layers):
            linear(self._normalise(x, work.normed, work.scale, linear), layer.qkv, work.qkv_panels, False)
            place(work)
            linear(attend(index, work.queries, work.keys_values), layer.output, work.x_panels, True)
            normed = self._normalise(x, work.normed, work.scale, linear)
            linear(normed, layer.gate, work.gate_panels, False)
            linear(normed, layer.up, work.up_panels, False)
            linear(functional.silu(work.gate, inplace=True).mul_(work.up), layer.down, work.x_panels, True)
        return x

    def logits(self, x: Tensor, linear: Linear = whole_linear) -> Tensor:
        """(rows, vocabulary) of rows of the residual stream."""
        out = x.new_empty(x.shape[0], self.config.vocabulary)
        normed = self._normalise(x, torch.empty_like(x), x.new_empty(x.shape[0], 1), linear)
        linear(normed, self._head, panels(out), False)
        return out

    def _normalise(self, x: Tensor, out: Tensor, scale: Tensor, linear: Linear) -> Tensor:
        """x / sqrt(mean(x^2) + eps) by row; the mean is a product too."""
        squares = torch.mul(x, x, out=out)
        linear(squares, self._mean, (scale.fill_(self.config.norm_eps),), True)
        return torch.mul(x, scale.rsqrt_(), out=out)

    def _positions(self, x: Tensor, positions: Tensor) -> Callable[[Workspace], None]:
        """What gives a layer's queries and keys their positions, and the queries their scale."""
        if self._learned is not None:
            x.add_(self._learned.index_select(0, positions))
            return self._scale_queries
        query_turns = self._query_turns.index_select(0, positions).unsqueeze(1)
        key_turns = self._key_turns.index_select(0, positions).unsqueeze(1)

        def turn(work: Workspace) -> None:
            torch.mul(work.queries_in_pairs, query_turns, out=work.queries_pairs)
            work.keys_in_pairs.mul_(key_turns)

        return turn

    def _scale_queries(self, work: Workspace) -> None:
        torch.mul(work.queries_in, self._query_scale, out=work.queries)
