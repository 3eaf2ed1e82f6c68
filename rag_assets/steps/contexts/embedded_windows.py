"""The texts that are embedded for each passage: its prefix above its text, or above each window of a long text.

Belongs here: where windows begin and end. Does not belong here: prefixes (`context_prefix`), embedding, which vectors
belong to which passage in an index (`rag_serving.indexes.window_map`), windows of long code (`steps.chunks.chunking`).

A model that reads some 250 tokens at once sees a passage of 1,000 only in parts, and the average of parts that say
different things is near to none of them. So each part has a vector of its own, and the nearest one counts. Parts are of
about equal length and begin where a sentence, an item, a row or a line begins: after an edit the borders behind it
mostly stand where they stood, and only the windows that changed are embedded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.steps.contexts.context_prefix import embedded_texts, under_prefixes
from rag_serving.artifacts.columns import take_rows
from rag_serving.models.protocols import InputLimit
from rag_serving.text.structure import decode, structure_of

VERSION = 1
"""Raised when the same passage would be cut elsewhere."""

LONG = 1.5
"""A text has windows when it is longer than this many times what the model reads at once. Passages of the profiles wiki
and docs are not, as long as they are prose: they keep their vectors, and what was learned with them holds."""

MAX_WINDOWS = 16
"""Of more that many, evenly spread and with both ends: as much as the longest block of code that stays whole."""

_LEAST = 0.25  # of what the model reads: so much is the passage's own, however long its prefix


def embedded_windows(chunks: pa.Table, limit: InputLimit | None) -> list[list[str]]:
    """Return the texts that are embedded for each row of GENERATION_CHUNKS, at least one for each.

    `limit`: None where the model reads any passage at once, or does not say.
    """
    texts = embedded_texts(chunks)
    if limit is None:
        return [[text] for text in texts]
    # A token has at least one character: most passages need not be counted.
    longest = int(LONG * limit.tokens)
    rows = [row for row, text in enumerate(texts) if len(text) > longest]
    if not rows:
        return [[text] for text in texts]
    found = [[text] for text in texts]
    chosen = take_rows(chunks.select(["prefix", "text", "structure"]), np.array(rows))
    prefixes, passages, structures = (column.to_pylist() for column in chosen.columns)
    above = [len(offsets) for offsets in limit.tokenizer.offsets(prefixes)]
    for place, offsets in enumerate(limit.tokenizer.offsets(passages)):
        size = max(limit.tokens - above[place], int(_LEAST * limit.tokens))
        if above[place] + len(offsets) > longest and len(offsets) > size:
            parts = _parts(passages[place], structures[place], offsets, size)
            found[rows[place]] = under_prefixes([prefixes[place]] * len(parts), parts)
    return found


def _parts(text: str, structure: str | None, offsets: NDArray[np.int32], size: int) -> list[str]:
    """Return a text's windows of at most `size` tokens each; `offsets` [tokens, 2] are those of its tokens."""
    units = (decode(structure) if structure else structure_of(text)).units
    starts = np.unique(np.searchsorted(offsets[:, 0], [unit.start for unit in units]))
    borders = window_borders(len(offsets), size, starts)
    chosen: Sequence[int] = range(len(borders) - 1)
    if len(chosen) > MAX_WINDOWS:
        chosen = np.linspace(0, len(chosen) - 1, MAX_WINDOWS).round().astype(int).tolist()
    return [text[int(offsets[borders[n], 0]) : int(offsets[borders[n + 1] - 1, 1])] for n in chosen]


def window_borders(count: int, size: int, starts: NDArray[np.int64]) -> list[int]:
    """Return where windows over `count` tokens begin, and the end of the last; none has more than `size` tokens.

    `starts`: ascending, the tokens that a sentence or another unit begins with. A border stands at the one that is
    nearest to parts of equal length, in the middle of a unit only where no other is within half a window.
    """
    borders = [0]
    while (left := count - borders[-1]) > size:
        begin, parts = borders[-1], -(-left // size)
        aim = begin + -(-left // parts)
        near = starts[(starts > begin + size // 2) & (starts <= begin + size)]
        borders.append(int(near[np.argmin(np.abs(near - aim))]) if len(near) else aim)
    return [*borders, count]
