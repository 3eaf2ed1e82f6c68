"""Which indexes the database uses, and what they find: small here, at full size where CITELOCK_POSTGRES_CHUNKS says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from psycopg import ClientCursor
from support.postgres_index import APP, IndexServer, connected, signer_of
from support.synthetic import MODEL, TENANT, WORDS, chunk_table, clustered_vectors
from support.waiting import wait_until

from citelock_stores.postgres.publisher import Publisher
from citelock_stores.postgres.store import PostgresReader, PostgresStore, vector_text
from citelock_stores.publishing.postgres import publish_generation
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.generation import Generation

CHUNKS = int(os.environ.get("CITELOCK_POSTGRES_CHUNKS", "3000"))
DIMENSION, K = 64, 80
READERS = ("everyone", "everyone", "group:staff", "group:board", "nobody")
WHO = {
    "half": Principal(TENANT),
    "most": Principal(TENANT, None, frozenset({"staff", "board"})),
}
# Synthetic clusters are harder to walk than text, which has 0.991 (docs/backends.md).
LEAST_RECALL = 0.98 if CHUNKS <= 10_000 else 0.93


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generation]:
    home = tmp_path_factory.mktemp("home")
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    table = chunk_table(CHUNKS, readers=READERS)
    generation = build_generation(Store(home), TENANT, table, clustered_vectors(CHUNKS, DIMENSION), config, MODEL)
    yield generation
    generation.close()


@pytest.fixture(scope="module", params=["halfvec", "vector"])
def config(request: pytest.FixtureRequest, server: IndexServer, disk: Generation, home_of_disk: str) -> Config:
    halfvec = "auto" if request.param == "halfvec" else "never"
    config = server.config(home_of_disk, halfvec=halfvec, ann_chunks=CHUNKS // 3, partition_chunks=1)  # type: ignore[arg-type]
    publish_generation(Store(config.home), TENANT, disk.id, config)
    return config


@pytest.fixture(scope="module")
def home_of_disk(disk: Generation, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(next(tmp_path_factory.getbasetemp().glob(f"home*/tenants/{TENANT}/generations/{disk.id}")).parents[3])


@pytest.fixture
def store(config: Config) -> Iterator[PostgresStore]:
    opened = PostgresStore(config)
    yield opened
    opened.close()


@pytest.mark.parametrize("who", WHO)
def test_the_graph_finds_what_an_exact_search_finds(store: PostgresStore, disk: Generation, who: str) -> None:
    reader, view = store.open(TENANT, disk.id).reader(WHO[who]), disk.for_reader(WHO[who])
    assert store.open(TENANT, disk.id).stored.ann != "none"
    found = total = 0
    for vector in clustered_vectors(30, DIMENSION, seed=4):
        nearest, hits = reader.nearest(vector, K), view.dense(vector, K)
        exact = {hit.row: hit.score for hit in hits}
        assert all(score == pytest.approx(exact.get(row, score), abs=1e-6) for row, score in zip(*nearest, strict=True))
        assert nearest.scores.tolist() == sorted(nearest.scores.tolist(), reverse=True)
        found += len(exact.keys() & set(nearest.rows.tolist()))
        total += len(exact)
    assert found / total >= LEAST_RECALL


def test_filters_are_searched_exactly(store: PostgresStore, disk: Generation) -> None:
    reader, view = store.open(TENANT, disk.id).reader(WHO["half"]), disk.for_reader(WHO["half"])
    rows = np.arange(0, CHUNKS, 7)
    mask = np.zeros(len(disk), np.bool_)
    mask[rows] = True
    for vector in clustered_vectors(5, DIMENSION, seed=6):
        expected = [hit.row for hit in view.dense(vector, 20, mask)]
        assert reader.nearest(vector, 20, rows).rows.tolist() == expected


def plan(config: Config, reader: Principal, statement: str, settings: dict[str, str]) -> str:
    with connected(config, APP, signer_of(config).for_reader(reader, 30)) as connection:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN {statement}"))


def listened(
    config: Config, store: PostgresStore, disk: Generation
) -> tuple[PostgresReader, list[tuple[str, dict[str, str]]]]:
    """Return a reader, and its traffic: statements with their values, and settings."""
    reader = store.open(TENANT, disk.id).reader(WHO["most"])
    sent: list[tuple[str, dict[str, str]]] = []
    rows = reader._rows

    def keep(statement: str, values: object, local: dict[str, str] | None = None) -> object:
        with connected(config) as connection:
            sent.append((ClientCursor(connection).mogrify(statement, values), dict(local or {})))  # type: ignore[arg-type]
        return rows(statement, values, local)  # type: ignore[arg-type]

    reader._rows = keep  # type: ignore[method-assign, assignment]
    return reader, sent


def test_plans_use_the_indexes(config: Config, store: PostgresStore, disk: Generation) -> None:
    """The statements of a question, as they are sent: by the graph, the primary key and the index of terms."""
    reader, sent = listened(config, store, disk)
    reader.nearest(clustered_vectors(1, DIMENSION)[0], K)
    nearest = plan(config, WHO["most"], *sent[-1])
    assert "_ann on" in nearest
    assert "Seq Scan" not in nearest
    for ask in (lambda: reader.vectors(range(16)), lambda: reader.texts(range(16))):
        ask()
        assert "_pkey on" in plan(config, WHO["most"], *sent[-1])
    reader.postings("lexical", WORDS[:3])
    assert "_pkey" in plan(config, WHO["most"], *sent[-1])


HYBRID = """
SELECT c."row", found.sim FROM citelock.search_chunks_hybrid(%s, %s, %s, %s, %s) AS found
JOIN citelock.document_chunks AS c USING (id) WHERE c.generation = %s AND c.tenant_id = %s ORDER BY found.sim DESC
"""


@pytest.mark.parametrize("who", WHO)
def test_hybrid_search_finds_what_an_exact_search_finds_whoever_asks(
    config: Config, disk: Generation, who: str
) -> None:
    """Hidden rows among the nearest cost a reader none of the others."""
    tenant, view, found = signer_of(config).tenant_id(TENANT), disk.for_reader(WHO[who]), 0
    vectors = clustered_vectors(10, DIMENSION, seed=8)
    with connected(config, APP, signer_of(config).for_reader(WHO[who], 300)) as connection:
        for vector in vectors:
            values = (vector_text(vector), "", tenant, K, [1.0, 0.0], disk.id, tenant)
            nearest = connection.execute(HYBRID, values).fetchall()
            exact = {hit.row: hit.score for hit in view.dense(vector, K)}
            assert len(nearest) == K
            assert all(sim == pytest.approx(exact.get(row, sim), abs=1e-5) for row, sim in nearest)
            found += len(exact.keys() & {row for row, _ in nearest})
    assert found / (K * len(vectors)) >= LEAST_RECALL


def scans(config: Config) -> Counter[str]:
    """Return how often each index of the chunks was used so far, and how often they were scanned (`seq`)."""
    with psycopg.connect(config.index.owner_url or "") as connection:
        indexes = connection.execute(
            "SELECT substring(indexrelname FROM '_(ann|pkey|[a-z_]*idx)$'), sum(idx_scan)::int "
            "FROM pg_stat_user_indexes WHERE relname ~ '^document_chunks' GROUP BY 1"
        ).fetchall()
        (whole,) = connection.execute(
            "SELECT sum(seq_scan)::int FROM pg_stat_user_tables WHERE relname ~ '^document_chunks_[0-9a-f]{16}_'"
        ).fetchone() or (0,)
    return Counter({**dict(indexes), "seq": whole})


def used_by(config: Config, who: Principal, words: str) -> Counter[str]:
    """Return the indexes used by a call of the function, as a program with signed claims makes it."""
    tenant, vector = signer_of(config).tenant_id(TENANT), vector_text(clustered_vectors(1, DIMENSION)[0])
    before = scans(config)
    with connected(config, APP, signer_of(config).for_reader(who, 300)) as connection:
        search = "SELECT * FROM citelock.search_chunks_hybrid(%s, %s, %s, 20)"
        assert connection.execute(search, (vector, words, tenant)).fetchall()
        settings = ("hnsw.iterative_scan", "hnsw.ef_search", "enable_seqscan", "enable_sort")
        after = [connection.execute(f"SHOW {name}".encode()).fetchone()[0] for name in settings]
        assert after == ["off", "40", "on", "on"]  # what the function sets ends with it
        connection.execute("SELECT pg_stat_force_next_flush()")
    wait_until(lambda: scans(config) != before)
    return scans(config) - before


def test_hybrid_search_uses_the_graph_and_the_index_of_words_behind_the_policies(config: Config) -> None:
    used = used_by(config, WHO["most"], "number17")
    assert used["ann"]
    assert used["tsv_idx"]
    assert not used["seq"]


def test_whoever_may_read_few_chunks_has_all_of_them_compared(config: Config) -> None:
    publisher = Publisher(
        config.model_copy(update={"index": config.index.model_copy(update={"ann_chunks": CHUNKS})}), TENANT
    )
    (current,) = (info.id for info in publisher.listed() if info.current)
    publisher.point_to(current)
    try:
        used = used_by(config, WHO["half"], "number17")
    finally:
        Publisher(config, TENANT).point_to(current)
    assert not used["ann"]
    assert used["tsv_idx"]
    assert not used["seq"]


def test_a_filter_that_leaves_many_chunks_is_a_part_of_the_walk(
    config: Config, store: PostgresStore, disk: Generation
) -> None:
    """A space or label that most chunks have: found by the graph, each time enough of them."""
    reader, view = store.open(TENANT, disk.id).reader(WHO["most"]), disk.for_reader(WHO["most"])
    open_to = np.flatnonzero([READERS[row // 4 % len(READERS)] != "nobody" for row in range(CHUNKS)])
    rows = open_to[open_to % 4 > 0]
    assert len(rows) >= config.index.ann_chunks
    mask = np.zeros(len(disk), np.bool_)
    mask[rows] = True
    found = total = 0
    for vector in clustered_vectors(10, DIMENSION, seed=9):
        exact = {hit.row for hit in view.dense(vector, K, mask)}
        nearest = reader.nearest(vector, K, rows)
        assert len(nearest.rows) == K
        assert mask[nearest.rows].all()
        found += len(exact & {*nearest.rows.tolist()})
        total += len(exact)
    assert found / total >= LEAST_RECALL
