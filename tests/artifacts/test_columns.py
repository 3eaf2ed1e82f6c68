"""Cells of Arrow columns: the same values as pyarrow's own way, wherever a column begins."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.artifacts.columns import (
    dictionary_encode,
    indices,
    mask_of,
    members_of,
    numbers_of,
    reader,
    reordered,
    rows_in,
    sort_rows,
    strings,
    take_rows,
)
from rag_serving.artifacts.schema import GENERATION_CHUNKS

_TEXTS = st.text(max_size=8)
_PLACES = pa.list_(pa.struct({"text": pa.string()}))
_VALUES = {
    pa.string(): _TEXTS,
    pa.list_(pa.string()): st.lists(_TEXTS, max_size=3),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.bool_(): st.booleans(),
    pa.timestamp("ms", tz="UTC"): st.datetimes(datetime(1000, 1, 1), datetime(3000, 1, 1), timezones=st.just(UTC)).map(
        lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)
    ),
}


@given(data=st.data(), nulls=st.booleans())
@pytest.mark.parametrize("kind", _VALUES, ids=str)
def test_rows_are_read_as_pyarrow_reads_them(kind: pa.DataType, data: st.DataObject, nulls: bool) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), _VALUES[kind]) if nulls else _VALUES[kind], max_size=12))
    start = data.draw(st.integers(0, len(values)))
    column = pa.array(values, kind).slice(start)
    rows = data.draw(st.lists(st.integers(0, len(column) - 1), max_size=12)) if len(column) else []

    assert reader(column)(rows) == column.take(pa.array(rows, pa.int64())).to_pylist()


def test_the_kinds_that_are_tested_are_those_of_a_generation() -> None:
    kinds = set(GENERATION_CHUNKS.columns.types) - {GENERATION_CHUNKS.columns.field("places").type}

    assert kinds == set(_VALUES)


@given(values=st.lists(st.one_of(st.none(), _TEXTS), max_size=12), wanted=st.lists(_TEXTS, max_size=4), data=st.data())
def test_rows_in_are_those_that_pyarrow_finds(values: list[str | None], wanted: list[str], data: st.DataObject) -> None:
    column = pa.array(values, pa.string()).slice(data.draw(st.integers(0, len(values))))
    known = [text for text in values if text]

    for sought in (wanted, known):
        assert rows_in(column, sought).tolist() == [value in sought for value in column.to_pylist()]
        assert rows_in(pa.chunked_array([column, column]), sought).tolist() == 2 * [
            v in sought for v in column.to_pylist()
        ]


@given(values=st.lists(st.one_of(st.none(), st.booleans()), max_size=20), start=st.integers(0, 20))
def test_a_null_is_not_in_a_mask(values: list[bool | None], start: int) -> None:
    column = pa.array(values, pa.bool_()).slice(min(start, len(values)))

    assert mask_of(column).tolist() == [value is True for value in column.to_pylist()]


@given(rows=st.lists(st.integers(0, 2**40), max_size=12))
def test_row_numbers_travel_both_ways(rows: list[int]) -> None:
    assert indices(np.array(rows, np.int64)).to_pylist() == indices(rows).to_pylist() == rows
    assert numbers_of(indices(rows)).tolist() == rows


@given(texts=st.lists(_TEXTS, max_size=6))
def test_texts_become_an_arrow_array(texts: list[str]) -> None:
    assert strings(texts).to_pylist() == texts


@st.composite
def chunked(draw: st.DrawFn, values: st.SearchStrategy[object], kind: pa.DataType) -> pa.ChunkedArray:
    """A column in some chunks, of which some are empty and none begins where its memory does."""
    chunks = [pa.array([cell, *cells], kind)[1:] for cell, *cells in draw(st.lists(st.lists(values, min_size=1)))]
    return pa.chunked_array(chunks, kind)


@given(data=st.data(), nulls=st.booleans())
@pytest.mark.parametrize("kind", _VALUES, ids=str)
def test_chunks_are_read_as_one_column(kind: pa.DataType, data: st.DataObject, nulls: bool) -> None:
    column = data.draw(chunked(st.one_of(st.none(), _VALUES[kind]) if nulls else _VALUES[kind], kind))
    rows = data.draw(st.lists(st.integers(0, len(column) - 1), max_size=12)) if len(column) else []
    whole = pa.table({"cell": column, "row": np.arange(len(column))})
    found = take_rows(whole, np.array(rows, np.int64))

    assert reader(column)(rows) == found["cell"].to_pylist() == [column[row].as_py() for row in rows]
    assert found["row"].to_pylist() == rows
    assert found.schema == whole.schema


@given(data=st.data())
def test_rows_in_chunks_are_put_in_order(data: st.DataObject) -> None:
    table = pa.table({"text": data.draw(chunked(_TEXTS, pa.string()))})
    table = table.append_column("row", pa.array(np.arange(len(table))))
    order = data.draw(st.permutations(range(len(table))))

    assert reordered(table, np.array(order, np.int64))["row"].to_pylist() == order
    assert sort_rows(table, "text").to_pylist() == table.sort_by("text").to_pylist()


@given(column=chunked(_TEXTS, pa.string()))
def test_values_of_all_chunks_are_numbered_alike(column: pa.ChunkedArray) -> None:
    values, numbers = dictionary_encode(column)

    assert list(values) == list(dict.fromkeys(column.to_pylist()))
    assert [values[number] for number in numbers] == column.to_pylist()


@given(column=chunked(st.lists(_TEXTS, max_size=3).map(lambda texts: [{"text": text} for text in texts]), _PLACES))
def test_members_of_lists_have_the_rows_of_their_lists(column: pa.ChunkedArray) -> None:
    members = [{**member, "row": row} for row, cell in enumerate(column.to_pylist()) for member in cell]

    assert members_of(column).to_pylist() == members
