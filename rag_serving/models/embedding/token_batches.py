"""Batches that are bounded by their tokens, padding included.

Belongs here: pure decisions over lengths. Does not belong here: tokens, models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

CPU_TOKENS = 1024  # beyond this a batch only costs memory
GPU_TOKENS = 65_536


def batch_slices(lengths: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[slice]:
    """Yield slices of texts that are sorted by their lengths, the longest first.

    A batch is padded to its first text's length. It has at most `most_texts` texts and `most_tokens` tokens; a text
    that is longer is a batch of its own.
    """
    start = 0
    while start < len(lengths):
        fitting = max(1, min(most_texts, most_tokens // max(1, lengths[start])))
        yield slice(start, start + fitting)
        start += fitting
