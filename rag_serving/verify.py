"""Every quote is checked against the text it claims to come from, by a program.

A claim stands if its quote stands in the passage it cites, and the sentence around the quote says no more than its
passages. A quote that stands in another locked passage is swapped to it. Everything else is dropped with a reason.

Belongs here: the verdict on each claim. Does not belong here: how quotes are found (`quotes`) and shown (`render`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from rag_serving.extraction.quoting import REACH_OF_NEGATION, best_part
from rag_serving.extraction.sentences import Unit, pieces, unit_at, words
from rag_serving.records import Candidate, Claim, Draft, Lock, Support, Verdict
from rag_serving.verification.claims import negations
from rag_serving.verification.polarity import polarity_fault
from rag_serving.verification.quotes import MIN_QUOTE_BYTES, Passage, Place, find_quote, needle_of, weight
from rag_serving.verification.support import unsupported
from rag_serving.verification.typography import fold

_WORD = re.compile(r"\b(?:\w{4,}|\w*\d\w*|no[rt]?)\b")
_STEM = 5


def verify(
    draft: Draft,
    lock: Lock,
    fuzzy_min: float = 90.0,
    max_citations: int = 3,
    require_quotes: bool = True,
    question: str = "",
    quote_max_words: int | None = None,
) -> list[Verdict]:
    """One verdict per claim, in order; at most `max_citations` places are cited.

    Where quotes are not required, a claim without one is its own quote: nothing is cited unchecked. Whether a yes or no
    fits its passage can be told only where the question is given. Of a quote that stands and is longer than
    `quote_max_words`, the words that say most of the claim are cited.
    """
    passages = [_passage_of(candidate) for candidate in lock.passages]
    judge = _Judge(passages, fuzzy_min, require_quotes, question, quote_max_words)
    judge.cited = _cited((claim.text, claim.index) for claim in draft.claims)
    verdicts = _limited([judge.verdict(claim) for claim in draft.claims], max_citations)
    while (told := _cited((v.claim.text, v.index) for v in verdicts if v.outcome != "dropped")) != judge.cited:
        judge.cited = told
        verdicts = [judge.again(verdict) for verdict in verdicts]
    return verdicts


def _limited(verdicts: Sequence[Verdict], max_citations: int) -> list[Verdict]:
    """The verdicts, without those that repeat a citation of their sentence or cite one place too many."""
    kept: list[Verdict] = []
    places: set[tuple[int | None, int | None, int | None]] = set()
    told: set[tuple[str, int | None, int | None, int | None]] = set()
    for verdict in verdicts:
        place = verdict.index, verdict.start, verdict.end
        if verdict.outcome != "dropped" and (verdict.claim.text, *place) in told:
            verdict = Verdict(verdict.claim, "dropped", "the same citation again")
        elif verdict.outcome != "dropped" and place not in places and len(places) == max_citations:
            verdict = Verdict(verdict.claim, "dropped", f"more than {max_citations} citations")
        elif verdict.outcome != "dropped":
            places.add(place)
            told.add((verdict.claim.text, *place))
        kept.append(verdict)
    return kept


def _cited(pairs: Iterable[tuple[str, int | None]]) -> dict[str, frozenset[int]]:
    """The passages that each sentence cites."""
    found: dict[str, frozenset[int]] = {}
    for text, index in pairs:
        found[text] = found.get(text, frozenset()) | ({index} if index else frozenset())
    return found


@dataclass
class _Judge:
    """The passages of a lock, before which claims are brought one by one."""

    passages: Sequence[Passage]
    fuzzy_min: float
    require_quotes: bool
    question: str = ""
    quote_max_words: int | None = None
    cited: Mapping[str, frozenset[int]] = field(default_factory=dict)  # the passages that each sentence cites
    known: dict[Claim, Verdict] = field(default_factory=dict)

    def verdict(self, claim: Claim) -> Verdict:
        """What is to be believed of a claim; models that repeat themselves are judged once."""
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
        if cited and (place := find_quote(quote, cited, self.fuzzy_min)):
            if fault := self._fault(claim, claim.index, place):
                return Verdict(claim, "dropped", fault, support="differs")
            verdict = Verdict(claim, place.how, _reason(place), claim.index, place.start, place.end)
        else:
            verdict = self._swapped(claim, quote)
        verdict = replace(verdict, told=self._told(verdict, quote, originals), support=self._support(verdict))
        return self._shortened(verdict)

    def _shortened(self, verdict: Verdict) -> Verdict:
        """The verdict with at most `quote_max_words` words of its quote: those that say most of the claim."""
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

    def again(self, verdict: Verdict) -> Verdict:
        """The verdict, now that it is known which citations of the sentence stand."""
        if verdict.outcome == "dropped":
            return verdict
        index, start, end = cast(int, verdict.index), cast(int, verdict.start), cast(int, verdict.end)
        fault = self._fault(verdict.claim, index, Place(start, end, "exact"))
        return Verdict(verdict.claim, "dropped", fault, support="differs") if fault else verdict

    def _swapped(self, claim: Claim, quote: str) -> Verdict:
        """The verdict on a quote that does not stand where the claim says: the best other passage, or dropped."""
        best: tuple[int, Place] | None = None
        fault: str | None = None
        for index, passage in enumerate(self.passages, start=1):
            place = find_quote(quote, passage, self.fuzzy_min) if index != claim.index else None
            if place is None or (best is not None and _rank(place) <= _rank(best[1])):
                continue
            if found := self._fault(claim, index, place):
                fault = found
            else:
                best = index, place
        if best is None:
            where = "any passage" if self._passage(claim.index) is None else f"passage {claim.index} or any other"
            reason = fault or f"the quote does not stand in {where}"
            return Verdict(claim, "dropped", reason, support="differs" if fault else "unchecked")
        index, place = best
        reason = f"{_reason(place)}, in passage {index} instead of {claim.index}"
        return Verdict(claim, "swapped", reason, index, place.start, place.end)

    def _fault(self, claim: Claim, index: int, place: Place) -> str | None:
        """Why a claim must not stand although its quote does, or None."""
        text = self.passages[index - 1].text
        if _is_turned(claim, text, place):
            return "the passage negates what is quoted"
        unit = unit_at(text, place.start)
        if unit is None or unit.end < place.end:
            unit = Unit(place.start, place.end, "sentence")
        if _is_made_of(claim, text):
            return polarity_fault(self.question, claim.text, unit.of(text))
        near = text[_reach(text, unit, place) : place.end]
        fault = unsupported(claim.text, unit.of(text), near, self._cited_with(claim, index))
        return fault or polarity_fault(self.question, claim.text, unit.of(text))

    def _support(self, verdict: Verdict) -> Support:
        """What the sentence of a claim is worth whose faults were looked for."""
        if verdict.outcome == "dropped" or verdict.index is None:
            return verdict.support
        texts = self._cited_with(verdict.claim, verdict.index)
        return "verbatim" if any(verdict.claim.text in text for text in texts) else "agrees"

    def _cited_with(self, claim: Claim, index: int) -> Iterable[str]:
        """The texts of all passages that the claim's sentence cites, headings included."""
        for cited in sorted(self.cited.get(claim.text, frozenset()) | {index}):
            if passage := self._passage(cited):
                yield f"{passage.heading}\n{passage.text}"

    def _told(self, verdict: Verdict, quote: str, originals: Mapping[str, str | None]) -> str:
        """The sentence as it may be told: what it quotes nearly stands there as the passages have it."""
        text = verdict.claim.text
        if verdict.index is not None and verdict.start is not None:
            originals = {quote: self.passages[verdict.index - 1].text[verdict.start : verdict.end], **originals}
        for quoted, original in sorted(originals.items(), key=lambda pair: -len(pair[0])):
            if original and fold(needle_of(quoted)).text != fold(original).text:
                text = text.replace(quoted, original)
        return text

    def _original(self, quoted: str) -> str | None:
        """These words as some passage has them, or None; what is too short to be looked for is there to the letter."""
        if weight(quoted) >= MIN_QUOTE_BYTES:
            places = ((passage, find_quote(quoted, passage, self.fuzzy_min)) for passage in self.passages)
            return next((passage.text[place.start : place.end] for passage, place in places if place), None)
        needle = needle_of(quoted)
        return quoted if any(needle in passage.folded.text for passage in self.passages) else None

    def _passage(self, index: int) -> Passage | None:
        return self.passages[index - 1] if 1 <= index <= len(self.passages) else None


