"""Batches of token lists as arrays that a model of torch reads.

Belongs here: padding. Does not belong here: tokens, which texts are in a batch (`embedding.token_batches`,
`rerank_service.batches`).

The padding of transformers walks through every token in Python: with a fast GPU that took longer than the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_IDS, _MASK = "input_ids", "attention_mask"
TENSOR_CORES = 8  # what they read at once


def padded(
    batch: Sequence[Mapping[str, Sequence[int]]], pad_id: int, multiple: int = 1, left: bool = False
) -> dict[str, NDArray[np.int64]]:
    """Return each column of a tokenizer's output as an array [texts, longest], by default padded on the right.

    `multiple`: the longest is rounded up to one. What is padded has `pad_id` as its id and 0 in other columns.
    """
    lengths = np.array([len(tokens[_IDS]) for tokens in batch])
    width = -(-int(lengths.max()) // multiple) * multiple
    places = np.arange(width)
    kept = places >= width - lengths[:, None] if left else places < lengths[:, None]
    columns: dict[str, NDArray[np.int64]] = {}
    for name in batch[0]:
        if name == _MASK:
            columns[name] = kept.astype(np.int64)
            continue
        columns[name] = np.full((len(batch), width), pad_id if name == _IDS else 0)
        columns[name][kept] = np.concatenate([np.asarray(tokens[name], np.int64) for tokens in batch])
    return columns
