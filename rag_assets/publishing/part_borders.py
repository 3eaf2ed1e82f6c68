"""Where the parts of a large generation begin: at pages that are chosen by their own names.

Belongs here: the borders of parts, sizes of parts. Does not belong here: writing parts (`workspace`), what their files
are called (`rag_serving.indexes.generation_parts`).

A part ends before the page with the smallest hash among those at which it may end: between a quarter of the most chunks
of a part and all of them. A page that is new or gone moves a border only where it is the chosen one, or where it pushes
the chosen one out of reach. The borders behind find back to their old places, because the same pages are chosen again
(as in content-defined chunking: Zhang et al., "AE", INFOCOM 2015). So the other parts keep their bytes.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.publishing.shards import page_hash
from rag_serving.artifacts.columns import dictionary_encode, reader
from rag_serving.artifacts.manifest import PartSize
from rag_serving.indexes.window_map import window_counts

_LEAST = 4  # parts of one size, together as large as the largest part may be


def part_borders(table: pa.Table, most: int) -> list[int]:
    """Return where the parts of a chunk table begin, and behind the last one the number of rows.

    `table`: the columns source and page_id of GENERATION_CHUNKS, in the order of `arrange`. No part has more than
    `most` rows, unless it is one page.
    """
    borders, total = [0], len(table)
    if total <= most:
        return [0, total]
    begins = np.append(_page_begins(table), total)
    sources, pages = reader(table["source"]), reader(table["page_id"])
    while total - borders[-1] > most:
        first = np.searchsorted(begins, borders[-1] + max(most // _LEAST, 1))
        last = np.searchsorted(begins, borders[-1] + most, side="right")
        possible = begins[first:last].tolist()
        if not possible:  # a page that is larger than a part
            borders.append(int(begins[first]))
            continue
        names = zip(sources(possible), pages(possible), possible, strict=True)
        borders.append(min((page_hash(f"{source}\x1f{page}"), begin) for source, page, begin in names)[1])
    return borders if borders[-1] == total else [*borders, total]


def part_sizes(table: pa.Table, borders: list[int]) -> list[PartSize]:
    """Return how many chunks and vectors each part of GENERATION_CHUNKS has."""
    vectors = np.append(0, np.cumsum(window_counts(table["vector_keys"])))
    return [
        PartSize(chunks=last - first, vectors=int(vectors[last] - vectors[first])) for first, last in pairwise(borders)
    ]


def _page_begins(table: pa.Table) -> NDArray[np.int64]:
    """Return the first row of every page."""
    changes = np.zeros(len(table), np.bool_)
    for name in ("source", "page_id"):
        changes |= np.diff(dictionary_encode(table[name])[1], prepend=-1) != 0
    return np.flatnonzero(changes)
