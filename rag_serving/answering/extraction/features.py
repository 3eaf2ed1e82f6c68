"""What speaks for a sentence as the answer to a question, as numbers.

Belongs here: the features of a question and a sentence.
Does not belong here: what each counts (`ranker`), which sentences there are and which are chosen
(`answering.extraction.extractor`).

Three linear models: `rank` orders the sentences of one question, `section` its passages (pairwise logistic regression,
after Joachims, "Optimizing Search Engines using Clickthrough Data", KDD 2002), `confidence` says how likely it is that
the best sentence of the best passage answers (logistic regression). In all, evidence counts only in its own direction:
more of the question covered never makes an answer less likely. A table of its own serves where no vectors can be had.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rag_serving.records.passages import Candidate
from rag_serving.text.analyzer import analyze
from rag_serving.text.polarity_words import contradict, negations, polarity_words
from rag_serving.text.question_types import Kind, asked_words, holds, kind_of, names_of, topic_of
from rag_serving.text.units import Unit

Analyze = Callable[[str], Sequence[str]]

FOR = ("covered", "covered_nearby", "passage_rank", "similarity", "passage_similarity", "score")
FOR_SECTIONS = (
    *(
        "behind",
        "covered",
        "covered_by_headings",
        "headed",
        "sentence",
        "fits",
        "defines",
        "introduces",
        "procedure",
        "similarity",
    ),
    *("passage_similarity", "heading_similarity"),
)
RANK_ONLY = ("covered_apart", "length", "first")  # they tell sentences apart, not answers from others
_LONG = 30.0  # words
_SHORT = 15  # words of a passage that hardly says anything
_FAR_BEHIND = 3.0  # deviations of the passages' scores
_FITTING = 3  # of the best sentences, one of which should hold what is asked for
_DEFINITION = re.compile(r"^\W*(?:what(?:'s| is| are| does)|define|meaning of|explain)\b", re.IGNORECASE)
_KEYWORDS = 3  # and fewer words ask what the thing is


@dataclass(frozen=True)
class QuestionFeatures:
    """A question as its sentences are judged by it."""

    text: str
    kind: Kind
    words: frozenset[str]  # lower case
    terms: frozenset[str]  # of what it is about
    weights: Mapping[str, float]  # inverse document frequency by term
    names: frozenset[str]  # terms of capitalized words
    numbers: frozenset[str]  # terms with a digit
    polarity_words: Counter[str]
    negates: bool
    wants_definition: bool = False

    @classmethod
    def of(cls, question: str, weights: Mapping[str, float], analyze: Analyze) -> QuestionFeatures:
        terms = frozenset(analyze(topic_of(question))) or frozenset(analyze(question))
        return cls(
            text=question,
            kind=kind_of(question),
            words=asked_words(question),
            terms=terms,
            weights=weights,
            names=frozenset(term for name in names_of(question) for term in analyze(name)),
            numbers=frozenset(term for term in terms if any(character.isdigit() for character in term)),
            polarity_words=polarity_words(question),
            negates=negations(question) > 0,
            wants_definition=bool(_DEFINITION.match(question)) or len(question.split()) < _KEYWORDS,
        )

    def terms_of(self, part: str) -> frozenset[str]:
        """Return those of the question's terms that a part of it has."""
        return self.terms & frozenset(analyze(part))

    def share(self, terms: frozenset[str]) -> float:
        """Return the share of the question's weight that these terms have, 0 to 1."""
        return sum(self.weights.get(term, 0.0) for term in sorted(terms & self.terms)) / self._total

    @cached_property
    def _total(self) -> float:
        """The weight of the whole question; 1 where it has none."""
        return sum(self.weights.get(term, 0.0) for term in sorted(self.terms)) or 1.0

    @cached_property
    def _most(self) -> float:
        """The weight of its rarest term; 1 where it has none."""
        return max((self.weights.get(term, 0.0) for term in self.terms), default=0.0) or 1.0

    def passage_support(self, heading: Iterable[str]) -> float:
        """Return how nearly a heading, as terms, is what is asked for and nothing else, 0 to 1."""
        terms = frozenset(heading)
        return self.share(terms) * len(terms & self.terms) / (len(terms) or 1)

    def rarest(self, terms: frozenset[str]) -> float:
        """Return the weight of the rarest of these terms against the rarest of the question, 0 to 1."""
        return max((self.weights.get(term, 0.0) for term in terms & self.terms), default=0.0) / self._most


