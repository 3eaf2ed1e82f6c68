"""Generations are copied to OpenSearch as a whole or not at all, and read through filters alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.constants import configured as any_configured
from support.killed_requests import killed_at
from support.opensearch_server import OpenSearchServer, started_opensearch
from support.qdrant_corpus import TENANT, built, restricted_chunks
from support.stand_in_http import Fault
from support.synthetic import clustered_vectors

from citelock_governance.erasing import TenantErasure
from citelock_stores import opensearch
from citelock_stores import publishing as publishing_room
from citelock_stores.opensearch import reader as reader_module
from citelock_stores.opensearch.connection import OpenSearchConnection
from citelock_stores.opensearch.reader import ReadableDocuments
from citelock_stores.opensearch.store import OpenSearchStore
from citelock_stores.publishing.alias_publisher import QuotaError
from citelock_stores.publishing.opensearch import OpenSearchPublisher
from citelock_stores.remote import connections
from citelock_stores.remote.stored import GenerationLocation
from evals.evaluation.bench import with_column
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.databases import (
    BusyError,
    RemoteConnectionError,
    RemoteDataError,
    RemoteError,
    RemoteTimeoutError,
)
from rag_serving.indexes.generation import Generation

READER = Principal(TENANT, "ann", frozenset({"a", "b"}))


def configured(home: Path, url: str, **index: Any) -> Config:
    section = {"kind": "opensearch", "url": url, **index}
    return any_configured({"home": str(home), "tenants": {TENANT: {}, "other": {}}, "index": section})


def publisher(config: Config, tenant: str = TENANT) -> OpenSearchPublisher:
    return OpenSearchPublisher(Store(config.home), tenant, config)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BACKOFF_S", 0.005)


@pytest.fixture
def server() -> Iterator[OpenSearchServer]:
    with started_opensearch() as started:
        yield started


@pytest.fixture
def config(server: OpenSearchServer, tmp_path: Path) -> Config:
    return configured(tmp_path, server.url)


@pytest.fixture
def publishing(config: Config) -> Iterator[OpenSearchPublisher]:
    with closing(publisher(config)) as made:
        yield made


def answers(config: Config) -> list[str]:
    """Return the chunk ids that a reader gets from the publication."""
    with closing(OpenSearchStore(config)) as store:
        current = store.current(TENANT)
        return store.open(TENANT, current).reader(READER).chunks()["chunk_id"].to_pylist() if current else []


def readable(generation: Generation) -> list[str]:
    view = generation.for_reader(READER)
    return [row for row in generation.chunk_ids() if view.row_of(row) is not None]


def test_a_publication_done_again_sends_nothing(config: Config, publishing: OpenSearchPublisher) -> None:
    disk = built(config, restricted_chunks(130))
    done = publishing.publish(disk.id)
    assert (done.previous, done.recall, done.uploaded.present, done.uploaded.repeats) == (None, 1, 0, 0)
    assert done.figures()["stored_bytes"] == done.stored_bytes
    assert done.stored_bytes
    again = publishing.publish(disk.id)
    assert (again.previous, again.uploaded.points, again.uploaded.present) == (disk.id, 0, done.uploaded.points)
    assert answers(config) == readable(disk)
    assert OpenSearchStore(config).faults(TENANT) == ()


def test_the_index_is_of_the_documented_schema(publishing: OpenSearchPublisher, server: OpenSearchServer) -> None:
    config = configured(publishing._store.home, server.url, compression="32x", shards=3, replicas=0)
    disk = built(config, restricted_chunks(30))
    publisher(config).publish(disk.id)
    ((name, index),) = server.indexes.items()
    assert name == f"citelock.{TENANT}.{disk.id}"
    assert server.aliases == {name: {f"citelock.{TENANT}"}}
    shape = [index.settings[name] for name in ("knn", "number_of_shards", "number_of_replicas")]
    assert shape == [True, 3, 0]
    vector = index.fields["dense"]
    assert (vector["type"], vector["dimension"], vector["mode"], vector["compression_level"]) == (
        "knn_vector", 32, "on_disk", "32x",
    )  # fmt: skip
    assert vector["method"]["engine"] == "faiss"
    assert not any("dense" in source for source in index.seen.values())


def test_documents_that_are_refused_for_now_are_sent_again_alone(
    config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer
) -> None:
    disk = built(config, restricted_chunks(130))
    server.item_faults.extend([(0, 0), (7, 429), (3, 503)])
    done = publishing.publish(disk.id)
    sizes = [len(body) // 2 for _, path, body in server.requests if path.endswith("/_bulk")]
    assert sizes[1:4] == [100, 7, 3]
    assert done.uploaded.repeats == 2
    assert answers(config) == readable(disk)


def test_documents_that_stay_refused_or_are_refused_for_good_end_it_with_what_was_said(
    config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer
) -> None:
    old = built(config, restricted_chunks(40))
    publishing.publish(old.id)
    new = built(config, restricted_chunks(60, seed=1))
    server.item_faults.extend([(0, 0), *[(5, 429)] * 6])
    with pytest.raises(BusyError, match=r"does not take 5 documents .*rejected_execution_exception"):
        publishing.publish(new.id)
    server.item_faults.clear()
    server.item_faults.extend([(2, 400)])
    with pytest.raises(RemoteDataError, match=r"does not take 2 documents .*mapper_parsing_exception: failed to parse"):
        publishing.publish(new.id)
    assert answers(config) == readable(old)
    assert publishing.publish(new.id).previous == old.id


def test_a_busy_server_is_asked_again(
    config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer
) -> None:
    disk = built(config, restricted_chunks(60))
    kinds: list[dict[str, Any]] = [{"status": 429}, {"status": 503}, {"cut": True}, {"cut": True, "late": True}]
    for only in ("/_bulk", "/_aliases", "/_search", "/_refresh", "/_count", disk.id):
        server.faults.extend(Fault(only, **kind) for kind in kinds)
    done = publishing.publish(disk.id)
    assert not server.faults
    assert done.uploaded.repeats >= 12
    assert answers(config) == readable(disk)


def test_a_publisher_that_dies_at_any_request_leaves_the_older_generation_or_the_whole_new_one(
    config: Config, publishing: OpenSearchPublisher
) -> None:
    old, new = built(config, restricted_chunks(30)), built(config, restricted_chunks(60, seed=1))
    publishing.publish(old.id)
    died = 0
    for moment in range(3, 90, 5):
        with killed_at(OpenSearchConnection, moment) as requests:
            publishing.publish(new.id)
        died += requests.died
        current = publishing.current()
        assert answers(config) == readable(old if current == old.id else new)
        publishing.point_to(old.id)
    assert died >= 8
    assert publishing.publish(new.id).previous == old.id
    assert answers(config) == readable(new)


def test_quotas_warn_and_refuse(config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer) -> None:
    first, second = built(config, restricted_chunks(40)), built(config, restricted_chunks(40, seed=1))
    publishing.publish(first.id)
    limited = configured(config.home, server.url, quota_vectors=76)
    with pytest.raises(QuotaError, match=r"would take OpenSearch to 80 of 76 vectors \(index.quota_vectors\)"):
        publisher(limited).publish(second.id)
    (warning,) = publisher(configured(config.home, server.url, quota_vectors=90)).publish(second.id).warnings
    assert "OpenSearch holds 80 of 90" in warning


def test_documents_that_were_lost_are_told_and_sent_again(
    config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer
) -> None:
    disk = built(config, restricted_chunks(60))
    publishing.publish(disk.id)
    (index,) = server.indexes.values()
    index.delete([name for name, source in index.seen.items() if source["point"] == "chunk"][:3])
    with closing(OpenSearchStore(config)) as store:
        (fault,) = store.faults(TENANT)
        assert "57 of 60 documents of kind chunk" in fault
        assert publishing.publish(disk.id).uploaded.points == 3
        assert store.faults(TENANT) == ()


def test_vectors_that_are_not_what_was_sent_are_not_published(
    config: Config, publishing: OpenSearchPublisher, server: OpenSearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = built(config, restricted_chunks(30)), built(config, restricted_chunks(60, seed=1))
    publishing.publish(old.id)
    write = type(next(iter(server.indexes.values()))).write
    spoilt = clustered_vectors(1, seed=77)[0].tolist()
    monkeypatch.setattr(
        "support.opensearch_engine.StoredIndex.write",
        lambda self, name, source: write(self, name, {**source, "dense": spoilt} if "dense" in source else source),
    )
    with pytest.raises(RemoteDataError, match=r"recall@10 of sample queries is 0\.\d+"):
        publishing.publish(new.id)
    assert answers(config) == readable(old)


@pytest.mark.parametrize("ann_chunks", [1, 10_000])
def test_the_nearest_are_those_of_the_disk_with_windows_and_many_rows_to_choose_among(
    server: OpenSearchServer, tmp_path: Path, ann_chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_NAMED", 3)
    config = configured(tmp_path, server.url, ann_chunks=ann_chunks)
    counts = np.random.default_rng(2).integers(1, 5, 60)
    keys = [[f"{row}.{number}" for number in range(count)] for row, count in enumerate(counts.tolist())]
    table = with_column(restricted_chunks(60), "vector_keys", keys)
    disk = built(config, table, vectors=clustered_vectors(int(counts.sum())))
    assert publisher(config).publish(disk.id).recall == 1
    server.requests.clear()
    with closing(OpenSearchStore(config)) as store:
        reader = store.open(TENANT, disk.id).reader(READER)
        rows = reader.chunks()["row"].to_numpy()
        for query in clustered_vectors(4, seed=3):
            for among in (None, rows[::2]):
                mask = None if among is None else np.isin(np.arange(60), among)
                expected = disk.dense(query, 9, reader.classes(), mask)
                found = reader.nearest(query, 9, among)
                assert found.rows.tolist() == [hit.row for hit in expected]
                assert np.allclose(found.scores, [hit.score for hit in expected], atol=1e-6)
    searches = [body["query"] for _, path, body in server.requests if path.endswith("/_search")]
    assert any(("knn" if ann_chunks == 1 else "script_score") in query for query in searches)


def test_every_request_of_a_reader_carries_its_filter_within_the_search(
    server: OpenSearchServer, tmp_path: Path
) -> None:
    config = configured(tmp_path, server.url, ann_chunks=1)
    disk = built(config, restricted_chunks(60))
    publisher(config).publish(disk.id)
    with closing(OpenSearchStore(config)) as store:
        reader = store.open(TENANT, disk.id).reader(READER)
        server.requests.clear()
        reader.chunks(), reader.places(), reader.originals(), reader.texts([0, 1]), reader.sentences([0])
        reader.nearest(clustered_vectors(1)[0], 3), reader.postings("lexical", ["crane"]), reader.vocabulary("keyword")
        outsider = store.open(TENANT, disk.id).reader(Principal("other", "ann", frozenset({"a"})))
        before = len(server.requests)
        assert outsider.classes() == frozenset()
        assert len(outsider.chunks()) == len(outsider.nearest(clustered_vectors(1)[0], 3).rows) == 0
        assert len(server.requests) == before
    bodies = [body["query"] for _, path, body in server.requests[:before] if path.endswith("/_search")]
    narrowed = [
        body["knn"]["dense"]["filter"] if "knn" in body else body for body in bodies if "script_score" not in body
    ]
    assert any("knn" in body for body in bodies)
    whole = [each for each in narrowed if {"term": {"point": "manifest"}} not in each["bool"]["filter"]]
    assert len(whole) >= 7
    for each in whole:
        conditions = each["bool"]["filter"]
        assert {"term": {"tenant": TENANT}} in conditions
        assert {"term": {"generation": disk.id}} in conditions
        assert any("class_ids" in condition.get("terms", ()) for condition in conditions)


def test_filters_are_made_in_one_module() -> None:
    folders = [Path(opensearch.__file__).parent, Path(publishing_room.__file__).parent]
    makers = set()
    for path in (path for folder in folders for path in folder.glob("*.py")):
        keys = [
            key for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict) for key in node.keys
        ]
        if any(isinstance(key, ast.Constant) and key.value in {"bool", "terms"} for key in keys):
            makers.add(path.name)
    assert "filters.py" in makers
    assert not {name for name in makers if name.startswith("opensearch") or name in {"reader.py", "store.py"}}


def test_what_a_server_sends_without_being_asked_is_not_shown(config: Config, publishing: OpenSearchPublisher) -> None:
    disk = built(config, restricted_chunks(60))
    publishing.publish(disk.id)
    with closing(OpenSearchConnection(config.index, 5)) as connection:
        held = GenerationLocation(connection, publishing.layout.collection(TENANT, disk.id), TENANT, disk.id)
        mine, others = (ReadableDocuments(held, frozenset({name})) for name in ("group:a", "group:b"))
        mine._filter = others._filter  # type: ignore[method-assign]
        with pytest.raises(RemoteDataError, match="not asked for"):
            list(mine.every("chunk", ["row"]))


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (Fault("_search", status=500), RemoteConnectionError, "HTTP 500"),
        (Fault("_search", status=429), RemoteConnectionError, "HTTP 429"),
        (Fault("_search", status=403), RemoteConnectionError, "refuses the key"),
        (Fault("_search", cut=True), RemoteConnectionError, "cannot be reached, or broke"),
        (Fault("_search", slow_s=2), RemoteTimeoutError, "did not answer in time"),
        (Fault("_search", body=b"<html>"), RemoteError, "no answer"),
        (Fault("_search", body=b'{"hits": null}'), RemoteError, "no answer"),
        (
            Fault("_search", body=b'{"timed_out": true, "_shards": {"failed": 0}, "hits": {"hits": []}}'),
            RemoteError,
            "some shards did not answer",
        ),
    ],
)
def test_a_fault_of_the_server_is_an_error_of_the_protocol(
    config: Config, server: OpenSearchServer, fault: Fault, error: type[RemoteError], said: str
) -> None:
    disk = built(config, restricted_chunks(30))
    publisher(config).publish(disk.id)
    with closing(OpenSearchStore(configured(config.home, server.url, statement_timeout_s=1))) as store:
        reader = store.open(TENANT, disk.id).reader(READER)
        server.faults.append(fault)
        with pytest.raises(error, match=said) as raised:
            reader.nearest(clustered_vectors(1)[0], 3)
        assert "\n" not in str(raised.value)
        assert len(reader.nearest(clustered_vectors(1)[0], 3).rows) == 3


def test_keys_are_needed_and_never_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("READ_USER", "reader:reader-secret-1")
    monkeypatch.setenv("WRITE_USER", "writer:writer-secret-1")
    caplog.set_level("DEBUG")
    with started_opensearch("writer:writer-secret-1", "reader:reader-secret-1") as locked:
        config = configured(tmp_path, locked.url, api_key_env="READ_USER", writer_key_env="WRITE_USER")
        disk = built(config, restricted_chunks(20))
        publisher(config).publish(disk.id)
        assert answers(config) == readable(disk)
        for wrong in ({}, {"api_key_env": "NO_KEY"}):
            with pytest.raises(RemoteConnectionError, match="api_key_env") as raised:
                OpenSearchStore(configured(tmp_path, locked.url, **wrong)).current(TENANT)
            assert "secret" not in str(raised.value)
        with pytest.raises(RemoteConnectionError, match=r"refuses the key of index\.writer_key_env") as refused:
            publisher(configured(tmp_path, locked.url, api_key_env="READ_USER")).publish(disk.id)
        assert "secret" not in str(refused.value) + caplog.text


def test_a_configuration_that_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"index\.collections"):
        configured(tmp_path, "http://127.0.0.1:9200", collections="shared")
    config = configured(tmp_path, "https://127.0.0.1:9", ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(RemoteConnectionError, match=r"index\.ca_file .* cannot be read"):
        OpenSearchStore(config).current(TENANT)


def test_a_tenant_is_erased_and_another_keeps_all(config: Config, server: OpenSearchServer) -> None:
    for tenant in (TENANT, "other"):
        publisher(config, tenant).publish(built(config, restricted_chunks(30), tenant).id)
    found = TenantErasure(config, TENANT).found()["rows"]["index (opensearch)"]
    assert (found["aliases"], found["indexes"]) == (1, 1)
    proof = TenantErasure(config, TENANT).erase()
    assert proof["removed"]["rows"] == {"index (opensearch)": found}
    assert [name.split(".")[1] for name in server.indexes] == ["other"]
    assert publisher(config, "other").current() is not None
