"""Every quote is checked against the text it claims to come from, by a program.

A quote stands in its passage exactly once white space and typography are folded away; or nearly (RapidFuzz partial
ratio), and then every figure, negation and opposite must be the same. A quote that stands in another locked passage is
swapped to it. Everything else is dropped with a reason.

Belongs here: the verdict on each claim. Does not belong here: how a verified quote is shown (`render`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rapidfuzz import fuzz

from rag_serving.claims import NEGATING_CHARACTERS, contradict, figures, negations, turns
from rag_serving.records import Candidate, Claim, Draft, Lock, Verdict
from rag_serving.sentences import unit_at, words
from rag_serving.support import unsupported
from rag_serving.typography import Folded, fold, is_border

# Letters and digits in UTF-8 bytes: what is shorter stands in almost every passage and proves nothing.
MIN_QUOTE_BYTES = 8
# A negation this many words before the quote belongs to it.
_REACH_OF_NEGATION = 4


@dataclass(frozen=True)
class Place:
    """Where a quote stands in a text."""

    start: int
    end: int
    how: Literal["exact", "fuzzy"]
    ratio: float = 100.0


class Passage:
    """A text that quotes are looked for in; it is folded once."""

    def __init__(self, text: str, heading: str = "") -> None:
        self.text = text
        self.heading = heading

    @cached_property
    def folded(self) -> Folded:
        return fold(self.text)


def verify(
    draft: Draft, lock: Lock, fuzzy_min: float = 90.0, max_citations: int = 3, require_quotes: bool = True
) -> list[Verdict]:
    """One verdict per claim, in order; at most `max_citations` places are cited.

    Where quotes are not required, a claim without one is its own quote: nothing is cited unchecked.
    """
    judge = _Judge([_passage_of(candidate) for candidate in lock.passages], draft, fuzzy_min, require_quotes)
    verdicts: list[Verdict] = []
    cited: set[tuple[int | None, int | None, int | None]] = set()
    told: set[tuple[str, int | None, int | None, int | None]] = set()
    for claim in draft.claims:
        verdict = judge.verdict(claim)
        place = verdict.index, verdict.start, verdict.end
        if verdict.outcome != "dropped":
            if (claim.text, *place) in told:
                verdict = Verdict(claim, "dropped", "the same citation again")
            elif place not in cited and len(cited) == max_citations:
                verdict = Verdict(claim, "dropped", f"more than {max_citations} citations")
            else:
                cited.add(place)
                told.add((claim.text, *place))
        verdicts.append(verdict)
    return verdicts


def find_quote(quote: str, text: str | Passage, fuzzy_min: float = 90.0) -> Place | None:
    """Where the quote stands in the text: exactly, else nearly with the same figures and turns, else None."""
    passage = Passage(text) if isinstance(text, str) else text
    return find_exact(quote, passage) or find_near(quote, passage, fuzzy_min)


def find_exact(quote: str, text: str | Passage) -> Place | None:
    """The first place where the quote stands between word borders, white space and typography folded away."""
    passage, needle = Passage(text) if isinstance(text, str) else text, _needle(quote)
    if not needle:
        return None
    if (start := _between_borders(needle, passage.text)) is not None:
        return Place(start, start + len(needle), "exact")
    if (start := _between_borders(needle, passage.folded.text)) is None:
        return None
    first, last = passage.folded.original(start, start + len(needle))
    return Place(first, last, "exact")


def find_near(quote: str, text: str | Passage, ratio_min: float) -> Place | None:
    """The best near match, widened to word borders, if nothing that matters differs from the quote."""
    folded = (Passage(text) if isinstance(text, str) else text).folded
    needle = _needle(quote)
    if not needle or not folded.text:
        return None
    if len(needle) >= len(folded.text):
        ratio, start, end = fuzz.ratio(needle, folded.text), 0, len(folded.text)
    else:
        match = fuzz.partial_ratio_alignment(needle, folded.text, score_cutoff=ratio_min)
        if match is None or match.dest_end <= match.dest_start:
            return None
        ratio, start, end = match.score, match.dest_start, match.dest_end
    if ratio < ratio_min:
        return None
    start, end = _widened(folded.text, start, end)
    found = folded.text[start:end]
    if figures(found) != figures(needle) or turns(found) != turns(needle) or contradict(found, needle):
        return None
    first, last = folded.original(start, end)
    return Place(first, last, "fuzzy", ratio)


@dataclass
class _Judge:
    """The passages of a lock, before which claims are brought one by one."""

    passages: Sequence[Passage]
    draft: Draft
    fuzzy_min: float
    require_quotes: bool

    def verdict(self, claim: Claim) -> Verdict:
        """What is to be believed of a claim."""
        quote = claim.quote if self.require_quotes else claim.quote.strip() or claim.text
        if not quote.strip():
            return Verdict(claim, "dropped", "no quote" if claim.index else "no citation")
        if _weight(quote) < MIN_QUOTE_BYTES:
            return Verdict(claim, "dropped", "the quote is too short to prove anything")
        if false := next((other for other in claim.others if not self._stands(other)), None):
            return Verdict(claim, "dropped", f"the sentence also quotes {false[:60]!r}, which no passage says")
        cited = self._passage(claim.index)
        if cited and (place := find_quote(quote, cited, self.fuzzy_min)):
            if fault := self._fault(claim, claim.index, place):
                return Verdict(claim, "dropped", fault)
            return Verdict(claim, place.how, _reason(place), claim.index, place.start, place.end)
        return self._swapped(claim, quote)

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
            return Verdict(claim, "dropped", fault or f"the quote does not stand in {where}")
        index, place = best
        reason = f"{_reason(place)}, in passage {index} instead of {claim.index}"
        return Verdict(claim, "swapped", reason, index, place.start, place.end)

    def _fault(self, claim: Claim, index: int, place: Place) -> str | None:
        """Why a claim must not stand although its quote does, or None."""
        text = self.passages[index - 1].text
        if _is_turned(claim, text, place):
            return "the passage negates what is quoted"
        unit = unit_at(text, place.start)
        quoted = unit.of(text) if unit and unit.end >= place.end else text[place.start : place.end]
        return unsupported(claim.text, quoted, self._cited_with(claim, index))

    def _cited_with(self, claim: Claim, index: int) -> Iterable[str]:
        """The texts of all passages that the claim's sentence cites, headings included."""
        indexes = {other.index for other in self.draft.claims if other.text == claim.text} | {index}
        for cited in sorted(indexes):
            if passage := self._passage(cited):
                yield f"{passage.heading}\n{passage.text}"

    def _stands(self, words_quoted: str) -> bool:
        """Whether some passage has these words; what is too short to be looked for must be there to the letter."""
        if _weight(words_quoted) >= MIN_QUOTE_BYTES:
            return any(find_quote(words_quoted, passage, self.fuzzy_min) for passage in self.passages)
        needle = _needle(words_quoted)
        return not needle or any(needle in passage.folded.text for passage in self.passages)

    def _passage(self, index: int) -> Passage | None:
        return self.passages[index - 1] if 1 <= index <= len(self.passages) else None


