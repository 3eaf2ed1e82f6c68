"""The extractive generator: it answers with whole verbatim sentences of the locked passages and needs no model.

A sentence is scored by how much of the question's weight (inverse document frequency of its stemmed terms) it covers,
half as much for what only its headings cover, and by the similarity of its vector to the question's where there is one.

Belongs here: choosing sentences and the words to quote, and saying nothing where nothing supports an answer.
Does not belong here: retrieval, and belief in what was written (`verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rag_serving.claims import negations
from rag_serving.indexes.terms import identifiers
from rag_serving.records import Chunk, Claim, Draft, Lock
from rag_serving.sentences import Unit, units, words
from rag_serving.settings import Gates

Analyze = Callable[[str], Sequence[str]]
Similarity = Callable[[Sequence[str]], Sequence[float]]
"""Cosine similarity of each text to the question."""

MODEL = "extractive"

# Sentences whose vectors are computed while somebody waits: about 5 ms each on one core.
_EMBEDDED = 10
_FEWEST_WORDS = {"sentence": 4, "list": 3, "table": 2, "code": 2, "heading": 0}
_HEADING_SHARE = 0.5
_NEAR_BEST = 0.9
_REPETITION = 0.7


@dataclass(frozen=True)
class Sentence:
    """A unit of a locked passage with what speaks for it."""

    index: int  # of the passage in the lock, from 1
    unit: Unit
    text: str
    terms: frozenset[str]
    coverage: float  # share of the question's weight that the sentence itself covers, 0 to 1
    context: float  # share that only its headings cover, 0 to 1
    similarity: float | None = field(default=None)

    @property
    def support(self) -> float:
        """How well the words match, headings at half weight: 0 to 1."""
        return self.coverage + _HEADING_SHARE * self.context

    @property
    def likeness(self) -> float:
        """The mean of what words and vectors say, or what words say alone."""
        return self.support if self.similarity is None else (self.support + self.similarity) / 2

    @property
    def score(self) -> float:
        """What sentences are ranked by; a later passage of the lock is worth a little less."""
        return self.likeness + 0.05 / self.index


def extract(
    question: str,
    lock: Lock,
    weights: Mapping[str, float],
    analyze: Analyze,
    gates: Gates,
    similarity: Similarity | None = None,
    max_citations: int = 3,
    quote_max_words: int = 12,
) -> Draft:
    """The best sentences of the lock as claims, best first; none where nothing passes the gates.

    `weights` are those of the question's analyzed terms. Without `similarity` terms alone decide.
    """
    ranked = _ranked(_sentences(question, lock, weights, analyze), similarity)
    chosen = _chosen([sentence for sentence in ranked if _supports(sentence, gates)], max_citations)
    return Draft(tuple(_claim(sentence, weights, analyze, quote_max_words) for sentence in chosen), MODEL)


def _supports(sentence: Sentence, gates: Gates) -> bool:
    """Whether the sentence says enough of what was asked."""
    if sentence.similarity is None:
        return sentence.support >= gates.min_coverage
    return sentence.likeness >= gates.min_support


def _sentences(question: str, lock: Lock, weights: Mapping[str, float], analyze: Analyze) -> list[Sentence]:
    asked = set(analyze(question))
    total = sum(weights.get(term, 0.0) for term in asked) or 1.0

    def share(terms: set[str] | frozenset[str]) -> float:
        return sum(weights.get(term, 0.0) for term in sorted(terms)) / total

    names = named(question, analyze)
    found = []
    for index, candidate in enumerate(lock.passages, start=1):
        path = " ".join(candidate.chunk.heading_path)
        if names and not names.issubset(analyze(f"{path}\n{candidate.chunk.text}")):
            continue
        headings = asked.intersection(analyze(path))
        for unit in _statements(candidate.chunk):
            text = unit.of(candidate.chunk.text)
            terms = frozenset(analyze(text))
            found.append(Sentence(index, unit, text, terms, share(asked & terms), share(headings - terms)))
    return found


def named(question: str, analyze: Analyze) -> frozenset[str]:
    """The identifiers of a question as terms: `max.poll.records`, `DB_POOL`, `ERR-4012`.

    Who asks for one by name means no other, so a passage without it answers nothing, however alike its words are.
    """
    return frozenset(analyze(name)[0] for name in identifiers(question) if analyze(name))


def _statements(chunk: Chunk) -> list[Unit]:
    """The units that can answer: no headings, no questions, no fragments of a few words."""
    text = chunk.text
    return [
        unit
        for unit in units(text)
        if unit.kind != "heading"
        and text[unit.end - 1] not in "?？:"
        and len(words(text, unit.start, unit.end)) >= _FEWEST_WORDS[unit.kind]
    ]


def _ranked(sentences: Sequence[Sentence], similarity: Similarity | None) -> list[Sentence]:
    """Sentences best first; with vectors only those that words and passage rank put in front."""
    if similarity is None:
        return sorted(sentences, key=lambda sentence: -sentence.score)
    front = sorted(sentences, key=lambda sentence: -(sentence.support + 0.5 / sentence.index))[:_EMBEDDED]
    near = similarity([sentence.text for sentence in front])
    scored = [replace(sentence, similarity=float(value)) for sentence, value in zip(front, near, strict=True)]
    return sorted(scored, key=lambda sentence: -sentence.score)


def _chosen(ranked: Sequence[Sentence], count: int) -> list[Sentence]:
    """The best sentence and those nearly as good that do not repeat a chosen one."""
    chosen: list[Sentence] = []
    for sentence in ranked:
        if len(chosen) == count or sentence.score < _NEAR_BEST * ranked[0].score:
            break
        if all(_overlap(sentence.terms, other.terms) < _REPETITION for other in chosen):
            chosen.append(sentence)
    return chosen


def _overlap(one: frozenset[str], two: frozenset[str]) -> float:
    """Jaccard similarity of two sets of terms."""
    return len(one & two) / (len(one | two) or 1)


def _claim(sentence: Sentence, weights: Mapping[str, float], analyze: Analyze, quote_max_words: int) -> Claim:
    start, end = best_window(sentence.text, weights, analyze, quote_max_words)
    return Claim(sentence.text, sentence.index, sentence.text[start:end])


def best_window(sentence: str, weights: Mapping[str, float], analyze: Analyze, count: int) -> tuple[int, int]:
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
