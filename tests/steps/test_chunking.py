from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cutting import WordTokenizer, page, section_of
from support.growth import steepness

from rag_assets.steps.chunks.chunking import (
    MAX_BLOCK_CHARS,
    OVERLAP_CHARS,
    OVERLAP_LINES,
    WINDOW_CHARS,
    ChunkSize,
    build_chunks,
    segment,
)
from rag_serving.text.structure import decode


def chunks_of(atoms: list[tuple[str, str]], size: int = 50, stride: int = 10) -> list[dict[str, Any]]:
    """Chunks of one section made of (kind, text) atoms."""
    return build_chunks(section_of(atoms), page(), WordTokenizer(), ChunkSize.about(size, stride)).to_pylist()


def sentences(count: int, words: int = 9) -> str:
    return " ".join(" ".join([f"Word{i}", *["filler"] * (words - 1)]) + "." for i in range(count))


def test_a_short_section_is_one_chunk_with_its_place_in_the_page() -> None:
    (chunk,) = chunks_of([("paragraph", "Call the harbour master first.")])
    assert chunk["text"] == "Call the harbour master first."
    assert chunk["chunk_id"] == "7:3:0"
    assert chunk["url"] == "https://w.example/p/7#Rolling-back?"
    assert chunk["heading_path"] == ["Deploy guide", "Rolling back"]
    assert (chunk["labels"], chunk["readers"]) == (["howto"], "group:ops")


def test_the_chunks_of_a_section_carry_all_of_its_units() -> None:
    chunks = chunks_of([("list", f"{number}. Do step {number} at once.") for number in range(1, 41)])
    units = [(unit.of(chunk["text"]), unit.number) for chunk in chunks for unit in decode(chunk["structure"]).units]
    assert len(chunks) > 1
    assert units == [(f"Do step {number} at once.", number) for number in range(1, 41)]


def test_a_long_section_is_cut_evenly_at_sentence_ends() -> None:
    chunks = chunks_of([("paragraph", sentences(12))])
    assert [chunk["token_count"] for chunk in chunks] == [40, 40, 40] or all(
        24 <= chunk["token_count"] <= 64 for chunk in chunks
    )
    assert all(chunk["text"].endswith(".") for chunk in chunks)


def test_a_code_block_longer_than_a_chunk_stays_whole() -> None:
    code = "```python\n" + "\n".join(f"value_{i} = {i}  " for i in range(200)) + "\n```"
    chunks = chunks_of([("paragraph", sentences(8)), ("code", code), ("paragraph", sentences(8))])
    assert sum(code in chunk["text"] for chunk in chunks) == 1


def test_rows_and_items_that_fit_are_never_cut() -> None:
    rows = [f"| setting_{i} | one. two. three | {'wide ' * 12}|" for i in range(20)]
    items = [f"- Step {i}. Then wait. {'again ' * 12}" for i in range(20)]
    chunks = chunks_of([("table", row) for row in rows] + [("list", item) for item in items])
    for atom in rows + items:
        assert sum(atom.strip() in chunk["text"] for chunk in chunks) == 1


def test_a_row_too_long_for_any_chunk_is_cut_between_words() -> None:
    chunks = chunks_of([("table", "| " + "cell " * 300 + "|")])
    assert max(chunk["token_count"] for chunk in chunks) <= 64
    assert " ".join(chunk["text"] for chunk in chunks).split() == ("| " + "cell " * 300 + "|").split()


def test_an_introduction_stays_with_the_code_it_introduces() -> None:
    atoms = [("paragraph", sentences(4)), ("paragraph", "Run this:"), ("code", "```\n" + "run it " * 10 + "\n```")]
    holder = next(chunk for chunk in chunks_of(atoms) if "```" in chunk["text"])
    assert "Run this:" in holder["text"]


def test_neighbouring_text_is_context_and_not_part_of_the_chunk() -> None:
    first, second, *_ = chunks_of([("paragraph", sentences(12))])
    assert second["text"].startswith(first["context_after"][:20])
    assert first["text"].endswith(second["context_before"][-20:])
    assert len(re.findall(r"\w+|[^\w\s]", second["context_before"])) <= 10
    assert first["context_before"] == ""


