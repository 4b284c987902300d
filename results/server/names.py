"""Names in files and tables of scrapes; imports nothing, because the scraper has to start quickly."""

SERVER_FILE = "server.parquet"
STREAM_ENDING = "-server.arrows"
STEPS_FILE = "server_steps.parquet"
STEPS_PART = "0000-journal.arrows"
"""The server's own steps as they were told, beside how they were fetched."""
STEPS_TOLD = b"tokenload_steps"
"""Under which key of a file's metadata the latter stands."""
INTEGERS = ("round", "t_ns", "request_ns")
"""Number of the round of requests; just before the request; how long it took until its last byte."""
TEXTS = ("url", "name", "labels")
"""Where it was asked (without secrets), the series' name and its labels, sorted: `{engine="0"}` or empty."""
FAILED, SKIPPED, CUT, RUN_START = "scrape_failed", "scrape_skipped", "scrape_cut", "run_start"
"""Rows of the scraper's own: nothing came (why is in the labels), lines that were no samples, series above the limit,
and time 0 of the run. No server can tell a series of these names: they are left out of what it tells."""
OWN_NAMES = (FAILED, SKIPPED, CUT, RUN_START)
