"""A tenant's generations are erased from Qdrant in both layouts; another tenant keeps every point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.qdrant_corpus import TENANT, built, publisher, qdrant_config, restricted_chunks
from support.qdrant_server import QdrantServer, started_qdrant
from support.stand_in_http import Fault

from citelock_governance.erasing import TenantErasure, count_published
from citelock_stores.qdrant import connection
from citelock_stores.qdrant.store import QdrantDatabase
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import PublishedError

NAME = "index (qdrant)"
NOTHING: dict[str, Any] = {"rows": {}, "folders": {}}


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with started_qdrant() as started:
        yield started


@pytest.fixture
def homes(server: QdrantServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Two tenants, published in the one layout and later in the other."""
    monkeypatch.setattr(connection, "BACKOFF_S", 0.01)
    server.faults.clear()
    for name in [*server.collections]:
        server.answer("DELETE", f"/collections/{name}", None)
    configs = [qdrant_config(tmp_path, server.url, collections=layout) for layout in ("tenant", "shared")]
    for config in configs:
        for tenant in (TENANT, "other"):
            generation = built(config, restricted_chunks(30), tenant)
            with closing(publisher(config, tenant)) as publishing:
                publishing.publish(generation.id)
            generation.close()
    return configs


def half_sent(config: Config, server: QdrantServer) -> None:
    """Leave what a killed publication leaves: points without a manifest that is complete."""
    generation = built(config, restricted_chunks(45))
    server.faults.append(Fault("/payload", status=400))
    with closing(publisher(config)) as publishing, pytest.raises(Exception, match="HTTP 400"):
        publishing.publish(generation.id)
    server.faults.clear()
    generation.close()


def texts(server: QdrantServer) -> str:
    return json.dumps([server.aliases, sorted(server.collections)])


def count_other(configs: list[Config]) -> dict[str, dict[str, int]]:
    return count_published(configs[0], "other")


@pytest.mark.parametrize("configured", [0, 1])
def test_all_generations_of_a_tenant_go_in_either_layout_and_another_keeps_all(
    homes: list[Config], server: QdrantServer, configured: int
) -> None:
    before = count_other(homes)
    half_sent(homes[0], server)
    config = homes[configured]
    found = TenantErasure(config, TENANT).found()["rows"][NAME]
    assert (found["aliases"], found["collections"]) == (2, 2)
    assert found["points"] > 100
    proof = TenantErasure(config, TENANT).erase()
    assert (proof["removed"]["rows"], proof["left"]) == ({NAME: found}, NOTHING)
    assert not any("generations" in line for line in proof["not_covered"])
    assert f".{TENANT}" not in texts(server)
    assert count_other(homes) == before
    assert before[NAME]["aliases"] == 2
    for each in homes:
        with closing(publisher(each, "other")) as publishing:
            assert publishing.current() is not None
    assert not Store(config.home).tenant(TENANT).exists()


@pytest.mark.parametrize("step", ["/collections/aliases", "/delete"])
def test_an_erasure_that_breaks_off_is_finished_by_the_next(
    homes: list[Config], server: QdrantServer, step: str
) -> None:
    found = TenantErasure(homes[0], TENANT).found()
    server.faults.append(Fault(step, status=403))
    with pytest.raises(PublishedError, match="refuses the key"):
        TenantErasure(homes[0], TENANT).erase()
    server.faults.clear()
    assert Store(homes[0].home).tenant(TENANT).exists()
    proof = TenantErasure(homes[0], TENANT).erase()
    assert (proof["removed"], proof["left"]) == (found, NOTHING)


def test_an_answer_that_was_lost_is_asked_for_again(homes: list[Config], server: QdrantServer) -> None:
    for only in ("/collections/aliases", "/delete", "/collections"):
        server.faults.append(Fault(only, cut=True, late=True))
    QdrantDatabase(homes[0]).erase(Store(homes[0].home), TENANT)
    assert not server.faults
    assert count_published(homes[0], TENANT) == {}
