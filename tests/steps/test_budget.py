"""Budgets keep the first part of a document, say why, and change nothing of documents that fit."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.state.records import sections_settings
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import HEADING_MAX, Block, Budget, Content, code_block, noted, within, without_note
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.storage_elements import storage_content
from rag_assets.steps.incremental import update_sections
from rag_assets.steps.sections.reading import DirectReader
from rag_assets.steps.sections.splitting import build_sections, sections_of_page
from rag_serving.artifacts.schema import MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.config.loading import Config

SMALL = Budget(text_chars=60, headings=2, blocks=4, cells=6)


def row(body: str, **changes: Any) -> dict[str, Any]:
    usual = {
        "source": "s", "tenant": "t", "page_id": "1", "version": 1, "space": "S", "title": "T", "url": "https://w.example/1",
        "status": "current", "updated_at": datetime(2026, 1, 1, tzinfo=UTC), "labels": [], "ancestors": [],
        "ancestor_titles": [], "position": None, "readers": "everyone", "body": body, "body_format": "storage",
        "anchor_flavor": "cloud", "content_hash": body[:50], "original": None,
    }  # fmt: skip
    return {**usual, **changes}


def content(*blocks: Block) -> Content:
    return Content(list(blocks), Counter())


CUTS = [
    (content(*[Block("paragraph", "a")] * 5), "blocks", ["a"] * 4),
    (content(*[Block("heading", "a", level=1)] * 3), "headings", ["a"] * 2),
    (content(Block("paragraph", "words " * 12)), "text_chars", [("words " * 12)[:53].rstrip()]),
    (content(Block("paragraph", "x" * 99)), "text_chars", ["x" * 58]),
    (content(Block("table", "| 1 | 2 | 3 |"), Block("table", "| 4 | 5 | 6 | 7 |")), "cells", None),
    (content(Block("table", "|" + " |" * 9)), "cells", ["|" + " |" * 6]),
    (content(Block("paragraph", "a"), code_block("line 1\n" * 20, "java")), "text_chars", None),
    (content(Block("paragraph", "a" * 50), Block("paragraph", "b" * 20)), "text_chars", ["a" * 50, "b" * 6]),
]


@pytest.mark.parametrize(("whole", "name", "texts"), CUTS)
def test_a_document_keeps_its_first_part(whole: Content, name: str, texts: list[str] | None) -> None:
    found = within(whole, SMALL)
    assert found.cut == SMALL.reason(name)
    assert texts is None or [block.text for block in found.blocks] == texts
    assert sum(len(block.text) + 2 for block in found.blocks) <= SMALL.text_chars


def test_code_that_is_cut_stays_a_block_of_code() -> None:
    [block] = within(content(code_block("line 1\n" * 20, "java")), SMALL).blocks
    assert block.text.startswith("```java\nline 1\n")
    assert block.text.endswith("line 1\n```")


def test_a_row_that_is_cut_ends_with_a_cell() -> None:
    [first, second] = within(
        content(Block("table", "| 1 | 2 | 3 |"), Block("table", "| 4 | 5 | 6 | 7 |")), SMALL
    ).blocks
    assert (first.text, second.text) == ("| 1 | 2 | 3 |", "| 4 | 5 | 6 |")


BLOCKS = st.builds(
    Block,
    st.sampled_from(["paragraph", "list", "table", "heading"]),
    st.text(alphabet="ab |\n", min_size=1, max_size=40),
    level=st.integers(1, 3),
)


@given(st.lists(BLOCKS, max_size=12))
def test_what_is_kept_is_the_beginning_and_never_more_than_the_budget(blocks: list[Block]) -> None:
    found = within(content(*blocks), SMALL)
    if found.cut is None:
        assert found.blocks == blocks
        return
    assert found.blocks[:-1] == blocks[: len(found.blocks) - 1] or not found.blocks
    assert len(found.blocks) <= SMALL.blocks
    assert sum(len(block.text) + 2 for block in found.blocks) <= SMALL.text_chars
    assert sum(block.kind == "heading" for block in found.blocks) <= SMALL.headings


def test_a_long_heading_is_a_paragraph_because_all_sections_would_repeat_it() -> None:
    anchor = '<ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">here</ac:parameter></ac:structured-macro>'
    body = f"<h1>{anchor}{'long ' * HEADING_MAX}</h1>" + "<h2>a</h2><p>b</p>" * 100
    sections = sections_of_page(row(body)).sections
    assert sum(len("".join(one["heading_path"])) for one in sections) < 1000
    assert sections[0]["text"].startswith("long long")
    assert [one["name"] for one in sections[0]["anchors"]] == ["here"]


def test_paths_of_nested_headings_count_as_text() -> None:
    nested = "".join(f"<h{level}>{'h' * 1900}</h{level}>" for level in range(1, 6)) + "<h6>a</h6><p>b</p>" * 1000
    found = within(storage_content(nested))
    assert found.cut == Budget().reason("text_chars")
    assert sum(block.kind == "heading" for block in found.blocks) < 250


def test_a_title_that_all_chunks_would_repeat_is_refused() -> None:
    with pytest.raises(PageError, match="title is longer than 2000"):
        sections_of_page(row("<p>a</p>", title="t" * 2001))


def test_tables_share_what_their_merged_cells_may_repeat() -> None:
    table = f'<table><tr><td rowspan="999" colspan="64">{"a" * 499}</td></tr>{"<tr><td>b</td></tr>" * 40}</table>'
    text = sum(len(block.text) for block in storage_content(table * 50).blocks)
    assert text < 1_600_000  # each alone would repeat a million


def test_rows_without_cells_repeat_no_more_than_is_allowed() -> None:
    merged = '<td rowspan="65534" colspan="65534">a</td>' * 10_000
    blocks = storage_content(f"<table><tr>{merged}</tr>{'<tr/>' * 1000}</table>").blocks
    assert sum(len(block.text) for block in blocks) < 5_000_000


def test_files_that_are_cut_carry_the_reason_to_their_page() -> None:
    small = Budget(text_chars=100, cells=10)
    for name, file in {"a.txt": b"line\n" * 99, "a.md": b"line\n" * 99, "a.py": b"line\n" * 99}.items():
        text = file_text(name, file, small)
        found = DirectReader().content(text.body, text.body_format)
        assert found.cut == "cut at 100 characters of text (documents.max_text_chars)"
        assert "line" in found.blocks[0].text
        assert "cut at" not in found.blocks[-1].text
    table = DirectReader().content(file_text("a.csv", b"a,b\n" * 9, small).body, "markdown")
    assert (len(table.blocks), table.cut) == (5, "cut at 10 table cells (documents.max_cells)")


@given(st.text(alphabet="a \x1a\ue000", max_size=20), st.sampled_from([None, *map(SMALL.reason, SMALL._fields)]))
def test_a_note_comes_back_as_it_was_written(body: str, reason: str | None) -> None:
    assert without_note(body if reason is None else noted(body, reason)) == (body, reason)


def test_nobody_can_hide_text_behind_a_note_of_his_own() -> None:
    for written in (noted("a", "b c d"), noted("a", f"{SMALL.reason('cells')} and more")):
        found = DirectReader().content(written, "text")
        assert found.cut is None
        assert found.blocks[0].text.replace("\x1a\ue000", "") == written.replace("\x1a\ue000", "")


def test_pages_that_are_not_read_again_are_still_told_as_cut() -> None:
    reader = DirectReader(Budget(headings=1))
    pages = PAGES.table([row("<h1>a</h1><h1>b</h1>"), row("<h1>c</h1>", page_id="2")])
    first = update_sections(pages, SECTIONS.empty(), MACRO_LEDGER.empty(), 9999, None, reader)
    assert dict(first.cut) == {"1": "cut at 1 headings (documents.max_headings)"}
    second = update_sections(pages, first.sections, first.ledger, 9999, None, reader, first.cut)
    assert (second.read, dict(second.cut)) == (0, dict(first.cut))
    shorter = PAGES.table([row("<h1>a</h1>"), row("<h1>c</h1>", page_id="2")])
    assert update_sections(shorter, first.sections, first.ledger, 9999, None, reader, first.cut).cut == {}


def test_only_so_many_lists_and_inclusions_of_one_page_are_followed() -> None:
    children = '<ac:structured-macro ac:name="children"/>' * 300
    include = (
        '<ac:structured-macro ac:name="include"><ac:parameter ac:name=""><ac:link>'
        '<ri:page ri:content-title="Gone"/></ac:link></ac:parameter></ac:structured-macro>'
    ) * 3000
    below = row("<p>b</p>", page_id="2", title="Below", ancestors=["1"])
    pages = PAGES.table([row(f"{children}{include}"), below])
    made = build_sections(pages, listed=pages)
    counts = {(one["macro"], one["outcome"]): one["count"] for one in made.ledger.to_pylist()}
    assert counts == {("children", "resolved"): 200, ("children", "navigation"): 100, ("include", "unresolved"): 3000}


def test_other_limits_read_pages_anew_and_the_defaults_do_not() -> None:
    usual, same = Config(), Config(documents={"max_seconds": 30})
    other = Config(documents={"max_seconds": 31})
    assert sections_settings(usual) == sections_settings(same) != sections_settings(other)
