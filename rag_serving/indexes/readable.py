"""What one caller may be told of a generation's words and names: those of passages that it may read, no others.

Belongs here: frequencies, corrections, names and phrases, each for some reader classes.
Does not belong here: what a query makes of them (`query.parsing`), searching (`retrieval.hybrid`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.generation import Generation
from rag_serving.query.vocabulary import Names
from rag_serving.text.analyzer import analyze, stems
from rag_serving.text.normalization import caseless, holds

# Passages that are read to see how a term is written.
_SHOWING = 10
# Passages with all words of a phrase that are read to see whether they hold it to the letter.
_READ_AT_MOST = 1000


class Readable:
    """A generation as whoever satisfies some reader classes may know it. Costs nothing until it is asked."""

    def __init__(
        self, generation: Generation, classes: frozenset[str], is_word: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`is_word` says which words are right though no passage holds them."""
        self._generation = generation
        self._classes = classes
        self._is_word = is_word

    def frequency(self, term: str) -> int:
        """How many passages hold an analyzed term."""
        return self._generation.frequency(term, self._classes)

    def correction(self, word: str) -> str | None:
        """The word of these passages that a word in lower case was meant to be, if it is none and one is near."""
        if self._is_word(word):
            return None
        return self._generation.speller.correction(word, self.frequency, self._written)

    def _written(self, stem: str) -> Iterator[str]:
        """The words in lower case that have this stem in the first passages that hold it."""
        for row in self._generation.rows_with([stem], self._classes)[:_SHOWING]:
            words = re.findall(rf"\b{stem[0]}[a-z]*", self._generation.wording(int(row)).lower())
            yield from (word for word, its in zip(words, stems(words), strict=True) if its == stem)

    @property
    def names(self) -> Names:
        """The spaces, labels and titles of these passages, and of the other places where their texts stand."""
        return self._generation.names(self._classes)

    def holding(self, phrase: str) -> NDArray[np.int64]:
        """The rows that hold a phrase to the letter, ascending, of the first 1,000 that hold all of its words."""
        rows = self._generation.rows_with(analyze(phrase), self._classes)[:_READ_AT_MOST]
        wanted, wording = caseless(phrase), self._generation.wording
        return np.array([row for row in rows.tolist() if holds(caseless(wording(row)), wanted)], np.int64)
