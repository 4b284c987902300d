"""TinyGPT: a decoder-only transformer, small enough to serve from one CPU core, and reproducible to the bit.

The weights come from torch's default initialisation after one seed, drawn in a fixed order, so everybody who
builds the same configuration has the same model; nothing is downloaded. `TinyGPT.forward` spells the model out
without cache, batch padding or fused weights: what an executor computes faster can be checked against it.
It knows nothing of requests, slots or sampling.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

try:
    import torch
except ModuleNotFoundError:
    message = 'the tinygpt executor needs torch: pip install "tokenload[torch]"'
    raise ModuleNotFoundError(message, name="torch") from None
from torch import Tensor, nn
from torch.nn import functional

Positions = Literal["rope", "learned"]

EOS_TOKEN_ID = 257


@dataclass(frozen=True, slots=True)
class TinyGPTConfig:
    """The whole configuration. The defaults give 5,838,080 parameters."""

    vocabulary: int = 260
    """256 bytes and four special tokens, of which 257 ends a text."""
    layers: int = 6
    width: int = 256
    heads: int = 8
    kv_heads: int = 2
    """Each key and value head is shared by heads / kv_heads query heads."""
    ffn: int = 1024
    positions: Positions = "rope"
    """rope: queries and keys are rotated; learned: a table of context_tokens rows is added to the embedding."""
    context_tokens: int = 2048
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    seed: int = 0

    def __post_init__(self) -> None:
        """ValueError naming the first size that does not fit the others."""
        for name in ("layers", "width", "heads", "kv_heads", "ffn", "context_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")
        if self.width % (2 * self.heads):
            raise ValueError(f"width {self.width} does not split into {self.heads} heads of an even size")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} kv-heads evenly")
        if self.vocabulary <= EOS_TOKEN_ID:
            raise ValueError(f"a vocabulary of {self.vocabulary} has no token {EOS_TOKEN_ID} (end of text)")

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.width // self.heads

    @property
    def kv_width(self) -> int:
        """Width of all key heads together, and of all value heads."""
        return self.kv_heads * self.head_dim


class Block(nn.Module):
    """One layer: attention, then a SwiGLU, each on the normalised and added to the residual stream."""

    def __init__(self, config: TinyGPTConfig) -> None:
        """Draws its weights from torch's default generator, in the order of the lines."""
        super().__init__()
        self.config = config
        self.attention_norm = nn.RMSNorm(config.width, config.norm_eps)
        self.q = nn.Linear(config.width, config.width, bias=False)
        self.k = nn.Linear(config.width, config.kv_width, bias=False)
        self.v = nn.Linear(config.width, config.kv_width, bias=False)
        self.o = nn.Linear(config.width, config.width, bias=False)
        self.ffn_norm = nn.RMSNorm(config.width, config.norm_eps)
        self.gate = nn.Linear(config.width, config.ffn, bias=False)
        self.up = nn.Linear(config.width, config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """(texts, tokens, width) to the same; angles as `rope_angles`, one row a token."""
        x = x + self.o(self._attend(self.attention_norm(x), angles))
        normed = self.ffn_norm(x)
        swiglu: Tensor = self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return x + swiglu

    def _attend(self, x: Tensor, angles: Tensor) -> Tensor:
        def split(projected: Tensor) -> Tensor:
            return projected.view(*projected.shape[:2], -1, self.config.head_dim).transpose(1, 2)

        queries, keys, values = split(self.q(x)), split(self.k(x)), split(self.v(x))
        if self.config.positions == "rope":
            queries, keys = rotated(queries, angles), rotated(keys, angles)
        mixed = functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=self.config.kv_heads != self.config.heads
        )
        return mixed.transpose(1, 2).flatten(2)


def rope_angles(config: TinyGPTConfig, dtype: torch.dtype = torch.float32) -> Tensor:
    """(context_tokens, head_dim / 2) rotation angles in radians: position x theta^(-2i / head_dim)."""
    pairs = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    frequencies = config.rope_theta ** (-pairs / config.head_dim)
    return torch.outer(torch.arange(config.context_tokens, dtype=torch.float64), frequencies).to(dtype)


def rotated(heads: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding of (..., tokens, head_dim): dimension i turns together with i + head_dim / 2."""
    first, second = heads.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class TinyGPT(nn.Module):
    """The whole model, in float32."""

    def __init__(self, config: TinyGPTConfig = TinyGPTConfig()) -> None:
        """The caller's random state is left as it was."""
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(config.seed)
            self.embed = nn.Embedding(config.vocabulary, config.width)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
            self.norm = nn.RMSNorm(config.width, config.norm_eps)
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)
            # Last, so that all other weights are those of the model with rotary positions.
            learned = config.positions == "learned"
            self.position = nn.Embedding(config.context_tokens, config.width) if learned else None

    def forward(self, token_ids: Tensor) -> Tensor:
        """(texts, tokens) ids of equally long texts to (texts, tokens, vocabulary) logits."""
        tokens = token_ids.shape[1]
        x = self.embed(token_ids)
        if self.position is not None:
            x = x + self.position.weight[:tokens]
        angles = rope_angles(self.config)[:tokens]
        for block in self.blocks:
            x = block(x, angles)
        logits: Tensor = self.head(self.norm(x))
        return logits

    def parameter_count(self) -> int:
        """Numbers in all weights."""
        return sum(weight.numel() for weight in self.parameters())

    def weights_sha256(self) -> str:
        """Hex SHA-256 over `name|dtype|shape|bytes` of every weight, in the model's order."""
        digest = hashlib.sha256()
        for name, weight in self.state_dict().items():
            digest.update(f"{name}|{weight.dtype}|{tuple(weight.shape)}|".encode())
            digest.update(weight.contiguous().numpy().tobytes())
        return digest.hexdigest()
