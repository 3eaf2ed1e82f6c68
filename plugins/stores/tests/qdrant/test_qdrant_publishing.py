"""Generations are copied to Qdrant as a whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from support.killed_requests import KilledError, killed_at
from support.qdrant_corpus import TENANT, built, publisher, qdrant_config, restricted_chunks
from support.qdrant_server import QdrantServer, started_qdrant
from support.stand_in_http import Fault
from support.synthetic import clustered_vectors
from support.waiting import wait_until
from support.wiki import Passage, publish_paged
from typer.testing import CliRunner

from citelock_stores.publishing import qdrant as writer
from citelock_stores.publishing.qdrant import QdrantPoints, QdrantPublisher, QdrantUpload, QuotaError
from citelock_stores.qdrant import connection
from citelock_stores.qdrant.connection import QdrantConnection
from citelock_stores.qdrant.store import QdrantStore
from evals.evaluation.bench import with_column
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteConnectionError, RemoteDataError, RemoteError
from rag_serving.indexes.generation import Generation

READER = Principal(TENANT, "ann", frozenset({"a", "b"}))


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with started_qdrant() as started:
        yield started


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BACKOFF_S", 0.01)


in_either_layout = pytest.mark.parametrize("config", ["tenant", "shared"], indirect=True)


@pytest.fixture
def config(request: pytest.FixtureRequest, server: QdrantServer, tmp_path: Path) -> Config:
    """A server in which nothing is."""
    server.faults.clear()
    for name in [*server.collections]:
        server.answer("DELETE", f"/collections/{name}", None)
    return qdrant_config(tmp_path, server.url, collections=getattr(request, "param", "tenant"))


@pytest.fixture
def publishing(config: Config) -> Iterator[QdrantPublisher]:
    made = publisher(config)
    yield made
    made.close()


def answers(config: Config) -> list[str]:
    """Return the chunk ids that a reader gets from the publication."""
    store = QdrantStore(config)
    current = store.current(TENANT)
    ids = store.open(TENANT, current).reader(READER).chunks()["chunk_id"].to_pylist() if current else []
    store.close()
    return ids


def readable(generation: Generation) -> list[str]:
    view = generation.for_reader(READER)
    return [row for row in generation.chunk_ids() if view.row_of(row) is not None]


def test_a_publication_is_told_what_it_did_and_done_again_does_nothing(
    config: Config, publishing: QdrantPublisher
) -> None:
    disk = built(config, restricted_chunks(130))
    heard: list[tuple[int, int]] = []
    done = publishing.publish(disk.id, lambda *counts: heard.append(counts))
    assert (done.generation, done.previous, done.recall, done.removed, done.warning) == (disk.id, None, 1, (), "")
    assert (done.uploaded.points, done.uploaded.present, done.uploaded.repeats) == (heard[-1][0], 0, 0)
    assert heard[0] == (100, heard[-1][1])
    again = publishing.publish(disk.id)
    assert (again.previous, again.uploaded.points, again.uploaded.present) == (disk.id, 0, done.uploaded.points)
    assert answers(config) == readable(disk)


def test_points_go_in_batches_of_a_hundred_to_a_collection_of_the_schema(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    server.requests.clear()
    publishing.publish(built(config, restricted_chunks(230, book=True)).id)
    batches = [body["points"] for method, path, body in server.requests if (method, path[-7:]) == ("PUT", "/points")]
    chunks = [batch for batch in batches if batch[0]["payload"]["point"] == "chunk"]
    assert [len(batch) for batch in chunks] == [100, 100, 30]
    (made,) = (body for method, path, body in server.requests if method == "PUT" and path.count("/") == 2)
    assert (made["hnsw_config"]["m"], made["hnsw_config"]["ef_construct"]) == (16, 100)
    assert made["vectors"]["dense"] == {"size": 32, "distance": "Cosine"}
    ((name, collection),) = server.collections.items()
    assert name == ("citelock" if config.index.collections == "shared" else server.aliases[f"citelock.{TENANT}"])
    book = {"chapter": "keyword", "section": "keyword", "page": "integer", "passage_id": "keyword", "text": "text"}
    assert book.items() <= collection.schema.items()
    payload = chunks[0][0]["payload"]
    assert {"chapter", "page", "passage_id", "text"} <= payload.keys()
    assert (payload["tenant"], payload["readers"]) == (TENANT, "everyone")


@in_either_layout
def test_a_busy_server_is_asked_again_and_nothing_stands_twice(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    disk = built(config, restricted_chunks(130))
    kinds: list[dict[str, Any]] = [
        {"status": 429, "retry_after": "0"}, {"status": 503}, {"cut": True}, {"cut": True, "late": True},
    ]  # fmt: skip
    for only in ("/points", "/aliases", "/batch", "/index", "/count", "/payload", "/scroll"):
        server.faults.extend(Fault(only, **kind) for kind in kinds)
    done = publishing.publish(disk.id)
    assert not server.faults
    assert done.uploaded.repeats >= 10
    assert answers(config) == readable(disk)
    assert QdrantStore(config).faults(TENANT) == ()


def test_a_server_that_stays_busy_ends_the_publication_and_leaves_the_older_one(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    old = built(config, restricted_chunks(40))
    publishing.publish(old.id)
    new = built(config, restricted_chunks(60, seed=1))
    server.faults.extend([Fault("/points", status=429, retry_after="0")] * 6)
    with pytest.raises(RemoteConnectionError, match="is busy"):
        publishing.publish(new.id)
    assert answers(config) == readable(old)
    assert publishing.publish(new.id).previous == old.id
    assert answers(config) == readable(new)


@in_either_layout
def test_a_publisher_that_dies_at_any_request_leaves_the_older_generation_or_the_whole_new_one(
    config: Config, publishing: QdrantPublisher
) -> None:
    old = built(config, restricted_chunks(30))
    publishing.publish(old.id)
    new = built(config, restricted_chunks(130, seed=1))
    died = 0
    for moment in (4, 12, 17, 22, 24, 25, 26, 27, 28):
        with killed_at(QdrantConnection, moment) as requests:
            publishing.publish(new.id)
        died += requests.died
        current = publishing.current()
        assert current in {old.id, new.id}
        assert answers(config) == readable(old if current == old.id else new)
        publishing.point_to(old.id)
    assert died >= 6
    assert publishing.publish(new.id).previous == old.id
    assert answers(config) == readable(new)
    assert QdrantStore(config).faults(TENANT) == ()


PUBLISH = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from support.qdrant_corpus import publisher, qdrant_config
publisher(qdrant_config(Path({home!r}), {url!r})).publish({generation!r})
"""


