"""Questions that a reader could ask, made from the headings of pages that he may read.

Belongs here: choosing headings, putting them as questions. Does not belong here: when they are shown (`pipeline`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from rag_serving.indexes.protocols import ReaderView
from rag_serving.records.passages import Chunk
from rag_serving.text.marks import has_mark, is_role
from rag_serving.text.orders import orders_assistant

_LOOKED_AT = 48  # passages: reading them takes less than a millisecond
_SHORTEST, _LONGEST = 4, 70  # characters of a heading
_PLAIN = re.compile(r"[^\W_][\w ,.'’()&/?-]*")
_QUESTION = re.compile(r"(?:what|how|why|when|where|who|which|can|do|does|is|are|may|should)\b.*\?", re.IGNORECASE)
_HOW_TO = re.compile(r"how to (?P<task>[a-z].*[^?])", re.IGNORECASE)
_POINTS = re.compile(r"\b(?:it|its|this|that|these|those|they|them|he|she|one)\b", re.IGNORECASE)


def example_questions(view: ReaderView, drop_labels: Collection[str], most: int = 3) -> tuple[str, ...]:
    """Return some questions, of a page one each: headings that are questions come first, then how-tos, then titles.

    The same pages give the same questions. What orders an assistant about, or looks like markup, is no example.
    """
    rows = view.sample(_LOOKED_AT)
    kept = rows[~view.boilerplate(rows)]
    labelled = view.labels(kept)
    clean = [row for row, labels in zip(kept.tolist(), labelled, strict=True) if set(drop_labels).isdisjoint(labels)]
    examples = sorted((each for chunk in view.chunks(clean) for each in _examples(chunk)), key=lambda each: each[0])
    chosen: dict[str, str] = {}
    for _, question, chunk in examples:
        if chunk.page_id not in chosen and question not in chosen.values() and not _is_directed(chunk):
            chosen[chunk.page_id] = question
        if len(chosen) == most:
            break
    return tuple(chosen.values())


def _examples(chunk: Chunk) -> Iterator[tuple[int, str, Chunk]]:
    """Yield rank and wording of the questions that the headings of a passage are."""
    for heading in chunk.headings.splitlines():
        if not _SHORTEST <= len(heading) <= _LONGEST or not _PLAIN.fullmatch(heading) or _POINTS.search(heading):
            continue
        if _QUESTION.fullmatch(heading):
            yield 0, heading, chunk
        elif task := _HOW_TO.fullmatch(heading):
            yield 1, f"How do I {task['task']}?", chunk
        elif heading == chunk.title:
            yield 2, f"What is {heading}?", chunk


def _is_directed(chunk: Chunk) -> bool:
    """Return whether a heading over a passage is meant for an assistant."""
    return any(orders_assistant(each) or is_role(each) or has_mark(each) for each in chunk.headings.splitlines())
