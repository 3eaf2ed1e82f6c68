"""What a generation is read from is what was compared: in memory up to a bound, mapped beyond."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import EVERYONE, MODEL, TENANT, chunk_table, clustered_vectors, config_for
from support.waiting import wait_until

from rag_assets.publishing.build import build_generation
from rag_assets.publishing.workspace import remember_digests, stamped_facts
from rag_serving.artifacts.contents import KnownDigests, array_of, sized_stamp
from rag_serving.artifacts.store import Store
from rag_serving.indexes.generation import CODED_ROWS, Generation, place_of, read_files

CHUNKS = 60


@pytest.fixture
def store(tmp_path: Path) -> Store:
    generation = build_generation(
        Store(tmp_path), TENANT, chunk_table(CHUNKS), clustered_vectors(CHUNKS), config_for(tmp_path), MODEL
    )
    generation.close()
    Store(tmp_path).point_current(TENANT, generation.id)
    return Store(tmp_path)


def test_the_smallest_files_are_in_memory_up_to_the_bound_and_the_others_mapped(store: Store) -> None:
    name = store.current(TENANT) or ""
    sizes = {path: path.stat().st_size for path in store.generation(TENANT, name).rglob("*") if path.is_file()}
    for bound in (0, 5000, 20_000, 10**9):
        mapped = read_files(store, TENANT, name, bound).mapped
        held = [path for path in sizes if path not in mapped]
        assert not mapped or min(sizes[path] for path in mapped) > bound - sum(sizes[path] for path in held)
        assert bool(mapped) == (bound < 10**9)
        assert all((path.name != "vectors.npy") or bound == 10**9 for path in held)


def test_what_is_in_memory_answers_on_whatever_becomes_of_the_files(store: Store) -> None:
    name = store.current(TENANT) or ""
    generation = Generation.open(store, TENANT, name, config_for(store.home))
    vector = clustered_vectors(CHUNKS)[7]

    def answers() -> object:
        found = generation.exact(vector, 5, EVERYONE) + generation.lexical("crane seed0", 5, EVERYONE)
        return found, generation.chunks([hit.row for hit in found]), generation.lexical_ids()

    before = answers()
    for path in store.generation(TENANT, name).rglob("*"):
        if path.is_file():
            path.write_bytes(os.urandom(path.stat().st_size // 2))
    assert not generation.is_altered
    assert answers() == before


@pytest.mark.parametrize(
    "array", [np.zeros((0, 3), np.int8), np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3))]
)
def test_an_array_is_read_from_bytes_as_from_its_file(array: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, array)
    found = array_of(memoryview(file.getvalue()))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    with pytest.raises(ValueError, match="buffer is smaller" if array.size else "EOF|magic"):
        array_of(memoryview(file.getvalue()[: -8 if array.size else 5]))


def test_an_array_of_python_objects_is_not_read() -> None:
    file = io.BytesIO()
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not read"):
        array_of(memoryview(file.getvalue()))


def test_a_digest_that_was_taken_at_the_commit_is_not_taken_again_until_the_file_changes(tmp_path: Path) -> None:
    store, path = Store(tmp_path), tmp_path / "tenants" / TENANT / "generations" / "g" / "vectors.npy"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"first")
    wait_until(lambda: stamped_facts(path.parent)[path.name].stamp is not None)  # files that are too new have no stamp
    files = stamped_facts(path.parent)
    remember_digests(store, TENANT, path.parent, files)
    digest, known = files[path.name].facts.sha256, KnownDigests(store, TENANT)
    assert known.holds(f"generations/g/{path.name}", sized_stamp(path, 5), digest)
    path.write_bytes(b"other")  # of the same size
    assert not known.holds(f"generations/g/{path.name}", sized_stamp(path, 5), digest)


def test_codes_that_nobody_searches_are_copied_at_the_first_search(tmp_path: Path) -> None:
    vectors, config = clustered_vectors(CODED_ROWS), config_for(tmp_path, max_graph_chunks=0)
    built = build_generation(Store(tmp_path), TENANT, chunk_table(CODED_ROWS), vectors, config, MODEL)
    files = read_files(Store(tmp_path), TENANT, built.id, 0, is_searched=False)
    unused = Generation(files, place_of(Store(tmp_path), TENANT, config))
    served, waiting = built.vector_table.codes, unused.vector_table.codes
    assert served
    assert waiting
    assert (served.is_prepared, waiting.is_prepared) == (True, False)
    assert unused.dense(vectors[7], 5, EVERYONE) == built.dense(vectors[7], 5, EVERYONE)
    assert waiting.is_prepared
