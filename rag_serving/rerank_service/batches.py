"""Pairs in batches that waste little padding, and what is done when a batch does not fit.

Belongs here: pure decisions over lengths, and the bounded retry. Does not belong here: the model (`cross_encoder`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

Pair = TypeVar("Pair")
ScoreBatch = Callable[[Sequence[Pair]], Sequence[float]]


class ScoringError(Exception):
    """The model cannot score these pairs; the message is one line."""


def length_sorted(lengths: Sequence[int], max_pairs: int, max_tokens: int) -> list[list[int]]:
    """Positions in batches, longest first: at most `max_pairs` of them and `max_tokens` tokens with the padding.

    Neighbours in a batch have nearly the same length. The largest batch comes first, so that memory that does not
    suffice shows at once. A pair longer than `max_tokens` is a batch of its own.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        last = batches[-1] if batches else []
        room = min(max_pairs, max_tokens // max(1, lengths[last[0]])) if last else 0
        if len(last) < room:
            last.append(position)
        else:
            batches.append([position])
    return batches


def score_halving(pairs: Sequence[Pair], score: ScoreBatch[Pair]) -> list[float]:
    """Return scores of one batch in its order; a batch that fails is tried in halves, down to single pairs.

    The halving ends: a failure that persists costs log2(n) + 1 tries, then the first single pair raises. (The loop of
    FlagEmbedding 1.4, which lowers its batch size on every `RuntimeError`, does not.)

    Raises:
        ScoringError: a single pair fails, or a score is not a finite number.
    """
    try:
        scores = [float(value) for value in score(pairs)]
    except RuntimeError as error:  # out of memory is one; CUDA tells others the same way
        if len(pairs) <= 1:
            raise ScoringError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
        middle = len(pairs) // 2
        return score_halving(pairs[:middle], score) + score_halving(pairs[middle:], score)
    if len(scores) != len(pairs) or not all(map(math.isfinite, scores)):
        raise ScoringError(f"the model gave {len(scores)} scores for {len(pairs)} pairs, or one that is no number")
    return scores


def score_all(
    pairs: Sequence[Pair], lengths: Sequence[int], score: ScoreBatch[Pair], max_pairs: int, max_tokens: int
) -> list[float]:
    """Return scores of all pairs in their order, asked for in length-sorted batches; raises as `score_halving`."""
    scores = [math.nan] * len(pairs)
    for batch in length_sorted(lengths, max_pairs, max_tokens):
        for position, value in zip(batch, score_halving([pairs[at] for at in batch], score), strict=True):
            scores[position] = value
    return scores
