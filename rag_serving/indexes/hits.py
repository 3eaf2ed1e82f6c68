"""What an index search returns: rows of the generation's chunk table with scores.

Belongs here: the record and the one rule for ties. Does not belong here: any index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Hit(NamedTuple):
    """A chunk in an index's results: its row in the generation's chunk table, and the index's score."""

    row: int
    score: float


def best(rows: NDArray[np.int64], scores: NDArray[np.float32], k: int) -> list[Hit]:
    """Return the k best of `rows` by `scores` [n], best first; ties in row order."""
    if k <= 0 or not len(rows):
        return []
    if len(rows) > k:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= threshold)
        rows, scores = rows[chosen], scores[chosen]
    order = np.lexsort((rows, -scores))[:k]
    return [*map(Hit, rows[order].tolist(), scores[order].tolist())]
