"""A workbook is read sheet by sheet, as it is shown; what is hidden is counted, what is huge is cut."""

from __future__ import annotations

import io
from datetime import date, datetime, time
from zipfile import ZIP_DEFLATED, ZipFile

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.chart import BarChart, Reference
from openpyxl.worksheet.table import Table
from support.office_truth import content_of

from rag_assets.steps.files.office.xlsx import shown, xlsx_text
from rag_assets.steps.formats.blocks import BUDGET, clean, without_note


def saved_book(book: openpyxl.Workbook) -> bytes:
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def sheet_of(*rows: list[object]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return book


def texts(file: bytes) -> list[str]:
    return [block.text for block in content_of("xlsx", file).blocks if block.kind != "heading"]


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("0.873", "0.0%", "87.3%"),
        ("1234567.891", "#,##0.00", "1,234,567.89"),
        ("-5", "#,##0;(#,##0)", "(5)"),
        ("412300.5", '#,##0.00\\ "€"', "412,300.50 €"),
        ("12.4", "[$€-407] #,##0.00", "€ 12.40"),
        ("12.4", '_("$"* #,##0.00_)', "$12.40"),
        ("45000", "yyyy-mm-dd", "2023-03-15"),
        ("45000", "dd.mm.yyyy", "15.03.2023"),
        ("45000.75", "d mmmm yyyy h:mm AM/PM", "15 March 2023 6:00 PM"),
        ("1.5", "[h]:mm", "36:00"),
        ("0.5", "hh:mm:ss", "12:00:00"),
        ("1", "yyyy-mm-dd", "1900-01-01"),
        ("7", "000", "007"),
        ("1234.5", "0.00E+00", "1.23E+03"),
        ("1500000", '0.0,,"M"', "1.5M"),
        ("0.1", "", "0.1"),
        ("0.30000000000000004", "General", "0.3"),
        ("123456789012", "", "123456789012"),
        ("2.5", "[Red]0.0;[Blue]-0.0", "2.5"),
        ("0", '0;-0;"none"', "none"),
        ("3", 'General" kg"', "3 kg"),
        ("-1", "yyyy", "-1"),
        ("x", "0", "x"),
    ],
)
def test_numbers_are_shown_by_their_format(value: str, code: str, text: str) -> None:
    assert shown(value, code) == text


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.floats(), st.integers()).map(repr), st.text('0#?.,%E+-;yMdhms[]"\\_*@/ €$Genral', max_size=20))
def test_no_format_is_an_error(value: str, code: str) -> None:
    assert isinstance(shown(value, code), str)


def test_dates_and_times_of_a_library_are_shown() -> None:
    book = sheet_of(["Day", "Moment", "Time"], [date(2026, 3, 1), datetime(2026, 3, 1, 14, 30), time(9, 5)])
    assert texts(saved_book(book))[1] == "| 2026-03-01 | 2026-03-01 14:30:00 | 9:05:00 |"


def test_merged_cells_are_repeated_under_a_header_of_two_lines() -> None:
    book = sheet_of(["Route", "Summer", None], [None, "Cars", "People"], ["Skarvoy", 1, 2], [None, 3, 4])
    for cells in ("A1:A2", "B1:C1", "A3:A4"):
        book.active.merge_cells(cells)
    assert texts(saved_book(book)) == [
        "| Route | Summer Cars | Summer People |\n|---|---|---|",
        "| Skarvoy | 1 | 2 |",
        "| Skarvoy | 3 | 4 |",
    ]


def test_blank_rows_part_tables_and_defined_tables_are_named() -> None:
    book = sheet_of(["A", "B"], [1, 2], [], ["Name", "Age"], ["Ada", 36])
    book.active.add_table(Table(displayName="Crew", ref="A4:B5"))
    assert texts(saved_book(book)) == [
        "| A | B |\n|---|---|", "| 1 | 2 |", "Crew", "| Name | Age |\n|---|---|", "| Ada | 36 |",
    ]  # fmt: skip


def test_what_is_hidden_is_left_out_and_counted() -> None:
    book = sheet_of(["A", "B", "C"], [1, 2, 3], [4, 5, 6])
    book.active.column_dimensions["B"].hidden = True
    book.active.row_dimensions[3].hidden = True
    book.create_sheet("Secret").append(["x"])
    book["Secret"].sheet_state = "veryHidden"
    content = content_of("xlsx", saved_book(book))
    assert [block.text for block in content.blocks][1:] == ["| A | C |\n|---|---|", "| 1 | 3 |"]
    assert {name for name, outcome in content.ledger if outcome == "hidden"} == {
        "hidden row", "hidden column", "hidden sheet",
    }  # fmt: skip


def test_a_formula_that_was_never_computed_is_counted_lost() -> None:
    content = content_of("xlsx", saved_book(sheet_of(["A", "B"], [1, "=A2*2"])))
    assert content.ledger["formula without a value", "lost"] == 1


def test_a_chart_without_stored_values_is_counted_lost() -> None:
    book = sheet_of(["A", "B"], [1, 2])
    chart = BarChart()
    chart.add_data(Reference(book.active, min_col=1, min_row=1, max_row=2))
    book.active.add_chart(chart)
    assert content_of("xlsx", saved_book(book)).ledger["chart", "lost"] == 1


def test_wide_and_empty_columns_cost_nothing() -> None:
    book = sheet_of(["A"])
    book.active["XFD1"], book.active["A2"], book.active["XFD2"] = "Z", "x", "y"
    assert texts(saved_book(book)) == ["| A | Z |\n|---|---|", "| x | y |"]


def big_sheet(rows: int) -> bytes:
    """A workbook of one sheet of so many rows, which would be 60 MB."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    rel = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as package:
        sheets = '<sheets><sheet name="Big" r:id="r1"/></sheets>'
        package.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{rel}">{sheets}</workbook>')
        relation = '<Relationship Id="r1" Type="x/worksheet" Target="s.xml"/>'
        package.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{relation}</Relationships>")
        row = "<row><c><v>1</v></c><c><v>2</v></c></row>" * 1000
        content = f'<worksheet xmlns="{main}"><sheetData>{row * (rows // 1000)}</sheetData></worksheet>'
        package.writestr("xl/s.xml", content)
    return file.getvalue()


def test_a_sheet_of_very_many_rows_is_cut_at_the_budget() -> None:
    body, cut = without_note(xlsx_text(big_sheet(200_000), BUDGET._replace(cells=1000)).body)
    assert cut == "cut at 1,000 table cells (documents.max_cells)"
    assert body.count("| 1 | 2 |") == 500


_WORDS = st.text(st.characters(categories=["L"]), min_size=1, max_size=8).map(clean).filter(bool)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), _WORDS, st.integers(-9999, 9999)), max_size=5), min_size=1, max_size=6))
def test_no_cell_of_a_workbook_is_lost(rows: list[list[object]]) -> None:
    expected = sorted(str(cell) for row in rows for cell in row if cell is not None)
    found = " ".join(text.replace("|---", "") for text in texts(saved_book(sheet_of(*rows))))
    assert sorted(found.replace("|", " ").split()) == expected
