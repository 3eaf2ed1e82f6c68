"""Occurrences of terms in rows: counted part by part of the rows, then combined term by term.

A part keeps three bytes for each row of each term; the texts that it was counted from are forgotten. Terms are numbered
as they come, and by their order among all only when all parts are there. An earlier index's entries of unchanged rows
are copied under their new numbers. No more than some millions of postings are combined at once. A text is split at its
spaces, and each run between them is analyzed once: most of them recur, and a lookup takes a quarter of the time of an
analysis.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import combine_chunks, indices, mask_of, numbers_of, take_rows
from rag_serving.artifacts.contents import let_go

_BLOCK = 65_536  # rows whose cells are compared at once
_PLACE = ("source", "page_id", "chunk_idx")  # with the chunk id, what rows are ordered by

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class KeptRows:
    """The positions of a table's rows in an earlier one of `total` rows: [rows], -1 for new ones, else ascending."""

    earlier: Numbers
    total: int

    @property
    def fresh(self) -> NDArray[np.int64]:
        """Return the rows that are new, ascending."""
        return np.flatnonzero(self.earlier < 0)

    @property
    def renumbered(self) -> Numbers:
        """Return for each row of the earlier table its number now, -1 if it is gone."""
        numbers = np.full(self.total, -1, np.int32)
        kept = np.flatnonzero(self.earlier >= 0)
        numbers[self.earlier[kept]] = kept
        return numbers

    @property
    def worthwhile(self) -> bool:
        """Return whether most rows are kept."""
        return 2 * int(np.count_nonzero(self.earlier >= 0)) > len(self.earlier)


def find_kept_rows(
    table: pa.Table, earlier: pa.Table, columns: Sequence[str], compared_block: Callable[[], None] = lambda: None
) -> KeptRows:
    """Return the rows with the same chunk id, place and cells of some columns in an earlier table. Cells are compared,
    not their digests, so that nothing rests on a column that something else filled in. Both tables are in the order of
    `arrange`. `compared_block` is called after some ten thousand rows: memory of mapped tables can be let go."""
    numbers = numbers_of(pc.fill_null(pc.index_in(table["chunk_id"], value_set=earlier["chunk_id"]), -1)).astype(
        np.int32
    )
    known, compared = np.flatnonzero(numbers >= 0), [*dict.fromkeys((*_PLACE, *columns))]
    for start in range(0, len(known), _BLOCK):
        rows = known[start : start + _BLOCK]
        others = numbers[rows]
        own, other = rows_of(table.select(compared), rows), rows_of(earlier.select(compared), others)
        same = np.ones(len(rows), np.bool_)
        for name in compared:
            same &= same_cells(*(combine_chunks(part[name]) for part in (own, other)))
        numbers[rows[~same]] = -1
        compared_block()
    found = numbers[numbers >= 0]
    if np.any(np.diff(found) <= 0):  # ordered otherwise: nothing can be copied in order
        numbers = np.full(len(table), -1, np.int32)
    return KeptRows(numbers, len(earlier))


def same_cells(one: pa.Array, other: pa.Array) -> Mask:
    """Return in which rows two columns of a type have the same cells; nulls are the same."""
    if not len(one):
        return np.zeros(0, np.bool_)
    if not pa.types.is_list(one.type):
        return mask_of(pc.equal(one, other)) | (mask_of(one.is_null()) & mask_of(other.is_null()))
    sizes, others = (_sizes(column) for column in (one, other))
    same: Mask = sizes == others
    rows = indices(np.flatnonzero(same & (sizes > 0)))
    members = same_cells(one.take(rows).flatten(), other.take(rows).flatten())
    owners = np.repeat(np.flatnonzero(same & (sizes > 0)), sizes[same & (sizes > 0)])
    same[owners[~members]] = False
    return same


def _sizes(column: pa.Array) -> Numbers:
    sizes = pc.fill_null(pc.list_value_length(column), -1)
    return np.array(np.from_dlpack(sizes), np.int32) if len(sizes) else np.zeros(0, np.int32)


def rows_of(table: pa.Table, rows: NDArray[Any]) -> pa.Table:
    """Return some rows, ascending; not copied where they follow each other."""
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1:
        return table.slice(int(rows[0]), len(rows))
    return take_rows(table, rows)


Numbers = NDArray[np.int32]
Borders = NDArray[np.int64]
PART = 25_000
"""Rows that are counted at once: 4 million words of some 150 each."""
BLOCK = 1 << 22
"""Postings that are put together at once."""


class RowPostings(NamedTuple):
    """The terms of some rows in ascending order of their numbers; rows and counts of each, rows ascending."""

    terms: Numbers
    starts: Borders  # [terms + 1]
    places: NDArray[Any]  # of rows, among `rows`
    counts: NDArray[Any]
    rows: Numbers


class KeptPostings(NamedTuple):
    """Postings of an earlier index, those of its term i are `[starts[i]:starts[i+1]]`."""

    places: Numbers  # of each of its terms in the order of all, ascending
    starts: Borders
    rows: Numbers  # as it numbered them
    counts: Numbers | None  # None: not wanted
    renumbered: Numbers  # by its numbers: the row's number now, -1 if it is counted again or gone; else ascending


class PostingBlock(NamedTuple):
    """The postings of some terms that follow each other, rows ascending."""

    sizes: Borders  # [terms]
    rows: Numbers
    counts: Numbers


def counted(terms: Numbers, owners: Numbers, rows: Numbers) -> RowPostings:
    """Return the frequency of each term in each row, from one term number and row position per occurrence. `rows`: the
    numbers of the rows, ascending."""
    width = max(len(rows), 1)
    keys = terms.astype(np.int64) * width + owners
    keys.sort()
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(begins, append=len(keys))
    own, places = np.divmod(keys[begins], width)
    starts = np.flatnonzero(np.diff(own, prepend=-1))
    return RowPostings(own[starts].astype(np.int32), np.append(starts, len(own)), _small(places), _small(counts), rows)


