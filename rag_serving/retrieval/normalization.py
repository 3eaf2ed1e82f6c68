"""Scores of one index brought to a common scale.

Belongs here: normalization of one column. Does not belong here: combining columns (`retrieval.fusion`).
"""

from __future__ import annotations

import math

import numpy as np

from rag_serving.retrieval.ranking import Scores

_EPSILON = np.finfo(np.float32).eps  # below it scores are equal


def standard(scores: Scores) -> Scores:
    """Return standard scores [n]: mean 0, deviation 1; all 0 where all are equal."""
    centred: Scores = scores - scores.sum() / max(len(scores), 1)
    deviation = math.sqrt((centred * centred).sum() / max(len(scores), 1))
    return centred / deviation if deviation > _EPSILON else np.zeros(len(scores))


def min_max(scores: Scores) -> Scores:
    """Return scores [n] brought to 0 … 1; all 0 where all are equal."""
    if not len(scores) or not np.ptp(scores) > _EPSILON:
        return np.zeros(len(scores))
    scaled: Scores = (scores - scores.min()) / np.ptp(scores)
    return scaled
