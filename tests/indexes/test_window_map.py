"""A row with several vectors is as similar as the nearest of them, whatever else is done to find it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.examples import examples
from support.synthetic import clustered_vectors

from rag_assets.publishing.workspace import save_codes
from rag_serving.artifacts.contents import map_file
from rag_serving.indexes import exact
from rag_serving.indexes.exact import (
    CODES_FILE,
    FACTS_FILE,
    Codes,
    VectorTable,
    WindowMap,
    WindowsError,
    chunk_id_of,
    vector_ids,
    window_counts,
    window_map,
)
from rag_serving.indexes.readable_rows import best

DIMENSION = 16


def counts_of(rows: int, seed: int, most: int = 5) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(1, most + 1, rows)


def table_of(counts: NDArray[np.int64], seed: int, folder: Path | None = None) -> VectorTable:
    vectors = clustered_vectors(int(counts.sum()), DIMENSION, seed=seed)
    codes = None
    if folder:
        save_codes(folder, vectors)
        codes = Codes.open(map_file(folder / CODES_FILE), map_file(folder / FACTS_FILE), *vectors.shape)
    return VectorTable(vectors, codes, WindowMap(counts))


def by_brute_force(table: VectorTable, counts: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the largest cosine of each row's vectors, row by row."""
    parts = np.split(np.einsum("ij,j->i", table.vectors, query), np.cumsum(counts)[:-1])
    return np.array([part.max() for part in parts], np.float32)


@given(rows=st.integers(1, 60), seed=st.integers(0, 2**32 - 1), chosen=st.integers(0, 2**60))
@settings(max_examples=examples(1))
def test_a_similarity_is_that_of_the_nearest_window(rows: int, seed: int, chosen: int) -> None:
    counts = counts_of(rows, seed)
    table, query = table_of(counts, seed), clustered_vectors(1, DIMENSION, seed=seed + 1)[0]
    wanted = np.flatnonzero([chosen >> row & 1 for row in range(rows)])
    assert exact.similarities(table, query, wanted).tolist() == by_brute_force(table, counts, query)[wanted].tolist()


@pytest.mark.parametrize("k", [1, 80, 3000])
@pytest.mark.parametrize("most", [2, 16])
def test_a_search_by_codes_is_to_the_last_bit_that_of_brute_force(tmp_path: Path, k: int, most: int) -> None:
    counts = counts_of(3000, 7, most)
    table, random = table_of(counts, 3, tmp_path), np.random.default_rng(1)
    for query in clustered_vectors(5, DIMENSION, seed=2):
        scores = by_brute_force(table, counts, query)
        for share in (1.0, 0.5, 0.01, 0.0):
            rows = np.flatnonzero(random.random(len(counts)) < share)
            found = exact.search(table, query, k, rows)
            assert found == best(rows, scores[rows], k)
            assert len({hit.row for hit in found}) == len(found) == min(k, len(rows))


def test_blocks_of_rows_are_compared_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = counts_of(500, 5)
    table, query = table_of(counts, 5), clustered_vectors(1, DIMENSION, seed=9)[0]
    rows = np.arange(500)
    at_once = exact.similarities(table, query, rows)
    monkeypatch.setattr(exact, "_BLOCK", 7)
    assert exact.similarities(table, query, rows).tolist() == at_once.tolist()


def test_one_vector_for_each_row_needs_no_map() -> None:
    assert window_map(pa.chunked_array([[["a"], ["b"]], [["c"]]])) is None
    assert window_map(pa.chunked_array([pa.array([], pa.list_(pa.string()))])) is None


def test_a_column_in_several_parts_is_read_as_one() -> None:
    column = pa.chunked_array([[["a", "b"], ["c"]], [["d", "e", "f"]]])
    assert window_counts(column).tolist() == [2, 1, 3]
    assert window_counts(column.slice(1)).tolist() == [1, 3]


@pytest.mark.parametrize("keys", [[["a"], []], [["a"], None]])
def test_a_row_without_a_vector_is_refused(keys: list[list[str] | None]) -> None:
    with pytest.raises(WindowsError, match="names no vector"):
        window_counts(pa.chunked_array([pa.array(keys, pa.list_(pa.string()))]))


@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=30))
@settings(max_examples=examples(0.5))
def test_every_vector_has_an_id_that_tells_its_row(counts: list[int]) -> None:
    chunk_ids = [f"handbook#{row}.md:3:{row}" for row in range(len(counts))]
    ids, windows = vector_ids(chunk_ids, counts), WindowMap(np.array(counts))
    assert len({*ids}) == len(ids) == windows.vectors
    for number, vector_id in enumerate(ids):
        assert chunk_ids[windows.row_of(number)] == chunk_id_of(vector_id)
        assert windows.start_of(windows.row_of(number)) <= number


def test_the_vector_of_a_row_is_the_mean_of_its_windows_and_of_length_one() -> None:
    counts = counts_of(40, 2)
    table = table_of(counts, 2)
    means = table.mean(np.arange(40))
    np.testing.assert_allclose(np.linalg.norm(means, axis=1), 1, atol=1e-6)
    for row, part in enumerate(np.split(table.vectors, np.cumsum(counts)[:-1])):
        np.testing.assert_allclose(means[row], part.sum(axis=0) / np.linalg.norm(part.sum(axis=0)), atol=1e-6)
    assert table.mean(np.array([], np.int64)).shape == (0, DIMENSION)


def test_windows_that_point_apart_still_give_a_row_a_vector() -> None:
    vectors = np.array([[1, 0], [-1, 0], [0, 1]], np.float32)
    means = VectorTable(vectors, windows=WindowMap(np.array([2, 1]))).mean(np.array([0, 1]))
    np.testing.assert_array_equal(means, [[1, 0], [0, 1]])
