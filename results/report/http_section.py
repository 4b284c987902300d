"""The HTTP section put together: its tables, and of a single run the same figures one beneath the other."""

from dataclasses import dataclass

from results.report.folder import Folder
from results.report.server_steps import own_step_advice, own_step_table
from results.report.server_table import advice, server_table
from results.report.table import Table
from results.report.wire_tables import (
    CALIBRATED,
    LATENESS,
    REPLIES,
    TOKENS,
    Facts,
    calibration_caption,
    downwards,
    ends_table,
    phase_table,
    wire_table,
)

OF_REPLIES = (
    "Tokens an event and reads an event show whether the gaps between tokens are the server's: several tokens in one "
    "event, or several events in one read, have no time of their own."
)
OF_TOKENS = (
    "usage: as the server tells it; tokenizer: counted from the text after the run; chunks: one an event, which is "
    "approximate. Hidden tokens were told and never sent: TPOT leaves them out."
)
OF_LATENESS = "Lateness counts into every latency from the schedule; TTFT net leaves it out."


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the section: a table, or the facts of a single run."""

    title: str
    table: Table
    facts: Facts = ()


@dataclass(frozen=True, slots=True)
class HttpSection:
    """What only a server has."""

    phases: Table
    blocks: tuple[Block, ...]
    ends: Table
    server: Table
    advice: tuple[str, ...]
    own_steps: Table | None
    """Where its slots went by its own steps, if it told them."""
    own_advice: tuple[str, ...]


def http_section(folder: Folder) -> HttpSection:
    """Of a run or a sweep with servers."""
    parts = (
        ("Connections and replies", REPLIES, OF_REPLIES),
        ("Tokens", TOKENS, OF_TOKENS),
        ("Lateness of this client", LATENESS, OF_LATENESS),
        ("Calibration of this client", CALIBRATED, calibration_caption(folder)),
    )
    blocks = []
    for title, columns, caption in parts:
        table = wire_table(folder, columns, caption)
        blocks.append(Block(title, table, downwards(table) if folder.kind == "run" else ()))
    own = own_step_table(folder), own_step_advice(folder)
    told = server_table(folder), advice(folder)
    return HttpSection(phase_table(folder), tuple(blocks), ends_table(folder), *told, *own)
