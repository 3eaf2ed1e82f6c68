"""The verification of every quote against its source text, and of every sentence against the page's own words. A claim
is verified if its quote is in the passage it cites; a quote from another locked passage is moved to that one;
everything else is dropped with a reason. Readers see a verified claim in the page's words: those that were selected, or
the units with its quote. A model's sentence is `verbatim` if it is such a unit word for word, else it is `quoted`:
replaced by the unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from rag_serving.answering.quotes import MIN_QUOTE_BYTES, QuotedText, QuoteSpan, best_part, find_quote, weight
from rag_serving.answering.selection.completion import kept_together
from rag_serving.answering.selection.layout import Layout
from rag_serving.deadline import check
from rag_serving.records.claims import Claim, Draft, Verdict
from rag_serving.records.passages import Candidate, Lock
from rag_serving.text.directed import MASK, without_directed
from rag_serving.text.normalization import folded
from rag_serving.text.orders import orders_assistant
from rag_serving.text.units import is_whole, pieces

_SOURCE = r"(?:docs?|documentation|handbook|runbook|guide|wiki|pages?|passages?|sources?)"
_FRAME = re.compile(
    rf"(?:(?:according to|based on|as per|per) (?:the |this |these )?{_SOURCE}(?: ?\[\d{{1,2}}\])?[ ,:]{{1,3}}"
    rf"|(?:the |this )?{_SOURCE}(?: ?\[\d{{1,2}}\])? (?:says?|states?|notes?|mentions?|explains?)(?: that)?[ ,:]{{1,3}}"
    r"|(?:please )?note that\s)",
    re.IGNORECASE,
)
_CONNECTIVE = re.compile(
    r"(?:however|also|additionally|in addition|moreover|furthermore|therefore|thus|finally|in short|in summary|and|but"
    r"|außerdem|zudem|jedoch|allerdings|daher|kurz gesagt)\b[ ,:]{1,3}",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[([^\]\[]{0,300})\]\([^()\s]{0,2000}\)")
_MARKER = re.compile(r"^\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)+")
_CITED = re.compile(r"\s?\[\d{1,3}\]")
_MARKUP = re.compile(r"\*{1,3}|`+|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_TOKEN = re.compile(r"\w+(?:[.,:'/+-]+\w+)*|[^\w\s]")
_OUTER = " \"'.:;,!"
Words = tuple[str, ...]  # the words and signs of a sentence, its first letter small


def is_own(sentence: str, shown: str) -> bool:
    """Return whether a sentence is word for word the shown text of the page."""
    return not forms_claimed(sentence).keys().isdisjoint(forms_shown(shown))


def forms_claimed(sentence: str) -> dict[Words, None]:
    """Return the words of a sentence as it is read, in the order in which readings are tried."""
    plain = _plain(sentence)
    framed = _FRAME.sub("", plain, count=1) if _FRAME.match(plain) else plain
    bare = (_CONNECTIVE.sub("", each, count=1) for each in (plain, framed) if _CONNECTIVE.match(each))
    return dict.fromkeys(tokens for tokens in map(_tokens, (plain, framed, *bare)) if tokens)


def forms_shown(shown: str) -> dict[Words, None]:
    """Return the words that are shown of a page, and the same without links, which may be missing; none may be new."""
    return dict.fromkeys(_tokens(_plain(text)) for text in (shown, _LINK.sub(r"\1", shown)))


def _plain(text: str) -> str:
    return _MARKUP.sub("", folded(_MARKER.sub("", _CITED.sub("", text)))).strip(_OUTER)


def _tokens(text: str) -> Words:
    tokens = _TOKEN.findall(text)
    return (tokens[0][:1].lower() + tokens[0][1:], *tokens[1:]) if tokens else ()


_WORD = re.compile(r"\b(?:\w{4,}|\w*\d\w*|no[rt]?)\b")
_STEM = 5


@dataclass(frozen=True)
class VerificationRules:
    """The rules of verdicts, apart from the question; part of a receipt. `require_quotes`: whether a claim needs a
    quote; else one without is its own: nothing is cited unchecked."""

    fuzzy_min: float = 90.0  # the least `partial_ratio` of a quote that is not verbatim, 0 to 100
    max_citations: int = 3  # the most places cited
    require_quotes: bool = True
    quote_max_words: int | None = None  # of a longer quote, the words with most of the claim are cited


DEFAULT_RULES = VerificationRules()


def verify(draft: Draft, lock: Lock, question: str = "", rules: VerificationRules = DEFAULT_RULES) -> list[Verdict]:
    """Return one verdict per claim, in order."""
    judge = _Judge([_Locked(candidate) for candidate in lock.passages], rules, question)
    verdicts = _limited([judge.verdict(claim) for claim in draft.claims], rules.max_citations)
    return _without_repetitions([judge.worded(verdict) for verdict in verdicts])


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
    """Return the verdicts without replaced sentences that would show words of the page again."""
    shown: set[tuple[str, int | None]] = {(v.told, v.index) for v in verdicts if v.support == "verbatim"}
    kept = []
    for verdict in verdicts:
        key = verdict.told, verdict.index
        if verdict.support == "quoted" and key in shown:
            verdict = Verdict(verdict.claim, "dropped", "the same words of the page again")
        elif verdict.support == "quoted":
            shown.add(key)
        kept.append(verdict)
    return kept


@dataclass(frozen=True)
class _Locked:
    """A passage of the lock, read once."""

    candidate: Candidate

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.candidate.chunk)

    @cached_property
    def passage(self) -> QuotedText:
        """The passage as readers see it: text addressed to an assistant proves nothing."""
        chunk = self.candidate.chunk
        structure = chunk.parts
        text = without_directed(chunk.text, structure, chunk.headings)
        if any(map(orders_assistant, (structure.table_header, structure.introduction))):
            structure = structure._replace(table_header="", introduction="")
        return QuotedText(text, structure)

    def is_made_of(self, claim: Claim) -> bool:
        """Return whether a selected claim is nothing but words of this passage, each part to the letter."""
        if claim.text in self.passage.text:
            return is_whole(claim.text)
        rest = claim.text
        for part in sorted(claim.others, key=len, reverse=True):
            if part not in self.passage.text and not self.passage.is_above(part):
                return False
            rest = rest.replace(part, " ")
        return bool(claim.others) and not rest.strip(" \n:;") and is_whole(claim.text)


@dataclass
class _Judge:
    """The passages of a lock, in which quotes are looked for one by one."""

    locked: Sequence[_Locked]
    rules: VerificationRules
    question: str
    known: dict[Claim, Verdict] = field(default_factory=dict)

    def verdict(self, claim: Claim) -> Verdict:
        """Return the verdict on a claim; repeated claims are judged once."""
        check()
        if claim not in self.known:
            self.known[claim] = self._judged(claim)
        return self.known[claim]

    def worded(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the words of the page that readers see of it."""
        check()
        if verdict.outcome == "dropped" or verdict.index is None or verdict.start is None or verdict.end is None:
            return verdict
        claim, locked = verdict.claim, self.locked[verdict.index - 1]
        if claim.is_selected:
            if locked.is_made_of(claim):
                return replace(verdict, told=claim.text, support="verbatim")
            return Verdict(claim, "dropped", "the selected words do not stand in the passage")
        shown = kept_together(locked.layout, verdict.start, verdict.end)
        if not is_whole(shown.text):
            return Verdict(claim, "dropped", "a part of the sentence is missing on the page")
        if is_own(claim.text, shown.text):
            return replace(verdict, told=shown.text, support="verbatim")
        reason = f"{verdict.reason}; the sentence is not the page's, whose words are shown"
        return replace(verdict, told=shown.text, reason=reason, support="quoted")

    def _judged(self, claim: Claim) -> Verdict:
        quote = claim.quote if self.rules.require_quotes else claim.quote.strip() or claim.text
        if not quote.strip():
            return Verdict(claim, "dropped", "no quote" if claim.index else "no citation")
        if weight(quote) < MIN_QUOTE_BYTES:
            return Verdict(claim, "dropped", "the quote is too short to prove anything")
        cited = self._passage(claim.index)
        if cited and (place := self._find(quote, cited)):
            verdict = Verdict(claim, place.how, _reason(place), claim.index, place.start, place.end)
        else:
            verdict = self._swapped(claim, quote)
        most = self.rules.quote_max_words
        if most is None or verdict.index is None or verdict.start is None:
            return verdict
        quoted = self.locked[verdict.index - 1].passage.text[verdict.start : verdict.end]
        if (count := len(pieces(quoted))) <= most:
            return verdict
        claimed = verdict.claim.text.replace(verdict.claim.quote, " ") if verdict.claim.quote else ""
        weights = dict.fromkeys(_stems(self.question), 1.0) | dict.fromkeys(_stems(claimed), 2.0)
        start, end = best_part(quoted, weights, _stems, most)
        reason = f"{verdict.reason}, {most} of {count} quoted words are cited"
        return replace(verdict, start=verdict.start + start, end=verdict.start + end, reason=reason)

    def _swapped(self, claim: Claim, quote: str) -> Verdict:
        """Return the verdict on a quote that is not where the claim says: the best other passage, or dropped."""
        places = (
            (index, self._find(quote, locked.passage))
            for index, locked in enumerate(self.locked, start=1)
            if index != claim.index
        )
        standing = [(index, place) for index, place in places if place is not None]
        if not standing:
            where = "any passage" if self._passage(claim.index) is None else f"passage {claim.index} or any other"
            return Verdict(claim, "dropped", f"the quote does not stand in {where}")
        index, place = max(standing, key=lambda pair: (pair[1].how == "exact", pair[1].ratio))
        reason = f"{_reason(place)}, in passage {index} instead of {claim.index}"
        return Verdict(claim, "swapped", reason, index, place.start, place.end)

    def _find(self, quote: str, passage: QuotedText) -> QuoteSpan | None:
        place = find_quote(quote, passage, self.rules.fuzzy_min)
        return place if place and MASK not in passage.text[place.start : place.end] else None

    def _passage(self, index: int) -> QuotedText | None:
        return self.locked[index - 1].passage if 1 <= index <= len(self.locked) else None


def _reason(place: QuoteSpan) -> str:
    return "verbatim" if place.how == "exact" else f"near match, ratio {place.ratio:.0f}, same figures and negations"


def _stems(text: str) -> list[str]:
    return [word[:_STEM] for word in _WORD.findall(text.lower())]
