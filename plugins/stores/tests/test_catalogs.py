"""Catalogs of a generation in a database: fetched once, kept within bounds, of one set of reader classes alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors

from citelock_stores.remote.generation import Catalogs, DatabaseGeneration, RemoteOriginal, open_store, shared_store
from citelock_stores.remote.parts import Recent, RemoteSentences, RowNumbers
from citelock_stores.remote.protocol import (
    REMOTE_SENTENCES,
    REMOTE_TEXTS,
    Nearest,
    Postings,
    RemoteGeneration,
    RemoteManifest,
    RemoteReader,
)
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, parse_config
from rag_serving.config.sections import Keyword as KeywordSettings
from rag_serving.deadline import StoppedError
from rag_serving.indexes.databases import RemoteConnectionError, RemoteDataError
from rag_serving.indexes.view import HiddenRowError
from rag_serving.retrieval.keyword.question import QuestionReader
from rag_serving.retrieval.keyword.search import Scored

if TYPE_CHECKING:
    from support.index_backends import Backends

ANYBODY, STAFF = Principal(TENANT), Principal(TENANT, None, frozenset({"staff"}))
TWO = Principal(TENANT, "two", frozenset({"staff"}))
CHUNKS = 60
VECTOR = clustered_vectors(1, dimension=8)[0]


@dataclass
class Spied:
    """A generation whose readers count requests, and answer differently if a test sets that."""

    real: RemoteGeneration
    asked: list[str] = field(default_factory=list)
    others: dict[str, Callable[..., object]] = field(default_factory=dict)

    @property
    def manifest(self) -> RemoteManifest:
        return self.real.manifest

    def reader(self, principal: Principal) -> RemoteReader:
        return _Reader(self, self.real.reader(principal))  # type: ignore[return-value]


@dataclass
class _Reader:
    spied: Spied
    real: RemoteReader

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*arguments: Any) -> object:
            self.spied.asked.append(name)
            if other := self.spied.others.get(name):
                return other(*arguments)
            return getattr(self.real, name)(*arguments)

        return call


@pytest.fixture(scope="module")
def config(backends: Backends, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Return sixty chunks in the substitute of a Qdrant server, every second page for staff alone."""
    home = tmp_path_factory.mktemp("catalogs")
    backend = backends.get("qdrant")
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, **backend.settings(home)})
    table = chunk_table(CHUNKS, readers=("everyone", "group:staff"))
    built = build_generation(Store(home), TENANT, table, clustered_vectors(CHUNKS, dimension=8), config, MODEL)
    built.close()
    backend.publish(config, TENANT, built.id)
    return config


@pytest.fixture
def spied(config: Config) -> Iterator[Spied]:
    store = open_store(config)
    current = store.current(TENANT)
    assert current
    yield Spied(store.open(TENANT, current))
    store.close()


def opened(config: Config, spied: Spied, catalogs: Catalogs | None = None) -> DatabaseGeneration:
    return DatabaseGeneration(config.home, TENANT, spied_id(spied), spied, catalogs or Catalogs(1 << 30))


def spied_id(spied: Spied) -> str:
    return str(json.loads(spied.manifest.content)["id"])


def test_readers_of_equal_classes_share_a_catalog_and_others_never_do(config: Config, spied: Spied) -> None:
    generation = opened(config, spied)
    lengths = [len(generation.for_reader(who)) for who in (STAFF, TWO, STAFF, ANYBODY)]
    assert lengths == [CHUNKS, CHUNKS, CHUNKS, 32]
    assert spied.asked.count("chunks") == 2
    assert spied.asked.count("classes") == 3


def test_a_reader_of_another_tenant_sees_nothing(config: Config, spied: Spied) -> None:
    generation = opened(config, spied)
    assert len(generation.for_reader(STAFF)) == CHUNKS
    view = generation.for_reader(replace(STAFF, tenant="other"))
    assert len(view) == 0
    assert view.dense(VECTOR, 5) == []
    assert view.lexical({"berth": 1.0}, 5) == []
    assert not view.keywords.has_word(["berth"])
    assert view.row_of("0:1:0") is None


