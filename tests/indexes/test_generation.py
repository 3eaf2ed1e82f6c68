from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.synthetic import (
    EVERYONE,
    MODEL,
    TENANT,
    chunk_row,
    chunk_table,
    clustered_vectors,
    config_for,
    folder_bytes,
)

from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.build import build_dense, build_generation, build_lexical_index, commit_generation
from rag_serving.artifacts.manifest import IDENTITY, Manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.indexes.generation import Generation

TESTS = Path(__file__).parents[1]


def built(home: Path, count: int = 60, **indexing: object) -> Generation:
    config = config_for(home, **indexing)
    return build_generation(Store(home), TENANT, chunk_table(count), clustered_vectors(count), config, MODEL)


def test_a_chunk_comes_back_as_it_was_put_in(tmp_path: Path) -> None:
    row = chunk_row(
        "7", 0, "The crane lifts.", labels=["a", "b"], heading_path=["Port", "Cranes"], context_after="Then"
    )
    config = config_for(tmp_path)
    table = GENERATION_CHUNKS.table([row])
    generation = build_generation(Store(tmp_path), TENANT, table, clustered_vectors(1), config, MODEL)
    chunk = generation.chunk(0)
    assert (chunk.chunk_id, chunk.page_id, chunk.text, chunk.url) == ("7:1:0", "7", row["text"], row["url"])
    assert (chunk.labels, chunk.heading_path, chunk.context_after) == (("a", "b"), ("Port", "Cranes"), "Then")
    assert chunk.updated_at == row["updated_at"]
    assert (generation.row_of("7:1:0"), generation.row_of("7:2:0")) == (0, None)
    assert generation.readers_of(0) == "everyone"


def test_both_indexes_find_a_chunk_and_the_prefix_counts(tmp_path: Path) -> None:
    rows = [
        chunk_row(str(n), 0, text, lexical_prefix=f"Harbour {n}")
        for n, text in enumerate(["crane", "berth", "max.poll.records"])
    ]
    vectors = np.eye(3, 8, dtype=np.float32)
    config = config_for(tmp_path)
    generation = build_generation(Store(tmp_path), TENANT, GENERATION_CHUNKS.table(rows), vectors, config, MODEL)
    assert [hit.row for hit in generation.lexical("poll record", 5, EVERYONE)] == [2]
    assert len(generation.lexical("harbours", 5, EVERYONE)) == 3
    assert generation.dense(vectors[1], 1, EVERYONE)[0].row == 1
    assert generation.dense(vectors[1], 5, frozenset()) == generation.lexical("crane", 5, frozenset()) == []


@pytest.mark.parametrize("count", [0, 1])
def test_a_tenant_with_next_to_nothing_can_be_opened(tmp_path: Path, count: int) -> None:
    generation = built(tmp_path, count)
    assert len(generation) == count
    assert len(generation.dense(clustered_vectors(1)[0], 5, EVERYONE)) == count
    assert generation.lexical("unheard", 5, EVERYONE) == []
    assert generation.degraded == ()


@given(st.integers(0, 2**32 - 1), st.sampled_from([30, 50_000]))
@settings(max_examples=examples(0.05))
def test_the_same_inputs_in_any_order_give_the_same_generation_in_another_home(
    tmp_path_factory: pytest.TempPathFactory, seed: int, most: int
) -> None:
    table, vectors = chunk_table(90, readers=("everyone", "group:ops")), clustered_vectors(90)
    order = np.random.default_rng(seed).permutation(90)
    homes = [tmp_path_factory.mktemp("home") for _ in range(2)]
    configs = [config_for(home, max_shard_chunks=most) for home in homes]
    first = build_generation(Store(homes[0]), TENANT, table, vectors, configs[0], MODEL)
    second = build_generation(Store(homes[1]), TENANT, table.take(pa.array(order)), vectors[order], configs[1], MODEL)
    assert first.id == second.id
    assert first.manifest.model_dump(include=set(IDENTITY)) == second.manifest.model_dump(include=set(IDENTITY))
    assert first.manifest.files == second.manifest.files
    for vector in vectors[::30]:
        assert first.dense(vector, 10, EVERYONE) == second.dense(vector, 10, EVERYONE)


@pytest.mark.parametrize(
    "change", ["text", "readers", "version", "title", "labels", "vector_keys", "prefix", "parent_id"]
)
def test_any_change_of_a_chunk_is_another_generation(tmp_path: Path, change: str) -> None:
    values = {"text": "new words", "readers": "group:ops", "version": 2, "title": "New", "labels": ["x"]}
    values |= {"vector_keys": ["changed"]}
    rows = chunk_table(4).to_pylist()
    first = build_generation(
        Store(tmp_path), TENANT, GENERATION_CHUNKS.table(rows), clustered_vectors(4), config_for(tmp_path), MODEL
    )
    rows[2] = {**rows[2], change: values.get(change, "changed")}
    second = build_generation(
        Store(tmp_path), TENANT, GENERATION_CHUNKS.table(rows), clustered_vectors(4), config_for(tmp_path), MODEL
    )
    assert first.id != second.id


def test_building_the_same_again_leaves_the_generation_untouched(tmp_path: Path) -> None:
    first = built(tmp_path)
    folder = Store(tmp_path).generation(TENANT, first.id)
    before, modified = folder_bytes(folder), folder.stat().st_mtime_ns
    assert built(tmp_path).id == first.id
    assert folder_bytes(folder) == before
    assert folder.stat().st_mtime_ns == modified


