"""The page of any character of a text is that of the block which holds it, however the text is cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.paged_chunks import chunks_of_page, page_row, sections_of

from rag_assets.steps.chunks.chunking import WINDOW_CHARS
from rag_assets.steps.formats.blocks import Block, joined
from rag_serving.text.structure import (
    PageMark,
    Structure,
    confidence_of,
    decode,
    decoded,
    encoded,
    marks_of,
    page_at,
    pages_of,
    within,
)

LINES = st.lists(st.text("ab .é", min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=4)


@st.composite
def paged(draw: st.DrawFn) -> list[Block]:
    """Blocks of some pages: of one line or more, indented or not, some of them going on over the next pages."""
    blocks, number = [], draw(st.integers(1, 3))
    for _ in range(draw(st.integers(1, 6))):
        number += draw(st.integers(0, 2))
        kind = draw(st.sampled_from(("paragraph", "list", "table", "code")))
        text = "\n".join(draw(LINES))
        borders = sorted(draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=2)))
        breaks = tuple((at, number + place) for place, at in enumerate(borders, start=1) if at < len(text))
        confidence = draw(st.none() | st.integers(0, 100))
        indent = draw(st.integers(0, 4))
        group = 1 if kind in ("list", "table") else 0
        blocks.append(Block(kind, text, group, indent, page=number, breaks=breaks, confidence=confidence))  # type: ignore[arg-type]
        number = breaks[-1][1] if breaks else number
    return blocks


def true_page(block: Block, at: int) -> int:
    return next((number for start, number in reversed(block.breaks) if at >= start), block.page)


@given(paged())
def test_the_page_of_a_character_is_that_of_its_block(blocks: list[Block]) -> None:
    text, atoms = joined(blocks)
    marks = marks_of([atom._asdict() for atom in atoms])
    assert decoded(encoded(marks)) == marks
    for block, atom in zip(blocks, atoms, strict=True):
        offset = atom.start
        for at, sign in enumerate(block.text):
            assert text[offset] == sign
            assert page_at(marks, offset) == true_page(block, at)
            assert confidence_of(marks, offset, offset + 1) == block.confidence
            offset += 1 + (block.indent if sign == "\n" else 0)


@given(paged(), st.integers(0, 80), st.integers(1, 80))
def test_a_part_of_a_text_keeps_its_pages(blocks: list[Block], start: int, length: int) -> None:
    text, atoms = joined(blocks)
    marks, end = marks_of([atom._asdict() for atom in atoms]), min(start + length, len(text))
    if start >= end:
        return
    part = within(marks, start, end)
    assert [page_at(part, at) for at in range(end - start)] == [page_at(marks, at) for at in range(start, end)]
    assert pages_of(marks, start, end) == tuple(dict.fromkeys(page_at(marks, at) for at in range(start, end)))
    least = [sure for at in range(start, end) if (sure := confidence_of(marks, at, at + 1)) is not None]
    assert confidence_of(marks, start, end) == min(least, default=None)


@settings(max_examples=30)
@given(paged(), st.integers(4, 20))
def test_a_chunk_knows_the_page_of_each_of_its_characters(blocks: list[Block], size: int) -> None:
    page = page_row(blocks)
    (section,) = sections_of(page)
    for chunk in chunks_of_page(page, size):
        structure = decode(chunk["structure"])
        for at in range(chunk["end"] - chunk["start"]):
            assert page_at(structure.marks, at) == page_at(marks_of(section["blocks"]), chunk["start"] + at)
        assert chunk["anchor"] == f"page={page_at(structure.marks, 0)}"
        assert chunk["url"].endswith(f"#{chunk['anchor']}")


def test_a_window_over_a_long_block_knows_its_page() -> None:
    body = "word " * WINDOW_CHARS
    half = len(body) // 2
    long = Block("paragraph", body.strip(), page=4, breaks=((half, 5),))
    pages = [chunk["anchor"] for chunk in chunks_of_page(page_row([long]))]
    assert pages == sorted(pages)
    assert set(pages) == {"page=4", "page=5"}


def test_what_has_no_pages_has_no_marks() -> None:
    assert marks_of([{"start": 0, "page": 0, "breaks": [], "confidence": None}, {"start": 9}]) == ()
    assert Structure(()).encode() == '[[],"",""]'
    assert decode('[[],"",""]').marks == ()
    assert (page_at((), 3), pages_of((), 0, 3), confidence_of((), 0, 3)) == (None, (), None)
    marks = (PageMark(0, 3, 63), PageMark(9, 4))
    assert decode(Structure((), marks=marks).encode()).marks == marks
