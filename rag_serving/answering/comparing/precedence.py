"""The more current of two passages, and why.

Belongs here: comparing the marks, versions and dates of two passages. Does not belong here: reading these signs
(`text.currency`), choosing passages (`conflicts`), the note to the reader (`answerer`).

In this order: the requested version, a mark of being no longer in force, the version that the page is about, the date
of its last change. A page's own word counts for itself alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rag_serving.records.passages import Chunk
from rag_serving.text.currency import (
    Mark,
    Version,
    are_comparable,
    can_mark,
    family_of,
    is_of_version,
    mark_of_headings,
    mark_of_labels,
    mark_of_sentences,
    mark_of_title,
    version_of,
)

Opening = Callable[[Chunk], Sequence[Chunk]]
"""The first chunks of a passage's page that the asker may read."""
Reason = Literal["asked", "mark", "change", "version", "date"]

_OPENING = 3  # chunks at the beginning of a page that may have its state


class Precedence(NamedTuple):
    """Whether the first of two passages is the more current, and why."""

    is_first: bool
    reason: Reason


@dataclass(frozen=True)
class Standing:
    """The signs for or against a passage being current."""

    mark: Mark | None
    version: Version | None  # of its headings, its title, or its space
    family: tuple[str, str]  # passages of one family can be compared by version
    updated_at: datetime | None


def standing(chunk: Chunk, opening: Sequence[Chunk] = ()) -> Standing:
    """Return how current a passage is, by itself and by how its page begins."""
    version = version_of(chunk.heading_path, chunk.title, chunk.space)
    return Standing(mark_of(chunk, opening), version, family_of(chunk.title, chunk.space), chunk.updated_at)


def beginning(beside: Callable[[Chunk, int], Chunk | None], chunk: Chunk) -> list[Chunk]:
    """Return the first chunks of a passage's page; `beside` gives the one so many places on that the asker may read."""
    found = (beside(chunk, place - chunk.chunk_idx) for place in range(_OPENING) if place != chunk.chunk_idx)
    return [each for each in found if each]


def mark_of(chunk: Chunk, opening: Sequence[Chunk] = ()) -> Mark | None:
    """Return the mark of a passage: its page's or its section's; None if nothing says that it is out of force."""
    found = mark_of_title(chunk.title) or mark_of_labels(chunk.labels) or mark_of_headings(chunk.heading_path[1:])
    found = found or _mark_in(chunk)
    if found:
        return found
    marks = (_mark_in(other) for other in opening)
    return next((mark for mark in marks if mark and mark.of == "page"), None)


def _mark_in(chunk: Chunk) -> Mark | None:
    """Return the mark that a passage gives its page or its section in its own headings and sentences."""
    found = mark_of_sentences(chunk.heading_path)
    if found or not can_mark(chunk.text):
        return found
    sentences = [unit.of(chunk.text) for unit in chunk.parts.units if unit.kind != "code"]
    return mark_of_sentences(sentences, chunk.heading_path[-1] if chunk.heading_path else "")


def precedence(one: Standing, two: Standing, asked: Sequence[Version], changes: int = 0) -> Precedence | None:
    """Return whether the first of two passages is the more current, and why; None if nothing decides.

    `asked` are the versions in the question; `changes` is 1 if the first says that it replaces the second's statement,
    -1 if the second does.
    """
    for reason, first, second in _signs(one, two, asked, changes):
        if first != second:
            return Precedence(first > second, reason)
    return None


def _signs(one: Standing, two: Standing, asked: Sequence[Version], changes: int) -> Iterator[tuple[Reason, Any, Any]]:
    """Yield each reason with what the passages have of it; more is more current."""
    yield "asked", _is_asked(one, asked), _is_asked(two, asked)
    yield "mark", one.mark is None, two.mark is None
    if one.version and two.version and one.family == two.family and are_comparable(one.version, two.version):
        yield "version", one.version, two.version
    yield "change", changes, 0
    if one.updated_at and two.updated_at:
        yield "date", one.updated_at.date(), two.updated_at.date()


def _is_asked(found: Standing, asked: Sequence[Version]) -> bool:
    return found.version is not None and any(is_of_version(found.version, version) for version in asked)
