"""The position of a quote in a text. Exactly, once white space and typography are folded away; or nearly (RapidFuzz
partial ratio), and then every figure, negation and opposite must be the same, and every other word but for slips."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from rag_serving.text.normalization import Folded, fold, folded, is_border
from rag_serving.text.polarity_words import NEGATING_CHARACTERS, contradict, figures, negations, polarity_words
from rag_serving.text.question_types import Kind, holds
from rag_serving.text.structure import Structure, columns_of, structure_of
from rag_serving.text.units import pieces

_REACH_OF_NEGATION = 4  # a negation this many words before a quote belongs to it
_FIGURE, _IN_WORDS = 4.0, 1.0  # what a word counts for as the answer, in weights of the question's rarest term
_WORD = re.compile(r"\w")


class Focus(Protocol):
    """The criteria for a window: the expected kind of answer, the question's words, weights of its terms."""

    @property
    def kind(self) -> Kind: ...

    @property
    def words(self) -> frozenset[str]: ...

    @property
    def weights(self) -> Mapping[str, float]: ...


def best_window(unit: str, asked: Focus, analyze: Callable[[str], Sequence[str]], count: int) -> tuple[int, int]:
    """Return the range of up to `count` words with the most weight; the first among equals. Words are separated by
    white space. The best word of the expected kind (a figure, a time, a name) counts most: it may be the answer. A
    window that keeps all of the unit's negations is preferred to one that loses one."""
    spans = pieces(unit)
    if len(spans) <= count:
        return 0, len(unit)
    value, negates = _value(unit, spans, asked.weights, analyze), _negates(unit, spans)
    answers = [_answers(asked, unit[start:end]) for start, end in spans]
    most = max(asked.weights.values(), default=1.0)

    def key(at: int) -> tuple[bool, int, float, int]:
        start, end = trimmed(unit, spans[at : at + count])
        is_whole = is_border(unit, start) and is_border(unit, end)  # `1.5 %` is one
        worth = sum(value[at : at + count]) + most * max(answers[at : at + count])
        return is_whole, sum(negates[at : at + count]), worth, -at

    first = max(range(len(spans) - count + 1), key=key)
    return trimmed(unit, spans[first : first + count])


def _answers(asked: Focus, word: str) -> float:
    """Return the weight of a word as the answer: a figure or a name more than a number in words."""
    if asked.kind not in ("quantity", "time", "person") or not holds(asked.kind, word, asked.words):
        return 0.0
    return _FIGURE if any(map(str.isdigit, word)) or word[:1].isupper() else _IN_WORDS


def best_part(
    quote: str, weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]], count: int
) -> tuple[int, int]:
    """Return the range of up to `count` words of a quote with the most weight; the first among equals. A range without
    a negation just outside either edge is preferred: cutting one off would invert the meaning."""
    spans = pieces(quote)
    if len(spans) <= count:
        return 0, len(quote)
    value, negates = _value(quote, spans, weights, analyze), _negates(quote, spans)

    def key(at: int) -> tuple[bool, float, int]:
        beside = *negates[max(0, at - _REACH_OF_NEGATION) : at], *negates[at + count : at + count + 1]
        return not any(beside), sum(value[at : at + count]), -at

    first = max(range(len(spans) - count + 1), key=key)
    return trimmed(quote, spans[first : first + count])


