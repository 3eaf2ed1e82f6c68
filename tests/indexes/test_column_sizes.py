"""A column that is too large for a part of a generation is refused before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors, config_for

from rag_assets.publishing.arrange import MOST, BuildError, in_order, oversized_column
from rag_assets.publishing.build import build_dense
from rag_assets.publishing.lexical_writer import Lists
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store

KIBIBYTE, GIBIBYTE = 1 << 10, 1 << 30


def with_texts_of_three_gibibytes() -> pa.Table:
    """Three chunks whose texts share one gibibyte of zeros, which takes no memory until somebody reads it."""
    zeros = pa.py_buffer(np.zeros(GIBIBYTE, np.uint8))
    borders = pa.py_buffer(np.array([0, GIBIBYTE], np.int32))
    texts = pa.chunked_array([pa.StringArray.from_buffers(1, borders, zeros) for _ in range(3)])
    table = chunk_table(3)
    place = table.column_names.index("text")
    return table.set_column(place, table.schema.field("text"), texts)


def test_texts_beyond_two_gibibytes_in_one_part_are_refused_in_one_line(tmp_path: Path) -> None:
    table, store = with_texts_of_three_gibibytes(), Store(tmp_path)
    told = r"'text' of 3 chunks .* 2,147,483,647 .* lower ingestion.chunk_size_tokens"
    with pytest.raises(BuildError, match=told) as refused:
        build_dense(store, TENANT, table, clustered_vectors(3), config_for(tmp_path), MODEL)
    assert "\n" not in str(refused.value)
    assert not store.candidate(TENANT).exists()


def test_rows_of_texts_beyond_two_gibibytes_are_taken_without_joining_them() -> None:
    assert in_order(with_texts_of_three_gibibytes())["text"].num_chunks == 3
    zeros = pa.py_buffer(np.zeros(GIBIBYTE, np.uint8))
    borders = pa.py_buffer(np.arange(0, GIBIBYTE + 1, KIBIBYTE, np.int32))
    chunk = pa.StringArray.from_buffers(KIBIBYTE**2, borders, zeros)
    table = pa.table({"text": pa.chunked_array([chunk] * 3), "row": np.arange(3 * KIBIBYTE**2)})
    rows = np.array([3 * KIBIBYTE**2 - 1, 0, KIBIBYTE**2 + 5, 0])
    found = take_rows(table, rows)
    assert found["row"].to_pylist() == rows.tolist()
    assert pc.binary_length(found["text"]).to_pylist() == [KIBIBYTE] * 4
    with pytest.raises(pa.ArrowInvalid, match="offset overflow"):
        table.take(pa.array(rows))


def test_lists_of_more_numbers_than_can_be_counted_are_refused() -> None:
    values = np.broadcast_to(np.int32(0), MOST + 1)  # takes no memory
    with pytest.raises(BuildError, match=r"2,147,483,648 numbers, more than .* several tenants"):
        Lists(np.array([0, MOST + 1]), values).arrow()


CELL = st.fixed_dictionaries(
    {
        "text": st.text(max_size=5),
        "names": st.lists(st.text(max_size=3), max_size=3),
        "places": st.lists(st.fixed_dictionaries({"at": st.text(max_size=4)}), max_size=2),
    }
)
TYPES = pa.schema(
    {
        "text": pa.string(),
        "names": pa.list_(pa.string()),
        "places": pa.list_(pa.struct({"at": pa.string()})),
        "number": pa.int64(),
    }
)


@given(st.lists(st.lists(CELL, max_size=3), max_size=3), st.integers(0, 12))
@settings(max_examples=examples(0.5))
def test_sizes_are_those_of_all_parts_together(parts: list[list[dict[str, object]]], most: int) -> None:
    tables = [pa.Table.from_pylist([{**cell, "number": 7} for cell in part], TYPES) for part in parts]
    table = pa.concat_tables([TYPES.empty_table(), *tables])
    found = oversized_column(table, most)
    sizes = {name: size_of(table[name].to_pylist()) for name in TYPES.names}
    assert found == next((name for name, size in sizes.items() if size > most), None)


def size_of(cells: list[object]) -> int:
    """What a column's offsets hold at most, counted in Python."""
    if all(isinstance(cell, str) for cell in cells):
        return sum(len(str(cell).encode()) for cell in cells)
    if all(isinstance(cell, list) for cell in cells):
        members = [member for cell in cells for member in cell]  # type: ignore[attr-defined]
        return max(len(members), size_of(members))
    if all(isinstance(cell, dict) for cell in cells):
        return size_of([cell["at"] for cell in cells])  # type: ignore[index]
    return 0


def test_what_is_left_of_a_slice_counts() -> None:
    table = pa.table({"text": ["long enough", "x"]}).slice(1)
    assert oversized_column(table, 1) is None
    assert oversized_column(table, 0) == "text"
    assert oversized_column(GENERATION_CHUNKS.empty()) is None
    assert np.iinfo(np.int32).max == MOST
