"""The part of CQL that reports ask with: which pages a query means, and what is not read."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.sections.page_lists import CqlError, page_filter

PAGES: dict[str, dict[str, Any]] = {
    "1": {"page_id": "1", "space": "ENG", "title": "Home", "labels": [], "ancestors": [], "url": ""},
    "2": {
        "page_id": "2",
        "space": "ENG",
        "title": "Plan",
        "labels": ["Accepted", "x"],
        "ancestors": ["1"],
        "url": "/spaces/ENG/pages/2",
    },
    "3": {
        "page_id": "3",
        "space": "OPS",
        "title": "R&D",
        "labels": ["rejected"],
        "ancestors": ["1", "2"],
        "url": "/spaces/OPS/blog/3",
    },
}


def meant(cql: str) -> str:
    wanted = page_filter(cql, PAGES["2"], PAGES)
    return "".join(page_id for page_id, row in PAGES.items() if wanted(row))


@pytest.mark.parametrize(
    ("cql", "pages"),
    [
        ('label = "accepted" and space = currentSpace()', "2"),
        ('label in ("discarded","accepted","rejected") and space = currentSpace()', "2"),
        ("label in (accepted, 'rejected')", "23"),
        ('label not in ("accepted")', "13"),
        ('label != "accepted" AND space.key = "eng"', "1"),
        ('title = "r&d" or title = home', "13"),
        ("space = OPS or label = x and label = y", "3"),
        ("(space = OPS or label = x) and not label = rejected", "2"),
        ("ancestor = currentContent()", "3"),
        ("parent = 1 and type = page", "2"),
        ("type in (blogpost)", "3"),
        ('id in (1, 2) order by title desc', "12"),
        ('title = "a \\"quoted\\" one"', ""),
    ],
)  # fmt: skip
def test_a_query_means_its_pages(cql: str, pages: str) -> None:
    assert meant(cql) == pages


@pytest.mark.parametrize(
    "cql",
    [
        "",
        "label",
        "label =",
        "label = x and",
        "label in (x",
        "label ~ x",
        "creator = currentUser()",
        "label = now()",
        "ancestor = 99",
        "label = x label = y",
        'label = "x',
        "(" * 500,
        "order by " * 100_000 + '"',
    ],
)
def test_what_is_not_read_is_said_and_never_guessed(cql: str) -> None:
    with pytest.raises(CqlError):
        meant(cql)


@given(st.lists(st.sampled_from([*'()=,"\\', "!=", "not ", "and ", "or ", "in ", "label ", "x ", "currentSpace"])))
def test_any_query_is_read_or_refused(parts: list[str]) -> None:
    with contextlib.suppress(CqlError):
        meant("".join(parts))
