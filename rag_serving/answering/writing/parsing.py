"""What a model wrote, read as claims: a sentence, the passage it cites, the words it quotes.

A citation may stand before or behind the full stop, before its sentence, or with its quote in a sentence, a line or a
block of their own. A sentence that quotes nothing is a claim without a quote.

Belongs here: what a reply says. Does not belong here: whether that is true (`answering.verification.verifier`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_serving.answering.writing.inline_marks import CITATION, CITATIONS, CODE, MARK, QUOTE, Marks
from rag_serving.answering.writing.sanitizing import (
    visible,
    without_brackets,
    without_html,
    without_images,
    without_links,
)
from rag_serving.records.claims import Claim
from rag_serving.text.units import Kind, units, words

_DECLINED = re.compile(
    r"\bnot\s+found\s+in\s+(?:the\s+|these\s+|any\s+)?(?:docs?|documents?|documentation|passages?|sources?|pages?)\b"
    r"|\b(?:could|can|was)\s?n[o']t\b.{0,30}\b(?:find|found)\b.{0,60}\b(?:docs?|documents?|documentation|passages?)\b"
    r"|\b(?:docs?|documents?|documentation|passages?)\b.{0,20}\b(?:do|does)\s?n[o']t\s+"
    r"(?:contain|mention|say|state|answer|provide|cover|include|specify)\b"
    r"|\bnicht\s+in\s+d(?:en|er)\s+\w*(?:docs|dokument\w*|passagen|textstellen)\s+(?:gefunden|enthalten)",
    re.IGNORECASE | re.DOTALL,
)

_EVIDENCE = re.compile(rf"(?:(?:{QUOTE}|{CODE})?[\s(,;.:–—-]*(?:{CITATION}[\s,;.)]*)+)+")
_BEHIND_CITATION = re.compile(
    rf"(?<={CITATION})(?:[\s.,;:)]*(?=[A-ZÀ-ÖØ-Þ])|[\s)]*[.!?][\s)]+(?=[^\s{QUOTE[1:-1]}{CODE[1:-1]}{CITATION[1:-1]}]))"
)
_FULL_STOP_AND_LINE = re.compile(r"(?<=[.!?…])[ \t]*\n(?=[ \t]*[^\s>|*+-])")
_MOST_CHARS = 20_000
_MOST_CLAIMS = 60
_UNCITED_QUOTE_WORDS = 4
_SHORTEST_CODE = 8


@dataclass(frozen=True)
class Parsed:
    """What a reply says."""

    claims: tuple[Claim, ...]
    declined: bool  # it says that nothing was found
    removed: int  # pieces of HTML that were taken out
    links: int = 0  # links that were


@dataclass
class _Part:
    """A sentence with the marks in it, and those that stand behind it as its evidence."""

    shown: str
    evidence: str = ""

    @property
    def marks(self) -> str:
        return self.shown + self.evidence

    @property
    def is_cited(self) -> bool:
        return re.search(CITATION, self.marks) is not None

    @property
    def awaits_evidence(self) -> bool:
        """Whether a quote, or code, in the next paragraph may belong to it."""
        return not self.is_cited or not re.search(QUOTE, self.marks) or self.shown.rstrip().endswith(":")

    def add(self, evidence: str) -> None:
        """Take in the quote and the citation behind it; only what a colon announces is shown."""
        if self.shown.rstrip().endswith(":"):
            self.shown += " " + evidence
        else:
            self.evidence += evidence


def parse(reply: str, cut: bool = False, source: str | None = None) -> Parsed:
    """Return the claims of a reply in order. A sentence that cites nothing is a claim on passage 0.

    Of a reply that was cut, an unfinished last sentence is left out. Links that `source` does not hold are taken out of
    the reply; without it they stay.
    """
    text, removed = without_html(visible(reply[:_MOST_CHARS]))
    links = 0
    if source is not None:
        text, images = without_images(text)
        text, links = without_links(without_brackets(text), source)
        links += images
    marks = Marks()
    parts = list(_parts(_FULL_STOP_AND_LINE.sub("\n\n", marks.replaced(text))))[:_MOST_CLAIMS]
    if cut and parts and not _is_finished(parts[-1]):
        parts.pop()
    claims = [claim for part in parts for claim in _claims(part, marks)]
    return Parsed(tuple(claims), _DECLINED.search(text) is not None, removed, links)


def _parts(text: str) -> Iterator[_Part]:
    """Yield the sentences of a marked text, each with the evidence that stands behind it."""
    last: _Part | None = None
    for said, joined, kind in _said(text):
        joined = joined and last is not None
        bare = re.search(r"\w", MARK.sub("", said)) is None
        if last and bare and MARK.search(said) and (joined or last.awaits_evidence):
            last.add(said)
            continue
        leading = _EVIDENCE.match(said)
        if last and joined and leading and _belongs_before(said, leading, last):
            last.evidence += leading[0]
            said = said[leading.end() :]
        if kind in ("heading", "header") and not re.search(CITATION, said):
            continue
        if last:
            yield last
        last = _Part(said.strip())
    if last:
        yield last


def _said(text: str) -> Iterator[tuple[str, bool, Kind]]:
    """Yield the sentences of a marked text, whether each follows on the one before, and its kind.

    What follows on a citation and a full stop, or begins with a capital behind a citation, is a sentence of its own.
    """
    end = 0
    for unit in units(text):
        between, end = text[end : unit.start], unit.end
        joined = not between.strip() and not re.search(r"\n\s*\n", between)
        said = unit.of(text)
        ahead = re.match(rf"(?:{CITATION}[\s,;:]*)*", said)
        start = ahead.end() if ahead else 0
        first, *others = _BEHIND_CITATION.split(said[start:])
        yield said[:start] + first, joined, unit.kind
        for sentence in others:
            yield sentence, True, unit.kind


def _belongs_before(said: str, leading: re.Match[str], last: _Part) -> bool:
    """Return whether the marks at the beginning of a sentence are the evidence of the one before."""
    if said[leading.end() : leading.end() + 1].islower():
        return False
    return not last.is_cited or not re.match(CITATION, said)


def _claims(part: _Part, marks: Marks) -> Iterator[Claim]:
    """Yield a claim for each quote and passage that a sentence cites."""
    text = _sentence(part, marks)
    if not text:
        return
    quotes = _primary(part, marks)
    strings = [marks.text(mark) for mark in re.findall(f"{QUOTE}|{CODE}", part.marks)]
    if not quotes:
        cited = [index for mark in re.findall(CITATION, part.marks) for index in marks.indexes(mark)]
        for index in list(dict.fromkeys(cited)) or [0]:
            yield Claim(text, index, "", tuple(strings))
        return
    for at, mark in quotes:
        quote = marks.text(mark)
        others = tuple(string for string in strings if string != quote)
        for index in _cited_by(at, part.marks, marks):
            yield Claim(text, index, quote, others)


def _primary(part: _Part, marks: Marks) -> list[tuple[int, str]]:
    """Return the quotes of a sentence with their places; its code where it quotes nothing else."""
    found = [(match.start(), match[0]) for match in re.finditer(QUOTE, part.marks)]
    if not part.is_cited:
        return [(at, mark) for at, mark in found if len(words(marks.text(mark))) >= _UNCITED_QUOTE_WORDS]
    if found:
        return found
    codes = [(match.start(), match[0]) for match in re.finditer(CODE, part.marks)]
    return [(at, mark) for at, mark in codes if len(marks.text(mark)) >= _SHORTEST_CODE]


def _cited_by(at: int, marked: str, marks: Marks) -> list[int]:
    """Return the passages that a quote at this place is said to come from: those named next behind it, else just
    before."""
    behind = re.search(rf"{CITATION}(?:[\s,;]*{CITATION})*", marked[at:])
    run = behind[0] if behind else "".join(re.findall(rf"{CITATION}(?:[\s,;]*{CITATION})*", marked[:at])[-1:])
    return list(dict.fromkeys(index for mark in re.findall(CITATION, run) for index in marks.indexes(mark))) or [0]


def _sentence(part: _Part, marks: Marks) -> str:
    """Return the words of a sentence, without citations; of one that only quotes, the quote."""
    shown = re.sub(r"\(\s*\)|\[\s*\]", "", CITATIONS.sub(" ", part.shown)).strip()
    if re.fullmatch(rf"[\s.,;:]*{QUOTE}[\s.,;:]*", shown):
        mark = re.findall(QUOTE, shown)[0]
        original = marks.plain(mark).strip()
        return original if original.startswith("```") else marks.text(mark)
    text = re.sub(r"(?<![ \t])[ \t]++(?=[.,;:!?](?:\s|$)|\n)", "", marks.plain(shown))
    return re.sub(r"(?<=\S)[ \t]{2,}", " ", text).strip()


def _is_finished(part: _Part) -> bool:
    return bool(re.search(rf"(?:[.!?…。！？]|{CITATION})[\s)*_\"”“»]*$", part.marks.strip()))
