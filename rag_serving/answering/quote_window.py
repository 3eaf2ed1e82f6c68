"""Which words of a unit are quoted.

Belongs here: the window of a unit that says most of what was asked, or most of a claim.
Does not belong here: which unit it is (`answering.selection.selector`), how a verified quote is shown
(`answering.citations`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rag_serving.text.normalization import is_border
from rag_serving.text.polarity_words import negations
from rag_serving.text.question_types import Kind, holds
from rag_serving.text.units import pieces

_REACH_OF_NEGATION = 4  # a negation this many words before a quote belongs to it
_FIGURE, _IN_WORDS = 4.0, 1.0  # what a word counts for as the answer, in weights of the question's rarest term
_WORD = re.compile(r"\w")


class Asked(Protocol):
    """What a window is chosen by: the kind of answer that is asked for, the question's words, weights of its terms."""

    @property
    def kind(self) -> Kind: ...

    @property
    def words(self) -> frozenset[str]: ...

    @property
    def weights(self) -> Mapping[str, float]: ...


def best_window(unit: str, asked: Asked, analyze: Callable[[str], Sequence[str]], count: int) -> tuple[int, int]:
    """Return the range of up to `count` words that holds most of the weight; the first among equals.

    Words are what white space parts. The best word of the kind that is asked for (a figure, a time, a name) counts
    most: it may be the answer. A window that keeps all of the unit's negations is preferred to one that loses one.
    """
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


def _answers(asked: Asked, word: str) -> float:
    """Return what a word counts for as the answer: a figure or a name more than a number in words."""
    if asked.kind not in ("quantity", "time", "person") or not holds(asked.kind, word, asked.words):
        return 0.0
    return _FIGURE if any(map(str.isdigit, word)) or word[:1].isupper() else _IN_WORDS


def best_part(
    quote: str, weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]], count: int
) -> tuple[int, int]:
    """Return the range of up to `count` words of a quote that holds most of the weight; the first among equals.

    A range that no negation stands right before or behind is preferred: what it says would be turned round.
    """
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
    """Return the range of some `pieces` of a text, without the signs (`|`, `–`) at its ends; whole where there is no
    word."""
    wordy = [span for span in spans if _WORD.search(text, *span)] or list(spans)
    return wordy[0][0], wordy[-1][1]


def _value(
    text: str,
    spans: Sequence[tuple[int, int]],
    weights: Mapping[str, float],
    analyze: Callable[[str], Sequence[str]],
) -> list[float]:
    return [sum(weights.get(term, 0.0) for term in set(analyze(text[start:end]))) for start, end in spans]


def _negates(text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    return [negations(text[start:end]) for start, end in spans]
