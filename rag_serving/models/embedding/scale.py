"""One scale for the similarities of all local models, so that floors, gates and learnt weights mean the same with each.

A model trained at a low temperature gives cosines of 0.7 to 0.9 to whatever it compares. `factor` times the cosine plus
`offset` is on the scale of all-MiniLM-L6-v2, and ranks as before. Both are folded into the vectors by one component
more, as maximum inner product search is made nearest-neighbour search (Bachrach et al., RecSys 2014): vectors of
passages stay of length one, those of questions do not.

Belongs here: folding them in. Does not belong here: the figures of a model (`weights`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Larger than any component of a vector, so that vectors kept as bytes hold it exactly.
_ADDED = np.float32(0.3)
_LENGTH = np.sqrt(1 + _ADDED**2)


class Scale(NamedTuple):
    """A line from a model's cosines to similarities."""

    factor: float
    offset: float

    def passages(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors [n, d] of length one with a component more [n, d + 1], of length one again."""
        added = np.full((len(vectors), 1), _ADDED, np.float32)
        lifted: NDArray[np.float32] = np.concatenate([vectors, added], axis=1) / _LENGTH
        return lifted

    def question(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a vector [d] as one [d + 1] whose dot product with a passage's is their similarity."""
        scaled = np.append(vector * np.float32(self.factor), np.float32(self.offset) / _ADDED)
        lifted: NDArray[np.float32] = (scaled * _LENGTH).astype(np.float32)
        return lifted
