"""Publishing into a database: all or nothing, whoever is killed; rollback, pruning, several publishers at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.postgres_index import OWNER, WRITER, IndexServer, connected, empty, signer_of, tables_of
from support.synthetic import MODEL, chunk_table, clustered_vectors

from citelock_stores.postgres.migrations.upgrade import migrate
from citelock_stores.postgres.store import PostgresStore
from citelock_stores.publishing import postgres as postgres_writer
from citelock_stores.publishing.postgres import PostgresPublisher, publish_generation
from evals.evaluation.bench import with_column
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, ConfigError, parse_config
from rag_serving.indexes.catalog import rollback
from rag_serving.indexes.databases import RemoteConnectionError, RemoteDataError, RemoteError

TENANT = "acme"
READERS = ("everyone", "group:ops")
CHUNKS = 120
KILLS = int(os.environ.get("CITELOCK_KILLS", "1"))
OPS = Principal(TENANT, None, frozenset({"ops"}))

_seeds = count(100)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def generations(home: Path) -> list[str]:
    """Three generations on disk: the chunks of the last have several vectors each."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    ids = []
    for seed in range(3):
        table, vectors = chunk_table(CHUNKS, seed, readers=READERS), clustered_vectors(CHUNKS, seed=seed)
        if seed == 2:
            keys = [[f"{row}.0", f"{row}.1"] if row % 2 else [f"{row}"] for row in range(CHUNKS)]
            table, vectors = with_column(table, "vector_keys", keys), clustered_vectors(CHUNKS * 3 // 2, seed=seed)
        generation = build_generation(Store(home), TENANT, table, vectors, config, MODEL)
        ids.append(generation.id)
        generation.close()
    return ids


@pytest.fixture(scope="module")
def database(server: IndexServer, home: Path) -> Config:
    """A database of this module's own."""
    return server.config(home, ann_chunks=50)


@pytest.fixture(params=["own partitions", "shared"])
def config(request: pytest.FixtureRequest, database: Config) -> Config:
    """The database, empty; generations have HNSW indexes if they have partitions."""
    empty(database)
    chunks = 1 if request.param == "own partitions" else 9999
    return database.model_copy(update={"index": database.index.model_copy(update={"partition_chunks": chunks})})


def answers(config: Config) -> tuple[str, int, int]:
    """The published generation, and how many chunks and terms it answers with."""
    store = PostgresStore(config)
    try:
        current = store.current(TENANT) or ""
        reader = store.open(TENANT, current).reader(OPS)
        assert len(reader.nearest(clustered_vectors(1, seed=7)[0], 10).rows) == 10
        return current, len(reader.chunks()), reader.vocabulary("lexical").num_rows
    finally:
        store.close()


def publish(config: Config, generation: str) -> bool:
    return bool(publish_generation(Store(config.home), TENANT, generation, config))


def relations(config: Config) -> set[str]:
    """Everything that the schema has, whoever made it."""
    with connected(config, OWNER) as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'citelock'::regnamespace")
        return {name for (name,) in rows}


def rows_by_generation(config: Config) -> dict[str, set[str]]:
    """Return the tables with rows of each generation."""
    claims = signer_of(config).for_role(TENANT, "publisher", 30)
    found: dict[str, set[str]] = {}
    with connected(config, WRITER, claims) as connection:
        for table in set(tables_of(connection)) - {"reader_classes", "original_files", "pointers"}:
            for (generation,) in connection.execute(f"SELECT DISTINCT generation FROM citelock.{table}"):
                found.setdefault(generation, set()).add(table)
    return found


def test_windows_are_compared_by_their_nearest(config: Config, home: Path, generations: list[str]) -> None:
    from rag_serving.indexes.generation import Generation

    publish(config, generations[2])
    disk = Generation.open(Store(home), TENANT, generations[2], config)
    store = PostgresStore(config)
    reader, view = store.open(TENANT, generations[2]).reader(OPS), disk.for_reader(OPS)
    for vector in clustered_vectors(5, seed=11):
        nearest, hits = reader.nearest(vector, 20), view.dense(vector, 20)
        assert nearest.rows.tolist() == [hit.row for hit in hits]
        np.testing.assert_allclose(nearest.scores, [hit.score for hit in hits], atol=1e-6)
    rows = [5, 0, 3]
    stored = reader.vectors(rows)
    assert stored.counts.tolist() == [len(disk.table["vector_keys"][row].as_py()) for row in rows]
    among = np.arange(0, CHUNKS, 3)
    assert set(reader.nearest(clustered_vectors(1, seed=5)[0], 10, among).rows.tolist()) <= set(among.tolist())
    store.close()
    disk.close()


def test_a_rollback_moves_the_pointer_and_what_was_left_long_ago_is_removed(
    config: Config, generations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = relations(config)
    for generation in generations:
        assert publish(config, generation)
    assert not publish(config, generations[2])
    publisher = PostgresPublisher(config, TENANT)
    assert publisher.prune(keep=1) == ()  # left just now: questions may still read them
    assert rollback(Store(config.home), TENANT, config) == generations[1]
    assert answers(config)[0] == generations[1]
    assert rollback(Store(config.home), TENANT, config) == generations[0]
    monkeypatch.setattr(postgres_writer, "KEPT_S", -1)
    assert set(publisher.prune(keep=1)) == {generations[1]}  # the newest stays, and the published one
    with pytest.raises(RemoteDataError, match="citelock index status"):
        rollback(Store(config.home), TENANT, config, generations[1])
    assert answers(config)[0] == generations[0]
    assert publish(config, generations[1])
    assert set(publisher.prune(keep=1)) == {generations[0], generations[2]}
    assert set(rows_by_generation(config)) == {generations[1]}
    kept = {name for name in relations(config) - before if generations[1] not in name}
    assert len([name for name in kept if "_pkey" not in name]) <= 14 + 20


class TestKilled:
    """A publisher, its connection, or the server ends at any moment."""

    @pytest.fixture
    def expected(self, config: Config, generations: list[str]) -> Iterator[tuple[str, int, int]]:
        """Return the answers before, and after every failed publication."""
        publish(config, generations[0])
        before = relations(config)
        answered = answers(config)
        yield answered
        assert publish(config, generations[1]) in (True, False)
        assert answers(config)[:2] == (generations[1], CHUNKS)
        whole = rows_by_generation(config)
        assert whole[generations[1]] == whole[generations[0]]
        left = {name for name in relations(config) - before if not name.startswith("document_chunks_shared")}
        # As many relations as one generation has, not more: nothing is left of those that were broken off.
        with connected(config, OWNER) as connection:
            owned = connection.execute(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'citelock'::regnamespace AND relkind = 'r' "
                "AND NOT relispartition AND relname LIKE 'document_chunks_%%'"
            ).fetchone()
        assert owned == (0,), left

    def test_connections_are_cut_at_random_moments(
        self, config: Config, generations: list[str], expected: tuple[str, int, int]
    ) -> None:
        random = np.random.default_rng(0)
        publish_s = 0.3
        for _ in range(2 * KILLS):
            started = threading.Event()

            def cut(after_s: float, started: threading.Event = started) -> None:
                started.wait()
                time.sleep(after_s)
                with connected(config, OWNER) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE usename = 'citelock_writer' AND datname = current_database()"
                    )

            thread = threading.Thread(target=cut, args=(float(random.uniform(0, publish_s)),))
            thread.start()
            started.set()
            begun = time.monotonic()
            with suppress(RemoteError):
                publish(config, generations[1])
                publish_s = time.monotonic() - begun
                PostgresPublisher(config, TENANT).point_to(generations[0])
            thread.join()
            current = answers(config)
            assert current[1] == CHUNKS
            assert current == expected or current[0] == generations[1]
            if current[0] == generations[1]:  # cut after the commit
                PostgresPublisher(config, TENANT).point_to(generations[0])

    def test_publishers_are_killed(
        self, config: Config, generations: list[str], expected: tuple[str, int, int], tmp_path: Path
    ) -> None:
        path = tmp_path / "config.json"
        path.write_text(config.model_dump_json(include={"home", "tenants", "index"}), encoding="utf-8")
        code = (
            "import json, sys\n"
            "from citelock_stores.publishing.postgres import publish_generation\n"
            "from rag_serving.artifacts.store import Store\n"
            "from rag_serving.config.loading import parse_config\n"
            "config = parse_config(json.load(open(sys.argv[1])))\n"
            "print(flush=True)\n"
            "publish_generation(Store(config.home), 'acme', sys.argv[2], config)\n"
        )
        random = np.random.default_rng(1)
        for _ in range(max(1, KILLS // 3)):
            command = [sys.executable, "-c", code, str(path), generations[1]]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                time.sleep(float(random.uniform(0.02, 0.25)))
                process.kill()
            current = answers(config)
            assert current == expected or current[:2] == (generations[1], CHUNKS)

    def test_the_server_is_killed_while_it_copies(
        self, config: Config, generations: list[str], expected: tuple[str, int, int], server: IndexServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        whole = postgres_writer._fill_plain

        def break_off(connection: object, rows: object) -> None:
            server.postgres.stop()
            whole(connection, rows)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(postgres_writer, "_fill_plain", break_off)
            try:
                with pytest.raises(RemoteError):
                    publish(config, generations[1])
            finally:
                server.postgres.start()
        assert answers(config) == expected


def test_publishers_at_once_leave_one_whole_winner(config: Config, generations: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        copied = [*pool.map(lambda number: publish(config, generations[number % 2]), range(4))]
    assert sorted(copied) == [False, False, True, True]
    assert answers(config)[1] == CHUNKS
    tables = rows_by_generation(config)
    assert tables[generations[0]] == tables[generations[1]]


def test_readers_go_on_while_others_publish(config: Config, generations: list[str]) -> None:
    """Nobody waits for a publisher's transaction, however long it is."""
    publish(config, generations[0])
    store = PostgresStore(
        config.model_copy(update={"index": config.index.model_copy(update={"statement_timeout_s": 5})})
    )
    reader = store.open(TENANT, generations[0]).reader(OPS)
    publisher = PostgresPublisher(config, TENANT)
    with publisher.transaction() as connection:
        connection.execute("SELECT citelock.stage('postings', 'half')")
        assert len(reader.nearest(clustered_vectors(1)[0], 5).rows) == 5
        assert len(reader.vocabulary("keyword")) > 0
    store.close()


def test_what_was_open_answers_again_when_the_server_is_back(
    config: Config, generations: list[str], server: IndexServer
) -> None:
    publish(config, generations[0])
    store = PostgresStore(config)
    reader = store.open(TENANT, generations[0]).reader(OPS)
    vector = clustered_vectors(1)[0]
    expected = reader.nearest(vector, 5).rows.tolist()
    server.postgres.stop()
    server.postgres.start()
    assert reader.nearest(vector, 5).rows.tolist() == expected  # over a new connection: the old ones are cut
    server.postgres.stop()
    try:
        with pytest.raises(RemoteConnectionError):
            reader.nearest(vector, 5)
    finally:
        server.postgres.start()
    time.sleep(1.1)  # for so long the server gets no requests
    assert reader.nearest(vector, 5).rows.tolist() == expected
    store.close()


def test_a_text_that_a_database_cannot_hold_is_kept_as_it_is(server: IndexServer, tmp_path: Path) -> None:
    config = server.config(tmp_path)
    table = chunk_table(8)
    texts = ["one\0two" if row == 3 else text for row, text in enumerate(table["text"].to_pylist())]
    generation = build_generation(
        Store(tmp_path), TENANT, with_column(table, "text", texts), clustered_vectors(8), config, MODEL
    )
    publish(config, generation.id)
    store = PostgresStore(config)
    rows = store.open(TENANT, generation.id).reader(Principal(TENANT)).texts(range(8))
    assert isinstance(rows, pa.Table)
    assert dict(zip(rows["row"].to_pylist(), rows["text"].to_pylist(), strict=True)) == dict(
        enumerate(generation.table["text"].to_pylist())
    )
    store.close()
    generation.close()


class TestWhatIsMissing:
    """One line says it."""

    def test_no_schema(self, server: IndexServer, home: Path, generations: list[str]) -> None:
        config = server.config(home, migrated=False)
        for ask in (lambda: publish(config, generations[0]), lambda: PostgresStore(config).current(TENANT)):
            with pytest.raises(RemoteDataError, match="citelock index migrate"):
                ask()
        assert "citelock index migrate" in PostgresStore(config).faults(TENANT)[0]

    def test_another_secret(self, server: IndexServer, home: Path, generations: list[str], tmp_path: Path) -> None:
        config = server.config(tmp_path)
        other = config.model_copy(update={"home": home})
        with pytest.raises(RemoteDataError, match="CITELOCK_SECRET"):
            publish(other, generations[0])
        with pytest.raises(RemoteDataError, match="CITELOCK_SECRET"):
            PostgresStore(other).current(TENANT)
        migrate(other)
        assert publish(other, generations[0])

    def test_no_addresses(self, tmp_path: Path) -> None:
        config = parse_config(
            {"home": str(tmp_path), "index": {"kind": "postgres", "url": "postgresql://x@127.0.0.1/y"}}
        )
        with pytest.raises(ConfigError, match="CITELOCK_INDEX__WRITER_URL"):
            PostgresPublisher(config, TENANT)
        with pytest.raises(ConfigError, match="CITELOCK_INDEX__OWNER_URL"):
            migrate(config)

    def test_a_user_that_may_too_much(self, server: IndexServer, home: Path, generations: list[str]) -> None:
        config = server.config(home)
        publish(config, generations[0])
        assert PostgresStore(config).faults(TENANT) == ()
        rich = config.model_copy(update={"index": config.index.model_copy(update={"url": config.index.owner_url})})
        assert any("use citelock_app" in fault for fault in PostgresStore(rich).faults(TENANT))

    def test_a_server_that_is_away(self, tmp_path: Path) -> None:
        url = "postgresql://citelock_app:verysecret@127.0.0.1:9/x"
        config = parse_config({"home": str(tmp_path), "index": {"kind": "postgres", "url": url, "writer_url": url}})
        store = PostgresStore(config)
        with pytest.raises(RemoteError) as error:
            store.current(TENANT)
        assert "verysecret" not in str(error.value)
        began = time.monotonic()
        with pytest.raises(RemoteError):
            store.current(TENANT)
        assert time.monotonic() - began < 0.5  # the next caller does not wait again
        store.close()
