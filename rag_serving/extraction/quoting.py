"""Which words of a sentence are quoted.

Belongs here: the window of a sentence that says most of what was asked.
Does not belong here: which sentence it is (`extract`), how a verified quote is shown (`render`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rag_serving.extraction.sentences import words
from rag_serving.verification.claims import negations


def best_window(
    sentence: str, weights: Mapping[str, float], analyze: Callable[[str], Sequence[str]], count: int
) -> tuple[int, int]:
    """The range of up to `count` words that holds most of the question's weight; the first among equals.

    A window that keeps all of the sentence's negations is preferred to one that loses one.
    """
    spans = words(sentence)
    if len(spans) <= count:
        return 0, len(sentence)
    value = [sum(weights.get(term, 0.0) for term in set(analyze(sentence[start:end]))) for start, end in spans]
    negates = [negations(sentence[start:end]) for start, end in spans]
    first = max(
        range(len(spans) - count + 1),
        key=lambda at: (sum(negates[at : at + count]), sum(value[at : at + count]), -at),
    )
    return spans[first][0], spans[first + count - 1][1]