def trimmed(text: str, spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the range of `pieces` of a text without the signs (`|`, `–`) at its ends; whole if there is no word."""
    wordy = [span for span in spans if _WORD.search(text, *span)] or list(spans)
    return wordy[0][0], wordy[-1][1]


def _value(
    text: str, spans: Sequence[tuple[int, int]], weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]]
) -> list[float]:
    return [sum(weights.get(term, 0.0) for term in set(analyze(text[start:end]))) for start, end in spans]


def _negates(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    return [negations(text[start:end]) for start, end in spans]


_TOKEN = re.compile(r"\S+")
_TRIM = "\"'`*_()[]{}|,;:!?."
_SLIP = re.compile(r"[^\W\d_][^\W\d_A-Z]*")
# Words that may be lost or added.
_ARTICLES_OF_SIX_LANGUAGES = """
a an the der die das den dem des ein eine einen einem einer le la les l un une el los las lo il gli
"""
_ARTICLES = frozenset(_ARTICLES_OF_SIX_LANGUAGES.split())
_SAME_BEGINNING, _SHORTEST_SLIP, _ALIKE = 3, 4, 80.0

# Letters and digits in UTF-8 bytes: shorter ones occur in almost every passage and prove nothing.
MIN_QUOTE_BYTES = 8


@dataclass(frozen=True)
class QuoteSpan:
    """The span of a quote in a text."""

    start: int
    end: int
    how: Literal["exact", "fuzzy"]
    ratio: float = 100.0


class QuotedText:
    """A text that quotes are looked for in; it is folded once."""

    def __init__(self, text: str, structure: Structure | None = None) -> None:
        self.text = text
        self.structure = structure or structure_of(text)

    def is_above(self, words: str) -> bool:
        """Return whether words are a column's name, or the introduction, above the start of the text."""
        return words == self.structure.introduction or words in columns_of(self.structure.table_header)

    @cached_property
    def plain(self) -> str:
        """The text with white space and typography folded away."""
        return folded(self.text)

    @cached_property
    def folded(self) -> Folded:
        return fold(self.text)


def find_quote(quote: str, text: str | QuotedText, fuzzy_min: float = 90.0) -> QuoteSpan | None:
    """Return the span of the quote in the text: exact, else near with the same figures and negations, else None."""
    passage = QuotedText(text) if isinstance(text, str) else text
    return find_exact(quote, passage) or find_near(quote, passage, fuzzy_min)


def find_exact(quote: str, text: str | QuotedText) -> QuoteSpan | None:
    """Return the first occurrence of the quote between word borders, white space and typography folded away."""
    passage, needle = QuotedText(text) if isinstance(text, str) else text, needle_of(quote)
    if not needle:
        return None
    if (start := _between_borders(needle, passage.text)) is not None:
        return QuoteSpan(start, start + len(needle), "exact")
    if (start := _between_borders(needle, passage.plain)) is None:
        return None
    first, last = passage.folded.original(start, start + len(needle))
    return QuoteSpan(first, last, "exact")


def find_near(quote: str, text: str | QuotedText, ratio_min: float) -> QuoteSpan | None:
    """Return the best near match, widened to word borders, if nothing that matters differs from the quote."""
    folded = (QuotedText(text) if isinstance(text, str) else text).folded
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
    while start < end and folded.text[start].isspace():
        start += 1
    while end > start and folded.text[end - 1].isspace():
        end -= 1
    while not is_border(folded.text, start):
        start -= 1
    while not is_border(folded.text, end):
        end += 1
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


def overhang(passage_words: str, quote: str) -> tuple[int, int] | None:
    """Return the characters at either edge of `passage_words` taken up by words that the quote lacks, if the rest
    agrees. Words agree in the same order with at most a slip each; one article more or less is ignored. None if any
    other word was lost, added or exchanged."""
    if _strange_letters(quote, passage_words) or quote.count("...") != passage_words.count("..."):
        return None
    spans = [match.span() for match in _TOKEN.finditer(passage_words) if match[0].strip(_TRIM)]
    ours = [passage_words[start:end].strip(_TRIM) for start, end in spans]
    theirs = [token for piece in _TOKEN.findall(quote) if (token := piece.strip(_TRIM))]
    first, last = 0, len(ours)
    kinds = set()
    for step in Levenshtein.opcodes(ours, theirs):
        kind, own, own_end = step.tag, step.src_start, step.src_end
        if kind == "delete" and own == 0:
            first = own_end
        elif kind == "delete" and own_end == len(ours):
            last = own
        elif kind != "equal" and not _is_slip(ours[own:own_end], theirs[step.dest_start : step.dest_end]):
            return None
        else:
            kinds.add(kind)
    if first >= last or kinds >= {"insert", "delete"}:  # a word that was moved
        return None
    return (spans[first][0] if first else 0), (len(passage_words) - spans[last - 1][1] if last < len(ours) else 0)


def _is_slip(ours: list[str], theirs: list[str]) -> bool:
    """Return whether two different runs of words are interchangeable."""
    if len(ours) != len(theirs):
        return all(word.lower() in _ARTICLES for word in (*ours, *theirs))
    return all(_are_alike(one, two) for one, two in zip(ours, theirs, strict=True))


def _are_alike(one: str, two: str) -> bool:
    """Return whether two words are one but for its case at the beginning, an ending or a letter. Only words of plain
    lower case may slip: identifiers, acronyms and figures must be the same to the letter."""
    if not (_SLIP.fullmatch(one) and _SLIP.fullmatch(two)):
        return one == two
    one, two = one.lower(), two.lower()
    if one == two or {one, two} <= _ARTICLES:
        return True
    return (
        min(len(one), len(two)) >= _SHORTEST_SLIP
        and one[:_SAME_BEGINNING] == two[:_SAME_BEGINNING]
        and fuzz.ratio(one, two) >= _ALIKE
    )


def _strange_letters(quote: str, passage_words: str) -> bool:
    """Return whether the quote has letters or digits from beyond ASCII that the text does not, accents aside."""
    strange = Counter(c for c in quote if not c.isascii() and c.isalnum())
    strange.subtract(c for c in passage_words if not c.isascii() and c.isalnum())
    return any(count > 0 and not unicodedata.normalize("NFD", c)[0].isascii() for c, count in strange.items())
