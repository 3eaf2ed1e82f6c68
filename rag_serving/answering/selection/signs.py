"""The fifteen numeric signs that a unit of a passage answers a question.

Belongs here: the question as it is compared, the signs of a unit in its passage.
Does not belong here: their weights (`scorer`), the candidates (`statements`), the choice (`selector`).

A sign counts only in its own direction: more of the question covered never makes an answer less likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rag_serving.records.passages import Candidate
from rag_serving.text.analyzer import analyze
from rag_serving.text.polarity_words import contradict, negations
from rag_serving.text.question_types import Kind, asked_words, holds, kind_of, names_of, topic_of

if TYPE_CHECKING:
    from rag_serving.answering.selection.statements import Statement

Analyze = Callable[[str], Sequence[str]]

AGAINST = ("absent", "unnamed", "misses_kind", "turned", "behind")
"""Signs that speak against a unit; all others speak for it."""
OF_VECTORS = ("similarity", "passage_similarity", "heading_similarity")
OF_CONFIDENCE = ("ahead",)
"""A sign of the best unit among the others, which the confidence alone goes by."""
_FAR_BEHIND = 3.0  # standard deviations of the passages' scores
_DEFINITION = re.compile(r"^\W*(?:what(?:'s| is| are| does)|define|meaning of|explain)\b", re.IGNORECASE)
_KEYWORDS = 3  # and fewer words ask what the thing is
_OF_A_KIND: frozenset[Kind] = frozenset({"person", "time", "quantity", "place", "reason"})


@dataclass(frozen=True)
class QuestionFeatures:
    """A question as units are compared with it."""

    text: str
    kind: Kind
    words: frozenset[str]  # lower case
    terms: frozenset[str]  # of what it is about
    weights: Mapping[str, float]  # inverse document frequency by term
    names: frozenset[str]  # terms of capitalized words, and terms with a digit
    negates: bool
    wants_definition: bool = False

    @classmethod
    def of(cls, question: str, weights: Mapping[str, float], analyze: Analyze) -> QuestionFeatures:
        """Return the question with its analyzed terms."""
        terms = frozenset(analyze(topic_of(question))) or frozenset(analyze(question))
        named = frozenset(term for name in names_of(question) for term in analyze(name))
        return cls(
            text=question,
            kind=kind_of(question),
            words=asked_words(question),
            terms=terms,
            weights=weights,
            names=named | {term for term in terms if any(character.isdigit() for character in term)},
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
        """The weight of the whole question; 1 if it has none."""
        return sum(self.weights.get(term, 0.0) for term in sorted(self.terms)) or 1.0

    def headed_by(self, heading: Iterable[str]) -> float:
        """Return how closely a heading, as terms, equals the question's subject and nothing else, 0 to 1."""
        terms = frozenset(heading)
        return self.share(terms) * len(terms & self.terms) / (len(terms) or 1)

    def rarest(self, terms: frozenset[str]) -> float:
        """Return the weight of the rarest of these terms against the rarest of the question, 0 to 1."""
        most = max((self.weights.get(term, 0.0) for term in self.terms), default=0.0) or 1.0
        return max((self.weights.get(term, 0.0) for term in terms & self.terms), default=0.0) / most


def signs_of(
    asked: QuestionFeatures, statement: Statement, candidate: Candidate, similarity: float | None, best: float
) -> dict[str, float]:
    """Return the signs of a unit in its passage, by name, each about 0 to 1; those of vectors only with a similarity.

    `best` is the highest score of a passage in the lock.
    """
    own = asked.terms & statement.terms
    near = (asked.terms & (statement.headings | statement.previous)) - own
    names = asked.names - statement.terms - statement.headings
    is_yes_no = asked.kind == "yes_no"  # "Can it be reopened?" is answered by "It cannot"
    turned = (
        asked.negates != (negations(statement.text) > 0) if asked.negates else contradict(asked.text, statement.text)
    )
    fits = asked.kind not in _OF_A_KIND or holds(asked.kind, statement.text, asked.words)
    found = {
        "covered": asked.share(own),
        "nearby": asked.share(near),
        "passage_covered": asked.share(statement.passage),
        "headed": max((asked.headed_by(path) for path in statement.paths), default=0.0),
        "absent": asked.rarest(asked.terms - statement.passage),
        "unnamed": len(names) / (len(asked.names) or 1),
        "misses_kind": float(not fits),
        "turned": float(turned and not is_yes_no),
        "defines": float(asked.wants_definition and bool(statement.subject) and statement.subject == asked.terms),
        "procedure": statement.named if statement.procedure else 0.0,
        "behind": min(best - candidate.score, _FAR_BEHIND),
        "first": 1 / statement.index,
    }
    if similarity is not None:
        dense = candidate.scores.get("dense", similarity)  # of a passage that matched by its words alone
        found["similarity"] = similarity
        found["passage_similarity"] = dense
        found["heading_similarity"] = candidate.scores.get("heading", dense)
    return found
