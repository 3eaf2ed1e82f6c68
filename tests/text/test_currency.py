"""By what a page says that it is no longer in force, and which version it is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.text.currency import (
    are_comparable,
    is_of_version,
    mark_of_headings,
    mark_of_labels,
    mark_of_sentences,
    mark_of_title,
    version_of,
    versions_in,
    without_versions,
)

ANY_TEXT = st.text() | st.lists(
    st.sampled_from(
        ["this page", " is ", "obsolete", "Status: ", "[", "]", "(", ")", "superseded by KIP-", "1", ".", "v2", " "]
    )
).map("".join)


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("This page is now obsolete", "obsolete"),
        ("WARN: This is an obsolete design. The design that is built is described in this wiki.", "obsolete"),
        ("This page is no longer maintained, but it is kept for historical reasons.", "no longer maintained"),
        ("Please note that this guide has been superseded by OPS-12.", "superseded by OPS-12"),
        ("This document was replaced by ADR-7 and ADR-9 in May.", "replaced by ADR-7 and ADR-9"),
        ("Current state: Discarded in favour of KIP-112 and KIP-113", "discarded in favour of KIP-112 and KIP-113"),
        ('**Current state**: _"Discarded"_', "discarded"),
        ("Current state: Superseded by", "superseded"),
        ("Status | SUPERSEDED", "superseded"),
        ("**Status**: Rejected", "rejected"),
        ("This page is out-of-date.", "out of date"),
        ("This design is considered abandoned.", "abandoned"),
    ],
)
def test_a_page_marks_itself(sentence: str, told: str) -> None:
    mark = mark_of_sentences(["Some words before.", sentence])
    assert mark is not None
    assert (mark.told, mark.of) == (told, "page")


@pytest.mark.parametrize(
    "sentence",
    [
        "All other pages are superseded.",
        "The page Old limits is obsolete.",
        "This page supersedes ADR-3 and all others, which are deprecated.",
        "Every page but this page is outdated: all others were superseded.",
        "If this page is outdated, tell the platform team.",
        "Is this page outdated?",
        'We show a banner: "This page is outdated".',
        "This page is archived when the project ends.",
        "This page is not deprecated.",
        "This way of submitting jobs is now outdated.",
        "The embedded consumer approach is deprecated by the mirror maker.",
        "This section is copied from the outdated FLIP-28.",
        'Current state: [One of "Under Discussion", "Accepted", "Rejected"]',
        "Status: Accepted, after three rejected drafts",
        "Name | Status | Rejected",
        "The status of a rejected claim is shown in red.",
    ],
)
def test_what_is_said_of_other_things_is_no_mark(sentence: str) -> None:
    assert mark_of_sentences(["Some words before.", sentence]) is None


def test_a_section_speaks_of_itself_alone() -> None:
    mark = mark_of_sentences(["This section is deprecated and will be removed."])
    assert mark is not None
    assert (mark.word, mark.of) == ("deprecated", "section")


def test_a_section_that_is_called_status_holds_it() -> None:
    mark = mark_of_sentences(["Discarded in favour of KIP-112", "More words."], "Status")
    assert mark is not None
    assert mark.told == "discarded in favour of KIP-112"
    assert mark_of_sentences(["Discarded cards are burnt."], "Cards") is None


@pytest.mark.parametrize(
    ("title", "word"),
    [
        ("Releasing(OUTDATED)", "outdated"),
        ("[DEPRECATED] Sign-in", "deprecated"),
        ("Sign-in - deprecated", "deprecated"),
        ("OLD: Sign-in", "old"),
        ("Rejected alternatives", None),
        ("Deprecated features of 5.4", None),
        ("How to archive a page", None),
        ("Old town", None),
    ],
)
def test_titles_with_a_mark(title: str, word: str | None) -> None:
    mark = mark_of_title(title)
    assert (mark.word if mark else None) == word


def test_what_stands_under_rejected_alternatives_is_rejected() -> None:
    mark = mark_of_headings(["Proposal", "Rejected Alternatives", "Two queues"])
    assert mark is not None
    assert (mark.word, mark.of) == ("rejected", "section")
    assert mark_of_headings(["Alternatives"]) is None


def test_labels_with_a_mark() -> None:
    marks = [
        mark_of_labels([label]) for label in ("out-of-date", "archive", "Superseded", "architecture", "deprecation")
    ]
    assert [mark.word if mark else None for mark in marks] == ["out of date", "archive", "superseded", None, None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Release Notes 5.4", [(5, 4)]),
        ("Migration guide: 0.9.x to 0.10.x", [(0, 9), (0, 10)]),
        ("what changed in v2, and since version 3?", [(2,), (3,)]),
        ("Expense Policy 2024", [(2024,)]),
        ("KIP-35, 2024-03-02, 192.168.0.1, 10.5%, port 8080, ERR-4012", []),
    ],
)
def test_versions_are_told_from_other_figures(text: str, found: list[tuple[int, ...]]) -> None:
    assert versions_in(text) == found


def test_the_number_of_a_section_is_no_version() -> None:
    assert version_of(["Docs", "4.8 Log compaction"], "Docs", "ENG") is None
    assert version_of(["Docs", "4.8 Log compaction"], "Docs", "DOCS-39") == (39,)
    assert version_of(["Index", "0.8 Release"], "Index", "ENG") == (0, 8)
    assert version_of(["Notes", "Changes in 5.4"], "Notes 5.3", "ENG") == (5, 4)


def test_only_like_versions_are_compared() -> None:
    assert are_comparable((5, 4), (5, 3, 1))
    assert not are_comparable((54,), (5, 4))
    assert not are_comparable((2024,), (24,))


def test_titles_of_versions_are_of_one_family() -> None:
    assert without_versions("Release Notes 5.4") == without_versions("Release notes 5.3.1")
    assert is_of_version((5, 4, 1), (5, 4))
    assert is_of_version((54,), (5, 4))
    assert not is_of_version((5, 40), (5, 4))


@given(ANY_TEXT, ANY_TEXT)
def test_any_text_can_be_read(text: str, heading: str) -> None:
    mark_of_sentences([text, heading], heading)
    mark_of_headings([text, heading])
    mark_of_labels([text])
    assert all(version and min(version) >= 0 for version in versions_in(text))
    assert not versions_in(without_versions(text)) or versions_in(text)
