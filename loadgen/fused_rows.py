"""The step table of a fused run, kept as two lists of numbers: as little a step as can be, the rest at the end."""

import numpy as np

from results.columns import Int64, Table, int64
from results.recording import KINDS
from results.slots import WORK_COLUMNS

PREFILL, DECODE = KINDS.index("prefill"), KINDS.index("decode")
COLUMNS = ("step", "n_steps", "kind", "start_ps", "cost_ps", "cost_slope_ps", *WORK_COLUMNS, "told")
DECODES = ("step", "n_steps", "start_ps", "cost_ps", "cost_slope_ps", "decoding_slots", "waiting_requests", "kv_tokens")
PREFILLS = ("step", "start_ps", "cost_ps", "prefilling_slots", "stalled_slots", "waiting_requests", "prefill_tokens",
            "padding_tokens", "kv_tokens")  # fmt: skip
CHUNK_NUMBERS = 10_000 * len(DECODES)


class FusedRows:
    """Rows in the order of steps, in two kinds."""

    def __init__(self) -> None:
        """None yet."""
        self.decodes: list[int] = []
        """The numbers of DECODES, one row after the other."""
        self.prefills: list[int] = []
        """The same of PREFILLS."""
        self._decodes: list[Int64] = []
        self._prefills: list[Int64] = []

    def condense(self) -> None:
        """Turn the numbers into arrays, which take a fifth of their place."""
        self._decodes.append(np.array(self.decodes, dtype=np.int64).reshape(-1, len(DECODES)))
        self._prefills.append(np.array(self.prefills, dtype=np.int64).reshape(-1, len(PREFILLS)))
        self.decodes.clear()
        self.prefills.clear()

    def table(self, slots: int) -> Table:
        """The step table of an engine of so many slots. The rows are used up."""
        self.condense()
        decodes, prefills = _columns(DECODES, self._decodes), _columns(PREFILLS, self._prefills)
        lengths = len(decodes["step"]), len(prefills["step"])
        order = np.argsort(np.concatenate([decodes["step"], prefills["step"]]), kind="stable")
        table: Table = {}
        for name in COLUMNS:
            if name not in decodes and name not in prefills:
                table[name] = np.zeros(len(order), dtype=np.int64)  # takes no memory before it is written
                continue
            nothing = [np.zeros(length, dtype=np.int64) for length in lengths]
            table[name] = np.concatenate([decodes.pop(name, nothing[0]), prefills.pop(name, nothing[1])])[order]
        table["n_steps"] = np.maximum(table["n_steps"], 1)
        table["kind"] = np.where(int64(table["prefilling_slots"]) > 0, PREFILL, DECODE)
        table["told"] = np.ones(len(order), dtype=np.int64)
        _place_empty_slots(table, slots)
        return table


def _columns(names: tuple[str, ...], chunks: list[Int64]) -> Table:
    """Each chunk is let go of when its numbers are copied."""
    columns: dict[str, list[Int64]] = {name: [] for name in names}
    while chunks:
        for name, column in zip(names, chunks.pop(0).T, strict=True):
            columns[name].append(column.copy())
    return {name: np.concatenate(columns.pop(name)) for name in names}


def _place_empty_slots(table: Table, slots: int) -> None:
    """Empty slots are queued for as far as somebody waits, else idle."""
    taken = [table[name] for name in ("prefilling_slots", "decoding_slots", "stalled_slots")]
    empty = slots - np.sum(taken, axis=0)
    table["empty_queued_slots"] = np.minimum(empty, table["waiting_requests"])
    table["idle_slots"] = empty - table["empty_queued_slots"]
