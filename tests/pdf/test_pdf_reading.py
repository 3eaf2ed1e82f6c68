"""A PDF becomes what its pages show: headings, paragraphs, lists and tables, in reading order and with their pages."""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pdf.laid_out_pdf import Line, laid_out, paragraph
from sources.pdf_writer import pdf
from support.pdf_truth import REAL, found_cells, pages_told, read, true_cells
from support.section_pages import sections

from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.records import FileError, OcrPage, OcrWord
from rag_assets.steps.formats.blocks import BUDGET, Block, Content, blocks_content

PROSE = (
    "The pump station is inspected every quarter by two engineers who write down",
    "what they see, and the report is filed with the harbour office on the same day",
    "so that the next shift can read it before the valves are opened for the night.",
)


def content(file: bytes) -> Content:
    return blocks_content(pdf_text(file, BUDGET, None).body)


def blocks(file: bytes) -> list[Block]:
    return content(file).blocks


def texts(file: bytes) -> list[str]:
    return [block.text for block in blocks(file)]


def table(x: float, y: float, *rows: tuple[str, ...]) -> list[Line]:
    """Rows whose cells stand in columns 130 points apart."""
    return [
        Line(x + 130 * column, y + 14 * at, cell)
        for at, row in enumerate(rows)
        for column, cell in enumerate(row)
        if cell
    ]


def test_headings_have_levels_by_size_and_their_page_as_anchor() -> None:
    page = [Line(72, 90, "Operation", 18), *paragraph(72, 120, *PROSE), Line(72, 180, "Night shift", 13, True)]
    found = blocks(laid_out([*page, *paragraph(72, 200, *PROSE)]))
    assert [(b.kind, b.level, b.text, b.anchors) for b in found if b.kind == "heading"] == [
        ("heading", 1, "Operation", ("page=1",)),
        ("heading", 2, "Night shift", ("page=1",)),
    ]
    assert found[1].text == " ".join(PROSE)


def test_the_outline_of_a_file_says_what_its_headings_are() -> None:
    page = [Line(72, 90, "Berths"), *paragraph(72, 120, *PROSE)]
    found = blocks(laid_out(page, page, outline=[("Berths", 2)]))
    assert [(b.text, b.page) for b in found if b.kind == "heading"] == [("Berths", 2)]


def test_a_paragraph_goes_on_over_a_page_break_and_words_are_mended() -> None:
    first = [*paragraph(72, 700, PROSE[0], "what they see, and the re-")]
    second = [Line(72, 90, "port is filed. It has two pages.")]
    (found,) = blocks(laid_out(first, second))
    assert found.text == f"{PROSE[0]} what they see, and the report is filed. It has two pages."
    assert (found.page, [page for _, page in found.breaks]) == (1, [2])
    assert found.text[found.breaks[0][0] :].startswith("port is filed")


def test_a_hyphen_stays_where_the_word_has_one_elsewhere() -> None:
    lines = paragraph(
        72, 90, "A pay-variable swap is one where the rate of the pay-", "variable leg follows the market."
    )
    assert "the pay-variable leg" in texts(laid_out(lines))[0]


def test_headers_footers_and_page_numbers_are_left_out_and_counted() -> None:
    pages = [
        [Line(72, 40, "Harbour handbook"), *paragraph(72, 120, f"Part {n}.", *PROSE), Line(300, 770, f"{n} of 4")]
        for n in (1, 2, 3, 4)
    ]
    found = content(laid_out(*pages))
    name, *others = found.blocks
    assert (name.kind, name.level, name.text) == ("heading", 1, "Harbour handbook")
    assert not any("handbook" in block.text or "of 4" in block.text for block in others)
    assert found.ledger["header or footer", "navigation"] == 8


def test_a_table_keeps_each_number_under_its_header_with_its_signs() -> None:
    rows = [
        Line(230, 100, "Three Months Ended", 10, True),
        Line(202, 114, "Dec 31, 2022", 10, True),
        Line(332, 114, "Dec 25, 2021", 10, True),
        *table(
            72, 128, ("Products", "$ 96,388", "$ 104,429"), ("Services", "20,766", "(19,516)"), ("Share", "21 %", "")
        ),
    ]
    assert [b.text for b in blocks(laid_out(rows)) if b.kind == "table"] == [
        "| | Three Months Ended Dec 31, 2022 | Three Months Ended Dec 25, 2021 |\n|---|---|---|",
        "| Products | $ 96,388 | $ 104,429 |",
        "| Services | 20,766 | (19,516) |",
        "| Share | 21 % | |",
    ]


