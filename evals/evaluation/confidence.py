"""How confident answers to a gold set's own pages are: the package's weights, drawn towards what was seen there.

Belongs here: the fit, how much of the package's weights it keeps, the confidence of answers that were not learnt from.
Does not belong here: thresholds (`calibrate`), the evidence (`answering.selection.signs`), files
(`answering.selection.scorer`).

Logistic regression with a Gaussian prior at the package's weights (the maximum a posteriori estimate): where few
questions are asked, or they say nothing new, little changes. How strong the prior is, cross-validation over the parts
of the set decides by the likelihood of what was left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evals.evaluation.logistic import Matrix, fit, logistic, loss
from rag_serving.answering.selection.scorer import SignWeights, Tables, learnt

# Fewer right or wrong answers, or parts, than these teach nothing that holds elsewhere.
_FEWEST, _FEWEST_PARTS = 25, 4
_FOLDS = 5
_STRENGTHS = (30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0)
_FREE = 1e-4  # what holds the bias, which no prior does


@dataclass(frozen=True)
class CalibrationExample:
    """What spoke for an answer, whether it was right, and the part of the set that its question is of."""

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
    words = _matrix([_by_words(example.evidence, shipped) for example in seen], shipped.words_alone)
    tables = Tables(_fitted(x, y, shipped.with_vectors, strength), _fitted(words, y, shipped.words_alone, strength))
    return Fit(tables, strength, tuple(logistic(left_out[strength]).tolist()))


def _by_words(evidence: Mapping[str, float], shipped: Tables) -> dict[str, float]:
    """Return the evidence as it is without vectors: only the score is another one."""
    bonus = evidence["score"] - shipped.with_vectors.score(evidence)
    return {**evidence, "score": shipped.words_alone.score(evidence) + bonus}


def _matrix(evidence: Sequence[Mapping[str, float]], table: SignWeights) -> Matrix:
    """Return a row for each answer, a column for each weight and one of ones for the bias."""
    return np.array([[*(row.get(name, 0.0) for name in table.confidence), 1.0] for row in evidence])


def _left_out(x: Matrix, y: Matrix, folds: NDArray[np.int64], shipped: SignWeights, strength: float) -> Matrix:
    """Return the logit of each answer by weights that were fitted without its fold."""
    logits = np.zeros(len(y))
    for fold in np.unique(folds):
        there = folds == fold
        logits[there] = x[there] @ _fit(x[~there], y[~there], _vector(shipped), strength)
    return logits


def _fitted(x: Matrix, y: Matrix, shipped: SignWeights, strength: float) -> SignWeights:
    weights = [round(float(weight), 4) for weight in _fit(x, y, _vector(shipped), strength)]
    return replace(shipped, confidence=dict(zip(shipped.confidence, weights[:-1], strict=True)), bias=weights[-1])


def _fit(x: Matrix, y: Matrix, prior: Matrix, strength: float) -> Matrix:
    """The penalty counts in standard deviations of each column."""
    return fit(x, y, strength * x.var(axis=0) + _FREE, prior)


def _vector(table: SignWeights) -> Matrix:
    return np.array([*table.confidence.values(), table.bias])