def _passage_of(candidate: Candidate) -> Passage:
    return Passage(candidate.chunk.text, " ".join((candidate.chunk.title, *candidate.chunk.heading_path)))


def _rank(place: Place) -> tuple[bool, float]:
    return place.how == "exact", place.ratio


def _reason(place: Place) -> str:
    return "verbatim" if place.how == "exact" else f"near match, ratio {place.ratio:.0f}, same figures and negations"


def _needle(quote: str) -> str:
    """A quote as it is looked for: folded, without the quotation marks and ellipses around it."""
    needle, before = fold(quote).text.strip(), ""
    while needle != before:
        before = needle
        needle = needle.removeprefix("...").removesuffix("...").strip(" \"'")
    return needle


def _weight(quote: str) -> int:
    return sum(len(character.encode()) for character in quote if character.isalnum())


def _between_borders(needle: str, text: str) -> int | None:
    start = text.find(needle)
    while start >= 0:
        if (
            is_border(text, start)
            and is_border(text, start + len(needle))
            and text[start - 1 : start] not in NEGATING_CHARACTERS
        ):
            return start
        start = text.find(needle, start + 1)
    return None


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without outer white space, grown to the next word borders."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    while not is_border(text, start):
        start -= 1
    while not is_border(text, end):
        end += 1
    return start, end


def _is_turned(claim: Claim, text: str, place: Place) -> bool:
    """Whether the sentence negates just before the quote begins, and the claim does not negate at all."""
    unit = unit_at(text, place.start)
    if unit is None or negations(claim.text) or negations(text[place.start : place.end]):
        return False
    before: Sequence[tuple[int, int]] = words(text, unit.start, place.start)[-_REACH_OF_NEGATION:]
    return bool(before) and negations(text[before[0][0] : place.start]) > 0
