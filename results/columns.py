"""Columns: numpy arrays by name, with one way to say "missing".

A table is a mapping from column name to a one-dimensional array, all of one length. Missing integers are
`NULL` (the smallest int64) in memory and null in every file; missing is never 0, -1 or NaN.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

NULL = int(np.iinfo(np.int64).min)

Int64 = NDArray[np.int64]
Table = dict[str, NDArray[np.generic]]


def int64(values: Iterable[int] | Sequence[int] | NDArray[np.generic]) -> Int64:
    """The values as an int64 array (copied only when needed)."""
    if isinstance(values, np.ndarray):
        return values.astype(np.int64, copy=False)
    return np.array(values if isinstance(values, Sequence) else list(values), dtype=np.int64)


def is_null(column: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Where an int64 column has no value."""
    return np.asarray(column == NULL)


def concatenate(tables: Sequence[Mapping[str, NDArray[np.generic]]]) -> Table:
    """The rows of all tables (at least one), in order."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
