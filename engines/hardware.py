"""Accelerators as a roofline sees them: arithmetic, bandwidth, memory, and the link between several.

Peaks are of dense bf16 products, as the vendors' data sheets give them (half of what they give with sparsity).
"""

from dataclasses import dataclass

from engines.rows import row_of

MOST_DEVICES = 1024
"""That a model is split over."""
PLAUSIBLE = {
    "peak_flop_per_s": (1e6, 1e18), "bandwidth_bytes_per_s": (1e6, 1e18), "memory_bytes": (1e6, 1e18),
    "link_bytes_per_s": (1e6, 1e18), "link_latency_s": (0.0, 1.0),
}  # fmt: skip
"""What a device's numbers lie between: outside it they are slips of the pen, and steps of them no times."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device. A row of a table, or a user's own TOML file with these names."""

    name: str
    peak_flop_per_s: float
    bandwidth_bytes_per_s: float
    """Of its memory."""
    memory_bytes: float
    source: str
    link_bytes_per_s: float = 0.0
    """To the other devices, one way. 0: none."""
    link_latency_s: float = 0.0
    """Of one all-reduce, however short."""

    def __post_init__(self) -> None:
        """ValueError for a number that no device has; a link may be missing."""
        for name, (low, high) in PLAUSIBLE.items():
            value = getattr(self, name)
            if not low <= value <= high and not (name == "link_bytes_per_s" and value == 0):
                raise ValueError(f"hardware {self.name}: {name} = {value:g} is not from {low:g} to {high:g}")


HARDWARE = {
    row.name: row
    for row in (
        Hardware("h100-sxm", 989e12, 3.35e12, 80e9, "NVIDIA H100 data sheet", 450e9, 10e-6),
        Hardware("h200", 989e12, 4.8e12, 141e9, "NVIDIA H200 data sheet", 450e9, 10e-6),
        Hardware("a100-80gb", 312e12, 2.039e12, 80e9, "NVIDIA A100 data sheet, SXM4 80 GB", 300e9, 10e-6),
        Hardware("a100-40gb", 312e12, 1.555e12, 40e9, "NVIDIA A100 data sheet, SXM4 40 GB", 300e9, 10e-6),
        Hardware("l4", 121e12, 0.3e12, 24e9, "NVIDIA L4 data sheet", 32e9, 20e-6),
        Hardware("b200", 2_250e12, 8e12, 180e9, "NVIDIA DGX B200 data sheet, per GPU", 900e9, 10e-6),
        Hardware("mi300x", 1_307.4e12, 5.3e12, 192e9, "AMD Instinct MI300X data sheet", 448e9, 10e-6),
        Hardware("cpu-core", 109e9, 37e9, 16e9, "measured: fp32 products and a 256 MB sum on one core with AVX-512"),
    )
}


def hardware_of(reference: str) -> Hardware:
    """A row by name, or a TOML file. ValueError, in one line, for neither."""
    return row_of(reference, HARDWARE, Hardware, "hardware")
