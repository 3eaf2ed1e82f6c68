"""A header of several rows names each column once, and is no row of data."""

from __future__ import annotations

import pytest
from support.macro_bodies import text

from rag_assets.steps.formats.blocks import HEADER_MAX, Cell, row_blocks
from rag_assets.steps.formats.html import html_content

LIMITS = (
    '<table><tbody><tr><th rowspan="2">Country</th><th colspan="2">Limit per day</th></tr>'
    "<tr><th>Meals</th><th>Hotel</th></tr><tr><td>Norway</td><td>82 euros</td><td>210 euros</td></tr></tbody></table>"
)
SHOWN = "| Country | Limit per day Meals | Limit per day Hotel |\n|---|---|---|\n| Norway | 82 euros | 210 euros |"


def lines(rows: list[list[Cell]]) -> list[str]:
    return "\n".join(block.text for block in row_blocks(rows, 1)).split("\n")


def named(*texts: str) -> list[Cell]:
    return [Cell(each, header=True) for each in texts]


def test_in_a_wiki_page_and_in_html() -> None:
    assert text(LIMITS) == SHOWN
    assert "\n".join(block.text for block in html_content(LIMITS).blocks) == SHOWN


def test_one_text_over_all_columns_is_the_caption() -> None:
    rows = [[Cell("Fees", True, 2)], named("what", "euros"), [Cell("permit"), Cell("40")]]
    assert lines(rows) == ["Fees", "| what | euros |", "|---|---|", "| permit | 40 |"]


def test_a_row_with_a_header_cell_is_data() -> None:
    rows = [named("", "euros"), [Cell("permit", header=True), Cell("40")]]
    assert lines(rows) == ["| | euros |", "|---|---|", "| permit | 40 |"]


@pytest.mark.parametrize("count", [1, 2, HEADER_MAX + 3])
def test_where_all_cells_are_headers_the_first_row_names_the_columns(count: int) -> None:
    rows = [named(f"a{at}", f"b{at}") for at in range(count)]
    found = lines(rows)
    assert found[:2] == ["| a0 | b0 |", "|---|---|"] or count > HEADER_MAX
    assert all(f"a{at}" in "\n".join(found) for at in range(count))
