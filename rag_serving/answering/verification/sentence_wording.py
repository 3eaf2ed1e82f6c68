"""What readers see of a sentence whose quote stands: the sentence itself, or the passage's own.

Belongs here: replacing sentences that the cited passages do not carry, or that a model doubts. Does not belong here:
whether a quote stands (`verifier`), when a sentence is carried (`support`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from rag_serving.answering.quote_window import REACH_OF_NEGATION
from rag_serving.answering.verification.grammar import governs
from rag_serving.answering.verification.quotes import Passage, QuoteSpan
from rag_serving.answering.verification.support import Sentences, missing_words, supported
from rag_serving.answering.verification.words import tokens_as_written
from rag_serving.answering.verification.yes_no import affirms, polarity_fault, without_yes_or_no
from rag_serving.records.claims import Claim, Verdict
from rag_serving.text.polarity_words import negations
from rag_serving.text.units import Unit, words

_LONGEST_SENTENCE_SHOWN = 400


class SentenceWording:
    """Words the sentences of one answer for its readers. `is_extractive`: they were cut out of the passages."""

    def __init__(self, passages: Sequence[Passage], question: str, is_extractive: bool) -> None:
        self._passages, self._question, self._is_extractive = passages, question, is_extractive
        self._sentences: dict[int, Sentences] = {}

    def worded(self, verdict: Verdict, cited: Mapping[str, Sequence[int]]) -> Verdict:
        """Return the verdict with the sentence as it is shown: as it was written, or the passage's own."""
        if verdict.outcome == "dropped" or verdict.index is None:
            return verdict
        if self._is_extractive and self._is_verbatim(verdict):
            return self._checked_extract(verdict)
        indexes = cited.get(verdict.claim.text, [verdict.index])
        support = supported(verdict.told, [(index, self._read(index)) for index in indexes], self._question)
        if support is None or verdict.index not in support.passages or self._is_contradicted(verdict):
            return self._quoted(verdict, indexes)
        text = verdict.told
        if not affirms(self._question, text, self._unit_text(verdict)):
            text = without_yes_or_no(text)
        return replace(verdict, told=text, support="carried", carried=support.words)

    def _checked_extract(self, verdict: Verdict) -> Verdict:
        passage, place = self._passages[cast(int, verdict.index) - 1], _place(verdict)
        if _is_turned(verdict.claim, passage, place):
            return Verdict(verdict.claim, "dropped", "the passage negates what is quoted")
        if fault := polarity_fault(self._question, verdict.claim.text, self._unit_text(verdict)):
            return Verdict(verdict.claim, "dropped", fault)
        lead = self._lead(verdict)
        gap = "\n" if "\n" in verdict.told else " "
        extract = verdict.told if not lead or lead in " ".join(verdict.told.split()) else f"{lead}{gap}{verdict.told}"
        return replace(verdict, told=extract, support="verbatim")

    def _lead(self, verdict: Verdict) -> str:
        """Return the words that introduce the list, table or code of a quote, where these hold only with them."""
        passage = self._passages[cast(int, verdict.index) - 1]
        unit = passage.structure.unit_at(_place(verdict).start)
        lead = passage.structure.introduction_of(unit, passage.text) if unit else ""
        return " ".join(lead.split()) if lead and governs(tokens_as_written(lead)) else ""

    def _quoted(self, verdict: Verdict, indexes: Sequence[int]) -> Verdict:
        """Return the verdict with the passage's own sentence in place of one that is not carried."""
        passage, place = self._passages[cast(int, verdict.index) - 1], _place(verdict)
        text, unit = passage.text, passage.structure.unit_at(place.start)
        start, end = place.start, place.end
        if unit and _can_be_shown(unit) and unit.end >= end:
            start, end = unit.start, unit.end
        elif _is_turned(replace(verdict.claim, text=""), passage, place):
            return Verdict(verdict.claim, "dropped", "the passage negates what is quoted")
        strange = ", ".join(map(repr, missing_words(verdict.told, [self._read(index) for index in indexes])[:5]))
        why = f"the passage does not have {strange}" if strange else "the passage says otherwise"
        lead = self._lead(verdict)
        quotation = f"“{f'{lead} … ' if lead else ''}{' '.join(text[start:end].split())}”"
        return replace(
            verdict, told=quotation, reason=f"{verdict.reason}; shown as a quotation: {why}", support="quoted"
        )

    def doubted(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the passage's own sentence in place of one that a model doubts."""
        reason = f"{verdict.reason}; shown as a quotation: the model doubts that it follows"
        quoted = self._quoted(verdict, [cast(int, verdict.index)])
        return quoted if quoted.outcome == "dropped" else replace(quoted, reason=reason, carried=())

    def _is_verbatim(self, verdict: Verdict) -> bool:
        passage = self._passages[cast(int, verdict.index) - 1]
        return verdict.claim.text in passage.text or _is_made_of(verdict.claim, passage)

    def _is_contradicted(self, verdict: Verdict) -> bool:
        return polarity_fault(self._question, verdict.told, self._unit_text(verdict)) is not None

    def _unit_text(self, verdict: Verdict) -> str:
        passage, place = self._passages[cast(int, verdict.index) - 1], _place(verdict)
        text, unit = passage.text, passage.structure.unit_at(place.start)
        return unit.of(text) if unit and unit.end >= place.end else text[place.start : place.end]

    def _read(self, index: int) -> Sentences:
        if index not in self._sentences:
            passage = self._passages[index - 1]
            self._sentences[index] = Sentences(passage.text, passage.heading, passage.structure)
        return self._sentences[index]


def _can_be_shown(unit: Unit) -> bool:
    return unit.kind in ("sentence", "list") and unit.end - unit.start <= _LONGEST_SENTENCE_SHOWN


def _place(verdict: Verdict) -> QuoteSpan:
    return QuoteSpan(cast(int, verdict.start), cast(int, verdict.end), "exact")


def _is_made_of(claim: Claim, passage: Passage) -> bool:
    """Return whether a claim is nothing but words of this passage, each part to the letter: a row told with its
    columns.

    What a sentence quotes keeps its quotation marks, so that a model's sentence is never taken for such a claim.
    """
    rest = claim.text
    for part in sorted(claim.others, key=len, reverse=True):
        if part not in passage.text and not passage.is_above(part):
            return False
        rest = rest.replace(part, " ")
    return bool(claim.others) and not rest.strip(" \n:;")


def _is_turned(claim: Claim, passage: Passage, place: QuoteSpan) -> bool:
    """Return whether the sentence negates where the quote begins or breaks off, and the claim does not negate at
    all."""
    text, unit = passage.text, passage.structure.unit_at(place.start)
    if unit is None or negations(claim.text) or negations(text[place.start : place.end]):
        return False
    behind = words(text, place.end, max(place.end, unit.end))[:1]
    around = text[_reach(text, unit, place) : place.start], *(text[start:end] for start, end in behind)
    return any(negations(part) for part in around)


def _reach(text: str, unit: Unit, place: QuoteSpan) -> int:
    """Return where the words begin that a negation before the quote may be among."""
    before = words(text, unit.start, place.start)[-REACH_OF_NEGATION:]
    return before[0][0] if before else place.start