def test_a_killed_process_is_followed_by_one_that_goes_on(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    old = built(config, restricted_chunks(30))
    publishing.publish(old.id)
    new = built(config, restricted_chunks(400, seed=1))
    server.requests.clear()
    server.faults.extend([Fault("/points", slow_s=0.2)] * 40)
    names = {"tests": str(Path(support.__file__).parent.parent), "home": str(config.home), "url": server.url}
    process = subprocess.Popen([sys.executable, "-c", PUBLISH.format(**names, generation=new.id)])
    wait_until(lambda: sum(path.endswith("/points") for _, path, _ in server.requests) >= 3)
    process.kill()
    process.wait()
    server.faults.clear()
    assert answers(config) == readable(old)
    done = publishing.publish(new.id)
    assert 0 < done.uploaded.present < done.uploaded.present + done.uploaded.points
    assert answers(config) == readable(new)


def test_repair_sends_what_the_server_lost(config: Config, publishing: QdrantPublisher, server: QdrantServer) -> None:
    disk = built(config, restricted_chunks(30))
    publishing.publish(disk.id)
    Store(config.home).point_current(TENANT, disk.id)
    for name in [*server.collections]:
        server.answer("DELETE", f"/collections/{name}", None)
    assert publishing.current() is None
    settings = {"home": str(config.home), "tenants": {TENANT: {}}, "index": {"kind": "qdrant", "url": server.url}}
    path = config.home / "app.yaml"
    path.write_text(json.dumps(settings))
    result = CliRunner().invoke(app, ["generations", "repair", "--config", str(path)])
    assert result.exit_code == 0, result.output
    assert answers(config) == readable(disk)
    told = CliRunner().invoke(app, ["index", "status", "--config", str(path), "--json"])
    status = json.loads(told.stdout)
    assert (status["current"], status["faults"]) == (disk.id, [])
    assert [(each["id"], each["chunks"], each["current"]) for each in status["generations"]] == [(disk.id, 30, True)]


@in_either_layout
def test_what_a_killed_publication_left_is_removed_by_the_next_one(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    old, abandoned, new = (built(config, restricted_chunks(count)) for count in (30, 40, 50))
    publishing.publish(old.id)
    server.faults.extend([Fault("/count", status=403)])
    with pytest.raises(RemoteError):
        publishing.publish(abandoned.id)
    assert {each.id for each in publishing.generations()} == {old.id, abandoned.id}
    assert publishing.publish(new.id).removed == (abandoned.id,)
    assert {each.id for each in publishing.generations()} == {old.id, new.id}
    with pytest.raises(RemoteDataError, match="as a whole"):
        publishing.point_to(abandoned.id)


@in_either_layout
def test_a_rollback_moves_the_alias_and_old_generations_go_when_nobody_reads_them(
    config: Config, publishing: QdrantPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations = [built(config, restricted_chunks(20 + count)) for count in range(4)]
    for each in generations:
        publishing.publish(each.id)
    ids = [each.id for each in generations]
    assert publishing.previous() == ids[2]
    assert publishing.point_to(ids[2]) == ids[3]
    assert answers(config) == readable(generations[2])
    assert publishing.previous() == ids[1]
    few = config.model_copy(update={"indexing": config.indexing.model_copy(update={"keep_generations": 2})})
    pruning = publisher(few)
    assert pruning.prune() == ()  # left just now
    later = datetime.now(UTC) + timedelta(hours=2)
    monkeypatch.setattr(writer, "datetime", _Clock(later))
    assert pruning.prune() == tuple(sorted(ids[:2]))
    assert {each.id for each in publishing.generations()} == {ids[2], ids[3]}
    assert answers(config) == readable(generations[2])
    pruning.close()


class _Clock:
    """A clock with a settable time."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self, _: object) -> datetime:
        return self._moment


@in_either_layout
def test_pruning_leaves_other_tenants_alone(config: Config, publishing: QdrantPublisher) -> None:
    other = publisher(config, "other")
    theirs = [built(config, restricted_chunks(10 + count), "other") for count in range(2)]
    for each in theirs:
        other.publish(each.id)
    publishing.publish(built(config, restricted_chunks(30)).id)
    assert {each.id for each in other.generations()} == {each.id for each in theirs}
    assert other.current() == theirs[1].id
    other.close()


def test_a_quota_warns_at_four_fifths_and_refuses_beyond(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    first, second = built(config, restricted_chunks(40)), built(config, restricted_chunks(40, seed=1))
    publishing.publish(first.id)
    (stored,) = publishing.generations()
    assert stored.manifest
    used = stored.manifest.vectors

    def limited(most: float) -> QdrantPublisher:
        index = config.index.model_copy(update={"quota_vectors": int(most)})
        return publisher(config.model_copy(update={"index": index}))

    server.requests.clear()
    with pytest.raises(QuotaError, match=r"would take Qdrant to [\d,]+ of [\d,]+ vectors \(index\.quota_vectors\)"):
        limited(used * 1.9).publish(second.id)
    assert not [path for method, path, _ in server.requests if method == "PUT"]
    assert answers(config) == readable(first)
    assert "vectors" in limited(used * 2.2).publish(second.id).warning
    assert limited(used * 3).publish(second.id).warning == ""


def test_points_that_are_not_what_was_sent_are_not_published(
    config: Config, publishing: QdrantPublisher, server: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = built(config, restricted_chunks(30))
    publishing.publish(old.id)
    new = built(config, restricted_chunks(60, seed=1))
    monkeypatch.setattr(writer.QdrantUpload, "complete", _die)
    with pytest.raises(KilledError):
        publishing.publish(new.id)
    monkeypatch.undo()
    collection = server.collections[publishing.layout.collection(TENANT, new.id)]
    records = collection.scroll({"limit": 1000, "with_vector": True})["points"]
    chunks = [each for each in records if each["payload"]["point"] == "chunk"]
    for each in chunks:
        each["vector"]["dense"] = clustered_vectors(1, seed=77)[0].tolist()
    collection.upsert({"points": chunks})
    with pytest.raises(RemoteDataError, match=r"recall@10 of sample queries is 0\.\d+"):
        publishing.publish(new.id)
    assert answers(config) == readable(old)


def _die(_: object) -> None:
    raise KilledError


def test_a_point_that_is_lost_is_found_by_the_doctor_and_mended_by_the_next_publication(
    config: Config, publishing: QdrantPublisher, server: QdrantServer
) -> None:
    disk = built(config, restricted_chunks(60))
    publishing.publish(disk.id)
    collection = server.collections[publishing.layout.collection(TENANT, disk.id)]
    lost = [each["id"] for each in collection.scroll({"limit": 1000})["points"] if each["payload"]["point"] == "chunk"]
    collection.delete({"points": lost[:3]})
    store = QdrantStore(config)
    (fault,) = store.faults(TENANT)
    assert "57 of 60 points of kind chunk" in fault
    reader = store.open(TENANT, disk.id).reader(READER)
    terms = reader.vocabulary("lexical")["term"].to_pylist()
    with pytest.raises(RemoteDataError, match="lost some"):
        reader.postings("lexical", terms)
    assert publishing.publish(disk.id).uploaded.points == 3
    assert store.faults(TENANT) == ()
    store.close()


@in_either_layout
def test_windows_of_long_passages_are_one_point_and_the_nearest_counts(
    config: Config, publishing: QdrantPublisher
) -> None:
    counts = np.random.default_rng(2).integers(1, 5, 60)
    keys = [[f"{row}.{number}" for number in range(count)] for row, count in enumerate(counts.tolist())]
    table = with_column(restricted_chunks(60), "vector_keys", keys)
    disk = built(config, table, vectors=clustered_vectors(int(counts.sum())))
    assert publishing.publish(disk.id).recall == 1
    store = QdrantStore(config)
    reader = store.open(TENANT, disk.id).reader(READER)
    for query in clustered_vectors(6, seed=3):
        expected = disk.dense(query, 9, reader.classes())
        found = reader.nearest(query, 9)
        assert found.rows.tolist() == [hit.row for hit in expected]
        assert np.allclose(found.scores, [hit.score for hit in expected], atol=1e-6)
    rows = reader.chunks()["row"].to_pylist()
    vectors = reader.vectors(rows)
    assert disk.manifest.vector_count > len(disk)
    assert vectors.counts.sum() == len(vectors.vectors)
    assert vectors.counts.max() > 1
    store.close()


def test_the_file_of_a_page_is_for_those_who_may_read_all_of_it(server: QdrantServer, tmp_path: Path) -> None:
    passages = [
        Passage("1", "Page 1", "The crane lifts forty tonnes."),
        Passage("1", "Page 2", "The berth is closed.", readers="group:a", chunk_idx=1),
        Passage("2", "Page 1", "The tide turns at noon."),
    ]
    files = {"1": b"%PDF /Type /Page 1" * 60_000, "2": b"%PDF /Type /Page 2"}
    generation = publish_paged(tmp_path, passages, files)
    config = qdrant_config(tmp_path, server.url, collection="files")
    publishing = publisher(config)
    publishing.publish(generation)
    store = QdrantStore(config)
    opened = store.open(TENANT, generation)
    everybody, insider = opened.reader(Principal(TENANT)), opened.reader(READER)
    digests = {page: hashlib.sha256(content).hexdigest() for page, content in files.items()}
    assert everybody.originals()["page_id"].to_pylist() == ["2"]
    assert insider.originals()["page_id"].to_pylist() == ["1", "2"]
    assert everybody.original(digests["2"]) == files["2"]
    assert insider.original(digests["1"]) == files["1"]
    with pytest.raises(RemoteDataError, match="may not be read"):
        everybody.original(digests["1"])
    store.close()
    publishing.close()


def test_keys_are_needed_and_never_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READ_KEY", "reader-secret-1")
    monkeypatch.setenv("WRITE_KEY", "writer-secret-1")
    with started_qdrant("writer-secret-1", "reader-secret-1") as locked:
        keys = {"api_key_env": "READ_KEY", "writer_key_env": "WRITE_KEY"}
        config = qdrant_config(tmp_path, locked.url, **keys)
        disk = built(config, restricted_chunks(20))
        publisher(config).publish(disk.id)
        assert answers(config) == readable(disk)
        for wrong in ({}, {"api_key_env": "NO_KEY"}):
            with pytest.raises(RemoteConnectionError) as raised:
                QdrantStore(qdrant_config(tmp_path, locked.url, **wrong)).current(TENANT)
            assert "api_key_env" in str(raised.value)
        with pytest.raises(RemoteConnectionError, match=r"refuses the key of index\.writer_key_env") as raised:
            publisher(qdrant_config(tmp_path, locked.url, api_key_env="READ_KEY")).publish(disk.id)
        assert "secret" not in str(raised.value)


def test_vectors_of_another_dimension_do_not_go_into_a_shared_collection(server: QdrantServer, tmp_path: Path) -> None:
    config = qdrant_config(tmp_path, server.url, collections="shared", collection="sizes")
    publisher(config).publish(built(config, restricted_chunks(20)).id)
    other = built(config, restricted_chunks(20, seed=1), "other", clustered_vectors(20, 16))
    with pytest.raises(RemoteDataError, match=r"32 dimensions, generation .* of 16; give index\.collection"):
        publisher(config, "other").publish(other.id)


def test_sample_queries_are_compared_with_exact_search(config: Config, publishing: QdrantPublisher) -> None:
    disk = built(config, restricted_chunks(60))
    publishing.publish(disk.id)
    files = writer.read_files(publishing._store, TENANT, disk.id, 1 << 30)
    points = QdrantPoints(files, publishing._store.generation(TENANT, disk.id), config.home)
    collection = publishing.layout.collection(TENANT, disk.id)
    assert QdrantUpload(publishing.requests, collection, points, config).check() == 1