def _small(numbers: Borders) -> NDArray[Any]:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def blocks(
    parts: Sequence[RowPostings], places: Numbers, terms: int, kept: KeptPostings | None = None
) -> Iterator[PostingBlock]:
    """Yield the postings of all terms in their order, some millions at a time. `parts`: their rows follow each other;
    `places`: the position of each of their term numbers in the order of the `terms` terms. A term without remaining
    rows has no posting."""
    ordered = [_Ordered.of(part, places) for part in parts]
    ends = np.zeros(terms, np.int64)
    for part in ordered:
        ends[part.places] += part.sizes
    if kept:
        ends[kept.places] += np.diff(kept.starts)
    np.cumsum(ends, out=ends)
    first = 0
    while first < terms:
        done = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, done + BLOCK, side="right")), first + 1)
        block = _counted_block(ordered, first, last)
        yield _with_kept(block, kept, first, last) if kept else block
        for numbers in (kept.rows, kept.counts) if kept else ():
            if numbers is not None:
                let_go(numbers)
        first = last


class _Ordered(NamedTuple):
    """The terms of a part by their places in the order of all."""

    places: Numbers
    starts: Borders
    sizes: Borders
    part: RowPostings

    @classmethod
    def of(cls, part: RowPostings, places: Numbers) -> _Ordered:
        own = places[part.terms]
        order = np.argsort(own)
        return cls(own[order], part.starts[:-1][order], np.diff(part.starts)[order], part)


def _counted_block(ordered: Sequence[_Ordered], first: int, last: int) -> PostingBlock:
    """Return the counts of the terms from `first` to before `last`."""
    ranges = [(one, slice(*np.searchsorted(one.places, (first, last)))) for one in ordered]
    sizes = np.zeros(last - first, np.int64)
    for one, own in ranges:
        sizes[one.places[own] - first] += one.sizes[own]
    free = np.cumsum(sizes) - sizes
    rows, counts = np.empty(int(sizes.sum()), np.int32), np.empty(int(sizes.sum()), np.int32)
    for one, own in ranges:
        terms, lengths = one.places[own] - first, one.sizes[own]
        steps = np.arange(int(lengths.sum()))
        before = np.cumsum(lengths) - lengths
        sources = np.repeat(one.starts[own] - before, lengths) + steps
        targets = np.repeat(free[terms] - before, lengths) + steps
        rows[targets] = one.part.rows[one.part.places[sources]]
        counts[targets] = one.part.counts[sources]
        free[terms] += lengths
    return PostingBlock(sizes, rows, counts)


def _with_kept(new: PostingBlock, kept: KeptPostings, first: int, last: int) -> PostingBlock:
    begin, end = np.searchsorted(kept.places, (first, last))
    postings = slice(kept.starts[begin], kept.starts[end])
    rows = kept.renumbered[kept.rows[postings]]
    terms = np.repeat(kept.places[begin:end] - first, np.diff(kept.starts[begin : end + 1]))
    counts = rows if kept.counts is None else kept.counts[postings]
    stays = rows >= 0
    if not stays.all():
        rows, terms, counts = rows[stays], terms[stays], counts[stays]
    sizes = np.bincount(terms, minlength=last - first) + new.sizes
    if len(new.rows):
        width = np.int64(max(int(rows.max(initial=0)), int(new.rows.max())) + 1)
        owners = np.repeat(np.arange(last - first), new.sizes)
        targets = np.searchsorted(terms * width + rows, owners * width + new.rows)
        rows, counts = np.insert(rows, targets, new.rows), np.insert(counts, targets, new.counts)
    return PostingBlock(sizes, rows, counts)


MOST = 1 << 20
"""Tokens that are remembered, some 150 MB."""
NumbersOf = Callable[[str], Iterable[int]]


class TokenLists:
    """Lists of numbers, one for each token, and the tokens of each kind."""

    def __init__(self) -> None:
        self._members, self._borders = array("i"), array("q", [0])
        self._tokens: dict[str | None, _Tokens] = {}

    def __len__(self) -> int:
        return len(self._borders) - 1

    def tokens(self, kind: str | None, numbers_of: NumbersOf) -> Callable[[str], int]:
        """Return a function to the list's number of a token of a kind, by `numbers_of` for new ones."""
        known = self._tokens.get(kind)
        if known is None:
            known = self._tokens[kind] = _Tokens(lambda token: self._add(numbers_of(token)))
        return known.__getitem__

    def members(self, lists: Numbers) -> tuple[Numbers, Borders]:
        """Return the members of some lists, one after the other, and how many each has."""
        borders = np.array(self._borders)
        sizes = np.diff(borders)[lists]
        shifts = borders[lists] - (np.cumsum(sizes) - sizes)
        places = np.repeat(shifts, sizes) + np.arange(int(sizes.sum()))
        return np.array(self._members, np.int32)[places], sizes

    def shrink(self) -> None:
        """Forget all lists if there are too many: numbers that were given before are worth nothing then."""
        if len(self) > MOST:
            self.__init__()  # type: ignore[misc]

    def _add(self, numbers: Iterable[int]) -> int:
        self._members.extend(numbers)
        self._borders.append(len(self._members))
        return len(self) - 1


class _Tokens(dict[str, int]):
    """The list's number of every token of one kind."""

    def __init__(self, add: Callable[[str], int]) -> None:
        super().__init__()
        self._add = add

    def __missing__(self, token: str) -> int:
        number = self[token] = self._add(token)
        return number
