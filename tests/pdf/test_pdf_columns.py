"""Columns, rows and headings of a page are what they look like, not what stands nearest to each other."""

from __future__ import annotations

import pytest
from pdf.laid_out_pdf import Line, laid_out, paragraph, ruled

from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.pdf.rows import NoteCandidate, beside_marks
from rag_assets.steps.formats.blocks import BUDGET, Block, blocks_content

STORY = (
    "the pilots of the harbour wait for ships near the mole and guide them to a berth where men tie the ropes and look "
    "after the cargo all night long until the sun comes up over the sea and boats leave for the islands of the north "
    "which nobody has seen since the last winter when ice lay on the water for nine weeks and all cranes stood still"
)


def blocks(*pages: list[Line], boxes: list[tuple[float, float, float, float]] | None = None) -> list[Block]:
    return blocks_content(pdf_text(laid_out(*pages, boxes=boxes or []), BUDGET, None).body).blocks


def rows(found: list[Block]) -> list[str]:
    return [block.text.partition("\n")[0] for block in found if block.kind == "table"]


def wrapped(text: str, chars: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > chars:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


@pytest.mark.parametrize(("columns", "chars"), [(2, 18), (3, 20), (4, 16)])
def test_narrow_columns_of_text_are_read_one_after_the_other(columns: int, chars: int) -> None:
    lines = wrapped(STORY, chars)
    share = -(-len(lines) // columns)
    pitch = 500 // columns
    page = [
        one for at in range(columns) for one in paragraph(60 + pitch * at, 120, *lines[at * share : (at + 1) * share])
    ]
    title = Line(60, 90, "News of the harbour and of all ships", 18)
    assert [block.text for block in blocks([title, *page])] == [title.text, STORY]


def test_a_table_of_words_in_narrow_columns_is_a_table() -> None:
    ports = ("Port", "Gdansk", "Busan", "Bergen", "Izmir", "Porto")
    seas = ("Sea", "the Baltic Sea", "the East Sea", "the North Sea", "the Aegean Sea", "the Atlantic")
    page = [
        Line(60 + 150 * x, 100 + 14 * y, cell)
        for x, column in enumerate((ports, seas))
        for y, cell in enumerate(column)
    ]
    assert rows(blocks(page))[-5] == "| Gdansk | the Baltic Sea |"


CRANES = [(f"K{n}", "" if n == 3 else str(1000 + 37 * n), f"East {n % 4}") for n in range(1, 11)]
PORTS = [*zip(("Gdansk", "Busan", "Bergen", "Izmir", "Porto", "Genoa"), ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay"),
              ("north", "east", "south", "west", "north", "east"), strict=True)]  # fmt: skip


@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize("body", [CRANES, PORTS], ids=["numbers", "words"])
def test_rows_between_two_rules_stay_apart(body: list[tuple[str, ...]], every: int) -> None:
    if body is PORTS and every == 2:
        pytest.skip("two lines of words may be one cell")
    table = [("Name", "Second", "Third"), *body]
    lines = [
        Line(74 + 130 * column, 110 + 14 * at, cell)
        for at, row in enumerate(table)
        for column, cell in enumerate(row)
        if cell
    ]
    ys = [100, *range(114, 114 + 14 * len(body), 14 * every), 114 + 14 * len(body)]
    found = rows(blocks(lines, boxes=ruled([70, 200, 330, 460], ys)))
    assert found == [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in table]


def test_lines_that_a_cell_wraps_stay_one_cell() -> None:
    lines = [
        *(Line(x, 110, name) for x, name in ((74, "Measure"), (204, "Reason"), (334, "Hours"))),
        *paragraph(74, 126, "Inspection of the big", "Crane on the quay", "With its new cable", pitch=12),
        *paragraph(204, 126, "The cable is older than", "Nine years, and worn", "At both of its ends", pitch=12),
        Line(334, 126, "12"),
    ]
    found = rows(blocks(lines, boxes=ruled([70, 176, 330, 460], [100, 114, 166])))
    assert len(found) == 2


@pytest.mark.parametrize("style", [{"size": 16}, {"bold": True}])
@pytest.mark.parametrize("first", ["{n} ", ""])
def test_headings_that_only_their_numbers_tell_apart_stay(style: dict[str, float], first: str) -> None:
    pages = [
        [
            Line(72, 60, f"{first.format(n=n)}Tariff part {2 * n}", **style),  # type: ignore[arg-type]
            Line(72, 90, f"Berth {n} costs {10 * n} euros a night."),
            *paragraph(72, 200, "The fee is paid before the ship leaves.", f"Ask office {n + 7} for a receipt."),
        ]
        for n in range(1, 5)
    ]
    found = blocks(*pages)
    headings = [(block.level, block.text) for block in found if block.kind == "heading"]
    assert headings == [(1, f"{first.format(n=n)}Tariff part {2 * n}") for n in range(1, 5)]
    assert all(
        f"Berth {n} costs {10 * n} euros a night." in " ".join(block.text for block in found) for n in range(1, 5)
    )


def test_a_number_that_counts_the_pages_makes_no_line_another_one() -> None:
    for shown in ("Page {n} of 4 | Harbour", "{n} Harbour handbook", "Harbour handbook {n}", "Seite {n} von 4 – Hafen"):
        pages = [[Line(72, 40, shown.format(n=n)), *paragraph(72, 200, f"Berth {n} is free.")] for n in range(1, 5)]
        assert [block.text for block in blocks(*pages) if block.kind == "paragraph"] == [
            f"Berth {n} is free." for n in range(1, 5)
        ]


def test_a_raised_mark_finds_its_note_behind_a_number() -> None:
    parts = [
        NoteCandidate("It holds for 24¹² months.", 10),
        NoteCandidate("Nothing else does.", 10),
        NoteCandidate("¹² Not on Sundays.", 8),
    ]
    assert beside_marks(parts) == [0, 2, 1]
    assert beside_marks([*parts[:2], NoteCandidate("12 Not on Sundays.", 8)]) == [0, 2, 1]
