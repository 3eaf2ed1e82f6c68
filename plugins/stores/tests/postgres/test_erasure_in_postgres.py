"""A tenant's generations are erased from PostgreSQL as a whole; another tenant keeps every row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.postgres_index import APP, OWNER, WRITER, IndexServer, connected, publish_table, signer_of, tables_of
from support.synthetic import chunk_table, clustered_vectors

from citelock_governance.erasing import TenantErasure, count_published
from citelock_stores.postgres import publisher
from citelock_stores.postgres.publisher import Publisher
from citelock_stores.postgres.store import PostgresStore
from rag_serving.access.principals import Principal
from rag_serving.artifacts.signed_files import read_signed
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.databases import PublishedError

TENANTS = ("acme", "acme-b")
NAME = "index (postgres)"


@pytest.fixture(scope="module")
def published(server: IndexServer, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Two tenants, each with a generation among others' rows and, published later, one in its own partitions."""
    config = server.config(tmp_path_factory.mktemp("home"), TENANTS, ann_chunks=50)
    publish_both(config, TENANTS)
    return config


def publish_both(config: Config, tenants: tuple[str, ...]) -> None:
    for tenant in tenants:
        for seed, partition_chunks in enumerate((9999, 1)):
            index = config.index.model_copy(update={"partition_chunks": partition_chunks})
            table = chunk_table(60, seed, readers=("everyone", "group:ops"))
            vectors = clustered_vectors(60, seed=seed)
            publish_table(config.model_copy(update={"index": index}), tenant, table, vectors).close()


@pytest.fixture
def config(published: Config) -> Config:
    """Both tenants with all of it, whatever a test before erased."""
    if not count_published(published, "acme"):
        publish_both(published, ("acme",))
    return published


def rows_of(config: Config, tenant: str) -> dict[str, int]:
    """The rows of a tenant, counted in every table that the schema has, in a publisher's name."""
    signer = signer_of(config)
    with connected(config, WRITER, signer.for_role(tenant, "publisher", 30)) as connection:
        counts = {}
        for table in tables_of(connection):
            query = f"SELECT count(*) FROM citelock.{table} WHERE tenant_id = %s"
            counts[table] = connection.execute(query, (signer.tenant_id(tenant),)).fetchone()[0]
        return {table: count for table, count in counts.items() if count}


def relations_of(config: Config, tenant: str) -> set[str]:
    """The tables that are of one tenant alone."""
    own = str(signer_of(config).tenant_id(tenant)).replace("-", "")[:16]
    with connected(config, OWNER) as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relname ~ %s", (f"_{own}(_|$)",)).fetchall()
        return {name for (name,) in rows}


def answers(config: Config, tenant: str) -> int:
    store = PostgresStore(config)
    try:
        current = store.current(tenant)
        return len(store.open(tenant, current).reader(Principal(tenant)).chunks()) if current else 0
    finally:
        store.close()


def test_all_generations_of_a_tenant_go_and_another_keeps_all_of_them(config: Config) -> None:
    kept = rows_of(config, "acme-b"), relations_of(config, "acme-b"), answers(config, "acme-b")
    assert len(kept[1]) >= 8
    found = TenantErasure(config, "acme").found()
    counts = dict(found["rows"][NAME])
    assert counts.pop("partitions") == 4
    assert counts == rows_of(config, "acme")
    assert {"pointers", "generations", "document_chunks", "postings", "reader_classes", "documents"} <= counts.keys()
    assert (counts["generations"], counts["document_chunks"]) == (2, 120)
    proof = TenantErasure(config, "acme").erase()
    assert proof["removed"]["rows"] == {NAME: found["rows"][NAME]}
    assert proof["left"] == {"rows": {}, "folders": {}}
    assert read_signed(Store(config.home), Path(proof["file"]))["removed"] == proof["removed"]
    assert not any("generations" in line for line in proof["not_covered"])
    assert (rows_of(config, "acme"), relations_of(config, "acme"), answers(config, "acme")) == ({}, set(), 0)
    assert (rows_of(config, "acme-b"), relations_of(config, "acme-b"), answers(config, "acme-b")) == kept
    again = TenantErasure(config, "acme").erase()
    assert again["removed"] == {"rows": {}, "folders": {}}