def test_many_at_once_fetch_a_catalog_once(config: Config, spied: Spied) -> None:
    generation, barrier = opened(config, spied), threading.Barrier(8)

    def length(_: int) -> int:
        barrier.wait()
        return len(generation.for_reader(STAFF))

    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(length, range(8))] == [CHUNKS] * 8
    assert spied.asked.count("chunks") == 1


def test_who_waits_goes_on_where_the_one_that_fetched_was_stopped(config: Config, spied: Spied) -> None:
    begun, stop = threading.Event(), threading.Event()

    def stopped() -> object:
        spied.others.clear()
        begun.set()
        stop.wait(30)
        raise StoppedError

    spied.others["chunks"] = stopped
    generation = opened(config, spied)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(generation.for_reader, STAFF)
        begun.wait(30)
        second = threads.submit(generation.for_reader, STAFF)
        stop.set()
        assert len(second.result(30)) == CHUNKS
        with pytest.raises(StoppedError):
            first.result(30)


def test_a_failure_is_told_and_the_next_one_tries_again(config: Config, spied: Spied) -> None:
    def away() -> object:
        raise RemoteConnectionError("away")

    generation = opened(config, spied)
    for name in ("classes", "chunks", "places"):
        spied.others[name] = away
        with pytest.raises(RemoteConnectionError):
            generation.for_reader(ANYBODY)
        del spied.others[name]
    assert len(generation.for_reader(ANYBODY)) < CHUNKS


def test_catalogs_stay_within_their_bytes(config: Config, spied: Spied) -> None:
    generation = opened(config, spied)
    generation.for_reader(STAFF)
    one = generation._catalogs.bytes
    catalogs = Catalogs(int(one * 1.2))
    small = opened(config, spied, catalogs)
    for who in (STAFF, ANYBODY, STAFF, ANYBODY):
        small.for_reader(who)
        assert catalogs.bytes <= catalogs.limit
    none = opened(config, spied, Catalogs(0))
    assert len(none.for_reader(STAFF)) == CHUNKS
    assert none._catalogs.bytes == 0


def test_no_catalog_is_kept_beyond_its_generation(config: Config, spied: Spied) -> None:
    catalogs = Catalogs(1 << 30)
    first, second = opened(config, spied, catalogs), opened(config, spied, catalogs)
    view = first.for_reader(STAFF)
    second.for_reader(STAFF)
    both = catalogs.bytes
    first.close()
    assert 0 < catalogs.bytes < both
    assert len(view.chunks([0, 1])) == 2  # a question that still reads it ends
    second.close()
    assert catalogs.bytes == 0


def test_what_a_database_must_not_hand_out_is_not_used(config: Config, spied: Spied) -> None:
    everything = spied.real.reader(STAFF)
    hidden = np.array(sorted(set(range(CHUNKS)) - set(spied.real.reader(ANYBODY).chunks()["row"].to_pylist())))
    spied.others["chunks"] = lambda *_: everything.chunks()
    with pytest.raises(RemoteDataError, match="may not see"):
        opened(config, spied).for_reader(ANYBODY)
    spied.others.clear()
    view = opened(config, spied).for_reader(ANYBODY)
    spied.others["nearest"] = lambda *_: Nearest(hidden[:3], np.ones(3, np.float32))
    spied.others["postings"] = lambda *_: {"berth": Postings(hidden[:3], np.ones(3, np.int32))}
    for ask in (lambda: view.dense(VECTOR, 3), lambda: view.lexical({"berth": 1.0}, 3)):
        with pytest.raises(RemoteDataError, match="may not see"):
            ask()


def test_what_a_database_lost_is_told(config: Config, spied: Spied) -> None:
    view = opened(config, spied).for_reader(STAFF)
    spied.others["texts"] = lambda *_: REMOTE_TEXTS.columns.empty_table()
    spied.others["vectors"] = lambda *_: (np.zeros(1, np.int64), np.zeros((0, 8), np.float32))
    asked = (lambda: view.chunks([0]), lambda: view.vectors([0]), lambda: view.similarities(VECTOR, np.array([0])))
    for ask in asked:
        with pytest.raises(RemoteDataError, match="publish the pages again"):
            ask()
    with pytest.raises(HiddenRowError):
        view.chunks([CHUNKS])