def _stems(text: str) -> list[str]:
    """The beginnings of the words of a text that tell something, in lower case."""
    return [word[:_STEM] for word in _WORD.findall(text.lower())]


def _passage_of(candidate: Candidate) -> Passage:
    return Passage(candidate.chunk.text, " ".join((candidate.chunk.title, *candidate.chunk.heading_path)))


def _rank(place: Place) -> tuple[bool, float]:
    return place.how == "exact", place.ratio


def _reason(place: Place) -> str:
    return "verbatim" if place.how == "exact" else f"near match, ratio {place.ratio:.0f}, same figures and negations"


def _is_made_of(claim: Claim, text: str) -> bool:
    """Whether a claim is nothing but words of this passage, each part to the letter: a row told with its columns.

    What a sentence quotes keeps its quotation marks, so that a model's sentence is never taken for such a claim.
    """
    rest = claim.text
    for part in sorted(claim.others, key=len, reverse=True):
        if part not in text:
            return False
        rest = rest.replace(part, " ")
    return bool(claim.others) and not rest.strip(" \n:;")


def _is_turned(claim: Claim, text: str, place: Place) -> bool:
    """Whether the sentence negates where the quote begins or breaks off, and the claim does not negate at all."""
    unit = unit_at(text, place.start)
    if unit is None or negations(claim.text) or negations(text[place.start : place.end]):
        return False
    behind = words(text, place.end, max(place.end, unit.end))[:1]
    around = text[_reach(text, unit, place) : place.start], *(text[start:end] for start, end in behind)
    return any(negations(part) for part in around)


def _reach(text: str, unit: Unit, place: Place) -> int:
    """Where the words begin that a negation before the quote may be among."""
    before = words(text, unit.start, place.start)[-REACH_OF_NEGATION:]
    return before[0][0] if before else place.start
