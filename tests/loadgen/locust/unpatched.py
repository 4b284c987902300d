"""Locust as a library in a test's process: without its patches of sockets, threads and time, which all tests share."""

import os

SKIP = "LOCUST_SKIP_MONKEY_PATCH"
_before = os.environ.get(SKIP)
os.environ[SKIP] = "1"
try:
    from locust import stats as locust_stats
    from locust.env import Environment
    from locust.html import get_html_report

    from loadgen.locust.exact import ExactEntry, install_exact
finally:
    if _before is None:
        del os.environ[SKIP]

__all__ = ["Environment", "ExactEntry", "get_html_report", "install_exact", "locust_stats"]
