"""Misspelt words of a query, read as words of the pages. A word that is in no passage is read as one that is, at one
edit's distance (Damerau-Levenshtein: insertion, deletion, substitution, transposition), from eight letters on two;
among equals as the more frequent one. Terms are stems, and an edit can break a word's ending (`configuraton`): so the
edited word is stemmed and looked up, rather than the stem edited."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.text.analyzer import STOP_WORDS, stems
from rag_serving.text.normalization import caseless

NAMED = ["space", "title", "labels"]


@dataclass(frozen=True)
class Names:
    """Names as pages write them, each by its `caseless` form."""

    spaces: Mapping[str, str]
    labels: Mapping[str, str]
    titles: Mapping[str, str]


def names_of(tables: Iterable[pa.Table]) -> Names:
    """Return the names in tables with the columns `NAMED`; of two with the same form the first in order."""
    names: dict[str, set[str | None]] = {column: set() for column in NAMED}
    for table in tables:
        names["space"].update(pc.unique(table["space"]).to_pylist())
        names["title"].update(pc.unique(table["title"]).to_pylist())
        names["labels"].update(pc.unique(pc.list_flatten(table["labels"])).to_pylist())
    return Names(_by_form(names["space"]), _by_form(names["labels"]), _by_form(names["title"]))


def _by_form(names: Iterable[str | None]) -> dict[str, str]:
    return {caseless(name): name for name in sorted(filter(None, names), reverse=True)}


SHORTEST, TWO_EDITS_FROM = 4, 8
_LONGEST = 30  # edits grow with the length, and nobody misspells such a word by two letters
_FEWEST_ALIKE = 5  # letters of a stem within two edits
_TRIED = 3  # terms, the most frequent first, whose words are looked at
_PLAIN = re.compile(r"[a-z]+")
_ENDINGS = (
    *("", "e", "s", "es", "ed", "er", "ers", "ing", "ings", "ion", "ions", "ation", "ations", "ment", "ments", "ly"),
    *("al", "able", "ive", "ity"),
)

Frequency = Callable[[str], int]  # in how many passages that the caller may read a term stands
Written = Callable[[str], Iterable[str]]  # how a term is written in passages that the caller may read
Expect = Callable[[Collection[str]], object]  # hears which terms are asked for next, so that they are fetched together


class Speller:
    """The plain words of one vocabulary, by first letter and length. Safe to use from several threads."""

    def __init__(self, terms: Collection[str]) -> None:
        self._terms = terms
        self._alike: dict[tuple[str, int], list[str]] = {}
        for term in terms:
            if len(term) >= _FEWEST_ALIKE and _PLAIN.fullmatch(term):
                self._alike.setdefault((term[0], len(term)), []).append(term)

    def correction(self, word: str, frequency: Frequency, written: Written, expect: Expect | None = None) -> str | None:
        """Return the word of the pages that a word in lower case was meant to be; None if nothing is near enough."""
        if not SHORTEST <= len(word) <= _LONGEST or not _PLAIN.fullmatch(word):
            return None
        edited = [one for one in dict.fromkeys(_edits(word)) if len(one) >= SHORTEST - 1 and one != word]
        fillers = sorted(STOP_WORDS.intersection(edited))
        near = fillers[0] if fillers else _nearest(word, self._ranked(word, edited, frequency, expect), written)
        if near is None and len(word) >= TWO_EDITS_FROM:
            near = _nearest(word, self._ranked(word, self._two_edits_away(word), frequency, expect), written)
        return near

    def _ranked(self, word: str, near: Sequence[str], frequency: Frequency, expect: Expect | None) -> list[str]:
        """Return the known terms of words near a word: those with its first letter first, then the more frequent."""
        first: dict[str, bool] = {}
        for one, stem in zip(near, stems(near), strict=True):
            if stem in self._terms:
                first[stem] = first.get(stem, False) or one[0] == word[0]
        if expect:
            expect(first.keys())
        candidates = [(not first[stem], -count, stem) for stem in first if (count := frequency(stem))]
        return [stem for _, _, stem in sorted(candidates)[:_TRIED]]

    def _two_edits_away(self, word: str) -> list[str]:
        """Inflections of known terms with the same first letter, up to two edits from the word."""
        from rapidfuzz.distance import DamerauLevenshtein
        from rapidfuzz.process import extract

        words: list[str] = []
        for length in range(_FEWEST_ALIKE, len(word) + 3):
            terms = self._alike.get((word[0], length), [])
            near = extract(word[:length], terms, scorer=DamerauLevenshtein.distance, score_cutoff=2, limit=None)
            words += [term + ending for term, _, _ in near for ending in _ENDINGS]
        return [one for one in words if DamerauLevenshtein.distance(word, one, score_cutoff=2) <= 2]


def _nearest(word: str, terms: Iterable[str], written: Written) -> str | None:
    """Return the word of the pages nearest to a word, of the first term that is written within two edits there. Two for
    a short word as well: an edit away may be an inflection that no page has (`valiity`, validity, valid)."""
    from rapidfuzz.distance import DamerauLevenshtein

    for term in terms:
        near = [(DamerauLevenshtein.distance(word, one), one) for one in sorted(set(written(term)))]
        if near and min(near)[0] <= 2:
            return min(near)[1]
    return None


def _edits(word: str) -> Iterator[str]:
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in ascii_lowercase)
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        yield from (before + letter + after for letter in ascii_lowercase)
