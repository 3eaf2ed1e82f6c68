"""Where a quote stands in a text.

Exactly, once white space and typography are folded away; or nearly (RapidFuzz partial ratio), and then every figure,
negation and opposite must be the same, and every other word but for slips.

Belongs here: looking for a quote. Does not belong here: what a claim with that quote is worth
(`answering.verification.verifier`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rapidfuzz import fuzz

from rag_serving.answering.verification.wording import overhang
from rag_serving.text.normalization import Folded, fold, folded, is_border
from rag_serving.text.polarity_words import NEGATING_CHARACTERS, contradict, figures, polarity_words
from rag_serving.text.structure import Structure, columns_of, structure_of

# Letters and digits in UTF-8 bytes: what is shorter stands in almost every passage and proves nothing.
MIN_QUOTE_BYTES = 8


@dataclass(frozen=True)
class QuoteSpan:
    """Where a quote stands in a text."""

    start: int
    end: int
    how: Literal["exact", "fuzzy"]
    ratio: float = 100.0


class Passage:
    """A text that quotes are looked for in; it is folded once."""

    def __init__(self, text: str, heading: str = "", structure: Structure | None = None) -> None:
        self.text = text
        self.heading = heading
        self.structure = structure or structure_of(text)

    def is_above(self, words: str) -> bool:
        """Return whether words are a column's name, or the introduction, of what the text begins inside."""
        return words == self.structure.introduction or words in columns_of(self.structure.table_header)

    @cached_property
    def plain(self) -> str:
        """The text with white space and typography folded away."""
        return folded(self.text)

    @cached_property
    def folded(self) -> Folded:
        return fold(self.text)


def find_quote(quote: str, text: str | Passage, fuzzy_min: float = 90.0) -> QuoteSpan | None:
    """Return where the quote stands in the text: exactly, else nearly with the same figures and turns, else None."""
    passage = Passage(text) if isinstance(text, str) else text
    return find_exact(quote, passage) or find_near(quote, passage, fuzzy_min)


def find_exact(quote: str, text: str | Passage) -> QuoteSpan | None:
    """Return the first place where the quote stands between word borders, white space and typography folded away."""
    passage, needle = Passage(text) if isinstance(text, str) else text, needle_of(quote)
    if not needle:
        return None
    if (start := _between_borders(needle, passage.text)) is not None:
        return QuoteSpan(start, start + len(needle), "exact")
    if (start := _between_borders(needle, passage.plain)) is None:
        return None
    first, last = passage.folded.original(start, start + len(needle))
    return QuoteSpan(first, last, "exact")


def find_near(quote: str, text: str | Passage, ratio_min: float) -> QuoteSpan | None:
    """Return the best near match, widened to word borders, if nothing that matters differs from the quote."""
    folded = (Passage(text) if isinstance(text, str) else text).folded
    needle = needle_of(quote)
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
    if (edges := overhang(folded.text[start:end], needle)) is None:
        return None
    start, end = start + edges[0], end - edges[1]
    if not (is_border(folded.text, start) and is_border(folded.text, end)):
        return None
    candidate = folded.text[start:end]
    if (
        figures(candidate) != figures(needle)
        or polarity_words(candidate) != polarity_words(needle)
        or contradict(candidate, needle)
    ):
        return None
    first, last = folded.original(start, end)
    return QuoteSpan(first, last, "fuzzy", ratio)


def needle_of(quote: str) -> str:
    """Return a quote as it is looked for: folded, without the quotation marks and ellipses around it."""
    needle, before = folded(quote).strip(), ""
    while needle != before:
        before = needle
        needle = needle.removeprefix("...").removesuffix("...").strip(" \"'")
    return needle


def weight(quote: str) -> int:
    if quote.isascii():
        return sum(map(str.isalnum, quote))
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
    """Return the range without outer white space, grown to the next word borders."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    while not is_border(text, start):
        start -= 1
    while not is_border(text, end):
        end += 1
    return start, end
