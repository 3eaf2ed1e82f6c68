"""Two tenants of one process, of whom one has its passages ordered by the sidecar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import ADDRESS, LOCAL, bearer
from support.stand_in_sidecar import StandInSidecar, sidecar
from support.waiting import wait_until
from support.wiki import embedder, publish

from evals.evaluation.candidate import CandidateGeneration, _evaluated_config, candidate_pipeline
from rag_serving.api.app import create_app
from rag_serving.api.reload import ConfigFile
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.cli.doctor import examine
from rag_serving.config.loading import load_config

TENANTS = ("acme", "other")
OFF = {"features": {"FEATURE_RERANKER": False}}
TOKENS = {tenant: {"tenant": tenant, "user": "ann", "roles": ["operator"]} for tenant in TENANTS}


@pytest.fixture
def ranking() -> Iterator[StandInSidecar]:
    with sidecar() as opened:
        yield opened


class Site:
    """A configuration file over two tenants' pages, and the sidecar that it names."""

    def __init__(self, folder: Path, ranking: StandInSidecar) -> None:
        self.path, self._home, self._url = folder / "app.yaml", folder / "home", ranking.url
        for tenant in TENANTS:
            publish(self._home, tenant=tenant)

    def write(self, *, acme: dict[str, Any] | None = None, other: dict[str, Any] | None = None, **more: Any) -> None:
        tenants = {"acme": acme or {}, "other": other or {}}
        content = {"home": str(self._home), "tenants": tenants, "reranker": {"url": self._url}}
        self.path.write_text(json.dumps({**content, "serving": {"auth": "tokens"}, **more}))

    def client(self) -> TestClient:
        config = load_config(self.path)
        return TestClient(create_app(config, file=ConfigFile(self.path, config.serving)), ADDRESS, client=LOCAL)


@pytest.fixture
def site(tmp_path: Path, ranking: StandInSidecar, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    return Site(tmp_path, ranking)


def rerankers(client: TestClient) -> list[bool]:
    """Whether the sidecar ordered what each tenant found."""
    found = [client.post("/v1/search", json={"query": "restart a broker"}, headers=bearer(name)) for name in TENANTS]
    return [one.json()["reranker"] not in ("none", "heuristic") for one in found]


def test_one_tenant_is_reranked_and_the_other_is_not(site: Site, ranking: StandInSidecar) -> None:
    site.write(other=OFF)
    with site.client() as client:
        assert rerankers(client) == [True, False]
        assert ranking.requests == 1
        status = [client.get("/v1/status", headers=bearer(tenant)).json() for tenant in TENANTS]
        assert [one["features"]["FEATURE_RERANKER"] for one in status] == [True, False]
        assert [one["models"]["reranker"] is not None for one in status] == [True, False]


def test_a_tenant_s_own_switch_stands_over_one_that_is_off_for_all(site: Site) -> None:
    site.write(acme={"features": {"FEATURE_RERANKER": True}}, **OFF)
    with site.client() as client:
        assert rerankers(client) == [True, False]
    with closing(Pipeline.open(load_config(site.path), "acme")) as alone:
        assert alone.reranker
    with closing(Pipeline.open(load_config(site.path), "other")) as alone:
        assert alone.reranker is None


def test_a_tenant_s_switch_is_followed_apart(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write()
    with site.client() as client:
        assert rerankers(client) == [True, True]
        site.write(other=OFF)
        wait_until(lambda: rerankers(client) == [True, False])
        told = [line for line in caplog.messages if line.startswith("features of ")]
        assert told == ["features of other: FEATURE_RERANKER True → False"]
        site.write(acme=OFF)
        wait_until(lambda: rerankers(client) == [False, True])


def test_a_reload_takes_a_tenant_s_switch_over(site: Site) -> None:
    site.write()
    with site.client() as client:
        site.write(acme=OFF)
        client.app.state.reload.now()  # type: ignore[attr-defined]
        assert rerankers(client) == [False, True]


def test_a_candidate_is_evaluated_as_the_tenant_asks_and_without_models_by_default(site: Site, tmp_path: Path) -> None:
    site.write(acme={"features": {"FEATURE_RERANKER": True}}, **OFF)
    store, config = Store(tmp_path / "home"), load_config(site.path)
    generation = store.current("acme")
    assert generation
    for models, is_reranked in (("embedded", False), ("configured", True)):
        evaluation = config.evaluation.model_copy(update={"models": models})
        evaluated = _evaluated_config(config.model_copy(update={"evaluation": evaluation}).of_tenant("acme"))
        with candidate_pipeline(CandidateGeneration(store, "acme", generation, evaluated, embedder())) as pipeline:
            assert (pipeline.reranker is not None) == is_reranked


def test_the_doctor_asks_a_sidecar_that_any_tenant_uses(site: Site) -> None:
    site.write(acme={"features": {"FEATURE_RERANKER": True}}, **OFF)
    assert "switched off" not in reranker_finding(site)
    site.write(**OFF)
    assert "switched off" in reranker_finding(site)


def reranker_finding(site: Site) -> str:
    return next(finding.detail for finding in examine(site.path) if finding.name == "reranker")
