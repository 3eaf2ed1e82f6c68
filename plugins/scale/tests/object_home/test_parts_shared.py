"""A shared home exchanges only those parts of a generation whose pages changed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.s3_server import faulty
from support.synthetic import MODEL, TENANT, chunk_row, chunk_table, clustered_vectors, config_for

from citelock_scale.object_home.follower import FollowedFolder
from citelock_scale.object_home.home import ObjectHome
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.manifest import Manifest
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.indexes.catalog import move_current
from rag_serving.indexes.generation import Generation

NAME = f"tenants/{TENANT}"
CHUNKS = 120


def published(home: ObjectHome, table: pa.Table) -> Manifest:
    config, store = config_for(home.home, max_part_chunks=16, max_graph_chunks=0), Store(home.home)
    with home.writing(NAME):
        built = build_generation(store, TENANT, table, clustered_vectors(CHUNKS), config, MODEL)
        built.close()
        move_current(store, TENANT, built.id, config)
    return built.manifest


def edited(table: pa.Table) -> pa.Table:
    """Return the table with another text in one chunk, whose vector stays."""
    rows = table.to_pylist()
    rows[50] |= {"text": chunk_row(rows[50]["page_id"], 2, "a crane that nobody knew")["text"]}
    return GENERATION_CHUNKS.table(rows)


def part_digests(manifest: Manifest) -> set[str]:
    return {facts.sha256 for name, facts in manifest.files.items() if name.startswith("parts/")}


@pytest.mark.parametrize("settings", ["s3"], indirect=True)
def test_parts_that_did_not_change_are_neither_sent_nor_fetched_again(machine: Any, s3: str) -> None:
    table = chunk_table(CHUNKS)
    with faulty(s3) as proxy:
        builder, reader = (of_proxy(machine(name), proxy.url) for name in "ab")
        follower = FollowedFolder(reader, NAME)
        manifests = list[Manifest]()
        sent, fetched = list[set[str]](), list[set[str]]()
        for pages in (table, edited(table)):
            proxy.asked.clear()
            manifests.append(published(builder, pages))
            sent.append(objects_in(proxy.asked, "PUT"))
            proxy.asked.clear()
            seen = reader.heads.read(NAME)
            assert seen is not None
            follower.fetch(seen)
            fetched.append(objects_in(proxy.asked, "GET"))
    first, second = (part_digests(manifest) for manifest in manifests)
    assert len(manifests[0].parts) > 6
    assert first <= sent[0] & fetched[0]
    assert len(second - first) == 2, "the chunk table of one part, in both forms"
    assert (sent[1] & second, fetched[1] & second) == (second - first, second - first)
    generation = Generation.open(Store(reader.home), TENANT, manifests[1].id, config_for(reader.home))
    assert len(generation) == generation.vector_table.rows == CHUNKS
    generation.close()


def of_proxy(home: ObjectHome, url: str) -> ObjectHome:
    return ObjectHome(home.settings.model_copy(update={"endpoint": url}), home.home)


def objects_in(asked: list[str], method: str) -> set[str]:
    """The digests of the contents that were sent or fetched."""
    paths = (one.partition(" ")[2] for one in asked if one.startswith(f"{method} ") and "/blobs/" in one)
    return {path.partition("?")[0].rpartition("/")[2].partition("-")[0] for path in paths}
