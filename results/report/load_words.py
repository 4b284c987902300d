"""Loads in words: what stands with every figure, so that a closed loop is never taken for a rate."""

from results.report.folder import number_of

BURST, CLOSED = "burst", "closed:"


def load_text(load: str) -> str:
    """`16 req/s`, `burst`, `8 users in a closed loop`."""
    return short_load(load).replace("/s", " req/s").replace(", closed", " in a closed loop")


def short_load(load: str) -> str:
    """`16/s`, `burst`, `8 users, closed`."""
    if load.startswith(CLOSED):
        users = load.removeprefix(CLOSED)
        return f"{users} user{'s' if users != '1' else ''}, closed"
    return load if number_of(load) is None else f"{load}/s"
