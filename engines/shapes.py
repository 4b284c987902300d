"""The shapes of models: how many weights they have, and how many bytes a token keeps in the cache."""

from dataclasses import dataclass

from engines.rows import row_of

MOST_WEIGHTS = 10**15
LEAST_BYTES, MOST_BYTES = 0.01, 16.0
"""Of one weight, or one number in the cache."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder's dimensions. A row of a table, or a user's own TOML file with these names."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Width between the matrices of the feed-forward part; of each expert where there are several."""
    vocabulary: int
    source: str
    matrices: int = 3
    """Of the feed-forward part: 3 with a gate, 2 without."""
    experts: int = 1
    active_experts: int = 1
    """How many of them a token goes through."""
    tied: bool = False
    """Whether the head is the embedding."""
    position_rows: int = 0
    """Learned positions: rows as wide as the model beside the embedding."""
    biases: bool = False
    """Whether every matrix of a layer has one, and every norm."""
    qkv_biases: bool = False
    weight_bytes: float = 2.0
    """Of one weight."""
    kv_bytes: float = 2.0
    """Of one number in the cache."""

    def __post_init__(self) -> None:
        """ValueError for a token that goes through more experts than there are, and for what no model is like."""
        for name in ("weight_bytes", "kv_bytes"):
            if not LEAST_BYTES <= getattr(self, name) <= MOST_BYTES:
                told = f"{name} = {getattr(self, name):g}"
                raise ValueError(f"model {self.name}: {told} is not from {LEAST_BYTES:g} to {MOST_BYTES:g}")
        if self.heads % self.kv_heads:
            raise ValueError(f"model {self.name}: heads = {self.heads} is no multiple of kv_heads = {self.kv_heads}")
        if self.weights > MOST_WEIGHTS:
            raise ValueError(f"model {self.name} has {self.weights:.3g} weights: at most {MOST_WEIGHTS:g}")
        if self.active_experts > self.experts:
            raise ValueError(f"model {self.name}: active_experts = {self.active_experts} of {self.experts} experts")

    def splits(self, most_devices: int) -> list[int]:
        """Over how many devices it can be split: as many heads on each, and as many copies of each key-value head."""
        return [
            devices
            for devices in range(1, min(self.heads, most_devices) + 1)
            if not self.heads % devices and (not self.kv_heads % devices or not devices % self.kv_heads)
        ]

    @property
    def embedding_weights(self) -> int:
        """Weights of the input embedding and the positions: rows of them are gathered, not multiplied."""
        return (self.vocabulary + self.position_rows) * self.width

    @property
    def expert_weights(self) -> int:
        """Weights of one expert in one layer."""
        biases = (self.matrices - 1) * self.ffn + self.width if self.biases else 0
        return self.matrices * self.width * self.ffn + biases

    @property
    def shared_weights(self) -> int:
        """All weights that every token needs, without the input embedding; a tied head counts here."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = 2 * self.width * queries + 2 * self.width * keys
        biases = queries + 2 * keys if self.biases or self.qkv_biases else 0
        norms = (2 if self.biases else 1) * 2 * self.width
        gate = self.experts * self.width if self.experts > 1 else 0
        per_layer = attention + biases + (self.width if self.biases else 0) + norms + gate
        final_norm = (2 if self.biases else 1) * self.width
        return self.layers * per_layer + final_norm + self.vocabulary * self.width

    @property
    def weights(self) -> int:
        """Parameters in all, each once."""
        tied = self.vocabulary * self.width if self.tied else 0
        experts = self.layers * self.experts * self.expert_weights
        return self.embedding_weights + self.shared_weights - tied + experts

    @property
    def active_weights(self) -> int:
        """Those that a token is multiplied with, without the input embedding."""
        return self.shared_weights + self.layers * self.active_experts * self.expert_weights

    @property
    def token_kv_bytes(self) -> float:
        """What one token keeps in the cache: a key and a value in each layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.kv_bytes

    @property
    def attention_flop_per_token(self) -> int:
        """Of a query over one token of its context, in all layers: a product and a sum for score and for value."""
        return 4 * self.layers * self.heads * self.head_dim


SHAPES = {
    row.name: row
    for row in (
        Shape("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, "config.json of meta-llama/Llama-3.1-8B"),
        Shape("llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, "config.json of meta-llama/Llama-3.1-70B"),
        Shape("llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, "config.json of meta-llama/Llama-3.1-405B"),
        Shape("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, "config.json of Qwen/Qwen2.5-7B", qkv_biases=True),
        Shape("qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, "config.json of Qwen/Qwen2.5-72B", qkv_biases=True),
        Shape(
            "qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, "config.json of Qwen/Qwen3-30B-A3B", experts=128,
            active_experts=8,
        ),
        Shape("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32000, "config.json of mistralai/Mistral-7B-v0.1"),
        Shape(
            "mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, "config.json of mistralai/Mixtral-8x7B-v0.1", experts=8,
            active_experts=2,
        ),
        Shape(
            "opt-13b", 40, 5120, 40, 40, 128, 20480, 50272, "config.json of facebook/opt-13b", matrices=2, tied=True,
            position_rows=2050, biases=True,
        ),
        Shape(
            "gpt-175b", 96, 12288, 96, 96, 128, 49152, 50257, "Brown et al. 2020, table 2.1", matrices=2, tied=True,
            position_rows=2048, biases=True,
        ),
        Shape(
            "tinygpt", 6, 256, 8, 2, 32, 1024, 260, "this project's transformer", weight_bytes=4.0, kv_bytes=4.0
        ),
    )
}  # fmt: skip


def shape_of(reference: str) -> Shape:
    """A row by name, or a TOML file. ValueError, in one line, for neither."""
    return row_of(reference, SHAPES, Shape, "model")
