from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.examples import examples
from support.synthetic import clustered_vectors

from rag_assets.publishing.workspace import save_codes
from rag_serving.artifacts.contents import map_file
from rag_serving.indexes import exact
from rag_serving.indexes.exact import CODES_FILE, FACTS_FILE, Codes, CodesError, VectorTable

Vectors = NDArray[np.float32]


def coded(folder: Path, vectors: Vectors) -> Codes:
    save_codes(folder, vectors)
    return opened(folder, *vectors.shape)


def opened(folder: Path, rows: int, dimension: int) -> Codes:
    codes = Codes.open(map_file(folder / CODES_FILE), map_file(folder / FACTS_FILE), rows, dimension)
    codes.prepare()
    return codes


def awkward_vectors(count: int, dimension: int, seed: int) -> Vectors:
    """Dense, sparse, equal and nearly equal vectors, and such of one component, of length one."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, dimension))
    vectors[::5] *= random.random(vectors[::5].shape) < 0.1
    vectors[::7] = np.eye(dimension)[random.integers(0, dimension, len(vectors[::7]))]
    vectors[3::4] = vectors[3] + 1e-4 * random.normal(size=vectors[3::4].shape)
    vectors[~vectors.any(axis=1), 0] = 1
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@given(seed=st.integers(0, 2**32 - 1), dimension=st.sampled_from([1, 7, 64, 384]), length=st.sampled_from([1, 1e-3, 9]))
@settings(max_examples=examples(0.25))
def test_every_similarity_lies_between_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, seed: int, dimension: int, length: float
) -> None:
    vectors = awkward_vectors(200, dimension, seed)
    codes = coded(tmp_path_factory.mktemp("codes"), vectors)
    query = np.float32(length) * awkward_vectors(9, dimension, seed + 1)[8]
    lower, upper = codes.bounds(query)
    true = vectors.astype(np.float64) @ query.astype(np.float64)
    assert (lower <= true).all()
    assert (true <= upper).all()
    assert (upper - lower).max() < 0.05 * max(length, 0.1)


@pytest.mark.parametrize("k", [1, 80, 5000])
@pytest.mark.parametrize("make", [clustered_vectors, lambda n, d: awkward_vectors(n, d, 4)])
def test_a_search_by_codes_is_to_the_last_bit_the_search_without(tmp_path: Path, k: int, make: object) -> None:
    vectors = make(6000, 64)  # type: ignore[operator]
    codes = coded(tmp_path, vectors)
    random = np.random.default_rng(1)
    for query in clustered_vectors(10, 64, seed=2):
        for share in (1.0, 0.5, 0.01, 0.0):
            rows = np.flatnonzero(random.random(len(vectors)) < share)
            assert exact.search(VectorTable(vectors, codes), query, k, rows) == exact.search(
                VectorTable(vectors), query, k, rows
            )


def test_few_rows_are_left_to_compare(tmp_path: Path) -> None:
    vectors = clustered_vectors(20_000, 128)
    codes = coded(tmp_path, vectors)
    for query in clustered_vectors(10, 128, seed=5):
        lower, upper = codes.bounds(query)
        assert np.count_nonzero(upper >= np.sort(lower)[-80]) < 400


def test_bounds_of_a_row_do_not_depend_on_other_rows(tmp_path: Path) -> None:
    vectors, query = clustered_vectors(5000, 64), clustered_vectors(1, 64, seed=3)[0]
    (tmp_path / "all").mkdir()
    (tmp_path / "some").mkdir()
    everything = coded(tmp_path / "all", vectors).bounds(query)
    some = coded(tmp_path / "some", vectors[1000:1500]).bounds(query)
    for of_all, of_some in zip(everything, some, strict=True):
        assert (of_all[1000:1500] == of_some).all()


def test_many_threads_get_what_one_gets(tmp_path: Path) -> None:
    vectors, queries = clustered_vectors(5000, 64), clustered_vectors(64, 64, seed=3)
    table = VectorTable(vectors, coded(tmp_path, vectors))
    alone = [exact.search(table, query, 10) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda query: exact.search(table, query, 10), queries)] == alone


@pytest.mark.parametrize("spoil", ["empty", "truncated", "of other vectors"])
def test_codes_that_do_not_fit_are_named(tmp_path: Path, spoil: str) -> None:
    save_codes(tmp_path, clustered_vectors(100))
    path = tmp_path / CODES_FILE
    content = path.read_bytes()
    path.write_bytes(b"")
    if spoil == "truncated":
        path.write_bytes(content[:-50])
    elif spoil == "of other vectors":
        save_codes(tmp_path, clustered_vectors(99))
    with pytest.raises(CodesError, match="codes in"):
        opened(tmp_path, 100, 32)


def test_the_same_vectors_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_codes(tmp_path / name, clustered_vectors(100))
    assert (tmp_path / "a" / CODES_FILE).read_bytes() == (tmp_path / "b" / CODES_FILE).read_bytes()
