"""Every quote is checked against the text it claims to come from, by a program.

A quote stands in its passage exactly once white space and typography are folded away; or nearly (RapidFuzz partial
ratio), and then every figure, negation and opposite must be the same. A quote that stands in another locked passage is
swapped to it. Everything else is dropped with a reason.

Belongs here: the verdict on each claim. Does not belong here: how a verified quote is shown (`render`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz import fuzz

from rag_serving.claims import NEGATING_CHARACTERS, contradict, figures, negations, turns
from rag_serving.records import Claim, Draft, Lock, Verdict
from rag_serving.sentences import unit_at, words
from rag_serving.typography import fold, is_border

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


def verify(
    draft: Draft, lock: Lock, fuzzy_min: float = 90.0, max_citations: int = 3, require_quotes: bool = True
) -> list[Verdict]:
    """One verdict per claim, in order; at most `max_citations` are not dropped.

    Where quotes are not required, a claim without one is its own quote: nothing is cited unchecked.
    """
    verdicts: list[Verdict] = []
    valid = 0
    for claim in draft.claims:
        verdict = _judge(claim, lock, fuzzy_min, require_quotes)
        if verdict.outcome != "dropped" and valid == max_citations:
            verdict = Verdict(claim, "dropped", f"more than {max_citations} citations")
        valid += verdict.outcome != "dropped"
        verdicts.append(verdict)
    return verdicts


def find_quote(quote: str, text: str, fuzzy_min: float = 90.0) -> Place | None:
    """Where the quote stands in the text: exactly, else nearly with the same figures and turns, else None."""
    return find_exact(quote, text) or find_near(quote, text, fuzzy_min)


def find_exact(quote: str, text: str) -> Place | None:
    """The first place where the quote stands between word borders, white space and typography folded away."""
    needle = _needle(quote)
    if not needle:
        return None
    if (start := _between_borders(needle, text)) is not None:
        return Place(start, start + len(needle), "exact")
    folded = fold(text)
    if (start := _between_borders(needle, folded.text)) is None:
        return None
    first, last = folded.original(start, start + len(needle))
    return Place(first, last, "exact")


def find_near(quote: str, text: str, ratio_min: float) -> Place | None:
    """The best near match, widened to word borders, if nothing that matters differs from the quote."""
    needle, folded = _needle(quote), fold(text)
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


def _judge(claim: Claim, lock: Lock, fuzzy_min: float, require_quotes: bool) -> Verdict:
    quote = claim.quote if require_quotes else claim.quote.strip() or claim.text
    if not quote.strip():
        return Verdict(claim, "dropped", "no quote")
    if _weight(quote) < MIN_QUOTE_BYTES:
        return Verdict(claim, "dropped", "the quote is too short to prove anything")
    cited = lock.passage(claim.index)
    text = cited.chunk.text if cited else ""
    if place := find_quote(quote, text, fuzzy_min):
        if _is_turned(claim, text, place):
            return Verdict(claim, "dropped", "the passage negates what is quoted")
        return Verdict(claim, place.how, _reason(place), claim.index, place.start, place.end)
    return _swapped(claim, quote, lock, fuzzy_min)


def _swapped(claim: Claim, quote: str, lock: Lock, fuzzy_min: float) -> Verdict:
    """The verdict on a quote that does not stand where the claim says: the best other passage, or dropped."""
    best: tuple[int, Place] | None = None
    for index, candidate in enumerate(lock.passages, start=1):
        if index == claim.index:
            continue
        place = find_quote(quote, candidate.chunk.text, fuzzy_min)
        if (
            place
            and not _is_turned(claim, candidate.chunk.text, place)
            and (best is None or _rank(place) > _rank(best[1]))
        ):
            best = index, place
    if best is None:
        where = "any passage" if lock.passage(claim.index) is None else f"passage {claim.index} or any other"
        return Verdict(claim, "dropped", f"the quote does not stand in {where}")
    index, place = best
    return Verdict(
        claim,
        "swapped",
        f"{_reason(place)}, in passage {index} instead of {claim.index}",
        index,
        place.start,
        place.end,
    )


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
