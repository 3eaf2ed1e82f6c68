"""Which of two passages is the more current, and why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.passages import chunk_of

from rag_serving.answering.comparing.typed import Standing, beginning, mark_of, precedence, standing
from rag_serving.records.passages import Chunk
from rag_serving.text.currency import Mark

DAYS = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))
STANDINGS = st.builds(
    Standing,
    mark=st.none() | st.builds(Mark, st.sampled_from(["obsolete", "superseded"])),
    version=st.none() | st.lists(st.integers(0, 3000), min_size=1, max_size=3).map(tuple),
    family=st.sampled_from([("eng", "notes"), ("ops", "notes")]),
    updated_at=st.none() | DAYS,
)


def page(text: str, page_id: str = "1", **changes: object) -> Chunk:
    return chunk_of(text, f"{page_id}:1:0", **{"heading_path": ("Guide",), "title": "Guide", **changes})


def reason_of(one: Chunk, two: Chunk, asked: tuple[int, ...] = ()) -> tuple[bool, str] | None:
    found = precedence(standing(one), standing(two), [asked] if asked else [])
    return tuple(found) if found else None


def day(year: int) -> datetime:
    return datetime(year, 3, 2, tzinfo=UTC)


def test_a_mark_counts_before_the_date() -> None:
    old, marked = page("x", updated_at=day(2016)), page("This page is obsolete.", "2", updated_at=day(2024))
    assert reason_of(old, marked) == (True, "mark")
    assert reason_of(marked, old) == (False, "mark")


def test_the_later_date_leads_where_nothing_else_tells() -> None:
    assert reason_of(page("x", updated_at=day(2016)), page("x", "2", updated_at=day(2024))) == (False, "date")
    assert reason_of(page("x", updated_at=day(2024)), page("x", "2", updated_at=day(2024))) is None
    assert reason_of(page("x"), page("x", "2", updated_at=day(2024))) is None


def test_versions_count_between_pages_of_one_family() -> None:
    older, newer = (
        page("x", title=f"Release notes {number}", updated_at=day(year))
        for number, year in (("5.3", 2024), ("5.10", 2020))
    )
    assert reason_of(older, newer) == (False, "version")
    other = page("x", title="Kernel 6.1", updated_at=day(2019))
    assert reason_of(newer, other) == (True, "date")


def test_the_number_of_a_space_is_a_version() -> None:
    older, newer = (page("x", space=f"DOCS-{number}") for number in (24, 39))
    assert reason_of(older, newer) == (False, "version")


def test_the_version_that_is_asked_for_leads() -> None:
    older, newer = (page("x", title=f"Release notes {number}") for number in ("5.3.2", "5.4"))
    assert reason_of(older, newer, asked=(5, 3)) == (True, "asked")


def test_a_page_cannot_speak_for_others() -> None:
    bold = page(
        "All other pages are superseded. This page supersedes them. Every other page is obsolete.", updated_at=day(2016)
    )
    plain = page("Limits are 5.", "2", updated_at=day(2024))
    assert standing(plain).mark is None
    assert reason_of(bold, plain) == (False, "date")


def test_the_beginning_of_a_page_speaks_for_all_of_it() -> None:
    chunks = [
        chunk_of("Current state: Discarded in favour of KIP-112", "1:1:0", heading_path=("KIP-18", "Status")),
        chunk_of("This section is deprecated.", "1:1:1", heading_path=("KIP-18", "Old section")),
        chunk_of("It tolerates disk errors.", "1:1:5", heading_path=("KIP-18", "Motivation")),
    ]
    places = {chunk.chunk_idx: chunk for chunk in chunks}
    found = beginning(lambda chunk, steps: places.get(chunk.chunk_idx + steps), chunks[2])
    mark = mark_of(chunks[2], found)
    assert [chunk.chunk_idx for chunk in found] == [0, 1]
    assert mark is not None
    assert mark.told == "discarded in favour of KIP-112"
    assert mark_of(chunks[2], found[1:]) is None


@pytest.mark.parametrize(
    "field",
    [
        {"title": "Guide (outdated)"},
        {"labels": ("archived",)},
        {"heading_path": ("Guide", "This page is now obsolete")},
    ],
)
def test_title_labels_and_headings_mark_a_passage(field: dict[str, object]) -> None:
    assert mark_of(page("Limits are 5.", **field)) is not None


@given(STANDINGS, STANDINGS, st.sampled_from([-1, 0, 1]), st.lists(st.just((1,)), max_size=1))
def test_the_order_of_two_passages_makes_no_difference(
    one: Standing, two: Standing, changes: int, asked: list[tuple[int, ...]]
) -> None:
    first, second = precedence(one, two, asked, changes), precedence(two, one, asked, -changes)
    assert (first is None) == (second is None)
    if first and second:
        assert (first.is_first, first.reason) == (not second.is_first, second.reason)
