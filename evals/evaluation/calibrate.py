"""Confidence and thresholds learnt from answers given with open gates.

Weights are learnt by logistic regression with a Gaussian prior at the package's weights (the maximum a posteriori
estimate): with few or uninformative questions, little changes. Cross-validation over the parts of the set chooses the
strength of the prior by the likelihood of the part left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from evals.evaluation.evaluate import GoldEvaluation, Judged
from evals.evaluation.gold import GoldSet
from rag_serving.answering.selection.signs import TABLES, VERSION, SignWeights, Tables, learnt
from rag_serving.artifacts.store import write_text
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.config.models import Embedding
from rag_serving.records.answers import Outcome
from rag_serving.records.decisions import Decision, Refusal
from rag_serving.text.question_types import is_claim

ASKED, STATED, CLOSEST = "min_confidence", "min_confidence_statement", "min_closest"
CLEAR = "min_clear"
# Right answers that the gate before writing may cost.
_LOST = 0.005
_STEPS = 200


@dataclass(frozen=True)
class ErrorCosts:
    """The cost of each error relative to a confident wrong answer; right answers cost nothing.

    A wrong answer is still a sentence of a page with its link; a "not found" gives the reader nothing to go on.

    Attributes:
        wrongly_told: a confident answer is wrong.
        held_back: a right answer is only shown as the closest, and its reader has to judge it, as after a search.
        not_shown: a right answer is not shown, and its reader believes that there is none.
        shown_in_vain: passages that do not answer are read as the closest.
    """

    wrongly_told: float = 1.0
    held_back: float = 1.0
    not_shown: float = 2.0
    shown_in_vain: float = 0.2

    def of(self, outcome: Outcome, is_right: bool) -> float:
        """Return the cost of an outcome if the best sentence is right, or is not."""
        if outcome == "told":
            return 0.0 if is_right else self.wrongly_told
        if outcome == "closest":
            return self.held_back if is_right else self.shown_in_vain
        return self.not_shown if is_right else 0.0


COSTS = ErrorCosts()


@dataclass(frozen=True)
class Point:
    """Count what answering from a confidence upwards gives, where the rest is shown as the closest."""

    min_confidence: float
    cost: float  # of errors, per question
    answered: float
    answerability: float
    citation_precision: float | None
    sentence_precision: float | None
    not_found_recall: float | None


@dataclass(frozen=True)
class Calibration:
    """Confidence and thresholds learnt from one half, and what they give on the other."""

    gates: dict[str, float]
    confidence: Fit
    curve: tuple[Point, ...]  # of the half that was not learnt from
    measured: GoldEvaluation
    cost: float = 0.0  # of errors, per question measured
    clear: Clearness | None = None  # of the questions measured

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of `evaluate --calibrate --json`."""
        return {
            "gates": self.gates,
            "costs": asdict(COSTS),
            "cost": self.cost,
            "confidence": {"prior_strength": self.confidence.strength, "learnt_from": len(self.confidence.unseen)},
            "measured": self.measured.payload(),
            "clarity": self.clear.payload() if self.clear else None,
            "curve": [asdict(point) for point in self.curve],
        }


def open_gates(config: Config) -> Config:
    """Return the configuration with every gate open, so that each answer has the confidence of the package's
    weights."""
    opened = {ASKED: 0.0, STATED: 0.0, CLOSEST: 0.0, "min_similarity": -1.0, "min_coverage": 0.0}
    return config.model_copy(update={"gates": config.gates.model_copy(update={**opened, "confidence_weights": None})})


def halves(gold: GoldSet) -> tuple[GoldSet, GoldSet]:
    """Return the questions of every other part, and those of the rest: no part is in both."""
    parts = sorted({question.part for question in gold.questions})
    both = frozenset(parts[::2]), frozenset(parts[1::2])
    one, rest = (tuple(question for question in gold.questions if question.part in half) for half in both)
    return GoldSet(one, gold.tenant), GoldSet(rest, gold.tenant)


