"""MinHash signatures and LSH buckets: which texts may be near-duplicates, without comparing all with all.

Belongs here: fingerprints of texts, signatures as datasketch makes them, bands and buckets.
Does not belong here: which of two chunks is dropped (`duplicates`), remembering fingerprints (`state.signature_cache`).

The signature of a set is, for each of 128 permutations, the smallest value; two sets agree in one with the probability
of their Jaccard similarity (Broder 1997). Signatures are bit for bit those of `datasketch.MinHash` over the same 32-bit
values; they are computed for all texts at once, a permutation at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from rag_assets.steps.dedup.shingles import Shingles, literals_of, shingles_of, words_of

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
    """MinHash signatures [texts, PERMUTATIONS]; that of a text without a word is of no use."""
    found = np.full((len(shingles), PERMUTATIONS), 0xFFFFFFFF, np.uint32)
    filled = np.flatnonzero(np.diff(shingles.starts))
    if not len(filled):
        return found
    values, starts = _premixed(shingles.hashes.astype(np.uint32)), shingles.starts[filled]
    for place, (factor, addend) in enumerate(_permutations().T):
        found[filled, place] = np.minimum.reduceat(values * factor + addend, starts)
    return found


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


def buckets(signature: NDArray[np.uint32], keys: NDArray[np.uint64], threshold: float) -> NDArray[np.int64]:
    """Return the bucket of each text in each band [texts, bands]; -1 where it is alone there.

    Only texts of the same key meet. Buckets of different bands have different numbers.
    """
    bands, rows = bands_of(threshold)
    found = np.full((len(signature), bands), -1, np.int64)
    for band in range(bands):
        mixed = keys.copy()
        for place in range(band * rows, (band + 1) * rows):
            mixed = (mixed ^ signature[:, place]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        _, inverse, counts = np.unique(mixed, return_inverse=True, return_counts=True)
        shared = counts[inverse] > 1
        found[shared, band] = inverse[shared] + band * len(signature)
    return found


def estimate(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> float:
    """Return the Jaccard similarity as two signatures tell it: the share of permutations in which they agree."""
    return float(np.count_nonzero(first == second)) / PERMUTATIONS


def number(text: str) -> int:
    """Return a text as a 64-bit number."""
    return _digest(text, 8)


@cache
def _permutations() -> NDArray[np.uint32]:
    """Factors and addends [2, PERMUTATIONS] of datasketch's scheme affine32."""
    from datasketch import MinHash

    return np.asarray(MinHash(num_perm=PERMUTATIONS, scheme="affine32").permutations, np.uint32)


def _premixed(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the 32-bit finalizer of MurmurHash3, which affine32 puts before its permutations."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


def _digest(text: str, size: int) -> int:
    return int.from_bytes(_bytes(text, size), "little")


def _bytes(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
