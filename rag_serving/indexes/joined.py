"""Vectors and codes that are stored in parts, read as one.

Belongs here: finding the part of a vector, joining what the parts give. Does not belong here: the vectors of one part
(`exact`), its codes (`quantization`), the rows of a part (`generation_parts`).

A vector is read, and a bound computed, as in one array: what a search finds is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.quantization import Bounds, Codes

Vectors = NDArray[np.float32]


class JoinedVectors:
    """Arrays of vectors [n, d], one after the other; none is copied until it is asked for."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        """`parts`: at least one."""
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in parts])
        self._starts: list[int] = [0, *self._ends[:-1].tolist()]
        self.shape = (int(self._ends[-1]), parts[0].shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: int | slice | Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Return a vector [d], or the vectors at some places [n, d]; those of a slice within one part are not
        copied."""
        if isinstance(places, slice):
            return self._run(*places.indices(len(self))[:2])
        numbers = np.asarray(places, np.int64)
        owners = np.searchsorted(self._ends, numbers, side="right")
        if numbers.ndim == 0:
            vector: Vectors = self.parts[int(owners)][int(numbers) - self._starts[int(owners)]]
            return vector
        found = np.empty((len(numbers), self.shape[1]), np.float32)
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            own = owners == owner
            found[own] = self.parts[owner][numbers[own] - self._starts[owner]]
        return found

    def _run(self, first: int, last: int) -> Vectors:
        """Return the vectors from one place to before another."""
        pieces = [
            part[max(first - start, 0) : last - start]
            for part, start in zip(self.parts, self._starts, strict=True)
            if start < last and first < start + len(part)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([self.parts[0][:0], *pieces])


class JoinedCodes:
    """The codes of arrays of vectors, one after the other. Safe to use from several threads."""

    def __init__(self, parts: Sequence[Codes]) -> None:
        self._parts = tuple(parts)

    def prepare(self) -> None:
        """Make the codes of every part ready to be searched; raises CodesError where one cannot be multiplied."""
        for part in self._parts:
            part.prepare()

    @property
    def is_prepared(self) -> bool:
        """Return whether the codes of every part are copied."""
        return all(part.is_prepared for part in self._parts)

    def bounds(self, vector: Vectors) -> Bounds:
        """Between what the similarity of every row to `vector` [d] lies: lower and upper bounds [n]."""
        lower, upper = zip(*(part.bounds(vector) for part in self._parts), strict=True)
        return np.concatenate(lower), np.concatenate(upper)
