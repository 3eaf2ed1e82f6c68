"""Words as the keyword tier compares them: in lower case, without punctuation and accents, singulars and plurals. Only
plurals are stripped, because a full stemmer joins words that name different things (`notes`, `notation`): s, es and
ies, from four letters on."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rag_serving.text.analyzer import folded

VERSION = 1  # raised when the same text would give other words

SHORTEST_STEMMED = 4  # letters of the shortest word whose plural is stripped
_LONGEST = 80  # characters of a word; the rest is cut
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0900-\u0963\u0966-\u0fbc"  # \w leaves combining marks out
_WORD = re.compile(rf"[\w{_MARKS}]+(?:['’][\w{_MARKS}]+)*")
_CLITIC = re.compile(r"['’]s?\Z")
_SIBILANT = ("s", "x", "z", "ch", "sh", "o")
_NO_PLURAL = ("ss", "us", "is")


def words_in(text: str) -> list[str]:
    """Return the words of a text in order, repetitions kept: `Quick-Links' owner's` gives quick, links, owner."""
    return words_of_token(_lowered(text))


def tokens_in(text: str) -> list[str]:
    """Return the runs between spaces, in lower case: `words_of_token` of one after the other gives `words_in`."""
    return _lowered(text).split()


def words_of_token(token: str) -> list[str]:
    """Return the words of a token of `tokens_in`."""
    return [
        _CLITIC.sub("", word).replace("'", "").replace("’", "")[:_LONGEST]
        if "'" in word or "’" in word
        else word[:_LONGEST]
        for word in _WORD.findall(token)
    ]


def _lowered(text: str) -> str:
    if not text.isascii():
        text = folded(unicodedata.normalize("NFKC", text))
    return text.lower().replace("_", " ")


@lru_cache(maxsize=4096)
def inflections(word: str) -> frozenset[str]:
    """Return a word and all words that are the same but for a plural: those with a singular in common."""
    return frozenset(form for base in singulars(word) for form in (base, *_plurals(base)))


def singulars(word: str) -> frozenset[str]:
    """Return a word and its possible singulars, by its ending alone."""
    if len(word) < SHORTEST_STEMMED or not word.endswith("s") or word.endswith(_NO_PLURAL) or not word.isalpha():
        return frozenset({word})
    bases = {word, word[:-1]}
    if word.endswith("ies"):
        bases.add(f"{word[:-3]}y")
    elif word.endswith("es") and word[:-2].endswith(_SIBILANT):
        bases.add(word[:-2])
    return frozenset(bases)


def _plurals(word: str) -> tuple[str, ...]:
    if len(word) < SHORTEST_STEMMED - 1 or not word.isalpha():
        return ()
    ies = (f"{word[:-1]}ies",) if word.endswith("y") else ()
    es = (f"{word}es",) if word.endswith(_SIBILANT) else ()
    return (f"{word}s", *ies, *es)
