"""Postings as documents have them: those of many rare terms together, those of a common one in parts.

Belongs here: packing and unpacking. Does not belong here: which terms there are (the writer), asking (`reader`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from citelock_stores.remote.packing import bytes_of, pack_table, text_of, unpack_tables
from citelock_stores.remote.protocol import Postings
from rag_serving.artifacts.columns import numbers_of

_SCHEMA = pa.schema([("term", pa.string()), ("rows", pa.list_(pa.int32())), ("counts", pa.list_(pa.int32()))])


class TermRows(NamedTuple):
    """Some of the chunks of one reader class that have a term."""

    term: str
    rows: NDArray[Any]  # ascending
    counts: NDArray[Any] | None  # None: 1 each


def pack_postings(postings: Sequence[TermRows]) -> str:
    """Return postings in a few characters."""
    terms = pa.array([each.term for each in postings], pa.string())
    rows = [np.asarray(each.rows, np.int32) for each in postings]
    counts = [np.ones(len(each.rows), np.int32) if each.counts is None else each.counts for each in postings]
    return text_of(pack_table(pa.table([terms, _lists(rows), _lists(counts)], schema=_SCHEMA)))


def unpack_postings(packed: Iterable[str], terms: Collection[str]) -> Mapping[str, Postings]:
    """Return those of some terms, of all reader classes together; terms of none are left out.

    Raises:
        RemoteDataError: they are damaged.
    """
    table = unpack_tables([*map(bytes_of, packed)], _SCHEMA, ["term"])
    table = table.filter(pc.is_in(table["term"], pa.array(sorted(set(terms)), pa.string())))
    parts = defaultdict[str, list[tuple[Any, Any]]](list)
    for term, rows, counts in zip(table["term"].to_pylist(), table["rows"], table["counts"], strict=True):
        parts[term].append((numbers_of(rows.values), numbers_of(counts.values)))
    return {term: _joined(each) for term, each in parts.items()}


def _joined(parts: Sequence[tuple[Any, Any]]) -> Postings:
    rows = np.concatenate([rows for rows, _ in parts]).astype(np.int64)
    counts = np.concatenate([counts for _, counts in parts]).astype(np.int32)
    order = np.argsort(rows, kind="stable")
    return Postings(rows[order], counts[order])


def _lists(arrays: Sequence[NDArray[Any]]) -> pa.Array:
    borders = np.cumsum([0, *map(len, arrays)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.int32), *arrays]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(borders), pa.array(values))