def calibrate(gold: GoldSet, measured: GoldEvaluation) -> Calibration:
    """Learn confidence and thresholds from one half of answers given with open gates, measure on the other.

    Thresholds are chosen by the confidence of answers under weights learnt without their part of the set.
    """
    learning = {question.id for question in halves(gold)[0].questions}
    first = [case for case in measured.judged if case.gold.id in learning]
    taught = [case for case in first if case.answer.features]
    confidence = learn([CalibrationExample(case.answer.features, is_right(case), case.gold.part) for case in taught])
    unseen = dict(zip((case.gold.id for case in taught), confidence.unseen, strict=True))
    learnt = [_confident(case, unseen[case.gold.id]) if case.gold.id in unseen else case for case in first]
    confidence_of_evidence = confidence.tables.with_vectors.told
    kept = [
        _confident(case, confidence_of_evidence(case.answer.features)) if case.answer.features else case
        for case in measured.judged
        if case.gold.id not in learning
    ]
    right = [case for case in learnt if case.cited_right]
    gates = {
        "min_similarity": _low([case.answer.gates.get("similarity", 1.0) for case in right]),
        "min_coverage": _low([case.answer.gates.get("coverage", 1.0) for case in right]),
    }
    for name in (ASKED, STATED):
        if some := [case for case in learnt if _threshold_of(case) == name]:
            gates[name] = boundary(some, "told", "closest")
    if (min_clear := clearness(first).min_clear) is not None:
        gates[CLEAR] = min_clear
    told = {name: gates[name] for name in (ASKED, STATED) if name in gates}
    gates[CLOSEST] = min([boundary(learnt, "closest", "none"), *told.values()])
    closed = tuple(closed_at(case, told.get(_threshold_of(case), 0.0), gates[CLOSEST]) for case in kept)
    cost = sum(COSTS.of(end.answer.outcome, is_right(case)) for end, case in zip(closed, kept, strict=True))
    mean = round(cost / (len(kept) or 1), 4)
    return Calibration(gates, confidence, tuple(curve(kept)), GoldEvaluation(closed), mean, clearness(kept))


def curve(judged: Sequence[Judged]) -> list[Point]:
    """Return the points of the trade-off between answering and being right, by rising confidence."""
    return [_point(judged, level) for level in _levels(judged)]


def boundary(judged: Sequence[Judged], above: Outcome, below: Outcome) -> float:
    """Return the confidence that parts two outcomes so that the errors of all answers together cost least."""
    seen = [(confidence_of(case), is_right(case)) for case in judged]

    def cost(level: float) -> float:
        return sum(COSTS.of(above if confidence >= level else below, right) for confidence, right in seen)

    cheapest = min((*_levels(judged), 1.0), key=cost)
    return round(cheapest, 4)


def is_right(judged: Judged) -> bool:
    """Return whether an answer is on a right page and contains the gold set's quote, if any."""
    gold = judged.gold
    return gold.answerable and judged.cited_right > 0 and (judged.says_it or not gold.quotes)


def closed_at(judged: Judged, min_confidence: float, min_closest: float = 0.0) -> Judged:
    """Return the same answer as it is with the gates at these confidences."""
    confidence = confidence_of(judged)
    if confidence >= min_confidence:
        return judged
    if confidence >= min_closest:
        doubt = Refusal("confidence", "", confidence, min_confidence)
        return replace(judged, answer=replace(judged.answer, refusal=doubt))
    answer = replace(judged.answer, status="not_found", answer="", citations=())
    return replace(judged, answer=answer, anchored=0)


def _levels(judged: Sequence[Judged]) -> list[float]:
    told = [confidence for case in judged if (confidence := confidence_of(case)) >= 0]
    return [0.0, *np.unique(np.quantile(told or [0.0], np.linspace(0, 1, _STEPS))).tolist()]


def confidence_of(judged: Judged) -> float:
    """Return the confidence of an answer; of one that was not given, less than any."""
    return judged.answer.gates.get("confidence", 1.0) if judged.answered else -1.0


def _confident(judged: Judged, confidence: float) -> Judged:
    return replace(judged, answer=replace(judged.answer, gates={**judged.answer.gates, "confidence": confidence}))


def _threshold_of(judged: Judged) -> str:
    return STATED if is_claim(judged.gold.question) else ASKED


def _point(judged: Sequence[Judged], level: float) -> Point:
    closed = GoldEvaluation(tuple(closed_at(case, level) for case in judged))
    ability = closed.answerability
    cost = sum(
        COSTS.of(case.answer.outcome, is_right(open_)) for case, open_ in zip(closed.judged, judged, strict=True)
    )
    return Point(
        min_confidence=level,
        cost=round(cost / (len(judged) or 1), 4),
        answered=sum(case.answered for case in closed.judged) / (len(judged) or 1),
        answerability=ability["accuracy"] or 0.0,
        citation_precision=closed.citation_precision,
        sentence_precision=closed.sentence_precision,
        not_found_recall=ability["recall"],
    )


def _low(values: Sequence[float]) -> float:
    return round(float(np.quantile(values, _LOST)), 4) if values else 0.0


# Relative to an answer from the wrong page: an answer with one more question, and a question back
# that offers only other pages.
ASKED_BACK, ASKED_IN_VAIN = 0.25, 0.75
OFFERED = 2  # options of a question back
_FEWEST_NAMED = 8  # questions that name something, of which any is learnt


