"""A database that an older program made and filled becomes one of this program's, and loses nothing."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.postgres_index import OWNER, IndexServer, connected
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors

from citelock_stores.postgres.migrations import upgrade
from citelock_stores.postgres.migrations.upgrade import HEAD, migrate
from citelock_stores.postgres.store import PostgresStore
from citelock_stores.publishing import postgres as postgres_writer
from citelock_stores.publishing.postgres import publish_generation
from citelock_stores.remote.generation import Catalogs, DatabaseGeneration
from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteDataError

CHUNKS = 90
POINTER_OF_0001 = (
    "INSERT INTO citelock.pointers (tenant_id, generation, placement, dimension, ann, weights) "
    "SELECT tenant_id, generation, placement, dimension, ann, %s::float8[] FROM citelock.generations "
    "WHERE tenant_id = %s AND generation = %s "
    "ON CONFLICT (tenant_id) DO UPDATE SET generation = excluded.generation, placement = excluded.placement, "
    "dimension = excluded.dimension, ann = excluded.ann, weights = excluded.weights, moved_at = clock_timestamp()"
)


def move_as_0001(connection: Any, tenant_id: object, generation_id: str, settings: Any) -> bool:
    moved = connection.execute(POINTER_OF_0001, (list(settings.hybrid_weights), tenant_id, generation_id))
    return bool(moved.rowcount)


@pytest.fixture(params=[1, 9999], ids=["own partitions", "shared"])
def old(request: pytest.FixtureRequest, server: IndexServer, tmp_path: Path) -> tuple[Config, str]:
    """A database at revision 0001 with a published generation: no seals, and a pointer without settings."""
    config = server.config(tmp_path, migrated=False, ann_chunks=50, partition_chunks=request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upgrade, "HEAD", "0001")
        assert migrate(config).after == "0001"
        patch.setattr(postgres_writer, "_fill_seals", lambda *_: None)
        patch.setattr(postgres_writer, "move_pointer", move_as_0001)
        table = chunk_table(CHUNKS, readers=("everyone", "group:staff"))
        with closing(
            build_generation(Store(tmp_path), TENANT, table, clustered_vectors(CHUNKS), config, MODEL)
        ) as generation:
            publish_generation(Store(tmp_path), TENANT, generation.id, config)
    return config, generation.id


def counts(config: Config) -> dict[str, int]:
    """Return the rows of every table with any."""
    with connected(config, OWNER) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'citelock'::regnamespace AND relkind = 'r' "
            "AND relname NOT IN ('schema_version', 'catalog_blocks')"
        ).fetchall()
        return {name: connection.execute(f'SELECT count(*) FROM citelock."{name}"').fetchone()[0] for (name,) in names}


def readable(config: Config, generation_id: str) -> int:
    with closing(PostgresStore(config)) as store:
        remote = store.open(TENANT, generation_id)
        generation = DatabaseGeneration(config.home, TENANT, generation_id, remote, Catalogs(0))
        view = generation.for_reader(Principal(TENANT))
        return len(view.chunks(range(len(view))))


def test_an_upgrade_keeps_all_rows_and_the_next_publication_seals_them(old: tuple[Config, str]) -> None:
    config, generation_id = old
    before = counts(config)
    with closing(PostgresStore(config)) as store:
        (fault,) = store.faults(TENANT)
        assert f"schema 0001 is not this program's ({HEAD}); run `citelock index migrate`" in fault
    done = migrate(config)
    assert (done.before, done.after, done.roles_made) == ("0001", HEAD, ())
    assert counts(config) == before
    with pytest.raises(RemoteDataError, match="`citelock generations repair` adds them"):
        readable(config, generation_id)
    assert publish_generation(Store(config.home), TENANT, generation_id, config) == {}  # nothing is copied again
    assert counts(config) == before
    assert readable(config, generation_id) == 46
    with connected(config, OWNER) as connection:
        assert connection.execute("SELECT ann_chunks, ef_search FROM citelock.pointers").fetchone() == (50, 320)
    again = migrate(config)
    assert (again.before, again.after) == (HEAD, HEAD)


def test_an_older_program_publishes_into_the_newer_schema(
    old: tuple[Config, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Machines are updated one after the other: its rows are taken, and read when they are sealed."""
    config, _ = old
    migrate(config)
    table = chunk_table(CHUNKS, seed=5)
    with closing(
        build_generation(Store(config.home), TENANT, table, clustered_vectors(CHUNKS), config, MODEL)
    ) as generation:
        with monkeypatch.context() as patch:
            patch.setattr(postgres_writer, "_fill_seals", lambda *_: None)
            patch.setattr(postgres_writer, "move_pointer", move_as_0001)
            publish_generation(Store(config.home), TENANT, generation.id, config)
        publish_generation(Store(config.home), TENANT, generation.id, config)
    assert readable(config, generation.id) == CHUNKS


def test_a_migration_that_fails_leaves_the_older_schema(
    old: tuple[Config, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = old
    run = upgrade.run_statements

    def break_off(connection: Any, name: str, names: Any) -> None:
        run(connection, name, names)
        if name == "v0002_partitions":
            connection.exec_driver_sql("SELECT 1 / 0")

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "run_statements", break_off)
        with pytest.raises(RemoteDataError, match="the migration was undone"):
            migrate(config)
    with connected(config, OWNER) as connection:
        assert connection.execute("SELECT version_num FROM citelock.schema_version").fetchone() == ("0001",)
        assert connection.execute("SELECT to_regprocedure('citelock.erase_partitions()')").fetchone() == (None,)
    assert migrate(config).after == HEAD
    assert json.dumps(counts(config))
