"""Which words of a sentence are quoted.

Belongs here: the window of a sentence that says most of what was asked, or most of a claim.
Does not belong here: which sentence it is (`answering.extraction.extractor`), how a verified quote is shown
(`answering.citations`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from rag_serving.text.polarity_words import negations
from rag_serving.text.units import pieces

REACH_OF_NEGATION = 4
"""A negation this many words before a quote belongs to it."""

_WORD = re.compile(r"\w")


def best_window(
    sentence: str, weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]], count: int
) -> tuple[int, int]:
    """Return the range of up to `count` words that holds most of the weight; the first among equals.

    Words are what white space parts. A window that keeps all of the sentence's negations is preferred to one that loses
    one.
    """
    spans = pieces(sentence)
    if len(spans) <= count:
        return 0, len(sentence)
    value, negates = _value(sentence, spans, weights, analyze), _negates(sentence, spans)
    first = max(
        range(len(spans) - count + 1),
        key=lambda at: (sum(negates[at : at + count]), sum(value[at : at + count]), -at),
    )
    return trimmed(sentence, spans[first : first + count])


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
        beside = *negates[max(0, at - REACH_OF_NEGATION) : at], *negates[at + count : at + count + 1]
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
