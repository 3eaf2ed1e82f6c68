"""What `citelock doctor` says of generations in a database."""

from __future__ import annotations

from pathlib import Path

from support.index_backends import Backends
from support.synthetic import MODEL, TENANT, chunk_table, clustered_vectors

from citelock_stores.command import in_database
from rag_assets.publishing.build import build_generation
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config


def configured(home: Path, backends: Backends) -> Config:
    settings = backends.get("qdrant").settings(home)
    return parse_config({"home": str(home), "tenants": {TENANT: {}}, **settings})


def publish(config: Config, backends: Backends) -> str:
    table = chunk_table(8, readers=("everyone", "group:staff"))
    built = build_generation(Store(config.home), TENANT, table, clustered_vectors(8, dimension=8), config, MODEL)
    built.close()
    backends.get("qdrant").publish(config, TENANT, built.id)
    return built.id


def test_what_is_published_is_told_with_what_everybody_may_read(tmp_path: Path, backends: Backends) -> None:
    config = configured(tmp_path, backends)
    empty = in_database(config, TENANT)
    assert (empty.state, "nothing is published" in empty.detail) == ("warn", True)
    generation_id = publish(config, backends)
    finding = in_database(config, TENANT)
    assert finding.state == "ok", finding
    assert f"qdrant: generation {generation_id}, 8 chunks (4 of them readable for everyone)" in finding.detail


def test_a_database_that_is_away_is_named_with_its_mend(tmp_path: Path, backends: Backends) -> None:
    config = configured(tmp_path, backends)
    publish(config, backends)
    server = backends.servers["qdrant"]
    server.stop()
    try:
        finding = in_database(config, TENANT)
    finally:
        server.start()
    assert finding.state == "fail"
    assert finding.detail.startswith("qdrant: ")
    assert finding.mend
    assert "\n" not in finding.detail