@dataclass(frozen=True)
class Statement:
    """A unit of a locked passage with the terms of what stands around it."""

    index: int  # of the passage in the lock, from 1
    unit: Unit
    text: str
    terms: frozenset[str]
    headings: frozenset[str]
    previous: frozenset[str]  # of the unit before
    passage: frozenset[str]  # of headings and text
    is_first: bool
    procedure: str = (
        ""  # heading and all steps, or block of code, that the unit is of, for who asks how to do something
    )
    named: float = 0.0  # how nearly the best of its headings is what is asked for, 0 to 1
    paths: tuple[frozenset[str], ...] = ()  # the terms of each heading of the passage, from the page's title down
    subject: frozenset[str] = frozenset()  # the terms of what it says something of: `A quay is`, `**Quay**:`

    @property
    def said(self) -> str:
        """What is compared with the question by meaning."""
        return self.procedure or self.text


@dataclass(frozen=True)
class RankedStatement:
    """A sentence with what speaks for it."""

    statement: Statement
    evidence: Mapping[str, float] = field(default_factory=dict)
    score: float = 0.0


def features(
    asked: QuestionFeatures, statement: Statement, candidate: Candidate, similarity: float | None
) -> dict[str, float]:
    """Return the features of a sentence, by name, each about 0 to 1; those of vectors only where there is a
    similarity."""
    own = asked.terms & statement.terms
    near = (asked.terms & (statement.headings | statement.previous)) - own
    apart = (asked.terms & statement.passage) - own - near
    missing, absent = asked.terms - statement.terms, asked.terms - statement.passage
    fits = holds(asked.kind, statement.text, asked.words)
    turned = asked.kind != "yes_no"  # "Can it be reopened?" is answered by "It cannot"
    found = {
        "covered": asked.share(own),
        "covered_nearby": asked.share(near),
        "covered_apart": asked.share(apart),
        "rarest_missing": asked.rarest(missing),
        "rarest_absent": asked.rarest(absent),
        "absent": len(absent) / 5,
        "names_missing": _portion(asked.names - statement.terms - statement.headings, asked.names),
        "names_absent": _portion(asked.names - statement.passage, asked.names),
        "numbers_missing": _portion(asked.numbers - statement.terms, asked.numbers),
        "numbers_absent": _portion(asked.numbers - statement.passage, asked.numbers),
        "negated": float(asked.negates),
        "negation_differs": float(turned and asked.negates != (negations(statement.text) > 0)),
        "contradicts": float(turned and contradict(asked.text, statement.text)),
        "turns_missing": sum((asked.polarity_words - polarity_words(statement.text)).values()) / 3 if turned else 0.0,
        "no_person": float(asked.kind == "person" and not fits),
        "no_time": float(asked.kind == "time" and not fits),
        "no_quantity": float(asked.kind == "quantity" and not fits),
        "no_place_or_reason": float(asked.kind in ("place", "reason") and not fits),
        "length": len(statement.text.split()) / _LONG,
        "first": float(statement.is_first),
        "passage_rank": 1 / statement.index,
    }
    if similarity is not None:
        found["similarity"] = similarity
        found["passage_similarity"] = candidate.scores.get("dense", similarity)  # found by its words alone
    return found


def section_features(
    asked: QuestionFeatures, candidate: Candidate, ranked: Sequence[RankedStatement], best: float
) -> dict[str, float]:
    """Return the features of a passage as the one that answers, by name, each about 0 to 1 but the score of its best
    sentence.

    `ranked`: its sentences, best first; `best`: the highest score of a passage in the lock.
    """
    chunk, first = candidate.chunk, ranked[0].statement
    found = {
        "section_behind": max(candidate.score - best, -_FAR_BEHIND),
        "section_covered": asked.share(first.passage),
        "section_covered_by_headings": asked.share(first.headings),
        "section_headed": max((asked.passage_support(path) for path in first.paths), default=0.0),
        "section_sentence": ranked[0].score,
        "section_fits": float(any(holds(asked.kind, each.statement.text, asked.words) for each in ranked[:_FITTING])),
        "section_defines": float(any(defines(asked, each.statement) for each in ranked)),
        "section_procedure": max((each.statement.named for each in ranked if each.statement.procedure), default=0.0),
        "section_introduces": float(asked.wants_definition and chunk.start == 0),
        "section_opens_page": float(chunk.chunk_idx == 0),
        "section_short": float(len(chunk.text.split()) < _SHORT),
    }
    near = [each.evidence["similarity"] for each in ranked if "similarity" in each.evidence]
    if near:
        dense = candidate.scores.get("dense", max(near))
        found["section_similarity"] = max(near)
        found["section_passage_similarity"] = dense
        found["section_heading_similarity"] = candidate.scores.get("heading", dense)
    return found


def defines(asked: QuestionFeatures, statement: Statement) -> bool:
    """Return whether a sentence says what the thing is that is asked for: `A quay is …`, `**Quay**: …`."""
    return asked.wants_definition and bool(statement.subject) and statement.subject == asked.terms


def _portion(part: frozenset[str], whole: frozenset[str]) -> float:
    return len(part) / len(whole) if whole else 0.0
