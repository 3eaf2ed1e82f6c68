"""What stands around the numbers of a PDF is kept with them: its name, parts, units, labels, notes."""

from __future__ import annotations

from pdf.laid_out_pdf import Line, laid_out, paragraph

from rag_assets.steps.files.pdf.headings import document_name
from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.files.pdf.rows import NoteCandidate, beside_marks
from rag_assets.steps.files.records import OcrPage, OcrWord
from rag_assets.steps.formats.blocks import BUDGET, Block, blocks_content

PROSE = (
    "The pump station is inspected every quarter by two engineers who write down",
    "what they see, and the report is filed with the harbour office on the same day",
    "so that the next shift can read it before the valves are opened for the night.",
)


def blocks(*pages: list[Line], outline: tuple[tuple[str, int], ...] = ()) -> list[Block]:
    return blocks_content(pdf_text(laid_out(*pages, outline=outline), BUDGET, None).body).blocks


def rows(found: list[Block]) -> list[str]:
    return [block.text.partition("\n")[0] for block in found if block.kind == "table"]


def test_a_footer_that_ends_with_the_page_number_is_left_out_wherever_it_stands() -> None:
    lengths = (1, 3, 2, 1)
    pages = [
        [*paragraph(72, 120, *PROSE[:count]), Line(72, 180 + 12 * count, f"Harbour Inc. | Q1 report | {n + 2}")]
        for n, count in enumerate(lengths)
    ]
    name, *others = blocks(*pages)
    assert (name.kind, name.text) == ("heading", "Harbour Inc. | Q1 report")
    assert not any("Harbour Inc." in block.text for block in others)


def test_a_chapter_beside_the_page_number_is_no_text() -> None:
    pages = [
        [*paragraph(72, 120, *PROSE), Line(72, 760, f"Chapter of {word}"), Line(500, 760, str(n))]
        for n, word in enumerate(("pumps", "valves", "cranes", "berths"), start=7)
    ]
    assert not any("Chapter of" in block.text for block in blocks(*pages))


def test_words_over_the_columns_of_a_table_at_the_top_are_no_header_of_the_page() -> None:
    def page(amount: str) -> list[Line]:
        head = [Line(320, 60, "Three months ended"), Line(72, 71, "(In millions)")]
        head += [Line(300, 71, "April 2023"), Line(400, 71, "April 2022")]
        values = [Line(300, 84, amount), Line(400, 84, "9"), Line(300, 97, "7"), Line(400, 97, "8")]
        return [*head, Line(72, 84, "Revenue"), Line(72, 97, "Costs"), *values]

    header = [row for row in rows(blocks(*map(page, ("11", "12", "13", "14")))) if "April" in row]
    assert header == ["| (In millions) | Three months ended April 2023 | Three months ended April 2022 |"]


def test_the_unit_above_a_table_stands_in_its_header() -> None:
    table = [Line(202, 114, "2022", 10, True), Line(332, 114, "2021", 10, True)]
    table += [Line(72, 128, "Products"), Line(202, 128, "96,388"), Line(332, 128, "104,429")]
    table += [Line(72, 142, "Services"), Line(202, 142, "20,766"), Line(332, 142, "19,516")]
    found = blocks([Line(72, 84, "(In millions, except per share amounts)"), *table])
    assert rows(found)[0] == "| (In millions, except per share amounts) | 2022 | 2021 |"


def test_labels_with_colons_are_rows_from_the_first_on() -> None:
    def field(y: float, *texts: str) -> list[Line]:
        return [Line(72 + 130 * at, y, text) for at, text in enumerate(texts) if text]

    lines = [
        *field(100, "Make:", "Aerostar", "Category:", "Airplane"),
        *field(118, "Year:", "", "Amateur built:", "No"),
        *field(136, "Landing gear:", "Retractable and", "Seats:", "5"),
        *field(147, "", "hydraulic"),
        *field(165, "Flight time:", "2411 hours (total, all aircraft), 789 hours (this make), 1 hour", "", ""),
        *field(176, "", "(last 90 days), 0 hours (last 30 days)"),
    ]
    assert rows(blocks(lines)) == [
        "| Make: | Aerostar | Category: | Airplane |",
        "| Year: | | Amateur built: | No |",
        "| Landing gear: | Retractable and hydraulic | Seats: | 5 |",
        "| Flight time: | 2411 hours (total, all aircraft), 789 hours (this make), 1 hour (last 90 days), 0 hours "
        "(last 30 days) | | |",
    ]


