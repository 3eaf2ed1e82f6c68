"""Passages that have a phrase, among many: a sieve that lets none of them slip, then the exact test.

Belongs here: finding a phrase at word boundaries in normalized texts, fast. Does not belong here: what is done with
them (`execute`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.records.sets import SetError
from rag_serving.sets.cells import normalized

_LONG, _MOST_KEPT = 10_000, 40  # texts of a column that something is kept of, and how much of that
_lock = Lock()
_kept: dict[tuple[object, ...], tuple[pa.ChunkedArray | pa.Array, np.ndarray]] = {}
_LAST = 0x30000  # above, no character has a compatibility form
_FEW = 500  # texts that are read one by one
_MARKS = r"\p{M}|[\x{1100}-\x{11ff}]"  # what other characters are composed with
_WHITE = r"[\t-\r\x1c-\x20]"
_NO_WORD = r"[^0-9A-Za-z_]"


class Phrase:
    """Words that a text has or has not."""

    def __init__(self, words: str) -> None:
        self.normalized = normalized(words)
        if not self.normalized:
            raise SetError("no words are asked for")
        self._exact = re.compile(rf"(?<!\w){re.escape(self.normalized)}(?!\w)")
        self._word = max(re.findall(r"[^\W_]+", self.normalized), key=len, default="")
        self._root = re.sub("(?<=...)(?:ies|y|s)$", "", self._word)  # so that both numbers of a noun share a sieve

    @property
    def sieve(self) -> str:
        """A pattern that finds whatever has the phrase, and more."""
        return re.escape(self._root)

    def is_in(self, text: str) -> bool:
        """Return whether a text has the phrase with no letter, digit or underscore directly before or after."""
        return self._exact.search(normalized(text)) is not None

    def rows(self, texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """Return the places of the texts that have the phrase, in order."""
        return _once(texts, self.normalized, lambda: self._found(texts))

    def _found(self, texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
        places = self.sieved(texts)
        few = texts.take(pa.array(places))
        fits = np.zeros(len(places), bool)
        is_simple = np.asarray(_is_simple(few))
        if self.normalized.isascii():
            fits = np.array(_has(few, self._plain_pattern)) & is_simple
        rest = np.flatnonzero(~is_simple)
        fits[rest] = [self.is_in(text) for text in few.take(pa.array(rest)).to_pylist()]
        return places[fits]

    def sieved(self, texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """Return the places of the texts that may have the phrase, in order: all that have it, and a few more."""
        return _once(texts, f"{self._root}…", lambda: self._sieve(texts))

    def _sieve(self, texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
        if not self._word:
            return np.flatnonzero(pc.is_valid(texts))
        may = np.zeros(len(texts), bool)
        if self._word.isascii():
            may = np.array(pc.fill_null(pc.match_substring(texts, self._root, ignore_case=True), False))
        odd = _odd(texts)
        odd = odd[~may[odd]]
        may[odd] = _has(texts.take(pa.array(odd)), self._loose_pattern) if len(odd) > _FEW else True
        return np.flatnonzero(may)

    def sieved_keys(self, texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """Return the places of the texts in which it may be the key of a property: before a colon or a bar, or in parts
        of a link."""
        is_linked = np.array(_has(texts, r"(?i)\]\("))
        may = is_linked.copy()
        may[self.sieved(texts)] = True
        places = np.flatnonzero(may)
        few = texts.take(pa.array(places))
        is_key = np.asarray(_has(few, rf"(?i){re.escape(self._word)}[^\n]*[:|]"))
        kept: np.ndarray = places[is_key | is_linked[places] | ~np.asarray(_is_simple(few))]
        return kept

    @property
    def _plain_pattern(self) -> str:
        """The phrase in a text that is normalized by its case and white space alone."""
        words = f"{_WHITE}+".join(map(re.escape, self.normalized.split(" ")))
        return rf"(?i)(?:\A|{_NO_WORD}){words}(?:\z|{_NO_WORD})"

    @cached_property
    def _loose_pattern(self) -> str:
        """The longest word in every spelling that is normalized to it, and characters that may hide a part of it."""
        spellings, hiding = _spellings()
        removed = _class(spellings["*"] | spellings["`"] | {"*", "`"})
        letters = f"{removed}*".join(_class(spellings[letter] | {letter}) for letter in self._root)
        hidden = {character for character, made in hiding.items() if _may_overlap(made, self._root)}
        return letters + (f"|{_class(hidden)}" if hidden else "") + ("" if self._word.isascii() else f"|{_MARKS}")


def addressed(texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return the places of the texts that have an address of a link."""
    return _once(texts, "…](", lambda: np.flatnonzero(_has(texts, r"(?i)\]\(|https?:")))


def _odd(texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return the places of the texts that are not simple."""
    return _once(texts, "", lambda: np.flatnonzero(~np.asarray(_is_simple(texts))))


def _once(texts: pa.ChunkedArray | pa.Array, what: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Return places in a column; of a long one those that were made last are kept for the next question."""
    if len(texts) < _LONG:
        return make()
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    key = (what, *((chunk.buffers()[1].address, chunk.offset, len(chunk)) for chunk in chunks))
    with _lock:
        kept = _kept.pop(key, None)
    kept = kept or (texts, make())
    with _lock:
        _kept[key] = kept  # the buffer that the key names lives as long
        while len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]
    return kept[1]


def _is_simple(texts: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return which texts are normalized by their case and white space alone."""
    marked = pc.or_(_has(texts, r"(?i)\*"), _has(texts, "(?i)`"))  # of a single character this is the fast way
    return pc.fill_null(pc.and_(pc.string_is_ascii(texts), pc.invert(marked)), True)


def _has(texts: pa.ChunkedArray | pa.Array, pattern: str) -> pa.ChunkedArray | pa.Array:
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False)


def _class(characters: set[str]) -> str:
    codes = "".join(f"\\x{{{ord(one):x}}}" for one in sorted(characters))
    return f"[{codes}]"


def _may_overlap(made: str, word: str) -> bool:
    """Return whether what a character is normalized to can be a part of a word, or the word a part of it."""
    ends = range(1, min(len(made), len(word)))
    return (
        "*" in made or made in word or word in made or any(made[-n:] == word[:n] or made[:n] == word[-n:] for n in ends)
    )


@lru_cache(maxsize=1)
def _spellings() -> tuple[dict[str, set[str]], dict[str, str]]:
    """Return the characters that are normalized to each one, and what those are normalized to that become several."""
    spellings: dict[str, set[str]] = defaultdict(set)
    hiding = {}
    for character in map(chr, (*range(0x80, 0xD800), *range(0xE000, _LAST))):
        made = unicodedata.normalize("NFKC", character).casefold()
        if len(made) == 1:
            spellings[made].add(character)
        elif made:
            hiding[character] = made
    for code in range(0x41, 0x5B):
        spellings[chr(code).lower()].add(chr(code))
    return spellings, hiding