def test_sentence_vectors_that_were_cut_are_told(spied: Spied) -> None:
    spied.others["sentences"] = lambda *_: pa.Table.from_pylist(
        [{"row": 0, "records": b"cut"}], schema=REMOTE_SENTENCES.columns
    )
    sentences = RemoteSentences(spied.reader(STAFF), RowNumbers(np.arange(CHUNKS)), 8)
    with pytest.raises(RemoteDataError, match="damaged"):
        sentences.best(VECTOR, [0])


def test_a_manifest_that_was_altered_opens_nothing(config: Config, spied: Spied) -> None:
    content = spied.manifest.content
    generation_id = spied_id(spied)

    @dataclass
    class Altered:
        manifest: RemoteManifest

        def reader(self, principal: Principal) -> RemoteReader:
            return spied.reader(principal)

    for altered in (content.replace(b'"chunks"', b'"chunkz"', 1), content.replace(b"acme", b"acmf"), b"{", b"[]", b""):
        with pytest.raises(RemoteDataError):
            DatabaseGeneration(config.home, TENANT, generation_id, Altered(RemoteManifest(altered, {})), Catalogs(0))
    with pytest.raises(RemoteDataError):
        DatabaseGeneration(config.home, TENANT, "0" * 16, spied, Catalogs(0))


def test_a_file_is_compared_with_its_digest(spied: Spied) -> None:
    spied.others["original"] = lambda *_: b"other bytes"
    file = RemoteOriginal("0" * 64, "application/pdf", 5, 1, Path("x"), None, spied.reader(STAFF))
    with pytest.raises(StoreError, match="altered"):
        file.read()

    def away(*_: object) -> object:
        raise RemoteConnectionError("away")

    spied.others["original"] = away
    with pytest.raises(StoreError):
        file.read()


def test_tenants_of_a_process_share_one_database_until_the_last_lets_go(config: Config) -> None:
    first, second = shared_store(config), shared_store(config)
    assert first is second
    first.release()
    assert shared_store(config) is first
    first.release()
    first.release()
    other = shared_store(config)
    assert other is not first
    other.release()


def test_recent_values_stay_within_their_bytes() -> None:
    asked: list[list[str]] = []

    def fetch(keys: list[str]) -> dict[str, str]:
        asked.append(keys)
        return {key: key * 10 for key in keys}

    recent = Recent(fetch, len, 25)
    assert recent.of(["a", "b", "a"]) == {"a": "a" * 10, "b": "b" * 10}
    assert recent.of(["b", "c"]) == {"b": "b" * 10, "c": "c" * 10}
    assert asked == [["a", "b"], ["c"]]
    assert recent.bytes == 20
    assert recent.of(["a"]) == {"a": "a" * 10}
    assert asked[-1] == ["a"]
    assert recent.of(["long"])["long"] == "long" * 10
    assert recent.bytes == 20


@pytest.mark.parametrize(
    ("question", "requests"),
    [("mast lock container forklift schedule vessels cranes gauge", 1), ("forklifft schedul contaner anchor", 4)],
    ids=["spelt", "misspelt"],
)
def test_a_question_asks_the_database_once_for_all_its_words(
    config: Config, spied: Spied, question: str, requests: int
) -> None:
    """An unknown word costs one more request, with all its possible corrections; a correction, one for all."""
    view = opened(config, spied).for_reader(STAFF)
    before = spied.asked.count("postings")
    read = QuestionReader(KeywordSettings(), view.keywords).read(question)
    rows, _ = Scored(view.keywords, read, "chunks").chunks
    assert len(read.tokens) == len(question.split())
    assert bool(read.corrections) == (requests > 1)
    assert len(rows) > 0
    assert spied.asked.count("postings") - before <= requests
