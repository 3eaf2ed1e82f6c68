"""Passages that give another figure for what was asked: an answer must not choose one of them in silence.

Two sentences differ if they are of two pages, speak of what was asked in nearly the same words, and each gives one
figure of the same kind, of which one is not the other in another unit.

Belongs here: which sentences of the lock differ from one that is cited.
Does not belong here: what the reader is told of it (`answering.answerer`), what a claim is worth
(`answering.verification.verifier`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.extraction.excerpts import Layout
from rag_serving.answering.extraction.features import Analyze, QuestionFeatures
from rag_serving.answering.quote_window import best_window
from rag_serving.deadline import check
from rag_serving.records import Claim, Lock, Verdict
from rag_serving.text.figures import FIGURE_WORDS, figures_with_units
from rag_serving.text.units import Unit

_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SECONDS |= {"week": 604_800.0, "month": 2_592_000.0, "year": 31_536_000.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15}
_KINDS = ("quantity", "time", "thing", "statement")  # of questions that a figure can answer
_SCALES = {"time": _SECONDS, "size": _BYTES}
_ALONE = re.compile(r"(?<![\w.,:/-])\d+(?:[.,]\d+)*(?![\w:/-]|[.,]\d)")
_SAME = 0.05  # 31 days are a month, 1,024 MB a gigabyte
_ALIKE = 0.6  # Jaccard similarity of the words beside the figures
_ABOUT = 0.8  # of the question's weight that both sentences must have


@dataclass(frozen=True)
class Differing:
    """A claim, and those of other pages that give another figure."""

    claim: Claim
    others: tuple[Claim, ...]

    def beside(self, claims: Sequence[Claim]) -> tuple[Claim, ...]:
        """Return the claims with the others right behind the one that they differ from, none twice."""
        at = claims.index(self.claim) + 1
        return (*claims[:at], *(other for other in self.others if other not in claims), *claims[at:])


def differing(
    asked: QuestionFeatures, lock: Lock, verdicts: Sequence[Verdict], analyze: Analyze, count: int
) -> Differing | None:
    """Return the first claim that stands and that other pages differ from; None where they all agree.

    Quotes have up to `count` words.
    """
    if asked.kind not in _KINDS:
        return None
    for verdict in verdicts:
        if verdict.outcome != "dropped" and (found := list(_others(asked, lock, verdict, analyze))):
            claims = (_cited(place, verdicts) or _quoting(asked, lock, place, analyze, count) for place in found)
            return Differing(verdict.claim, tuple(claims))
    return None


def measures(text: str) -> dict[str, set[float]]:
    """Return the figures of a text by kind: times in seconds, sizes in bytes, others in their own unit; "" has those
    alone.

    Versions, times of the day and figures inside names are none.
    """
    alone = {figure.replace(",", "") for figure in _ALONE.findall(text)}
    found: dict[str, set[float]] = {}
    for figure, names in figures_with_units(text).items():
        for unit in names if names != {""} or figure in alone else ():
            kind = next((kind for kind, scale in _SCALES.items() if unit in scale), unit)
            with suppress(ValueError):
                value = float(figure) * _SCALES.get(kind, {}).get(unit, 1.0)
                found.setdefault(kind, set()).add(value)
    return found


def _others(asked: QuestionFeatures, lock: Lock, verdict: Verdict, analyze: Analyze) -> Iterator[tuple[int, Unit]]:
    """Yield the first sentence of each other page that differs from the cited one, with its passage."""
    cited = lock.passage(verdict.index or 0)
    unit = cited.chunk.parts.unit_at(verdict.start or 0) if cited else None
    if cited is None or unit is None:
        return
    said, pages = _Said(unit.of(cited.chunk.text), analyze), {cited.chunk.page_id}
    if not said.measures or not _is_about(asked, said.text, analyze):
        return
    for index, candidate in enumerate(lock.passages, start=1):
        chunk = candidate.chunk
        check()
        layout = Layout(chunk)
        for other in layout.units if chunk.page_id not in pages else ():
            beside = _Said(other.of(chunk.text), analyze)
            if (
                other not in layout.directed
                and other.kind == unit.kind
                and _differ(said, beside)
                and _is_about(asked, beside.text, analyze)
            ):
                pages.add(chunk.page_id)
                yield index, other
                break


def _cited(place: tuple[int, Unit], verdicts: Sequence[Verdict]) -> Claim | None:
    """Return the claim that already cites a sentence."""
    index, unit = place
    for verdict in verdicts:
        if verdict.outcome != "dropped" and verdict.index == index and unit.start <= (verdict.start or 0) < unit.end:
            return verdict.claim
    return None


def _quoting(asked: QuestionFeatures, lock: Lock, place: tuple[int, Unit], analyze: Analyze, count: int) -> Claim:
    """Return a claim that tells a sentence."""
    index, unit = place
    layout = Layout(lock.passages[index - 1].chunk)
    told, said = layout.alone(unit), unit.of(layout.text)
    start, end = best_window(said, asked.weights, analyze, count)
    return Claim(told.text, index, said[start:end], told.parts)


def _is_about(asked: QuestionFeatures, text: str, analyze: Analyze) -> bool:
    return asked.share(frozenset(analyze(text))) >= _ABOUT


@dataclass(frozen=True)
class _Said:
    """A sentence, read once however many others it is compared with."""

    text: str
    analyze: Analyze

    @cached_property
    def measures(self) -> dict[str, set[float]]:
        return measures(self.text)

    @cached_property
    def words(self) -> frozenset[str]:
        return _words(self.text, self.analyze)


def _differ(one: _Said, two: _Said) -> bool:
    """Return whether two sentences say the same but for a figure of the same kind."""
    first, second = one.measures, two.measures
    pairs = [(first[kind], second[kind]) for kind in first.keys() & second.keys()]
    if not any(len(a) == len(b) == 1 and not _is_close(*a, *b) for a, b in pairs):
        return False
    return len(one.words & two.words) >= _ALIKE * len(one.words | two.words)


def _words(text: str, analyze: Analyze) -> frozenset[str]:
    """Return the terms of a text without figures and units."""
    words = (word for word in text.split() if word.strip(".,;:").lower() not in FIGURE_WORDS)
    return frozenset(term for term in analyze(" ".join(words)) if not any(character.isdigit() for character in term))


def _is_close(one: float, two: float) -> bool:
    return abs(one - two) <= _SAME * max(abs(one), abs(two))
