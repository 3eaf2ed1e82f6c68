"""MinHash signatures and their LSH index: which texts may be near-duplicates, without comparing all with all.

Belongs here: fingerprints of texts; signatures and indexes of datasketch, with our number of bands.
Does not belong here: which of two chunks is dropped (`duplicates`), remembering fingerprints (`state.signature_cache`).

The signature of a set is, for each of 128 permutations, the smallest value; two sets agree in one with the probability
of their Jaccard similarity (Broder 1997).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_assets.steps.dedup.shingles import Shingles, literals_of, shingles_of, words_of

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHashLSH

VERSION = 2
"""Raised when the same text would get another fingerprint."""

PERMUTATIONS = 128
CAUGHT = 0.999
"""Probability with which two texts right at the threshold share a bucket."""

# What is known of a text without looking at it again: number of words, digests of literals and of words, signature.
FINGERPRINT = np.dtype(
    [("words", "<u4"), ("literals", "<u8"), ("digest", "V16"), ("signature", "<u4", (PERMUTATIONS,))]
)
Fingerprints = NDArray[np.void]  # rows of FINGERPRINT

_SCHEME = "affine32"  # signatures of another one are not comparable with those that are remembered
_BLOCK = 2_000  # texts whose shingles are in memory at once


def fingerprints(texts: Sequence[str]) -> Fingerprints:
    """Return the fingerprint of each text [texts]."""
    found = np.zeros(len(texts), FINGERPRINT)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        words = [words_of(text) for text in block]
        rows = found[start : start + len(block)]
        rows["words"] = [len(each) for each in words]
        rows["literals"] = [_digest(literals_of(text), 8) for text in block]
        rows["digest"] = [np.void(_bytes("\x1f".join(each), 16)) for each in words]
        rows["signature"] = signatures(shingles_of(words))
    return found


def signatures(shingles: Shingles) -> NDArray[np.uint32]:
    """Return the MinHash signatures [texts, PERMUTATIONS]; that of a text without a word is of no use."""
    from datasketch import MinHash

    values = [hashes.astype(np.uint32).tolist() for hashes in shingles.sets()]
    sketches = MinHash.bulk(values, num_perm=PERMUTATIONS, hashfunc=int, scheme=_SCHEME)
    return np.array([sketch.hashvalues for sketch in sketches], np.uint32).reshape(-1, PERMUTATIONS)


def sketches_of(signature: NDArray[np.uint32]) -> list[LeanMinHash]:
    """Return signatures [texts, PERMUTATIONS] as datasketch compares and indexes them."""
    from datasketch import LeanMinHash

    return [LeanMinHash(seed=1, hashvalues=row, scheme=_SCHEME) for row in signature]


def open_index(threshold: float) -> MinHashLSH:
    """Return an empty index that finds sketches of this similarity with a probability of CAUGHT."""
    from datasketch import MinHashLSH

    return MinHashLSH(num_perm=PERMUTATIONS, params=bands_of(threshold))


def bands_of(threshold: float) -> tuple[int, int]:
    """Return how many bands of how many rows: the longest rows with which CAUGHT still holds at the threshold.

    Two sets of Jaccard similarity s share one of b buckets of r rows with probability 1 - (1 - s^r)^b (Leskovec,
    Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2).
    """
    for rows in range(PERMUTATIONS // 2, 1, -1):
        bands = PERMUTATIONS // rows
        if 1 - (1 - threshold**rows) ** bands >= CAUGHT:
            return bands, rows
    return PERMUTATIONS, 1


def number(text: str) -> int:
    """Return a text as a 64-bit number."""
    return _digest(text, 8)


def _digest(text: str, size: int) -> int:
    return int.from_bytes(_bytes(text, size), "little")


def _bytes(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