@dataclass(frozen=True)
class Named:
    """A question that only names a topic: the lead of the likeliest page, and the rank of the right one."""

    lead: float  # (best - second) / best
    is_asked_back: bool
    is_first: bool  # the likeliest page is a right one
    is_offered: bool  # a right page is among the first two

    def cost(self, min_clear: float) -> float:
        """Return the cost if this much lead is required."""
        if self.lead >= min_clear:
            return 0.0 if self.is_first else 1.0
        return ASKED_BACK if self.is_offered else ASKED_IN_VAIN


@dataclass(frozen=True)
class Clearness:
    """Measures of how clear the questions of a set are that name something; `questions`: how many it has."""

    questions: int
    named: tuple[Named, ...]

    @property
    def min_clear(self) -> float | None:
        """Return the lead that costs least, the middle of those that do; None if too few name something."""
        if len(self.named) < _FEWEST_NAMED:
            return None
        leads = sorted({0.0, *(each.lead for each in self.named), 1.0})
        levels = [0.0, *((low + high) / 2 for low, high in pairwise(leads))]
        costs = [sum(each.cost(level) for each in self.named) for level in levels]
        return round(levels[costs.index(min(costs))], 4)

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; shares are None if there is nothing to share."""
        back = [each for each in self.named if each.is_asked_back]
        return {
            "named": len(self.named),
            "asked_back": len(back),
            "share_asked_back": round(len(back) / self.questions, 4) if self.questions else None,
            "offers_the_right_page": round(sum(each.is_offered for each in back) / len(back), 4) if back else None,
        }


def clearness(judged: Sequence[Judged]) -> Clearness:
    """Return how clear the answerable questions were that several pages, or one, are called by."""
    named = [_named(case, case.answer.decision) for case in judged if case.gold.pages and case.answer.decision]
    return Clearness(len(judged), tuple(each for each in named if each))


def _named(case: Judged, decision: Decision | None) -> Named | None:
    if decision is None or decision.is_several or not decision.contenders:
        return None
    right = [contender.page_id in case.gold.pages for contender in decision.contenders[:OFFERED]]
    return Named(decision.confidence, decision.action not in ("answer", "unsure"), right[0], any(right))


# Fewer right or wrong answers, or parts, than these teach nothing that generalizes.
_FEWEST, _FEWEST_PARTS = 25, 4
_FOLDS = 5
_STRENGTHS = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0)
_FREE = 1e-4  # regularization of the bias, which has no prior


@dataclass(frozen=True)
class CalibrationExample:
    """Hold the signs of an answer, whether it was right, and the part of the set that its question is of."""

    evidence: Mapping[str, float]
    is_right: bool
    part: str


@dataclass(frozen=True)
class Fit:
    """Weights with the strength of the prior, and how confident each answer is by weights that did not see its part."""

    tables: Tables
    strength: float | None  # None: the package's weights are kept
    unseen: tuple[float, ...]


def learn(seen: Sequence[CalibrationExample], shipped: Tables | None = None) -> Fit:
    """Return the confidence of these answers learnt again, from the package's on."""
    shipped = shipped or learnt()
    parts = sorted({example.part for example in seen})
    right = sum(example.is_right for example in seen)
    if min(right, len(seen) - right) < _FEWEST or len(parts) < _FEWEST_PARTS:
        return Fit(shipped, None, tuple(shipped.with_vectors.told(example.evidence) for example in seen))
    fold_of = {part: number % _FOLDS for number, part in enumerate(parts)}
    folds = np.array([fold_of[example.part] for example in seen])
    y = np.array([example.is_right for example in seen], np.float64)
    x = _matrix([example.evidence for example in seen], shipped.with_vectors)
    left_out = {strength: _left_out(x, y, folds, shipped.with_vectors, strength) for strength in _STRENGTHS}
    strength = min(_STRENGTHS, key=lambda strength: loss(left_out[strength], y))
    rows = []
    for evidence in (example.evidence for example in seen):  # as it is without vectors: only the score is another one
        bonus = evidence["score"] - shipped.with_vectors.score(evidence)
        rows.append({**evidence, "score": shipped.words_alone.score(evidence) + bonus})
    words = _matrix(rows, shipped.words_alone)
    tables = Tables(_fitted(x, y, shipped.with_vectors, strength), _fitted(words, y, shipped.words_alone, strength))
    return Fit(tables, strength, tuple(logistic(left_out[strength]).tolist()))


def _matrix(evidence: Sequence[Mapping[str, float]], table: SignWeights) -> Matrix:
    """Return a row for each answer, a column for each weight and one of ones for the bias."""
    return np.array([[*(row.get(name, 0.0) for name in table.confidence), 1.0] for row in evidence])


