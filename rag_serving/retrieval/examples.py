"""Questions that a reader could ask, made from the headings of pages that he may read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from rag_serving.indexes.view import ReaderView
from rag_serving.records.passages import Chunk
from rag_serving.text.marks import has_mark, is_role
from rag_serving.text.orders import orders_assistant

_MOST = 3
_LOOKED_AT = 48  # passages: reading them takes less than a millisecond
_SHORTEST, _LONGEST = 4, 70  # characters of a heading
_PLAIN = re.compile(r"[^\W_][\w ,.'’()&/?-]*")
_QUESTION = re.compile(r"(?:what|how|why|when|where|who|which|can|do|does|is|are|may|should)\b.*\?", re.IGNORECASE)
_HOW_TO = re.compile(r"how to (?P<task>[a-z].*[^?])", re.IGNORECASE)
_DOING = re.compile(r"[A-Z][a-z]+ing (?:[\w-]+ ){0,2}(?:an?|the|your) \w.*", re.IGNORECASE)
_DEFINES = re.compile(
    r"(?:(?P<article>The|An?) )?(?P<name>[\w-]+(?: [\w-]+){0,3}) (?P<verb>is|are) (?:an?|the|one of) \w"
)
_POINTS = re.compile(r"\b(?:it|its|this|that|these|those|they|them|he|she|one)\b", re.IGNORECASE)


def example_questions(view: ReaderView, drop_labels: Collection[str]) -> tuple[str, ...]:
    """Return some questions, one per page: headings that are questions come first, then how-tos, actions, things that a
    passage defines, and pages by their titles. The same pages give the same questions. Orders to an assistant, and
    anything like markup, are no examples."""
    rows = view.sample(_LOOKED_AT)
    kept = rows[~view.boilerplate(rows)]
    labelled = view.labels(kept)
    clean = [row for row, labels in zip(kept.tolist(), labelled, strict=True) if set(drop_labels).isdisjoint(labels)]
    examples = sorted((each for chunk in view.chunks(clean) for each in _examples(chunk)), key=lambda each: each[0])
    chosen: dict[str, str] = {}
    for _, question, chunk in examples:
        is_odd = any(orders_assistant(each) or is_role(each) or has_mark(each) for each in chunk.headings.splitlines())
        if chunk.page_id not in chosen and question not in chosen.values() and not is_odd:
            chosen[chunk.page_id] = question
        if len(chosen) == _MOST:
            break
    return tuple(chosen.values())


def _examples(chunk: Chunk) -> Iterator[tuple[int, str, Chunk]]:
    for heading in chunk.headings.splitlines():
        if not _SHORTEST <= len(heading) <= _LONGEST or not _PLAIN.fullmatch(heading) or _POINTS.search(heading):
            continue
        if _QUESTION.fullmatch(heading):
            yield 0, heading, chunk
        elif task := _HOW_TO.fullmatch(heading):
            yield 1, f"How do I {task['task']}?", chunk
        elif _DOING.fullmatch(heading):
            yield 2, f"How does {_in_a_sentence(heading, chunk)} work?", chunk
        elif (defined := _DEFINES.match(chunk.text)) and not _POINTS.search(defined["name"]):
            name = defined["name"] if defined["article"] else _in_a_sentence(defined["name"], chunk)
            yield 3, f"What {defined['verb']} {(defined['article'] or '').lower()} {name}?".replace("  ", " "), chunk
        elif heading == chunk.title:
            yield 4, f"What is on the page “{heading}”?", chunk


def _in_a_sentence(heading: str, chunk: Chunk) -> str:
    """Return a heading as it is written inside of a sentence: its words in lower case where the passage has them so."""
    said = set(re.findall(r"\w+", chunk.text))
    first, *others = heading.split(" ")
    small = [word.lower() if word.lower() in said or len(word) < 4 else word for word in others]
    known = first.lower() in said or first.endswith("ing") or first not in said
    return " ".join([first.lower() if known else first, *small])
