"""BM25 over postings that the database hands out: of the chunks that one reader may see, and no others.

Belongs here: fetching and keeping them. Does not belong here: the formula (`indexes.bm25`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from citelock_stores.remote.protocol import PostingKind, RemoteReader
from citelock_stores.remote.recent import Recent
from citelock_stores.remote.rows import RowNumbers, Rows
from rag_serving.indexes.bm25 import Allowed, Bm25, Occurrences

LIMIT = 16 << 20
"""Bytes of postings that one catalog keeps of each kind."""
_OVERHEAD = 200
_NOWHERE = Occurrences(np.zeros(0, np.int64), np.zeros(0, np.int32))


class RecentPostings:
    """The postings of one kind, by the rows of a catalog. Safe to use from several threads."""

    def __init__(self, reader: RemoteReader, numbers: RowNumbers, kind: PostingKind) -> None:
        self._reader, self._numbers, self._kind = reader, numbers, kind
        self.recent: Recent[str, Occurrences] = Recent(self._fetch, _size, LIMIT)

    def of(self, terms: Collection[str]) -> dict[str, Occurrences]:
        """Return where each of some terms stands; those that are not kept are asked for together."""
        return self.recent.of(terms)

    @cached_property
    def terms(self) -> dict[str, int]:
        """The terms, and how many chunks hold each."""
        table = self._reader.vocabulary(self._kind)
        return dict(zip(table["term"].to_pylist(), table["chunks"].to_pylist(), strict=True))

    def counts_if_known(self) -> dict[str, int] | None:
        """Return `terms` where they were asked for before."""
        return vars(self).get("terms")

    def _fetch(self, terms: list[str]) -> Mapping[str, Occurrences]:
        found = self._reader.postings(self._kind, terms)
        held = {term: self._held(rows, counts) for term, (rows, counts) in found.items()}
        return {term: held.get(term, _NOWHERE) for term in terms}

    def _held(self, rows: Rows, counts: NDArray[np.int32]) -> Occurrences:
        used = self._numbers.used(rows)
        return Occurrences(self._numbers.inward(rows[used]), counts[used])


class RemoteLexical(Bm25):
    """The lexical index of a catalog. Safe to search from several threads."""

    def __init__(self, postings: RecentPostings, lengths: NDArray[np.int32]) -> None:
        """`lengths` [rows]: the number of terms of every chunk."""
        super().__init__(lengths)
        self._postings = postings

    def terms(self) -> Collection[str]:
        """Return every term of the chunks that the reader may see."""
        return self._postings.terms.keys()

    def frequency(self, term: str, allowed: Allowed | None = None) -> int:
        """Return how many chunks hold an analyzed term; of a catalog every chunk is allowed."""
        known = self._postings.counts_if_known()
        return super().frequency(term, allowed) if known is None or allowed is not None else known.get(term, 0)

    def occurrences(self, terms: Iterable[str]) -> Mapping[str, Occurrences]:
        """Return where each of some terms stands."""
        return self._postings.of(list(terms))


def _size(found: Occurrences) -> int:
    return _OVERHEAD + int(found.rows.nbytes + found.counts.nbytes)
