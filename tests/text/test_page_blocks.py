"""A passage as blocks: nothing of its text is lost, nothing is shown twice, and hostile text costs no more."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.text.page_blocks import PageBlock, inline_runs, page_blocks
from rag_serving.text.structure import Structure, chunk_structures, structure_of
from rag_serving.text.units import units

LINES = (
    "A sentence with `code` in it. And another one.",
    "**Strong** words and *weak* ones in [a link](https://example.org/a_(b)).",
    "- an item",
    "  - a nested item with a [link](javascript:alert(1))",
    "1. first",
    "2) second",
    "| a | b |",
    "|---|---|",
    "| | x \\| y |",
    "||",
    "```python",
    "    indented = code()",
    "```",
    "~~~",
    "# Heading",
    "### A *deeper* one",
    "> quoted",
    "---",
    "",
    "",
    "| unfinished",
    "日本語。次の文。",
    "`unclosed ** and __ marks",
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(LINES), max_size=14).map("\n".join),
    st.text(alphabet="ab |`*_[]()#-~>1.\n\\", max_size=120),
    st.text(max_size=80),
)
_FENCE = re.compile(r"\s*(?:```|~~~)")


def ranges_of(block: PageBlock) -> list[tuple[int, int]]:
    """What a reader of a block's shape shows of the text."""
    if block.items:
        return [(item.start, item.end) for item in block.items]
    if block.rows:
        return [cell for row in block.rows for cell in row.cells]
    return [(block.start, block.end)]


def is_syntax(text: str, place: int) -> bool:
    """Whether a character that is not shown is white space or a part of a marker, a bar, a rule or a fence's line."""
    start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    line = text[start : end if end >= 0 else None]
    return (
        text[place].isspace() or bool(_FENCE.match(line)) or text[place] in "|:=_*>#-+~`.)[]xX" or text[place].isdigit()
    )


def check(text: str, blocks: list[PageBlock]) -> None:
    assert all(0 <= block.start < block.end <= len(text) for block in blocks)
    assert all(one.end <= other.start for one, other in pairwise(blocks))
    shown = [0] * len(text)
    for block in blocks:
        for start, end in ranges_of(block):
            assert block.start <= start <= end <= block.end
            for place in range(start, end):
                shown[place] += 1
        crossing = [run for run in block.runs if not any(a <= run.start <= run.end <= b for a, b in ranges_of(block))]
        assert not crossing
        assert all(run.href is None or run.href.startswith(("http://", "https://")) for run in block.runs)
        for one in block.runs:
            for other in block.runs:
                assert one.end <= other.start or other.end <= one.start or nested(one, other)
    assert max(shown, default=0) <= 1
    assert [text[place] for place, times in enumerate(shown) if not times and not is_syntax(text, place)] == []


def nested(one: Any, other: Any) -> bool:
    inner, outer = sorted((one, other), key=lambda run: run.end - run.start)
    return bool(outer.start <= inner.start and inner.end <= outer.end)


@given(TEXTS)
def test_every_character_that_is_no_syntax_lies_in_one_block(text: str) -> None:
    check(text, page_blocks(text, structure_of(text)))


@given(TEXTS, st.integers(0, 120), st.integers(1, 80))
def test_and_so_in_a_passage_that_was_cut_anywhere(text: str, start: int, length: int) -> None:
    (structure,) = chunk_structures(text, (), [(start, start + length)])
    passage = text[start : start + length]
    blocks = page_blocks(passage, structure)
    assert all(0 <= block.start < block.end <= len(passage) for block in blocks)
    shown = {place for block in blocks for start, end in ranges_of(block) for place in range(start, end)}
    said = {place for unit in structure.units for place in range(unit.start, unit.end)}
    assert {place for place in said - shown if passage[place] not in "| \t"} == set()


def shapes(text: str) -> list[dict[str, Any]]:
    return [block.payload() for block in page_blocks(text, structure_of(text))]


def test_blocks_tell_what_they_are() -> None:
    text = "# Top\n\nOne **two**. Three.\n\n3. a\n   - b\n\n"
    text += "| h | i |\n|---|---|\n| | x |\n\n```python\n    x = 1\n\ny\n```"
    heading, paragraph, items, table, code = shapes(text)
    assert (heading["kind"], heading["depth"]) == ("heading", 1)
    assert text[paragraph["start"] : paragraph["end"]] == "One **two**. Three."
    (run,) = paragraph["runs"]
    assert (run["style"], text[run["start"] : run["end"]]) == ("strong", "two")
    assert [text[a:b] for a, b in paragraph["hidden"]] == ["**", "**"]
    assert (items["ordered"], items["number"]) == (True, 3)
    assert [(text[a:b], depth) for a, b, depth in items["items"]] == [("a", 0), ("b", 1)]
    assert [(row["header"], [text[a:b] for a, b in row["cells"]]) for row in table["rows"]] == [
        (True, ["h", "i"]),
        (False, ["", "x"]),
    ]
    assert (code["language"], text[code["start"] : code["end"]]) == ("python", "    x = 1\n\ny")


def test_a_table_that_began_in_the_passage_before_has_its_header_as_text() -> None:
    section = "| Port | Berths |\n|---|---|\n| Busan | 40 |\n| Kobe | 12 |"
    cut = section.index("| Kobe")
    (structure,) = chunk_structures(section, [("table", 0, len(section))], [(cut, len(section))])
    (block,) = page_blocks(section[cut:], structure)
    assert block.payload()["header"] == ["Port", "Berths"]
    assert "header" not in shapes(section)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a *b* c", [("em", "b")]),
        ("**a *b* c**", [("strong", "a *b* c"), ("em", "b")]),
        ("snake_case_name and 2*3*4", []),
        ("`a ** b` **c**", [("code", "a ** b"), ("strong", "c")]),
        ("``a ` b``", [("code", "a ` b")]),
        ("[a](https://x.example/p?q=1#f)", [("link", "a")]),
        ("[a](ftp://x) [b](javascript:alert(1)) [c](//x)", []),
        ("* b*", []),
        ("\\*a\\*", []),
        ("[**a**](http://x.example)", [("link", "**a**"), ("strong", "a")]),
    ],
)
def test_marks_inside_of_a_line(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(run.style, text[run.start : run.end]) for run in inline_runs(text, 0, len(text)).runs] == expected


HOSTILE = (
    "|",
    "| a ",
    "**a ",
    "[",
    "[a](",
    "`",
    "``` ",
    "```\n",
    "*a*",
    "](http://x(",
    "- ",
    "> ",
    "\\",
    "_a _b ",
    "# \n",
    "[a](http://x) ",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    """10^5 characters: anything quadratic takes minutes."""
    text = piece * (100_000 // len(piece))
    begun = time.thread_time()
    page_blocks(text, Structure(tuple(units(text))))
    inline_runs(text, 0, len(text))
    assert time.thread_time() - begun < 5  # it takes 0.3 s here
