"""Which new file is an old one under another name, by how much of the text is the same.

Belongs here: git's measure of similarity, and the pairs that it makes. Does not belong here: files of equal content
(`documents.renames`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

SIMILAR = 0.5
"""Share of the larger text that has to be the same; git's default."""
_PAIRS_MAX = 40_000
_PIECE = 64


def similarity(before: str, after: str) -> float:
    """Return which share of the larger of two texts stands in both, as `git diff -M` measures it.

    Texts are cut into lines, those into pieces of 64 characters; order does not count (diffcore-delta.c).
    """
    return _shared(_pieces(before), _pieces(after))


def renamed(gone: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the old name of each new one that at least half of an old text stands under; the best pairs first.

    With more than 40,000 pairs none is compared, as git does with its own limit.
    """
    if not gone or not new or len(gone) * len(new) > _PAIRS_MAX:
        return {}
    old_pieces = {name: _pieces(text) for name, text in gone.items()}
    scores = [
        (-score, new_name, old_name)
        for new_name, text in new.items()
        for pieces in (_pieces(text),)
        for old_name, others in old_pieces.items()
        if (score := _shared(others, pieces)) >= SIMILAR
    ]
    pairs: dict[str, str] = {}
    taken: set[str] = set()
    for _, new_name, old_name in sorted(scores):
        if new_name not in pairs and old_name not in taken:
            pairs[new_name] = old_name
            taken.add(old_name)
    return pairs


def _pieces(text: str) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), _PIECE):
            piece = line[at : at + _PIECE]
            pieces[piece] += len(piece)
    return pieces


def _shared(before: Counter[str], after: Counter[str]) -> float:
    largest = max(before.total(), after.total())
    if not largest or min(before.total(), after.total()) < SIMILAR * largest:
        return 0.0
    return (before & after).total() / largest
