"""Cells of Arrow columns: the same values as pyarrow's own way, wherever a column begins."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.artifacts.columns import indices, mask_of, numbers_of, reader, rows_in, strings
from rag_serving.artifacts.schema import GENERATION_CHUNKS

_TEXTS = st.text(max_size=8)
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
