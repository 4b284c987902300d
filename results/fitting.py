"""A cost model's coefficients from the steps of a measured run, and how far it is off on steps it has not seen.

decode: a + b x computed rows + c x tokens in the cache; prefill: pa + pb x tokens of the rectangle. Errors
relative to a first fit are made small (relative to the measured ones, long steps would count for too little), no
coefficient is below 0, and the worst hundredth of the steps, which met something else, is left out of the second
pass: it says nothing of how cost goes with rows and tokens. It is part of what a step costs on average, though, so all
coefficients are then scaled by what makes the fitted steps take as long together as they took. Every other block of
steps is held out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from results.columns import Int64, int64, is_null
from results.recording import KINDS
from results.steps import PS_PER_NS, durations, ends_ns, starts_ns

Float64 = NDArray[np.float64]
Steps = Mapping[str, NDArray[np.generic]]
BLOCK_STEPS = 20
FEWEST_STEPS = 40
KEPT_FRACTION = 0.99
ERRORS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Fitted:
    """One kind of step."""

    coefficients_ps: dict[str, int]
    fitted_steps: int
    held_out_steps: int
    errors: dict[str, float]
    """|predicted / measured - 1| on the steps held out: mean, p50, p90, p99; total: of their sum, signed."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Of a run."""

    kinds: dict[str, Fitted]
    rho_fraction: float
    """Time in which a step ran / time from the first step to the last."""

    @property
    def coefficients_ps(self) -> dict[str, int]:
        """Of the linear cost model, by the names of its options."""
        return {name: value for one in self.kinds.values() for name, value in one.coefficients_ps.items()}


def fit_steps(steps: Steps) -> Fit:
    """ValueError when the run does not tell what its steps did, or has too few of a kind."""
    told = steps["told"] == 1
    chosen = {name: values[told] for name, values in steps.items()}
    if not told.any() or is_null(chosen["kv_tokens"]).any() or is_null(chosen["prefill_tokens"]).any():
        raise ValueError("the run does not tell what its steps did: only an engine with a step table can be fitted")
    cost_ps = durations(chosen) * (1 if "start_ps" in chosen else PS_PER_NS) / int64(chosen["n_steps"])
    rows = _column(chosen, "decoding_slots") + _column(chosen, "finished_slots")
    rectangle = _column(chosen, "prefill_tokens") + _column(chosen, "padding_tokens")
    one = np.ones(len(rows))
    decodes = (chosen["kind"] == KINDS.index("decode")) & (rectangle == 0)
    prefills = chosen["kind"] == KINDS.index("prefill")
    terms = {
        "decode": (decodes, {"decode_base": one, "decode_row": rows, "decode_kv": _mean_kv_tokens(chosen)}),
        "prefill": (prefills, {"prefill_base": one, "prefill_token": rectangle}),
    }
    kinds = {
        kind: _fit(kind, {name: values[which] for name, values in columns.items()}, cost_ps[which])
        for kind, (which, columns) in terms.items()
    }
    span_ns = int(ends_ns(chosen)[-1] - starts_ns(chosen)[0])
    busy_ns = int((ends_ns(chosen) - starts_ns(chosen)).sum())
    return Fit(kinds, busy_ns / span_ns)


def _fit(kind: str, columns: dict[str, Float64], cost_ps: Float64) -> Fitted:
    if len(cost_ps) < FEWEST_STEPS:
        raise ValueError(f"the run has {len(cost_ps)} steps of kind {kind}: at least {FEWEST_STEPS} are needed")
    matrix = np.stack(list(columns.values()), axis=1)
    held_out = np.arange(len(cost_ps)) // BLOCK_STEPS % 2 == 1
    seen, costs = matrix[~held_out], cost_ps[~held_out]
    predicted = seen @ _non_negative(seen, costs, costs)
    errors = np.abs(costs / predicted - 1)
    kept = errors <= np.quantile(errors, KEPT_FRACTION)
    values = _non_negative(seen[kept], costs[kept], predicted[kept])
    values *= costs.sum() / (seen @ values).sum()
    whole = [max(round(value), 1 if name.endswith("_base") else 0) for name, value in zip(columns, values, strict=True)]
    predicted, measured = matrix[held_out] @ np.array(whole, dtype=float), cost_ps[held_out]
    off = np.abs(predicted / measured - 1)
    told = {name: float(np.quantile(off, q)) for name, q in ERRORS.items()}
    return Fitted(
        dict(zip(columns, whole, strict=True)), int((~held_out).sum()), int(held_out.sum()),
        {"mean": float(off.mean()), **told, "total": float(predicted.sum() / measured.sum() - 1)},
    )  # fmt: skip


def _non_negative(matrix: Float64, costs: Float64, size: Float64) -> Float64:
    """Least squares of errors over `size`. Columns are brought to one length first."""
    from scipy.optimize import nnls

    relative = matrix / size[:, None]
    scale = np.maximum(np.abs(relative).max(axis=0), np.finfo(float).tiny)
    found: Float64 = nnls(relative / scale, costs / size)[0] / scale
    return found


def _mean_kv_tokens(steps: Steps) -> Float64:
    """Of the steps that a row stands for: in each of them every row that decodes adds one."""
    return _column(steps, "kv_tokens") + _column(steps, "decoding_slots") * (_column(steps, "n_steps") - 1) / 2


def _column(steps: Steps, name: str) -> Float64:
    values: Int64 = int64(steps[name])
    return values.astype(np.float64)
