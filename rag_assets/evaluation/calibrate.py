"""Thresholds chosen on data: answers given with open gates, and what each threshold would have made of them.

Belongs here: the trade-off curve, choosing a point of it, halves to learn from and to measure with.
Does not belong here: asking and judging (`evaluate`), what the gates do (`answering.gates`), how confidence is told
(`confidence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rag_assets.evaluation.confidence import CalibrationExample, Fit, learn
from rag_assets.evaluation.evaluate import Evaluation, Judged
from rag_assets.evaluation.gold import GoldSet
from rag_serving.config.loading import Config
from rag_serving.text.question_types import kind_of

ASKED, STATED = "min_confidence", "min_confidence_statement"
# Citation precision that a threshold should keep; what it falls short by counts double.
FLOOR, _SHORT = 0.9, 2.0
# Right answers that the gate before writing may cost.
_LOST = 0.005
_STEPS = 200


@dataclass(frozen=True)
class Point:
    """What answering from a confidence upwards gives."""

    min_confidence: float
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

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of `evaluate --calibrate --json`."""
        return {
            "gates": self.gates,
            "confidence": {"prior_strength": self.confidence.strength, "learnt_from": len(self.confidence.unseen)},
            "measured": self.measured.payload(),
            "curve": [asdict(point) for point in self.curve],
        }


def open_gates(config: Config) -> Config:
    """Return the configuration with every gate open, so that each answer tells how confident the package's weights
    are."""
    opened = {ASKED: 0.0, STATED: 0.0, "min_similarity": -1.0, "min_coverage": 0.0, "confidence_weights": None}
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
    taught = [case for case in first if case.answer.evidence]
    confidence = learn([_seen(case) for case in taught])
    unseen = dict(zip((case.gold.id for case in taught), confidence.unseen, strict=True))
    learnt = [_confident(case, unseen[case.gold.id]) if case.gold.id in unseen else case for case in first]
    confidence_of_evidence = confidence.tables.with_vectors.told
    kept = [
        _confident(case, confidence_of_evidence(case.answer.evidence)) if case.answer.evidence else case
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
            gates[name] = round(choose(curve(some)).min_confidence, 4)
    closed = tuple(closed_at(case, gates.get(_threshold_of(case), 0.0)) for case in kept)
    return Calibration(gates, confidence, tuple(curve(kept)), Evaluation(closed))


def curve(judged: Sequence[Judged]) -> list[Point]:
    """Return the points of the trade-off between answering and being right, by rising confidence."""
    levels = np.unique(np.quantile([confidence_of(case) for case in judged] or [0.0], np.linspace(0, 1, _STEPS)))
    return [_point(judged, float(level)) for level in (0.0, *levels)]


def choose(points: Sequence[Point]) -> Point:
    """Return the point of the best answerability, less what the precision of citations falls short of its floor by,
    twice."""

    def worth(point: Point) -> float:
        return point.answerability - _SHORT * max(0.0, FLOOR - (point.citation_precision or 0.0))

    return max(points, key=worth)


def closed_at(judged: Judged, min_confidence: float) -> Judged:
    """Return the same answer as it is with the gate at this confidence."""
    if confidence_of(judged) >= min_confidence:
        return judged
    answer = replace(judged.answer, status="not_found", answer="", citations=())
    return replace(judged, answer=answer, anchored=0)


def confidence_of(judged: Judged) -> float:
    """Return the confidence of an answer; of one that was not given, less than any."""
    return judged.answer.gates.get("confidence", 1.0) if judged.answered else -1.0


def _seen(judged: Judged) -> CalibrationExample:
    """An answer is right where it is on a right page and says what the gold set quotes, if it quotes anything."""
    gold = judged.gold
    is_right = gold.answerable and judged.cited_right > 0 and (judged.says_it or not gold.quotes)
    return CalibrationExample(judged.answer.evidence, is_right, gold.part)


def _confident(judged: Judged, confidence: float) -> Judged:
    """Return the same answer told with this confidence."""
    return replace(judged, answer=replace(judged.answer, gates={**judged.answer.gates, "confidence": confidence}))


def _threshold_of(judged: Judged) -> str:
    return STATED if kind_of(judged.gold.question) == "statement" else ASKED


def _point(judged: Sequence[Judged], level: float) -> Point:
    closed = Evaluation(tuple(closed_at(case, level) for case in judged))
    ability = closed.answerability
    return Point(
        min_confidence=level,
        answered=sum(case.answered for case in closed.judged) / (len(judged) or 1),
        answerability=ability["accuracy"] or 0.0,
        citation_precision=closed.citation_precision,
        sentence_precision=closed.sentence_precision,
        not_found_recall=ability["recall"],
    )


def _low(values: Sequence[float]) -> float:
    """Return the value below which only few lie."""
    return round(float(np.quantile(values, _LOST)), 4) if values else 0.0
