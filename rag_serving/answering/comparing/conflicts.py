"""Passages that give another value for what was asked: an answer must not choose one of them in silence.

Belongs here: which units of other pages differ from one that is cited, which of them is the more current.
Does not belong here: what a unit gives as a value (`values`), what makes a page current (`precedence`), what the reader
is told of it (`answering.currency_notes`), what a claim is worth (`answering.verification.verifier`).

Two units differ only where they speak of the same: nearly the same words beside the figure, the same cell of two
tables, or the default of one setting. Two settings, two products, a minimum and a maximum are no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rag_serving.answering.comparing.precedence import Opening, Precedence, Standing, precedence, standing
from rag_serving.answering.comparing.sameness import Compared, difference
from rag_serving.answering.selection.layout import Layout
from rag_serving.answering.selection.selector import Quoting, claim_of
from rag_serving.answering.selection.signs import Analyze, QuestionFeatures
from rag_serving.deadline import check
from rag_serving.records.claims import Claim, Verdict
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.currency import versions_in
from rag_serving.text.units import Unit

_KINDS = ("quantity", "time", "thing", "statement", "yes_no")  # of questions that a value can answer
_MOST_UNITS, _MOST_COMPARED = 8, 200  # of one claim, and of one passage that it is compared with


@dataclass(frozen=True)
class Other:
    """What another page says instead."""

    claim: Claim
    standing: Standing
    precedence: Precedence | None  # of this over the claim that it differs from


@dataclass(frozen=True)
class Differing:
    """A claim, and those of other pages that give another value."""

    claim: Claim
    standing: Standing
    others: tuple[Other, ...]

    def beside(self, claims: Sequence[Claim], may_move: bool = True) -> tuple[Claim, ...]:
        """Return the claims with the others around the one that they differ from, the more current first, none twice.

        `may_move`: whether a claim that was there may change its place.
        """
        kept = [] if may_move else claims
        around = [other for other in self.others if other.claim not in kept]
        first = [other.claim for other in around if other.precedence and other.precedence.is_first]
        after = [other.claim for other in around if other.claim not in first and other.claim not in claims]
        rest = [claim for claim in claims if claim not in first]
        at = rest.index(self.claim)
        return tuple(dict.fromkeys((*rest[:at], *first, self.claim, *after, *rest[at + 1 :])))


@dataclass(frozen=True)
class Comparison:
    """What a question's passages are compared by.

    Attributes:
        quote_words: most words of a quote.
        opening: the first chunks of a passage's page; without it a passage speaks for itself alone.
    """

    asked: QuestionFeatures
    lock: Lock
    analyze: Analyze
    quote_words: int
    opening: Opening = lambda _: ()

    def standing(self, chunk: Chunk) -> Standing:
        """Return how current a passage is."""
        return standing(chunk, self.opening(chunk))

    def chunk(self, index: int | None) -> Chunk | None:
        """Return a passage of the lock; None outside."""
        candidate = self.lock.passage(index or 0)
        return candidate.chunk if candidate else None


def differing(comparison: Comparison, verdicts: Sequence[Verdict]) -> Differing | None:
    """Return the first claim that stands and that other pages differ from; None where they all agree."""
    if comparison.asked.kind not in _KINDS:
        return None
    for verdict in verdicts:
        if verdict.outcome != "dropped" and (found := list(_others(comparison, verdict))):
            return _differing(comparison, verdict, found, verdicts)
    return None


@dataclass(frozen=True)
class _Found:
    """A unit that differs from a cited one, its passage, and whether it replaces (1) or is replaced (-1)."""

    index: int
    unit: Unit
    changes: int


def _differing(
    comparison: Comparison, verdict: Verdict, found: Sequence[_Found], verdicts: Sequence[Verdict]
) -> Differing | None:
    cited = comparison.chunk(verdict.index)
    if cited is None:
        return None
    own, asked = comparison.standing(cited), versions_in(comparison.asked.text)
    others = []
    for each in found:
        claim = _cited(each, verdicts) or _quoting(comparison, each)
        its = comparison.standing(comparison.lock.passages[each.index - 1].chunk)
        others.append(Other(claim, its, precedence(its, own, asked, each.changes)))
    return Differing(verdict.claim, own, tuple(others))


def _others(comparison: Comparison, verdict: Verdict) -> Iterator[_Found]:
    """Yield the first unit of each other page that differs from one that is cited."""
    cited = comparison.chunk(verdict.index)
    if cited is None:
        return
    asked, analyze, pages = comparison.asked, comparison.analyze, {cited.page_id}
    ours = [Compared(unit, cited, analyze) for unit in _units(verdict, cited)]
    if not (ours := [each for each in ours if each.can_differ(asked)]):
        return
    for index, candidate in enumerate(comparison.lock.passages, start=1):
        check()
        chunk = candidate.chunk
        if chunk.page_id not in pages and (found := _differs(asked, ours, chunk, analyze)):
            pages.add(chunk.page_id)
            yield replace(found, index=index)


def _units(verdict: Verdict, cited: Chunk) -> list[Unit]:
    """Return the units that a claim tells: those that its quote is in, and those that stand in it to the letter."""
    start, end, told = verdict.start or 0, verdict.end or 0, verdict.claim.text
    found = []
    for unit in cited.parts.units:
        is_quoted = unit.start < max(end, start + 1) and start < unit.end
        if is_quoted or (unit.kind not in ("heading", "header", "code") and unit.of(cited.text) in told):
            found.append(unit)
    return found[:_MOST_UNITS]


def _differs(asked: QuestionFeatures, ours: Sequence[Compared], chunk: Chunk, analyze: Analyze) -> _Found | None:
    """Return the first unit of a passage that differs from one of ours."""
    layout = Layout(chunk)
    for unit in layout.units[:_MOST_COMPARED]:
        other = Compared(unit, chunk, analyze)
        for our in ours:
            changes = difference(asked, our, other)
            if changes is not None and unit not in layout.directed:
                return _Found(0, unit, changes)
    return None


def _cited(found: _Found, verdicts: Sequence[Verdict]) -> Claim | None:
    """Return the claim that already cites a unit."""
    for verdict in verdicts:
        inside = found.unit.start <= (verdict.start or 0) < found.unit.end
        if verdict.outcome != "dropped" and verdict.index == found.index and inside:
            return verdict.claim
    return None


def _quoting(comparison: Comparison, found: _Found) -> Claim:
    """Return a claim that tells a unit."""
    layout = Layout(comparison.lock.passages[found.index - 1].chunk)
    quoting = Quoting(comparison.asked, comparison.analyze, comparison.quote_words)
    return claim_of(layout.alone(found.unit), found.index, layout.text, quoting)