def test_a_numbered_heading_above_a_table_is_no_row_of_it() -> None:
    lines = [Line(72, 90, "Note 6 :", 13, True), Line(160, 90, "Charges", 13, True)]
    lines += [Line(300, 110, "2023"), Line(72, 124, "Severance"), Line(300, 124, "39"), Line(72, 138, "Litigation")]
    lines += [Line(300, 138, "77")]
    found = blocks([*lines, *paragraph(72, 200, *PROSE)])
    assert [block.text for block in found if block.kind == "heading"] == ["Note 6 : Charges"]
    assert rows(found) == ["| | 2023 |", "| Severance | 39 |", "| Litigation | 77 |"]


def test_a_part_that_only_the_outline_names_is_a_heading() -> None:
    pages = [[Line(72, 90, f"Statement {n}", 16), *paragraph(72, 120, *PROSE)] for n in (1, 2, 3)]
    outline = (("Financial statements", 2), ("Statement 2", 2))
    found = blocks(*pages, outline=outline)
    assert "Financial statements" not in [block.text for block in found]  # nothing stands below it in the outline


def test_a_table_of_small_print_makes_no_headings_larger() -> None:
    def page(n: int, size: float) -> list[Line]:
        text = [Line(72, 180 + 14 * at, f"{line} {n}", size) for at, line in enumerate(PROSE * 3)]
        return [Line(72, 136, f"Note {n}", 9, True), Line(72, 150, PROSE[0], 9), *text]

    exhibits = [[Line(72, 100 + 14 * at, line, 10) for at, line in enumerate(PROSE * 9)] for _ in range(6)]
    found = blocks(page(1, 9), page(2, 9), page(3, 8), page(4, 9), page(5, 9), *exhibits)
    assert len({block.level for block in found if block.text.startswith("Note")}) == 1


def test_a_note_stands_after_what_has_its_mark() -> None:
    parts = [
        NoteCandidate("Cash and investments1 , as shown, are our source of liquidity.", 10),
        NoteCandidate("Total debt (2) | 50,273", 0),
        NoteCandidate("In 2023 we paid $3.1 billion.", 10),
        NoteCandidate("1 See the measures on page 12.", 8),
        NoteCandidate("(2) Without leases.", 8),
        NoteCandidate("3 Nobody refers to this.", 8),
    ]
    assert beside_marks(parts) == [0, 3, 1, 4, 2, 5]


def test_the_note_of_a_page_is_read_with_its_paragraph() -> None:
    second = "The valves are opened at night, after the shift has read the report of the engineers."
    lines = [
        *paragraph(72, 100, "Liquidity comes from cash and investments1 that the harbour holds."),
        *paragraph(72, 140, second),
        Line(72, 700, "1 See the measures on page 12.", 8),
    ]
    texts = [block.text for block in blocks(lines)]
    assert texts.index("1 See the measures on page 12.") == 1
    assert texts[2] == second


def test_a_name_is_what_pages_repeat_or_the_metadata_say() -> None:
    assert document_name("Harbour handbook of Gdansk", [], [], []) == "Harbour handbook of Gdansk"
    for title in ("Microsoft Word - Document1", "report.docx", "0000320193-23-000006", "untitled", ""):
        assert document_name(title, [], [], []) == ""


def test_a_row_of_figures_is_no_heading_however_large_it_is() -> None:
    lines = [Line(72, 90, "Results", 16), *paragraph(72, 120, *PROSE), Line(72, 200, "Total $ 36,016 $ 41,488", 16)]
    assert [block.text for block in blocks(lines) if block.kind == "heading"] == ["Results"]


def test_lines_that_ocr_read_a_little_higher_are_no_headings() -> None:
    lines = [*paragraph(72, 120, *PROSE), Line(72, 200, "Believes that investors find them useful", 11.6)]
    file = laid_out([Line(72, 90, "Results", 16), *lines])
    words = (OcrWord("Results", 72, 80, 120, 92, 90),)
    read = blocks_content(pdf_text(file, BUDGET, None, {1: OcrPage(1, words)}).body).blocks
    assert [block.text for block in read if block.kind == "heading"] == ["Results"]
    assert len([block for block in blocks([Line(72, 90, "Results", 16), *lines]) if block.kind == "heading"]) == 2


def test_lines_that_ocr_read_in_uneven_heights_are_one_paragraph() -> None:
    sizes = (10, 11, 9.4)
    lines = [Line(72, 120 + 12 * at, text, sizes[at]) for at, text in enumerate(PROSE)]
    words = (OcrWord("The", 72, 112, 90, 122, 90),)
    read = blocks_content(pdf_text(laid_out(lines), BUDGET, None, {1: OcrPage(1, words)}).body).blocks
    assert [block.text for block in read] == [" ".join(PROSE)]
