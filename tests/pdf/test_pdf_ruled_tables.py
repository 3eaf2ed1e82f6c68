"""Lines around cells say what a table's rows and columns are."""

from __future__ import annotations

import time

import pytest
from pdf.laid_out_pdf import Line, laid_out, paragraph, ruled

from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.formats.blocks import BUDGET, Block, blocks_content

XS, YS = (70, 200, 300, 400), (100, 120, 140, 200)
CELLS = [
    *(Line(x, 114, text) for x, text in zip((74, 204, 304), ("Description", "Type", "Tons"), strict=True)),
    *paragraph(74, 132, "By 2026, reduce", "emissions of power", "plants by 21 %"),
    *(Line(204, 134, "Target"), Line(304, 134, "308,376.5")),
    *(Line(204, 154, "Actual"), Line(304, 154, "390,350")),
]
MERGED = [box for box in ruled(XS, YS) if box[1] != 140] + [(200, 140, 400, 141)]
"""The grid without the line below the first cell of the second row."""
SAID = "By 2026, reduce emissions of power plants by 21 %"


def blocks(*pages: list[Line], turned: int = 0, boxes: list[tuple[float, float, float, float]]) -> list[Block]:
    return blocks_content(pdf_text(laid_out(*pages, turned=turned, boxes=boxes), BUDGET, None).body).blocks


def rows(found: list[Block]) -> list[str]:
    return [block.text.partition("\n")[0] for block in found if block.kind == "table"]


@pytest.mark.parametrize("turned", [0, 90, 180])
def test_a_cell_over_two_rows_is_said_in_both(turned: int) -> None:
    assert rows(blocks(CELLS, turned=turned, boxes=MERGED)) == [
        "| Description | Type | Tons |",
        f"| {SAID} | Target | 308,376.5 |",
        f"| {SAID} | Actual | 390,350 |",
    ]


def test_what_stands_around_a_table_is_read_before_and_after_it() -> None:
    lines = [
        Line(70, 80, "Emissions of nitrogen oxides in the ozone season:"),
        *CELLS,
        Line(70, 230, "Source: survey."),
    ]
    assert [block.kind for block in blocks(lines, boxes=MERGED)] == [
        "paragraph",
        "table",
        "table",
        "table",
        "paragraph",
    ]


def test_a_frame_and_the_grid_of_a_chart_are_no_tables() -> None:
    prose = paragraph(80, 130, "The station is inspected every quarter,", "and the report is filed on the same day.")
    assert not rows(blocks(prose, boxes=ruled((70, 400), (100, 300))))
    grid = ruled([*range(70, 470, 40)], [*range(100, 400, 30)])
    assert not rows(blocks([Line(90, 120, "Q1"), Line(260, 220, "Q2"), *prose[:1]], boxes=grid))


def test_very_many_lines_take_no_longer_than_their_number() -> None:
    boxes = [(20 + n % 500, 20 + n % 700, 20 + n % 500 + (300 if n % 2 else 1), 20 + n % 700 + (1 if n % 2 else 300))
             for n in range(20_000)]  # fmt: skip
    begun = time.process_time()
    found = blocks([Line(72, 90, "Operation of the pumps")], boxes=boxes)
    assert time.process_time() - begun < 10
    assert "Operation" in found[0].text
