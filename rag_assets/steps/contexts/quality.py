"""How good a generated context is, and whether it says only what the document says.

The score is that of the contextual-retrieval design: length, relevance, coherence and specificity, weighted 0.2, 0.4,
0.2 and 0.2; from 0.7 on a context is accepted. A context that brings a number or a name of its own, or negates where
the document does not, is not, whatever its score.

Belongs here: judging contexts. Does not belong here: asking for them, or what is done with a poor one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_serving.text.analyzer import analyze
from rag_serving.text.polarity_words import negations

ACCEPTED = 0.7
KEY_TERMS = 10
"""Key terms of a chunk: its most frequent ones. A context of 100 words could never hold all terms of 250 tokens."""

GENERIC_PHRASES = ("this section", "this describes", "this explains", "this is about")
_WEIGHTS = np.array([0.2, 0.4, 0.2, 0.2])
_GENERIC_COST = 0.2
_FEW_TERMS = 0.5

_MOST_OF = 0.6
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# A capitalized word that does not open a sentence, or any word with a capital, digit or mark inside: a name.
_NAME = re.compile(r"(?<![.!?:]\s)(?<!^)\b[A-Z][\w-]*|\b\w*(?:[a-z][A-Z]|_)\w*|\b[A-Z]{2,}\w*")


@dataclass(frozen=True)
class QualityScore:
    """What one context is worth; every score lies in [0, 1]."""

    overall: float
    length: float
    relevance: float
    coherence: float
    specificity: float
    issues: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()

    @property
    def components(self) -> tuple[float, float, float, float]:
        """The four parts of `overall`."""
        return self.length, self.relevance, self.coherence, self.specificity

    @property
    def accepted(self) -> bool:
        """Good enough, and nothing invented."""
        return self.overall >= ACCEPTED and not self.invented


def score_contexts(contexts: Sequence[str], chunks: Sequence[str], documents: Sequence[str]) -> list[QualityScore]:
    """Return the quality of each context [n] of a chunk [n] of a document [n]."""
    words = np.array([len(context.split()) for context in contexts], dtype=np.int64)
    missing = [missing_terms(*pair) for pair in zip(contexts, chunks, strict=True)]
    relevance = np.array([1 - len(lacks) / (count or 1) for lacks, count in missing])
    closed = np.array([context.strip().endswith(".") for context in contexts], dtype=np.bool_)
    opened = np.array([_opens(context) for context in contexts], dtype=np.bool_)
    generic = [[phrase for phrase in GENERIC_PHRASES if phrase in context.lower()] for context in contexts]
    parts = np.column_stack(
        [_length_scores(words), relevance, np.where(closed & opened, 1.0, 0.5), _specificity(generic)]
    )
    overall = np.round(parts @ _WEIGHTS, 9)  # 0.7 is 0.7, however the sum was rounded
    scores = []
    for row, (context, document) in enumerate(zip(contexts, documents, strict=True)):
        invented = inventions(context, f"{chunks[row]}\n{document}")
        quality = [
            *_length_faults(int(words[row])),
            *_relevance_faults(float(relevance[row]), missing[row][0]),
            *_coherence_faults(bool(closed[row]), bool(opened[row])),
            *((f"generic phrase {phrase!r}", "say what it is about instead") for phrase in generic[row]),
            *((f"{thing!r} is not in the document", "use only what the document says") for thing in invented),
        ]
        issues = tuple(issue for issue, _ in quality)
        advice = tuple(dict.fromkeys(recommendation for _, recommendation in quality))
        total, length, relevant, coherence, specificity = (float(value) for value in (overall[row], *parts[row]))
        scores.append(QualityScore(total, length, relevant, coherence, specificity, issues, advice, invented))
    return scores


def missing_terms(context: str, chunk: str) -> tuple[list[str], int]:
    """Return the key terms of the chunk that the context lacks, and how many key terms there are."""
    key = [term for term, _ in Counter(analyze(chunk)).most_common(KEY_TERMS)]
    have = set(analyze(context))
    return [term for term in key if term not in have], len(key)


def inventions(context: str, document: str) -> tuple[str, ...]:
    """Numbers, names and negations of the context that the document does not have, in order, each once."""
    numbers, terms = set(_NUMBER.findall(document)), set(analyze(document))
    invented = [number for number in _NUMBER.findall(context) if number not in numbers]
    invented += [name for name in _NAME.findall(context) if not terms.issuperset(analyze(name))]
    return tuple(dict.fromkeys([*invented, *turned(context, document)]))


def turned(context: str, document: str) -> list[str]:
    """Return the sentences of a context that negate what the document affirms, or affirm what it negates.

    A sentence that negates needs one of the document that negates and shares most of its terms; one that does not needs
    one that does not, where only negating ones share most of its terms.
    """
    said = [(set(analyze(part)), negations(part) > 0) for part in _SENTENCE.split(document)]
    faults = []
    for sentence in filter(str.strip, _SENTENCE.split(context)):
        terms, negates = set(analyze(sentence)), negations(sentence) > 0
        near = {other for have, other in said if terms and len(terms & have) >= _MOST_OF * len(terms)}
        if (negates and True not in near) or near == {not negates}:
            faults.append(" ".join(sentence.split()[:8]))
    return faults


def _length_scores(words: NDArray[np.int64]) -> NDArray[np.float64]:
    """1 for 50 to 100 words, 0.7 for 40 to 120, else 0.3."""
    wanted, near = (words >= 50) & (words <= 100), (words >= 40) & (words <= 120)
    return np.select([wanted, near], [1.0, 0.7], 0.3)


def _opens(context: str) -> bool:
    """Return whether a sentence begins with a capital."""
    return any(sentence.strip()[:1].isupper() for sentence in context.split("."))


def _specificity(generic: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    return np.maximum(1.0 - _GENERIC_COST * np.array([*map(len, generic)], dtype=np.float64), 0.0)


def _length_faults(words: int) -> list[tuple[str, str]]:
    if words < 50:
        return [(f"too short: {words} words", "write 50 to 100 words")]
    return [(f"too long: {words} words", "write 50 to 100 words")] if words > 100 else []


def _relevance_faults(relevance: float, missing: Sequence[str]) -> list[tuple[str, str]]:
    if relevance >= _FEW_TERMS:
        return []
    return [("names few of the chunk's key terms", f"mention {', '.join(missing[:3])}")]


def _coherence_faults(closed: bool, opened: bool) -> list[tuple[str, str]]:
    faults = [] if opened else [("no sentence begins with a capital", "write whole sentences")]
    return faults if closed else [*faults, ("does not end with a full stop", "write whole sentences")]
