"""The report: a run folder or a sweep folder as one offline HTML page.

Every figure on the page is a pure function of the folder's rows: the same folder gives the same bytes.
"""

from results.report.page import write_report

__all__ = ["write_report"]
