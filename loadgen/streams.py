"""Named seed streams: each use of randomness has its own, so that adding one never changes another.

A stream is PCG64's raw 64-bit output under a key hashed from seed and name; the transforms are ours and use
only operations that IEEE 754 rounds exactly, so one seed gives the same bytes on every machine and release.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
_LN2 = 0.6931471805599453
_SQRT_HALF = 0.7071067811865476
_ATANH_TERMS = 12


def stream_key(seed: int, name: str) -> int:
    """128 bits of SHA-256 over seed and name."""
    return int.from_bytes(hashlib.sha256(f"{seed}|{name}".encode()).digest()[:16], "little")


def uniforms(seed: int, name: str, count: int) -> Float64:
    """The stream's first `count` uniforms in [0, 1), 53 bits each."""
    raw = np.random.PCG64(stream_key(seed, name)).random_raw(count)
    return np.asarray((raw >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def exponentials(uniform: Float64) -> Float64:
    """-ln(1 - u): unit exponentials by inverse CDF, within 2 ulp of the true logarithm.

    ln x = e ln 2 + 2 artanh((m - 1)/(m + 1)) for x = m 2^e, with m in [sqrt 1/2, sqrt 2) and the series of
    artanh; the C library's logarithm differs between machines in the last bit, this does not.
    """
    mantissa, exponent = np.frexp(1.0 - uniform)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa * 2.0, mantissa)
    exponent = exponent - low
    z = (mantissa - 1.0) / (mantissa + 1.0)
    square = z * z
    series = np.zeros_like(z)
    for term in range(_ATANH_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    return np.asarray(-(exponent * _LN2 + 2.0 * z * series) + 0.0, dtype=np.float64)


def integers(uniform: Float64, low: int, high: int) -> NDArray[np.int64]:
    """Uniform integers from low to high, both included, one a uniform."""
    return low + np.floor(uniform * (high - low + 1)).astype(np.int64)
