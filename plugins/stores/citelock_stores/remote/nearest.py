"""The nearest chunks, by searches with a limited number of hits each.

Belongs here: the number of hits to request until the result equals that of a full search. Does not belong here: a
search (the backends).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from citelock_stores.remote.protocol import Nearest, Rows

Hit = tuple[int, float]
"""The number of a chunk and its score."""
SPARE = 16
"""Hits asked for beyond k, to see whether further ones are as near as the last."""


class NearestHits(NamedTuple):
    """The result of one search. `hits`: each chunk once; `whole`: there is nothing else; `lowest`: no other is
    nearer."""

    hits: Sequence[Hit]
    whole: bool
    lowest: float


Search = Callable[[int], NearestHits]
"""Gives so many hits, the best ones."""


def k_nearest(search: Search, k: int, among: Rows | None = None) -> Nearest:
    """Return the k nearest chunks, of those in `among`; of those as near as the last of them, the first rows."""
    asked = (k if among is None else 4 * k) + SPARE
    wanted = None if among is None else frozenset(among.tolist())
    while True:
        found = search(asked)
        kept = found.hits if wanted is None else [hit for hit in found.hits if hit[0] in wanted]
        if found.whole or (len(kept) >= k and found.lowest < sorted((hit[1] for hit in kept), reverse=True)[k - 1]):
            return nearest_of(kept, k)
        asked *= 4


def nearest_of(hits: Sequence[Hit], k: int) -> Nearest:
    """Return the k best of some hits, equal ones in row order."""
    ordered = sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]
    rows, scores = ([hit[0] for hit in ordered], [hit[1] for hit in ordered])
    return Nearest(np.array(rows, np.int64), np.array(scores, np.float32))
