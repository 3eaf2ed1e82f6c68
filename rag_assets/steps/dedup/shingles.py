"""Shingles: a text as the set of its word triples, and what two texts must share to the letter to say the same.

Belongs here: normalization, shingles as 64-bit numbers, their Jaccard similarity, literals.
Does not belong here: signatures (`minhash`), which chunk is dropped (`duplicates`).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_serving.text.polarity_words import turns_of_folded

WORDS_PER_SHINGLE = 3

_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_SIGN = re.compile(r"[<>≤≥≠=±!]")
_FENCED = re.compile(r"^(`{3,})[^`\n]*\n(.*?)(^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_JOINED = re.compile(r"[\w.-]+")
_HUMP = re.compile(r"[a-z][A-Z]")
_TRIM = "\"'`*_()[]{}|.,;:!?"
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)  # odd, of xxHash64


class Shingles(NamedTuple):
    """The shingles of several texts in one array; those of text i are `hashes[starts[i]:starts[i + 1]]`."""

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def sets(self) -> Iterator[NDArray[np.uint64]]:
        """Yield the set of each text, ascending."""
        for start, end in zip(self.starts, self.starts[1:], strict=False):
            yield np.unique(self.hashes[start:end])


def words_of(text: str) -> list[str]:
    """Return the words of a text, compatibility forms and case folded away (NFKC); marks and punctuation are no
    words."""
    return _WORD.findall(_folded(text))


def shingles_of(texts: Sequence[Sequence[str]]) -> Shingles:
    """Return all runs of three words of each text, given as its words; a shorter text is one shingle of its own."""
    numbers: dict[str, int] = {}
    pad = [0] * (WORDS_PER_SHINGLE - 1)
    flat: list[int] = []
    for words in texts:
        flat += [numbers[word] if word in numbers else numbers.setdefault(word, _number(word)) for word in words]
        flat += pad
    values = np.array([*flat, *pad], np.uint64)
    count = len(values) - len(pad)
    hashes = np.zeros(count, np.uint64)
    for offset, factor in enumerate(_FACTORS):
        hashes += values[offset : offset + count] * factor
    lengths = np.array([len(words) for words in texts], np.int64)
    begins = np.concatenate([[0], np.cumsum(lengths + len(pad))])[:-1].astype(np.int64)
    sizes = np.where(lengths, np.maximum(lengths - len(pad), 1), 0)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    chosen = np.repeat(begins - starts[:-1], sizes) + np.arange(starts[-1])
    return Shingles(_mixed(hashes[chosen]), starts)


def jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    """Jaccard similarity |A ∩ B| / |A ∪ B| of two ascending sets; 0 where both are empty."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    union = len(first) + len(second) - common
    return common / union if union else 0.0


def literals_of(text: str) -> str:
    """Return what may not differ between two texts of which one stands for the other.

    In order: what holds a digit, and comparison signs; then names such as `log.dirs` with their case, how often each
    word occurs that turns a sentence round (`verification.claims`), and fenced code to the letter, ends of lines aside.
    One number changed in a table of two hundred words leaves a Jaccard similarity of 0.97.
    """
    folded = _folded(text)
    pieces: list[str] = []
    for piece in folded.split():
        if not piece.isalpha():
            pieces += [piece.strip(_TRIM)] if _DIGIT.search(piece) else _SIGN.findall(piece)
    turns = (f"{word} {count}" for word, count in sorted(turns_of_folded(folded).items()))
    return "\n".join([*pieces, "", *_names(text), "", *turns, "", *codes_of(text)])


def _names(text: str) -> Iterator[str]:
    """Yield what names a thing in a program, with its case: `log.dirs`, `MAX_HEAP`, `acksAll`."""
    for piece in _JOINED.findall(text):
        name = piece.strip(".-")
        if "." in name or "_" in name or _HUMP.search(name):
            yield name


def codes_of(text: str) -> list[str]:
    """Return the fenced code of a text to the letter, ends of lines aside; all of a text that a cut left half a
    fence."""
    blocks = _FENCED.findall(text) if "```" in text else []
    whole = all(closed for _, _, closed in blocks)
    return [code_of(body) for _, body, _ in blocks] if whole else [code_of(text)]


def code_of(body: str) -> str:
    """Code without white space at the ends of its lines."""
    return "\n".join(line.rstrip() for line in body.splitlines())


def _folded(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'")).casefold()


def _number(word: str) -> int:
    """Return a word as 64 bits, never 0: that fills up short texts."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") or 1


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit finalizer of MurmurHash3 (Appleby, public domain): every input bit changes half of the output
    bits."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))
