"""Every quote is checked against the text it claims to come from, and every sentence against what it cites.

A claim stands if its quote stands in the passage it cites; a quote that stands in another locked passage is swapped to
it; everything else is dropped with a reason. The sentence of a claim that stands is shown if the cited passages carry
it; otherwise readers see the passage's own sentence around the quote, in quotation marks.

Belongs here: the verdict on each claim. Does not belong here: how quotes are found (`quotes`), when a sentence is
carried (`support`), how both are shown (`answering.citations`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag_serving.answering.quote_window import best_part
from rag_serving.answering.verification.quotes import MIN_QUOTE_BYTES, Passage, QuoteSpan, find_quote, needle_of, weight
from rag_serving.answering.verification.sentence_wording import SentenceWording
from rag_serving.deadline import check
from rag_serving.records.claims import EXTRACTIVE, Claim, Draft, Verdict
from rag_serving.records.passages import Candidate, Lock
from rag_serving.text.directed import MASK, without_directed
from rag_serving.text.normalization import folded
from rag_serving.text.orders import orders_assistant
from rag_serving.text.units import pieces

_WORD = re.compile(r"\b(?:\w{4,}|\w*\d\w*|no[rt]?)\b")
_STEM = 5


@dataclass(frozen=True)
class VerificationRules:
    """What verdicts are reached with, beside the question; receipts keep it.

    Attributes:
        fuzzy_min: the least `partial_ratio` of a quote that does not stand to the letter, 0 to 100.
        max_citations: how many places are cited at most.
        require_quotes: whether a claim needs a quote; else one without is its own: nothing is cited unchecked.
        quote_max_words: of a longer quote that stands, the words that say most of the claim are cited.
    """

    fuzzy_min: float = 90.0
    max_citations: int = 3
    require_quotes: bool = True
    quote_max_words: int | None = None


DEFAULT_RULES = VerificationRules()


def verify(draft: Draft, lock: Lock, question: str = "", rules: VerificationRules = DEFAULT_RULES) -> list[Verdict]:
    """Return one verdict per claim, in order.

    A "yes" or "no" is kept only where the question is given and the passage says so. Sentences that were cut out of the
    passages (`EXTRACTIVE`) need only stand there.
    """
    passages = [_passage_of(candidate) for candidate in lock.passages]
    judge = _Judge(passages, rules.fuzzy_min, rules.require_quotes, question, rules.quote_max_words)
    verdicts = _limited([judge.verdict(claim) for claim in draft.claims], rules.max_citations)
    cited = _cited(verdicts)
    reader = SentenceWording(passages, question, draft.model == EXTRACTIVE)
    return _without_repetitions([reader.worded(verdict, cited) for verdict in verdicts])


def without_doubted(verdicts: Sequence[Verdict], lock: Lock) -> list[Verdict]:
    """Return the verdicts; a sentence that a model judged not to follow is replaced by the passage's own.

    What a model says can only take a sentence away: whatever else it says, or that it says nothing, changes nothing.
    """
    reader = SentenceWording([_passage_of(candidate) for candidate in lock.passages], "", is_extractive=False)
    kept = [
        reader.doubted(verdict) if verdict.judged is False and verdict.support == "carried" else verdict
        for verdict in verdicts
    ]
    return _without_repetitions(kept)


def _limited(verdicts: Sequence[Verdict], max_citations: int) -> list[Verdict]:
    """Return the verdicts, without those that repeat a citation of their sentence or cite one place too many."""
    kept: list[Verdict] = []
    places: set[tuple[int | None, int | None, int | None]] = set()
    shown: set[tuple[str, int | None, int | None, int | None]] = set()
    for verdict in verdicts:
        place = verdict.index, verdict.start, verdict.end
        if verdict.outcome != "dropped" and (verdict.claim.text, *place) in shown:
            verdict = Verdict(verdict.claim, "dropped", "the same citation again")
        elif verdict.outcome != "dropped" and place not in places and len(places) == max_citations:
            verdict = Verdict(verdict.claim, "dropped", f"more than {max_citations} citations")
        elif verdict.outcome != "dropped":
            places.add(place)
            shown.add((verdict.claim.text, *place))
        kept.append(verdict)
    return kept


def _without_repetitions(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts without those that would show the same quotation again."""
    shown: set[tuple[str, int | None]] = set()
    kept = []
    for verdict in verdicts:
        key = verdict.told, verdict.index
        if verdict.support == "quoted" and key in shown:
            verdict = Verdict(verdict.claim, "dropped", "the same quotation again")
        elif verdict.support == "quoted":
            shown.add(key)
        kept.append(verdict)
    return kept


def _cited(verdicts: Sequence[Verdict]) -> dict[str, list[int]]:
    """Return the passages that each sentence cites with a quote that stands."""
    by_claim: dict[str, list[int]] = {}
    for verdict in verdicts:
        if verdict.outcome != "dropped" and verdict.index is not None:
            indexes = by_claim.setdefault(verdict.claim.text, [])
            indexes += [verdict.index] if verdict.index not in indexes else []
    return by_claim


