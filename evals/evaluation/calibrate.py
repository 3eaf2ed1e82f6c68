"""Thresholds chosen on data: answers given with open gates, and what each threshold would have made of them.

Belongs here: what errors cost, thresholds that cost least, the trade-off curve, halves to learn from and to measure
with.
Does not belong here: asking and judging (`evaluate`), what the gates do (`answering.gates`), how confidence is told
(`confidence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from evals.evaluation.clearness import Clearness, clearness
from evals.evaluation.confidence import CalibrationExample, Fit, learn
from evals.evaluation.evaluate import Evaluation, Judged
from evals.evaluation.gold import GoldSet
from rag_serving.config.loading import Config
from rag_serving.records.answers import Outcome
from rag_serving.records.refusal import Refusal
from rag_serving.text.question_types import is_claim

ASKED, STATED, CLOSEST = "min_confidence", "min_confidence_statement", "min_closest"
CLEAR = "min_clear"
# Right answers that the gate before writing may cost.
_LOST = 0.005
_STEPS = 200


@dataclass(frozen=True)
class ErrorCosts:
    """What each error costs, against a wrong answer that is told with confidence; what is right costs nothing.

    A wrong answer is still a sentence of a page with its link; who is told that there is nothing has nothing to go on.

    Attributes:
        wrongly_told: what is told with confidence is not the answer.
        held_back: a right answer is only shown as the closest, and its reader has to judge it, as after a search.
        not_shown: a right answer is not shown, and its reader believes that there is none.
        shown_in_vain: passages that do not answer are read as the closest.
    """

    wrongly_told: float = 1.0
    held_back: float = 1.0
    not_shown: float = 2.0
    shown_in_vain: float = 0.2

    def of(self, outcome: Outcome, is_right: bool) -> float:
        """Return what an outcome costs where the best sentence is right, or is not."""
        if outcome == "told":
            return 0.0 if is_right else self.wrongly_told
        if outcome == "closest":
            return self.held_back if is_right else self.shown_in_vain
        return self.not_shown if is_right else 0.0


COSTS = ErrorCosts()


@dataclass(frozen=True)
class Point:
    """What answering from a confidence upwards gives, where the rest is shown as the closest."""

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
    measured: Evaluation
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
    """Return the configuration with every gate open, so that each answer tells how confident the package's weights
    are."""
    opened = {
        ASKED: 0.0,
        STATED: 0.0,
        CLOSEST: 0.0,
        "min_similarity": -1.0,
        "min_coverage": 0.0,
        "confidence_weights": None,
    }
    gates = config.gates.model_copy(update=opened)
    return config.model_copy(update={"gates": gates})


def halves(gold: GoldSet) -> tuple[GoldSet, GoldSet]:
    """Return the questions of every other part, and those of the rest: no part is in both."""
    parts = sorted({question.part for question in gold.questions})
    first = frozenset(parts[::2])
    one = tuple(question for question in gold.questions if question.part in first)
    rest = tuple(question for question in gold.questions if question.part not in first)
    return GoldSet(one, gold.tenant), GoldSet(rest, gold.tenant)


def calibrate(gold: GoldSet, measured: Evaluation) -> Calibration:
    """Learn confidence and thresholds from one half of answers that were given with open gates, measure on the other.

    Thresholds are chosen by what answers get from weights that were learnt without their part of the set.
    """
    learning = {question.id for question in halves(gold)[0].questions}
    first = [case for case in measured.judged if case.gold.id in learning]
    taught = [case for case in first if case.answer.features]
    confidence = learn([_seen(case) for case in taught])
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
    return Calibration(gates, confidence, tuple(curve(kept)), Evaluation(closed), mean, clearness(kept))


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
    """Return whether an answer is on a right page and says what the gold set quotes, if it quotes anything."""
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
    """Return confidences at which thresholds are tried, rising."""
    told = [confidence for case in judged if (confidence := confidence_of(case)) >= 0]
    return [0.0, *np.unique(np.quantile(told or [0.0], np.linspace(0, 1, _STEPS))).tolist()]


def confidence_of(judged: Judged) -> float:
    """Return the confidence of an answer; of one that was not given, less than any."""
    return judged.answer.gates.get("confidence", 1.0) if judged.answered else -1.0


def _seen(judged: Judged) -> CalibrationExample:
    return CalibrationExample(judged.answer.features, is_right(judged), judged.gold.part)


def _confident(judged: Judged, confidence: float) -> Judged:
    """Return the same answer told with this confidence."""
    return replace(judged, answer=replace(judged.answer, gates={**judged.answer.gates, "confidence": confidence}))


def _threshold_of(judged: Judged) -> str:
    return STATED if is_claim(judged.gold.question) else ASKED


def _point(judged: Sequence[Judged], level: float) -> Point:
    closed = Evaluation(tuple(closed_at(case, level) for case in judged))
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
    """Return the value below which only few lie."""
    return round(float(np.quantile(values, _LOST)), 4) if values else 0.0
