"""Reports as Markdown and as one HTML file: everything told, nothing of a page taken for markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from evals.reports.report import Case, Figure, Plot, Report, Table, html, markdown, text_of

REPORT = Report(
    "Evaluation of acme",
    "81 questions against generation g1",
    [Figure("citation precision", "96 %", "good", "floor 95 %")],
    [
        Table(
            "Stages",
            ["stage", "p50"],
            [{"stage": "dense | lexical", "p50": 1.23456}, {"stage": "fuse"}],
            "milliseconds",
        )
    ],
    [Plot("Latency", "iVBORw0KGgo=")],
    [Case("Who? <b>", "wrong", "bad", [("answer", "two\nlines")])],
    facts={"command": "citelock evaluate"},
)


class Reader(HTMLParser):
    """Tags in order, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def test_markdown_has_figures_tables_plots_and_cases() -> None:
    text = markdown(REPORT)
    assert "| citation precision | 96 % | floor 95 % |" in text
    assert "| dense \\| lexical | 1.235 |" in text
    assert "![Latency](data:image/png;base64,iVBORw0KGgo=)" in text
    assert r"- wrong: Who? \<b\>" in text


def test_long_tables_are_cut_in_markdown_and_say_so() -> None:
    table = Table("Many", ["n"], [{"n": n} for n in range(25)])
    text = markdown(Report("R", "a", tables=[table]))
    assert "| 19 |" in text
    assert "| 20 |" not in text
    assert "5 more rows" in text


def test_html_needs_nothing_from_elsewhere() -> None:
    text = html(REPORT)
    assert "http" not in text
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in text
    assert {"table", "details", "input", "script", "style"} <= set(read(text).tags)


def test_every_row_is_in_the_html() -> None:
    table = Table("Many", ["n"], [{"n": n} for n in range(500)])
    assert html(Report("R", "a", tables=[table])).count("<tr>") == 501


def test_numbers_sort_as_numbers() -> None:
    assert 'data-value="1.23456">1.235<' in html(REPORT)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_no_text_becomes_markup(text: str) -> None:
    text = f"<script>{text}</script>"
    case = Case(text, text, "neutral", [(text, text)])
    report = Report(
        text, text, [Figure(text, text, note=text)], [Table(text, [text], [{text: text}], text)], cases=[case]
    )
    assert read(html(report)).tags.count("script") == 1


def test_cells_are_read_by_people() -> None:
    assert [text_of(value) for value in (None, True, 0.12345, 1234.56, 12345, "x")] == [
        "", "yes", "0.123", "1,234.6", "12,345", "x",
    ]  # fmt: skip
