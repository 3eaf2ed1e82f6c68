"""The fifteen numeric signs that a unit of a passage answers a question. A sign counts only in its own direction: more
of the question covered never makes an answer less likely."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_serving.records.passages import Candidate
from rag_serving.text.analyzer import analyze
from rag_serving.text.polarity_words import contradict, negations
from rag_serving.text.question_types import Kind, asked_words, holds, kind_of, names_of, topic_of

if TYPE_CHECKING:
    from rag_serving.answering.selection.statements import Statement


Signs = Mapping[str, float]

WEIGHTS = "weights.json"
VERSION = 3
TABLES = ("with_vectors", "words_alone")
_SURE = 30.0  # beyond it a logistic function is 0 or 1
_MEND = "write it again with `citelock evaluate --calibrate --write`, or leave gates.confidence_weights out"


class WeightsError(Exception):
    """A file of weights cannot be used; the message says why and how to mend it."""


@dataclass(frozen=True)
class SignWeights:
    """The weights of one table, by sign. `order`: units of one question are ordered by it (pairwise logistic
    regression, after Joachims, "Optimizing Search Engines using Clickthrough Data", KDD 2002). `confidence, bias`: how
    likely the first of them answers (logistic regression); `score` is its place in the order."""

    order: Mapping[str, float]
    confidence: Mapping[str, float]
    bias: float

    def score(self, found: Signs) -> float:
        """Return the score that orders the units of one question."""
        return sum(self.order.get(name, 0.0) * value for name, value in found.items())

    def told(self, evidence: Signs) -> float:
        """Return how likely a unit with these signs, its score among them, answers: 0 to 1."""
        logit = self.bias + sum(self.confidence.get(name, 0.0) * value for name, value in evidence.items())
        return 1 / (1 + math.exp(-min(max(logit, -_SURE), _SURE)))


@dataclass(frozen=True)
class Tables:
    """The weights for when units have vectors, and for when words alone decide."""

    with_vectors: SignWeights
    words_alone: SignWeights

    def of(self, with_vectors: bool) -> SignWeights:
        return self.with_vectors if with_vectors else self.words_alone


@cache
def learnt() -> Tables:
    """Return the weights that the package carries."""
    found = json.loads(Path(__file__).with_name(WEIGHTS).read_text(encoding="utf-8"))
    return Tables(*(SignWeights(**found[table]) for table in TABLES))


def calibrated(path: Path | None, embedding: str) -> Tables:
    """Return the package's weights with the confidence of this file; the package's alone without one. `embedding`
    names the model that similarities come from. Raises WeightsError: the file is missing, of another version or model,
    or has a weight of an unknown sign."""
    if path is None:
        return learnt()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (version := found["version"]) != VERSION:
            raise WeightsError(f"{path} is of version {version}, not {VERSION}; {_MEND}")
        if (of := found["embedding"]) != embedding:
            raise WeightsError(f"{path} was calibrated with {of}, not with {embedding}; {_MEND}")
        shipped = {table: learnt().of(table == TABLES[0]) for table in TABLES}
        tables = [
            _with_confidence(weights, found[table]) if table in found else weights for table, weights in shipped.items()
        ]
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}); {_MEND}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{path} is no file of weights ({error!r}); {_MEND}") from error
    return Tables(*tables)


def _with_confidence(shipped: SignWeights, found: Mapping[str, Any]) -> SignWeights:
    weights = {name: _finite(value) for name, value in found["confidence"].items()}
    if unknown := weights.keys() - shipped.confidence.keys():
        raise ValueError(f"no sign is called {min(unknown)!r}")
    return replace(shipped, confidence=weights, bias=_finite(found["bias"]))


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no weight")
    return float(value)


Analyze = Callable[[str], Sequence[str]]

AGAINST = ("absent", "unnamed", "misses_kind", "turned", "behind")
"""Signs that speak against a unit; all others speak for it."""
OF_VECTORS = ("similarity", "passage_similarity", "heading_similarity")
OF_CONFIDENCE = ("ahead",)  # a sign of the best unit among the others, which the confidence alone goes by
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
    `best` is the highest score of a passage in the lock."""
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
