"""The units of the locked passages that could answer a question, with the terms of their context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from rag_serving.answering.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.answering.selection.layout import Excerpt, Layout
from rag_serving.answering.selection.signs import Analyze, QuestionFeatures
from rag_serving.deadline import check
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.analyzer import SEPARATED_NAME
from rag_serving.text.units import Unit, cells_of, is_whole, word_count

MOST_SAID = 4_000  # characters of a statement that are compared by meaning: models read no more

_IDENTIFIER = re.compile(SEPARATED_NAME)
_NUMBERED = re.compile(r"\b[A-Za-z]{2,}-\d+\b(?![.-])")
_APART = re.compile(r"\b([A-Za-z]{2,}) (\d+)\b(?![.-])")
_SUBJECT = re.compile(
    r"^\W{0,4}(?:an?\s|the\s)?(\w[^:]{0,60}?)\W{0,4}\s(?:is|are|was|means|stands for|refers to|[-–—])\s"
    r"|^\W{0,4}(\w.{0,60}?)\W{0,4}:\W",
    re.IGNORECASE,
)
_FEWEST_WORDS = {"sentence": 4, "list": 3, "table": 2, "code": 2}
# Terms that the lines of a block of code hand on to the next one.
_MOST_CARRIED = 200


@dataclass(frozen=True)
class Statement:
    """A unit of a locked passage with the terms of its context."""

    index: int  # of the passage in the lock, from 1
    unit: Unit
    text: str
    terms: frozenset[str]
    headings: frozenset[str]
    previous: frozenset[str]  # of the unit before
    passage: frozenset[str]  # of headings and text
    procedure: str = ""  # its heading and all steps, or block of code, for how-to questions
    named: float = 0.0  # how closely the best of its headings matches the question, 0 to 1
    paths: tuple[frozenset[str], ...] = ()  # the terms of each heading of the passage, from the page's title down
    subject: frozenset[str] = frozenset()  # the terms of what it says something of: `A quay is`, `**Quay**:`

    @property
    def said(self) -> str:
        """The text compared with the question by meaning."""
        return self.procedure or self.text


def statements(asked: QuestionFeatures, lock: Lock, analyze: Analyze) -> Iterator[Statement]:
    """Yield the candidates: no headings, no questions, no fragments of a few words, nothing about another identifier,
    and nothing addressed to an assistant."""
    every = [tuple(frozenset(analyze(heading)) for heading in each.chunk.heading_path) for each in lock.passages]
    known = frozenset().union(*chain.from_iterable(every))
    joined = (f"{word}-{number}".lower() for word, number in _APART.findall(asked.text))
    names = named(asked.text, analyze) | frozenset(term for term in joined if term in known)
    for index, (candidate, paths) in enumerate(zip(lock.passages, every, strict=True), start=1):
        check()
        chunk = candidate.chunk
        headings = frozenset[str]().union(*paths)
        passage = headings.union(analyze(chunk.text))
        if names and not names <= passage:
            continue
        layout, before = Layout(chunk), frozenset[str]()
        leads: dict[str, frozenset[str]] = {}
        for unit, procedure in _parts(layout, asked.kind == "steps"):
            check()
            text = unit.of(chunk.text)
            terms = frozenset(analyze(procedure.text if procedure else text))
            if procedure or is_introduced(asked, unit):
                terms |= before
            elif lead := layout.lead_in(unit):
                if lead not in leads:
                    leads[lead] = frozenset(analyze(lead))
                terms |= leads[lead]
            found = Statement(index, unit, text, terms, headings, before, passage, paths=paths)
            if asked.wants_definition:
                found = replace(found, subject=_subject(unit, text, analyze))
            if procedure:
                named_by = max((asked.headed_by(analyze(heading)) for heading in chunk.heading_path), default=0.0)
                told = _under_heading(chunk, procedure)
                yield replace(found, terms=terms | headings, procedure=told, named=named_by)
            elif _can_answer(chunk, unit) and unit not in layout.directed:
                yield found
            if len(terms) < _MOST_CARRIED or not is_introduced(asked, unit):
                before = terms


def sentence_texts(chunk: Chunk) -> Iterator[str]:
    """Yield the texts of a passage that are compared by meaning: its heading path, then sentences and procedures."""
    layout = Layout(chunk)
    if not chunk.is_boilerplate:
        yield heading_text(chunk)
    for unit in () if chunk.is_boilerplate else layout.units:
        if _can_answer(chunk, unit) and unit not in layout.directed:
            yield unit.of(chunk.text)[:MOST_SAID]
    for _, procedure in () if chunk.is_boilerplate else _parts(layout, has_procedures=True):
        if procedure:
            yield _under_heading(chunk, procedure)[:MOST_SAID]


def heading_text(chunk: Chunk) -> str:
    """Return the heading path of a passage as it is compared with a question."""
    return (" → ".join(chunk.heading_path) or chunk.title)[:MOST_SAID]


def _under_heading(chunk: Chunk, procedure: Excerpt) -> str:
    return "\n".join((*chunk.heading_path[-1:], procedure.text))


def _parts(layout: Layout, has_procedures: bool) -> Iterator[tuple[Unit, Excerpt | None]]:
    """Yield the units of a passage; for a how-to question, the steps of a list or a block of code form one."""
    end, refused = 0, set[tuple[int, int]]()
    for unit in layout.units:
        if unit.end <= end:
            continue
        procedure = layout.procedure(unit) if has_procedures else None
        if procedure and ((procedure.start, procedure.end) in refused or not _can_be_followed(procedure, layout)):
            refused.add((procedure.start, procedure.end))
            procedure = None
        end = procedure.end if procedure else end
        yield unit, procedure


def _can_be_followed(procedure: Excerpt, layout: Layout) -> bool:
    """Return whether steps, or code, say enough to be quoted, and give an assistant no orders."""
    return weight(procedure.quoted.of(layout.text)) >= MIN_QUOTE_BYTES and layout.is_for_readers(procedure)


def named(question: str, analyze: Analyze) -> frozenset[str]:
    """Return the identifiers of a question as terms: `max.poll.records`, `DB_POOL`, `ERR-4012`. Such a name means
    exactly one thing: a passage without it is no answer, however similar its words are."""
    found = (*_IDENTIFIER.findall(question), *_NUMBERED.findall(question))
    return frozenset(analyze(name)[0] for name in found)


def is_introduced(asked: QuestionFeatures, unit: Unit) -> bool:
    """Return whether the unit is code that answers a question for a command: the sentence before says what it does."""
    return unit.kind == "code" and asked.kind in ("command", "steps")


def _subject(unit: Unit, text: str, analyze: Analyze) -> frozenset[str]:
    """Return the terms of the subject of a sentence or table row; empty if it is unclear."""
    if unit.kind == "table":
        return frozenset(analyze(cells_of(text)[0]))
    found = _SUBJECT.match(text) if unit.kind in ("sentence", "list") else None
    return frozenset(analyze(found[1] or found[2])) if found else frozenset()


def _can_answer(chunk: Chunk, unit: Unit) -> bool:
    return (
        unit.kind not in ("heading", "header")
        and is_whole(unit.of(chunk.text))
        and chunk.text[unit.end - 1] not in "?？:"
        and weight(unit.of(chunk.text)) >= MIN_QUOTE_BYTES
        and word_count(chunk.text, unit.start, unit.end) >= _FEWEST_WORDS[unit.kind]
    )
