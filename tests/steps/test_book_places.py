from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.steps.chunks.chunking import APART
from rag_assets.steps.chunks.document_fields import reading_order, with_book_places
from rag_serving.artifacts.schema import CHUNKS, PAGES

Sizes = dict[str, int]
"""Chunks of each page, by the page's number."""

NUMBERS = ["0.1", "1", "1.1", "1.2", "1.2.1", "1.2.2", "2", "2.1", "3", "0.2"]
sizes = st.fixed_dictionaries({number: st.integers(0, 5) for number in NUMBERS})


def pages(numbers: list[str], *, told: bool = True) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for position, number in enumerate(numbers):
        above = [number[:at] for at in range(len(number)) if number[at] == "." and number[:at] in numbers]
        row: dict[str, Any] = dict.fromkeys(PAGES.columns.names, None)
        row |= {"page_id": f"p{number}", "title": f"T{number}", "ancestors": [f"p{one}" for one in above]}
        row |= {"position": position, "chapter": number if told else None, "source_file": f"{number}.md"}
        rows.append(row)
    return PAGES.table([*rows])


def chunks(counts: Sizes, apart: int = 0) -> pa.Table:
    rows = []
    for number, count in sorted(counts.items()):
        for index in [*range(count), *(APART + place for place in range(apart))]:
            row = dict.fromkeys(CHUNKS.columns.names, None)
            rows.append(row | {"page_id": f"p{number}", "chunk_idx": index, "chunk_id": f"p{number}:1:{index}"})
    return CHUNKS.table([*rows])


def ids(counts: Sizes, **options: Any) -> dict[str, str]:
    placed = with_book_places(chunks(counts), pages(NUMBERS), is_book=True, **options)
    return dict(zip(placed["chunk_id"].to_pylist(), placed["passage_id"].to_pylist(), strict=True))


@given(sizes, sizes)
@settings(max_examples=50)
def test_an_edit_in_another_section_moves_no_passage(before: Sizes, after: Sizes) -> None:
    for edited in ("1.1", "2", "3", "0.1"):
        one, other = ids(before), ids({**before, edited: after[edited]})
        assert {name: place for name, place in one.items() if not name.startswith(f"p{edited}:")} == {
            name: place for name, place in other.items() if not name.startswith(f"p{edited}:")
        }


@given(sizes)
@settings(max_examples=50)
def test_every_passage_has_an_id_of_its_own(counts: Sizes) -> None:
    told = list(ids(counts).values())
    assert len(set(told)) == len(told)
    assert all(re.fullmatch(r"ch\d+-sec\d+-p[1-9]\d*", one) for one in told)


def test_ids_count_within_a_section_and_deeper_pages_are_part_of_it() -> None:
    told = ids({"1": 1, "1.2": 2, "1.2.1": 2, "1.2.2": 1, "0.2": 1})
    assert told["p1:1:0"] == "ch1-sec0-p1"
    assert [told[f"p{name}"] for name in ("1.2:1:0", "1.2:1:1", "1.2.1:1:0", "1.2.1:1:1", "1.2.2:1:0")] == [
        f"ch1-sec2-p{number}" for number in range(1, 6)
    ]
    assert told["p0.2:1:0"] == "ch0-sec2-p1"


def test_a_passage_knows_chapter_section_file_and_the_place_of_its_page() -> None:
    rows = with_book_places(chunks(dict.fromkeys(NUMBERS, 1)), pages(NUMBERS), is_book=True).to_pylist()
    places = {row["page_id"]: (row["chapter"], row["section"], row["page_order"], row["source_file"]) for row in rows}
    assert places["p1.2.1"] == ("Chapter 1: T1", "1.2.1 T1.2.1", 5, "1.2.1.md")
    assert places["p2"] == ("Chapter 2: T2", None, 7, "2.md")
    assert places["p0.1"] == ("T0.1", None, 1, "0.1.md")


def test_text_with_readers_of_its_own_has_no_id_that_would_count_it() -> None:
    placed = with_book_places(chunks({"1": 2}, apart=2), pages(NUMBERS), is_book=True)
    assert placed["passage_id"].to_pylist() == ["ch1-sec0-p1", "ch1-sec0-p2", None, None]


def test_a_book_without_numbers_is_numbered_by_its_tree_and_other_sources_are_not() -> None:
    table = pages(["1", "1.1", "2"], told=False)
    counts = {"1": 1, "1.1": 1, "2": 1}
    assert with_book_places(chunks(counts), table, is_book=True)["passage_id"].to_pylist() == [
        "ch1-sec0-p1", "ch1-sec1-p1", "ch2-sec0-p1"
    ]  # fmt: skip
    plain = with_book_places(chunks(counts), table, is_book=False)
    assert plain["passage_id"].to_pylist() == [None, None, None]
    assert plain["source_file"].to_pylist() == ["1.md", "1.1.md", "2.md"]


def test_pages_that_stand_above_each_other_in_a_circle_are_all_read() -> None:
    row: dict[str, Any] = {"position": None, "title": "t"}
    rows = {name: {**row, "page_id": name, "ancestors": [other]} for name, other in (("a", "b"), ("b", "a"))}
    assert reading_order(rows) == ["a", "b"]


def headed(*paths: tuple[str, tuple[str, ...]], title: str = "T2") -> list[tuple[object, ...]]:
    """Passage id, chapter, section and page of chunks of the pages 1 and 2 under these headings."""
    table = pages(["1", "2"]).to_pylist()
    table[1]["title"] = title
    rows = []
    for index, (page, path) in enumerate(paths):
        row = dict.fromkeys(CHUNKS.columns.names, None)
        rows.append(row | {"page_id": page, "chunk_idx": index, "chunk_id": f"{index}", "heading_path": ["T", *path]})
    placed = with_book_places(CHUNKS.table([*rows]), PAGES.table([*table]), is_book=True)
    columns = ("passage_id", "chapter", "section", "page_order")
    return [tuple(row[name] for name in columns) for row in placed.to_pylist()]


def test_the_headings_of_a_chapter_of_one_file_are_its_sections() -> None:
    first, second = "Chapter 1: T1", "Chapter 2: T2"
    assert headed(("p1", ()), ("p1", ("Ropes",)), ("p1", ("Ropes", "Thin")), ("p1", ("2.9. Knots",)), ("p2", ())) == [
        ("ch1-sec0-p1", first, None, 1),
        ("ch1-sec1-p1", first, "1.1 Ropes", 1),
        ("ch1-sec1-p2", first, "1.1 Ropes", 1),
        ("ch1-sec2-p1", first, "2.9. Knots", 1),
        ("ch2-sec0-p1", second, None, 2),
    ]
    below_the_title = headed(("p1", ("The file's own title",)), ("p1", ("The file's own title", "Ropes")))
    assert [row[0] for row in below_the_title] == ["ch1-sec0-p1", "ch1-sec1-p1"]


def test_a_chapter_names_its_number_once() -> None:
    told = {
        "Chapter 2: Tides": "Chapter 2: Tides",
        "2. Tides": "Chapter 2: Tides",
        "CHAPTER 2 - Tides": "Chapter 2: Tides",
        "Chapter 2": "Chapter 2",
        "Chapter 7: Tides": "Chapter 7: Tides",
        "2024 in review": "Chapter 2: 2024 in review",
        "Tides": "Chapter 2: Tides",
    }
    assert {title: headed(("p2", ()), title=title)[0][1] for title in told} == told
