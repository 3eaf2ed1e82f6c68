"""What a process had in its memory does not get into the files of an index."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.synthetic import TENANT, clustered_vectors

from rag_assets.publishing.shard_writer import ShardContent, ShardWriter, zeroed_allocations
from rag_serving.indexes.chroma import ChromaLocation

M_PERTURB, SIZE = -6, 100_000
MARK = 0xA5


@pytest.fixture
def used_memory() -> Iterator[None]:
    """Memory that is allocated is full of marks, as if it had been used before."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        pytest.skip("the C library is not glibc")
    libc.mallopt(M_PERTURB, MARK ^ 0xFF)
    yield
    libc.mallopt(M_PERTURB, 0)


def allocated() -> bytes:
    """The contents of memory that was just allocated."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    place = libc.malloc(SIZE)
    try:
        return ctypes.string_at(place, SIZE)
    finally:
        libc.free(place)


@pytest.mark.usefixtures("used_memory")
def test_a_graph_holds_its_vectors_and_nothing_of_the_memory_they_were_put_in(tmp_path: Path) -> None:
    vectors = clustered_vectors(60, 16)
    content = ShardContent("d" * 32, [str(row) for row in range(60)], vectors, ["everyone"] * 60)
    ShardWriter.open(ChromaLocation(tmp_path / "chroma", TENANT)).ensure(content)
    (path,) = tmp_path.rglob("data_level0.bin")
    graph = path.read_bytes()
    assert len(graph) > vectors.nbytes
    assert bytes([MARK]) * 16 not in graph


@pytest.mark.usefixtures("used_memory")
def test_memory_is_zeroed_until_the_last_block_ends() -> None:
    assert allocated() == bytes([MARK]) * SIZE
    with zeroed_allocations():
        with zeroed_allocations():
            assert allocated() == bytes(SIZE)
        assert allocated() == bytes(SIZE)
