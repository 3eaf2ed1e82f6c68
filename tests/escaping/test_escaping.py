"""Hostile text in every target, read back by a real parser of that target."""

from __future__ import annotations

import csv
import io
import json
import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from support.examples import examples

from rag_assets.metadata import listed, markdown_table, named_reasons
from rag_serving.answering.markdown import markdown
from rag_serving.cli.printing import answer_lines
from rag_serving.escaping.targets import (
    for_csv,
    for_json,
    for_link,
    for_log,
    for_markdown,
    for_terminal,
    for_terminal_line,
    markdown_text,
)
from rag_serving.privacy import LineFormatter
from rag_serving.records.answers import Answer, Citation

PIECES = (
    "![x](https://evil.example/p.png)", "<img src=https://evil.example/p.png>", "<script>", "[a](javascript:alert(1))",
    "[1]: https://evil.example", "[1]", "[1](https://evil.example)", "<https://evil.example>", "<!-- ", "</b>", "&lt;",
    "&#60;img&#62;", "`", "``", "```", "~~~", "````", "|", "---", "| - |", "\n", "\n\n", "  ", "    ", "\t", "- ", "> ",
    "1. ", "\\", "\\\\", "*", "_", "#", "!", "[", "]", "(", ")", "<", ">", "&", '"', "'", "=1+1", "+", "-",
    "@SUM(A1)", "\uff1d1", "\x1b[31m", "\x1b]8;;https://evil.example\x1b\\", "\x9b2J", "\x07", "\r", "\r\n",
    "\x00", "\x7f",
    "\u202e", "\u2066",
    "\u200f", "\u2028", "\u0085", "\ud800", "\U000e0041", "word", "Ärger", "33 days",
)  # fmt: skip
HOSTILE = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=14).map("".join)
MANY = settings(max_examples=examples(2))
NOT_PRINTED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
FOREIGN = {"image", "html_inline", "html_block", "link_open"}
PARSERS = (MarkdownIt("commonmark"), MarkdownIt("commonmark").enable("table").enable("strikethrough"))
OURS = "https://wiki.example/page"


def tokens_of(text: str) -> list[list[Token]]:
    """What each parser finds, tokens of lines included."""
    return [[token for block in parser.parse(text) for token in (block, *(block.children or ()))] for parser in PARSERS]


def foreign(text: str) -> list[str]:
    return [token.type for found in tokens_of(text) for token in found if token.type in FOREIGN]


@MANY
@given(HOSTILE)
def test_an_answer_brings_no_markup_of_its_own_to_markdown(text: str) -> None:
    assert foreign(markdown_text(text)) == []
    assert foreign(f"- [1] {for_markdown(text)}") == []
    assert not NOT_PRINTED.search(markdown_text(text).replace("\t", ""))


@MANY
@given(HOSTILE, HOSTILE, HOSTILE)
def test_an_answer_in_markdown_links_its_sources_and_nothing_else(text: str, title: str, quote: str) -> None:
    links = [token for token in tokens_of(markdown(answer_of(text, title, quote)))[1] if token.type in FOREIGN]
    assert [(token.type, str(token.attrs["href"]).split("#")[0]) for token in links] == [("link_open", OURS)]


@pytest.mark.parametrize("text", ["```\n<b>\n```", "Run `a | b <c>`. [1]", "* one\n* two [1][2]", "a < b && c"])
def test_code_lists_and_markers_of_an_answer_stay_to_the_letter(text: str) -> None:
    assert markdown_text(text) == text


def test_a_line_of_code_is_shown_as_it_was_written() -> None:
    (block,) = [token for token in tokens_of(markdown_text("```html\n<img src=x>\n```"))[0] if token.type == "fence"]
    assert block.content == "<img src=x>\n"


@MANY
@given(HOSTILE, HOSTILE)
def test_a_terminal_gets_no_control_and_no_reordering(text: str, title: str) -> None:
    lines = re.sub(r"\x1b\[[012]?m", "", "\n".join(answer_lines(answer_of(text, title, title))))  # our own bold and dim
    for shown in (for_terminal(text), for_terminal_line(title), lines):
        assert not NOT_PRINTED.search(shown)
    assert "\n" not in for_terminal_line(title)


@MANY
@given(HOSTILE)
def test_a_log_line_is_one_line(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "%s", (text,), (ValueError, error, None))
    first, *rest = LineFormatter("citelock: %(message)s").format(record).split("\n")
    assert first == f"citelock: {for_log(text)}"
    assert all(line.startswith("  ") for line in rest)
    assert not any(NOT_PRINTED.search(line) for line in (first, *rest))


@MANY
@given(HOSTILE)
def test_json_is_the_same_value_and_holds_no_control(text: str) -> None:
    written = for_json({"title": text})
    assert json.loads(written) == {"title": text}
    assert not NOT_PRINTED.search(written)


@MANY
@given(st.lists(HOSTILE, min_size=1, max_size=3))
def test_no_cell_of_a_csv_is_a_formula(cells: list[str]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([*map(for_csv, cells), -1.5])
    (row,) = csv.reader(io.StringIO(text.getvalue()))
    assert len(row) == len(cells) + 1
    assert row[-1] == "-1.5"
    assert not any(cell.lstrip().startswith(tuple("=+-@＝＋－＠")) or cell[:1] in "\t\r\n" for cell in row[:-1] if cell)


@MANY
@given(HOSTILE, HOSTILE)
def test_titles_and_reasons_bring_no_markup_to_dagster(title: str, reason: str) -> None:
    table = markdown_table([{"title": title, "why": [reason, title]}], ["title", "why"])
    for text in (table, named_reasons({title: reason}), listed([title, reason])):
        assert foreign(text) == []
    cells = [token for token in tokens_of(table)[1] if token.type in ("th_open", "td_open")]
    assert len(cells) == 4


@pytest.mark.parametrize("url", ["javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", "javascript://x"])
def test_an_address_that_would_run_code_leads_nowhere(url: str) -> None:
    assert for_link(url) == "#"


@pytest.mark.parametrize("url", [f"{OURS}#:~:text=a,b", "file:///srv/a.html", "pages/1.html"])
def test_an_ordinary_address_stays_as_it_is(url: str) -> None:
    assert for_link(url) == url


def answer_of(text: str, title: str, quote: str) -> Answer:
    citation = Citation(
        index=1,
        passage=1,
        chunk_id="1:1:0",
        title=title,
        heading_path=(title,),
        url=OURS,
        fragment_url=f"{OURS}#x",
        quote=quote,
        space=title,
        page_version=1,
        verification="verified",
        start=0,
        end=1,
        also_at=(),
    )
    return Answer("answered", text, (citation,))