@dataclass
class _Judge:
    """The passages of a lock, in which quotes are looked for one by one."""

    passages: Sequence[Passage]
    fuzzy_min: float
    require_quotes: bool
    question: str = ""
    quote_max_words: int | None = None
    known: dict[Claim, Verdict] = field(default_factory=dict)

    def verdict(self, claim: Claim) -> Verdict:
        """Return whether the quote of a claim stands; models that repeat themselves are judged once."""
        check()
        if claim not in self.known:
            self.known[claim] = self._judged(claim)
        return self.known[claim]

    def _judged(self, claim: Claim) -> Verdict:
        quote = claim.quote if self.require_quotes else claim.quote.strip() or claim.text
        if not quote.strip():
            return Verdict(claim, "dropped", "no quote" if claim.index else "no citation")
        if weight(quote) < MIN_QUOTE_BYTES:
            return Verdict(claim, "dropped", "the quote is too short to prove anything")
        originals = {other: self._original(other) for other in claim.others}
        if false := next((other for other, original in originals.items() if original is None), None):
            return Verdict(claim, "dropped", f"the sentence also quotes {false[:60]!r}, which no passage says")
        cited = self._passage(claim.index)
        if cited and (place := self._find(quote, cited)):
            verdict = Verdict(claim, place.how, _reason(place), claim.index, place.start, place.end)
        else:
            verdict = self._swapped(claim, quote)
        return self._shortened(replace(verdict, told=self._with_originals(verdict, quote, originals)))

    def _shortened(self, verdict: Verdict) -> Verdict:
        """Return the verdict with at most `quote_max_words` words of its quote: those that say most of the claim."""
        if self.quote_max_words is None or verdict.index is None or verdict.start is None:
            return verdict
        quoted = self.passages[verdict.index - 1].text[verdict.start : verdict.end]
        if (count := len(pieces(quoted))) <= self.quote_max_words:
            return verdict
        claimed = verdict.claim.text.replace(verdict.claim.quote, " ") if verdict.claim.quote else ""
        weights = dict.fromkeys(_stems(self.question), 1.0) | dict.fromkeys(_stems(claimed), 2.0)
        start, end = best_part(quoted, weights, _stems, self.quote_max_words)
        reason = f"{verdict.reason}, {self.quote_max_words} of {count} quoted words are cited"
        return replace(verdict, start=verdict.start + start, end=verdict.start + end, reason=reason)

    def _swapped(self, claim: Claim, quote: str) -> Verdict:
        """Return the verdict on a quote that is not where the claim says: the best other passage, or dropped."""
        places = (
            (index, self._find(quote, passage))
            for index, passage in enumerate(self.passages, start=1)
            if index != claim.index
        )
        standing = [(index, place) for index, place in places if place is not None]
        if not standing:
            where = "any passage" if self._passage(claim.index) is None else f"passage {claim.index} or any other"
            return Verdict(claim, "dropped", f"the quote does not stand in {where}")
        index, place = max(standing, key=lambda pair: _rank(pair[1]))
        reason = f"{_reason(place)}, in passage {index} instead of {claim.index}"
        return Verdict(claim, "swapped", reason, index, place.start, place.end)

    def _with_originals(self, verdict: Verdict, quote: str, originals: Mapping[str, str | None]) -> str:
        """Return the sentence with what it quotes only nearly as the passages have it."""
        text = verdict.claim.text
        if verdict.index is not None and verdict.start is not None:
            originals = {quote: self.passages[verdict.index - 1].text[verdict.start : verdict.end], **originals}
        for quoted, original in sorted(originals.items(), key=lambda pair: -len(pair[0])):
            if original and folded(needle_of(quoted)) != folded(original):
                text = text.replace(quoted, original)
        return text

    def _original(self, quoted: str) -> str | None:
        """Return these words as some passage has them, or None; what is too short must be there to the letter."""
        if any(passage.is_above(quoted) for passage in self.passages):
            return quoted
        if weight(quoted) >= MIN_QUOTE_BYTES:
            places = ((passage, self._find(quoted, passage)) for passage in self.passages)
            return next((passage.text[place.start : place.end] for passage, place in places if place), None)
        needle = needle_of(quoted)
        return quoted if any(needle in passage.plain for passage in self.passages) else None

    def _find(self, quote: str, passage: Passage) -> QuoteSpan | None:
        """Return where a quote stands in what a passage says to readers."""
        place = find_quote(quote, passage, self.fuzzy_min)
        return place if place and MASK not in passage.text[place.start : place.end] else None

    def _passage(self, index: int) -> Passage | None:
        return self.passages[index - 1] if 1 <= index <= len(self.passages) else None


def _passage_of(candidate: Candidate) -> Passage:
    """Return what a passage says to readers, under its heading: what is meant for an assistant proves nothing."""
    chunk = candidate.chunk
    heading = chunk.heading_path[-1] if chunk.heading_path else chunk.title
    structure = chunk.parts
    text = without_directed(chunk.text, structure, chunk.headings)
    if any(map(orders_assistant, (structure.table_header, structure.introduction))):
        structure = structure._replace(table_header="", introduction="")
    return Passage(text, "" if orders_assistant(heading) else heading, structure)


def _rank(place: QuoteSpan) -> tuple[bool, float]:
    return place.how == "exact", place.ratio


def _reason(place: QuoteSpan) -> str:
    return "verbatim" if place.how == "exact" else f"near match, ratio {place.ratio:.0f}, same figures and negations"


def _stems(text: str) -> list[str]:
    """Return the beginnings of the words of a text that tell something, in lower case."""
    return [word[:_STEM] for word in _WORD.findall(text.lower())]