KILLED = """
import os, signal, sys
from rag_serving.config.loading import load_config
from citelock_governance import erasing
from citelock_stores.postgres import publisher
name = sys.argv[2]
room = publisher if hasattr(publisher, name) else erasing
real = getattr(room, name)
def dying(*arguments):
    if name == "_remove_tenant":  # in the middle of its transaction
        arguments[0].renew = lambda connection: os.kill(os.getpid(), signal.SIGKILL)
    if name == "remove_published":
        real(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)
setattr(room, name, dying)
from pathlib import Path
erasing.TenantErasure(load_config(Path(sys.argv[1])), "acme").erase()
"""


@pytest.mark.parametrize("killed_in", ["_remove_tenant", "remove_published"])
def test_an_erasure_killed_in_the_database_is_finished_by_the_next(
    config: Config, tmp_path: Path, killed_in: str
) -> None:
    found = TenantErasure(config, "acme").found()
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump(content(config)))
    run = subprocess.run([sys.executable, "-c", KILLED, str(file), killed_in], env=dict(os.environ), check=False)
    assert run.returncode == -signal.SIGKILL
    assert bool(rows_of(config, "acme")) == (killed_in == "_remove_tenant")
    assert TenantErasure(config, "acme").found() == found or killed_in == "remove_published"
    assert (config.home / "erasures" / "acme.begun.json").exists()
    proof = TenantErasure(config, "acme").erase()
    assert (proof["removed"], proof["left"]) == (found, {"rows": {}, "folders": {}})
    assert (rows_of(config, "acme"), relations_of(config, "acme")) == ({}, set())


def content(config: Config) -> dict[str, Any]:
    urls = config.index.model_dump(include={"kind", "url", "writer_url"})
    return {"home": str(config.home), "tenants": {name: {} for name in TENANTS}, "index": urls}


def test_without_the_writers_address_nothing_is_removed_and_one_line_says_what_is_missing(config: Config) -> None:
    before = rows_of(config, "acme")
    index = config.index.model_copy(update={"writer_url": None})
    with pytest.raises(PublishedError, match=r"index\.writer_url is missing: set CITELOCK_INDEX__WRITER") as caught:
        TenantErasure(config.model_copy(update={"index": index}), "acme").erase()
    assert "\n" not in str(caught.value)
    assert rows_of(config, "acme") == before
    assert Store(config.home).tenant("acme").exists()
    assert not (config.home / "erasures" / "acme.begun.json").exists()


def test_a_database_that_is_gone_is_told_and_nothing_else_is_removed(config: Config) -> None:
    said = {
        **content(config),
        "index": {"kind": "postgres", "writer_url": "postgresql://citelock_writer@127.0.0.1:1/x"},
    }
    with pytest.raises(PublishedError, match="what `index` has of acme cannot be removed: "):
        TenantErasure(parse_config(said), "acme").erase()
    assert Store(config.home).tenant("acme").exists()


def test_another_installation_can_erase_nothing(config: Config, tmp_path: Path) -> None:
    foreign = parse_config({**content(config), "home": str(tmp_path)})
    before = rows_of(config, "acme")
    with pytest.raises(PublishedError, match="does not know this installation's secret"):
        TenantErasure(foreign, "acme").erase()
    assert rows_of(config, "acme") == before
    assert len(Publisher(config, "acme").listed()) == 2


def test_whoever_reads_on_delays_it_and_then_nothing_is_removed(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows_of(config, "acme")
    monkeypatch.setattr(publisher, "LOCK_S", 0.1)
    claims = signer_of(config).for_reader(Principal("acme"), 30)
    with connected(config, APP, claims) as reading:
        assert reading.execute("SELECT count(*) FROM citelock.document_chunks").fetchone()[0]
        with pytest.raises(PublishedError, match="cannot be removed"):
            TenantErasure(config, "acme").erase()
    assert rows_of(config, "acme") == before
    assert TenantErasure(config, "acme").erase()["left"]["rows"] == {}
