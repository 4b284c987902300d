"""Whether an engine gave the same answers again: token by token where ids are known, else by their lengths."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64, int64
from results.metrics import completed
from results.recording import Recording

Json = dict[str, Any]
LENGTH_MARGIN_RATIO = 0.10


def same_outputs(first: Recording, again: Recording, greedy: bool) -> Json:
    """`same`: True, False, or None where outputs may differ (sampled) and lengths fit.

    With token ids of a greedy engine every token must be equal. Otherwise the mean length must lie within 10 %.
    """
    both = completed(first) & completed(again)
    count = int(both.sum())
    if not count:
        return {"same": None, "compared": 0, "text": "no request was served by both"}
    lengths = [int64(one.requests["output_tokens"])[both] for one in (first, again)]
    if len(first.token_ids) and len(again.token_ids) and greedy:
        equal = _equal_rows(_texts(first), _texts(again), both)
        text = f"token ids of {int(equal.sum())} of {count} requests are equal"
        return {"same": bool(equal.all()), "compared": count, "equal": int(equal.sum()), "text": text}
    ratio = float(lengths[1].mean() / lengths[0].mean()) if lengths[0].mean() else 1.0
    fits = abs(ratio - 1) <= LENGTH_MARGIN_RATIO
    text = f"mean output length is {ratio:.3f} times the first run's"
    return {"same": None if fits else False, "compared": count, "length_ratio": ratio, "text": text}


def is_greedy(info: Mapping[str, Any]) -> bool:
    """Whether the run's config asked for no sampling."""
    config = info.get("config")
    return not (config.get("temperature") if isinstance(config, Mapping) else None)


def _texts(recording: Recording) -> tuple[Int64, Int64]:
    """(offsets by request into the token ids, ids)."""
    tokens = np.concatenate([[0], np.cumsum(recording.token_count)]).astype(np.int64)
    return tokens[recording.token_offsets], recording.token_ids


def _equal_rows(a: tuple[Int64, Int64], b: tuple[Int64, Int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    rows = np.flatnonzero(chosen)
    return np.array(
        [np.array_equal(a[1][a[0][row] : a[0][row + 1]], b[1][b[0][row] : b[0][row + 1]]) for row in rows.tolist()],
        dtype=np.bool_,
    )