def test_a_header_that_a_page_break_repeats_stands_once() -> None:
    head = [Line(72, 86, "Port", 10, True), Line(202, 86, "Berths", 10, True)]
    first = [*head, *table(72, 100, ("Gdansk", "12"), ("Busan", "40"))]
    second = [*head, *table(72, 100, ("Bergen", "7"), ("Izmir", "19"))]
    rows = [block for block in blocks(laid_out(first, second)) if block.kind == "table"]
    assert [row.text.partition("\n")[0] for row in rows] == [
        "| Port | Berths |",
        "| Gdansk | 12 |",
        "| Busan | 40 |",
        "| Bergen | 7 |",
        "| Izmir | 19 |",
    ]
    assert ({row.group for row in rows}, [row.page for row in rows]) == ({1}, [1, 1, 1, 2, 2])


def test_two_columns_are_read_one_after_the_other() -> None:
    left = [f"left column line {n} with some more words" for n in range(8)]
    right = [f"right column line {n} with other words too" for n in range(8)]
    found = " ".join(texts(laid_out([*paragraph(60, 100, *left), *paragraph(330, 106, *right)])))
    assert found == " ".join([*left, *right])


def test_items_of_a_list_are_items() -> None:
    lines = [
        Line(72, 100, "* Close the inner valve and wait for"),
        Line(80, 112, "the pressure to fall."),
        Line(72, 124, "* Open it."),
    ]
    assert [(b.kind, b.text) for b in blocks(laid_out(lines))] == [
        ("list", "- Close the inner valve and wait for the pressure to fall."),
        ("list", "- Open it."),
    ]


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_page_that_is_shown_turned_reads_the_same(turned: int) -> None:
    page = [Line(72, 90, "Operation", 18), *paragraph(72, 120, *PROSE)]
    assert texts(laid_out(page, turned=turned)) == texts(laid_out(page))


def test_pages_without_text_are_in_the_ledger() -> None:
    found = content(pdf("Berth planning", "", "Second chapter"))
    assert found.ledger["page without text", "lost"] == 1


def test_blocks_of_a_recognized_page_say_how_sure_ocr_was() -> None:
    file = laid_out([Line(72, 100, "Close the valve."), Line(72, 200, "Open it.")], [Line(72, 100, "Typed.")])
    words = (
        OcrWord("Close", 72, 92, 98, 102, 80),
        OcrWord("valve", 115, 92, 140, 102, 60),
        OcrWord("Open", 72, 192, 96, 202, 95),
    )
    found = blocks_content(pdf_text(file, BUDGET, None, {1: OcrPage(1, words)}).body).blocks
    assert [block.confidence for block in found if block.kind == "paragraph"] == [70, 95, None]


def test_an_edited_paragraph_leaves_the_other_sections_as_they_were() -> None:
    def handbook(edited: str) -> dict[str, str]:
        pages = [
            [
                Line(72, 100, f"Chapter {n}", 16),
                *paragraph(72, 130, *PROSE, edited if n == 20 else f"It is number {n}."),
            ]
            for n in range(1, 41)
        ]
        rows = sections(pdf_text(laid_out(*pages), BUDGET, None).body, body_format="blocks", anchor_flavor="html")
        return {row["heading"]: row["text"] for row in rows}

    before, after = handbook("It is number 20."), handbook("It was rewritten, and is longer than it was before.")
    assert [heading for heading in before if before[heading] != after[heading]] == ["Chapter 20"]
    assert len(before) >= 40


def test_a_page_of_very_many_words_takes_no_longer_than_its_length() -> None:
    lines = [Line(20 + 9 * (n % 60), 20 + n // 60 * 7, f"w{n}", 2) for n in range(6_000)]
    begun = time.process_time()
    with contextlib.suppress(FileError):
        content(laid_out(lines))
    assert time.process_time() - begun < 10


SAMPLE = laid_out(
    [Line(72, 90, "Operation", 18), *paragraph(72, 120, *PROSE)], [*table(72, 100, ("a", "1"), ("b", "2"))]
)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_a_damaged_file_has_text_or_a_reason(seed: int) -> None:
    chosen = random.Random(seed)
    file = bytearray(SAMPLE)
    for _ in range(chosen.randint(1, 8)):
        file[chosen.randrange(len(file))] ^= 1 << chosen.randrange(8)
    with contextlib.suppress(FileError):
        content(bytes(file[: chosen.randint(1, len(file))] if seed % 3 == 0 else file))


@pytest.mark.skipif(not REAL.is_dir(), reason="../shared/data/pdf is not here")
def test_of_a_real_report_all_pages_are_told_and_its_cells_stand_in_row_and_column() -> None:
    name = "10q-2023Q1-INTC.pdf"
    file = read((REAL / name).read_bytes())
    assert pages_told(file) == file.pages == 43
    found = found_cells(file.content, true_cells()[name])
    assert sum(found) >= 0.93 * len(found)
