"""The table of a page of one figure."""

import pytest

from results.report.figure_page import html_table


@pytest.mark.parametrize(
    ("cell", "is_number"),
    [("16", True), ("4.7761", True), ("+1.11%", True), ("-0.50%", True), ("1,566", True), ("2.5 $/h", True),
     ("0.3 x 295.2", False), ("16 GB / 3.35 TB/s", False), ("99 x 1,000 steps, one by one", False), ("weights", False),
     ("", False)],
)  # fmt: skip
def test_numbers_stand_to_the_right_and_sentences_do_not(cell: str, is_number: bool) -> None:
    """A sentence may begin with a number; the head stands as what is below it."""
    page = html_table([("head",), (cell,)])
    assert page.count('class="number"') == 2 * is_number


def test_what_is_written_is_escaped() -> None:
    """In heads and cells; no rows are no table."""
    page = html_table([("<b>",), ("<script>",)])
    assert "<b>" not in page and "<script>" not in page and "&lt;script&gt;" in page
    assert html_table([]) == ""