def _left_out(x: Matrix, y: Matrix, folds: NDArray[np.int64], shipped: SignWeights, strength: float) -> Matrix:
    logits = np.zeros(len(y))
    for fold in np.unique(folds):
        there = folds == fold
        logits[there] = x[there] @ _fit(x[~there], y[~there], shipped, strength)
    return logits


def _fitted(x: Matrix, y: Matrix, shipped: SignWeights, strength: float) -> SignWeights:
    weights = [round(float(weight), 4) for weight in _fit(x, y, shipped, strength)]
    return replace(shipped, confidence=dict(zip(shipped.confidence, weights[:-1], strict=True)), bias=weights[-1])


def _fit(x: Matrix, y: Matrix, shipped: SignWeights, strength: float) -> Matrix:
    """The penalty counts in standard deviations of each column."""
    return fit(x, y, strength * x.var(axis=0) + _FREE, np.array([*shipped.confidence.values(), shipped.bias]))


Matrix = NDArray[np.float64]

_LEAST_STEP = 1e-4
_MOST_STEPS = 50
_SURE = 30.0  # beyond it a logistic function is 0 or 1


def fit(x: Matrix, y: Matrix, penalty: Matrix, prior: Matrix) -> Matrix:
    """Return the weights [d] of the columns of x [n, d] that predict y [n], 0 or 1; `penalty` [d] pulls each towards
    `prior` [d].

    Newton's method with halved steps on the log-likelihood less ½ Σ penalty (w - prior)² (Hastie, Tibshirani and
    Friedman, "The Elements of Statistical Learning", 4.4).
    """

    def cost(w: Matrix) -> float:
        return float(loss(x @ w, y) * len(y) + 0.5 * penalty @ (w - prior) ** 2)

    w, now = prior.copy(), cost(prior)
    for _ in range(_MOST_STEPS):
        p = logistic(x @ w)
        gradient = x.T @ (p - y) + penalty * (w - prior)
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty), gradient)
        while (then := cost(w - step)) > now and np.abs(step).max() > _LEAST_STEP:
            step = step / 2
        if then >= now:
            break
        w, now = w - step, then
    return w


def loss(logits: Matrix, y: Matrix) -> float:
    """Return the mean negative log-likelihood."""
    return float(np.mean(np.logaddexp(0.0, logits) - y * logits))


def logistic(logits: Matrix) -> Matrix:
    """1 / (1 + e^-x) of each."""
    found: Matrix = 1 / (1 + np.exp(-np.clip(logits, -_SURE, _SURE)))
    return found


WEIGHTS = "answer_confidence.json"
_SECTION = re.compile(r"^gates:.*\n?(?:(?:[ \t].*)?\n)*(?=\S|\Z)", re.MULTILINE)


def write_calibration(path: Path, found: Calibration, embedding: Embedding) -> None:
    """Set the confidence that an answer needs in the file; other thresholds, and weights, are in a file beside it.

    Raises:
        ConfigError: the file is no configuration, or cannot be written.
    """
    weights, tables = path.with_name(WEIGHTS), found.confidence.tables if found.confidence.strength else None
    load_config(path)
    learned = {name: value for name, value in found.gates.items() if name != ASKED}
    try:
        write_text(weights, to_json(tables, f"{embedding.provider}/{embedding.model}", learned))
    except OSError as error:
        raise ConfigError(f"{weights} cannot be written ({error.strerror})") from error
    asked = {name: value for name, value in found.gates.items() if name == ASKED}
    write_gates(path, {**asked, "confidence_weights": str(weights)})


def write_gates(path: Path, gates: Mapping[str, float | str | None]) -> None:
    """Set these gates in the file; other gates that it sets are kept.

    Raises:
        ConfigError: the file is no configuration, or cannot be written.
    """
    load_config(path)
    text = path.read_text(encoding="utf-8")
    merged = {**(yaml.safe_load(text) or {}).get("gates", {}), **gates}
    section = yaml.safe_dump({"gates": merged}, sort_keys=False)
    before = text if text.endswith("\n") or not text else f"{text}\n"
    changed, count = _SECTION.subn(lambda _: f"{section}\n", before, count=1)
    try:
        write_text(path, (changed if count else f"{before}\n{section}").rstrip("\n") + "\n")
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be written ({error.strerror})") from error


def to_json(tables: Tables | None, embedding: str, gates: Mapping[str, float] = MappingProxyType({})) -> str:
    """Return the confidence of these tables and gates as the text of a file that `calibrated` and `Gates` read."""
    found: dict[str, Any] = {"version": VERSION, "embedding": embedding, "gates": dict(gates)}
    for name, table in zip(TABLES, (tables.with_vectors, tables.words_alone), strict=True) if tables else ():
        found[name] = {"confidence": dict(table.confidence), "bias": table.bias}
    return json.dumps(found, indent=2) + "\n"