def test_the_manifest_names_every_file_and_is_written_last(tmp_path: Path) -> None:
    generation = built(tmp_path)
    folder = Store(tmp_path).generation(TENANT, generation.id)
    assert set(folder_bytes(folder)) == {*generation.manifest.files, "manifest.json"}
    newest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_ctime_ns)
    assert newest.name == "manifest.json"
    assert Manifest.model_validate_json((folder / "manifest.json").read_text()) == generation.manifest


@pytest.mark.parametrize(
    "name", ["chunks.parquet", "vectors.npy", "lexical/counts.npy", "lexical/chunk_ids.json", "manifest.json"]
)
def test_a_truncated_or_missing_file_is_named_with_its_mend(tmp_path: Path, name: str) -> None:
    generation = built(tmp_path)
    store = Store(tmp_path)
    path = store.generation(TENANT, generation.id) / name
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match=rf"{name}.*citelock build"):
        Generation.open(store, TENANT, generation.id, config_for(tmp_path))
    path.unlink()
    with pytest.raises(StoreError, match=rf"{name}.*citelock build"):
        Generation.open(store, TENANT, generation.id, config_for(tmp_path))
    assert built(tmp_path).id == generation.id
    assert Generation.open(store, TENANT, generation.id, config_for(tmp_path)).degraded == ()


def test_another_format_is_named_with_its_mend(tmp_path: Path) -> None:
    generation = built(tmp_path)
    path = Store(tmp_path).generation(TENANT, generation.id) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(StoreError, match=r"has format 99, this program reads format 1; run `citelock build`"):
        Generation.open(Store(tmp_path), TENANT, generation.id, config_for(tmp_path))


def test_an_unknown_generation_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"generation 'gone' of tenant 'acme' does not exist; `citelock generations list"
    ):
        Generation.open(Store(tmp_path), TENANT, "gone", config_for(tmp_path))


def test_steps_of_two_builds_are_not_put_together(tmp_path: Path) -> None:
    store, config = Store(tmp_path), config_for(tmp_path)
    build_dense(store, TENANT, chunk_table(20), clustered_vectors(20), config, MODEL)
    build_lexical_index(store, TENANT, chunk_table(20, seed=1))
    with pytest.raises(StoreError, match="of different chunks"):
        commit_generation(store, TENANT, config)
    build_lexical_index(store, TENANT, chunk_table(20))
    assert commit_generation(store, TENANT, config).chunks == 20


def test_a_step_that_did_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `citelock build`"):
        commit_generation(Store(tmp_path), TENANT, config_for(tmp_path))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda table, vectors: (table, vectors[:-1]), "4 chunks came with vectors of shape"),
        (lambda table, vectors: (table, vectors * np.float32(np.nan)), "is not finite"),
        (
            lambda table, vectors: (pa.concat_tables([table, table]), np.vstack([vectors, vectors])),
            "'0:1:0' stands twice",
        ),
    ],
)
def test_chunks_that_cannot_be_indexed_are_refused(tmp_path: Path, spoil: object, message: str) -> None:
    table, vectors = spoil(chunk_table(4), clustered_vectors(4))  # type: ignore[operator]
    with pytest.raises(BuildError, match=message):
        build_dense(Store(tmp_path), TENANT, table, vectors, config_for(tmp_path), MODEL)


def test_opening_six_thousand_chunks_takes_a_fraction_of_a_second(tmp_path: Path) -> None:
    generation = built(tmp_path, 6000)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        Generation.open(Store(tmp_path), TENANT, generation.id, config_for(tmp_path))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.0


READER = """
import sys
from pathlib import Path
from support.synthetic import EVERYONE, TENANT, clustered_vectors, config_for
from rag_serving.indexes.generation import Generation
from rag_serving.artifacts.store import Store
home = Path(sys.argv[1])
open_ = lambda name: Generation.open(Store(home), TENANT, name, config_for(home))
first = open_(sys.argv[2])
queries = clustered_vectors(20, seed=8)
before = [first.dense(query, 10, EVERYONE) for query in queries]
print("ready", flush=True)
for line in sys.stdin:
    now = [first.dense(query, 10, EVERYONE) for query in queries]
    assert now == before and first.lexical("crane", 5, EVERYONE), "the opened generation changed"
    name = line.strip()
    second = open_(name)
    assert second.degraded == (), second.degraded
    assert [hit.row for hit in second.approximate(second.vectors([3])[0], 1)] == [3]
    print("saw", name, len(second), flush=True)
"""


def test_a_process_that_reads_goes_on_while_another_builds_and_sees_what_it_built(tmp_path: Path) -> None:
    first = built(tmp_path, 60)
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", READER, str(tmp_path), first.id]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert reader.stdin is not None
    assert reader.stdout is not None
    with reader:
        assert reader.stdout.readline() == "ready\n"
        for count in (80, 100):
            generation = built(tmp_path, count)
            reader.stdin.write(f"{generation.id}\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == f"saw {generation.id} {count}\n"
        reader.stdin.close()
    assert reader.returncode == 0


def test_nothing_but_the_home_is_reached_for(tmp_path: Path) -> None:
    """No socket is opened to anywhere: neither telemetry nor a model download."""
    script = f"""
import sys
def refuse(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        sys.exit(f"{{event}} {{args}}")
sys.addaudithook(refuse)
from pathlib import Path
from support.synthetic import *
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.store import Store
home = Path({str(tmp_path)!r})
generation = build_generation(Store(home), TENANT, chunk_table(20), clustered_vectors(20), config_for(home), MODEL)
assert generation.dense(generation.vectors([1])[0], 3, EVERYONE)[0].row == 1
"""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    (tmp_path / ".env").write_text("ANY_KEY=1\nchroma_server_host=elsewhere.example\n")
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)