def lines_of(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def test_a_code_block_beyond_any_use_is_cut_into_windows_that_overlap_by_lines() -> None:
    log = [f"2024-01-01 12:00:{number:05d} INFO restart of broker {number}" for number in range(1000)]
    code = "```\n" + "\n".join(log) + "\n```"
    chunks = chunks_of([("paragraph", sentences(8)), ("code", code), ("paragraph", sentences(8))])
    windows = [chunk for chunk in chunks if "INFO" in chunk["text"]]
    assert len(windows) > 10
    assert max(len(chunk["text"]) for chunk in windows) <= WINDOW_CHARS + OVERLAP_CHARS + 400
    assert {line for chunk in windows for line in lines_of(chunk["text"])} >= {*log, "```"}
    for one, other in pairwise(windows):
        assert 1 <= len(set(lines_of(one["text"])) & set(lines_of(other["text"]))) <= OVERLAP_LINES
        assert any(f"{log[at]}\n{log[at + 1]}" in one["text"] for at in range(999) if log[at + 1] in other["text"])
    assert {chunk["url"] for chunk in windows} == {chunks[0]["url"]}


@pytest.mark.parametrize("kind", ["code", "paragraph", "table", "list"])
@pytest.mark.parametrize("unit", ["x", "x = 1\n", "a.", " ", "\n", "x" * 5000 + "\n", "重"])
def test_no_block_of_millions_of_characters_is_one_chunk(kind: str, unit: str) -> None:
    text = "begin" + (unit * (300_000 // len(unit))) + "end"
    chunks = chunks_of([(kind, text)])
    assert max(len(chunk["text"]) for chunk in chunks) <= 2 * MAX_BLOCK_CHARS
    assert max(len(chunk["context_before"]) for chunk in chunks) <= MAX_BLOCK_CHARS
    assert sum(len(chunk["text"]) for chunk in chunks) <= 2 * len(text)


@pytest.mark.parametrize("unit", ["x", "x = 1\n", "restart the broker. ", "- a\n", " ", "\n"])
@pytest.mark.parametrize("kind", ["code", "paragraph"])
def test_cutting_takes_time_in_proportion_to_the_text(kind: str, unit: str) -> None:
    def cut(text: str) -> None:
        chunks_of([(kind, f"begin{text}end")])

    assert steepness(cut, lambda size: unit * (size // len(unit)), small=25_000, cheap=2e-5) is None


@pytest.mark.parametrize(("sizes", "expected"), [([10, 10], [(0, 1)]), ([60, 5, 55], 2), ([500], [(0, 0)])])
def test_segments_cover_all_pieces(sizes: list[int], expected: Any) -> None:
    segments = segment(sizes, [0.0] * len(sizes), ChunkSize.about(50, 0))
    assert segments == expected or len(segments) == expected


ATOMS = st.lists(
    st.one_of(
        st.tuples(st.just("paragraph"), st.text("ab. :\n", min_size=1, max_size=300)),
        st.tuples(st.just("list"), st.text("ab. ", min_size=1, max_size=200).map(lambda t: "- x" + t)),
        st.tuples(st.just("table"), st.text("ab |", min_size=1, max_size=200).map(lambda t: "| x" + t + "|")),
        st.tuples(st.just("code"), st.text("ab\n ", max_size=400).map(lambda t: "```\n" + t + "\n```")),
    ).filter(lambda atom: bool(atom[1].strip())),
    min_size=1,
    max_size=25,
)


@given(ATOMS, st.sampled_from([32, 50, 120]))
def test_chunks_are_slices_of_the_section_that_lose_and_repeat_nothing(atoms: list[tuple[str, str]], size: int) -> None:
    text = section_of(atoms).column("text")[0].as_py()
    chunks = chunks_of(atoms, size)
    assert all(chunk["text"] == text[chunk["start"] : chunk["end"]] for chunk in chunks)
    assert "".join("".join(chunk["text"].split()) for chunk in chunks) == "".join(text.split())
    assert [chunk["chunk_idx"] for chunk in chunks] == list(range(len(chunks)))
    assert all(code in "\n".join(c["text"] for c in chunks) for kind, code in atoms if kind == "code")


@given(ATOMS)
def test_the_same_section_gives_the_same_chunks(atoms: list[tuple[str, str]]) -> None:
    assert chunks_of(atoms) == chunks_of(atoms)
