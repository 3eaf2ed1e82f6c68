"""What Prometheus reads of a tenant's state: its operators alone, and nothing of another tenant."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, bearer, client_of
from support.wiki import configuration

from rag_serving.artifacts.signed_files import write_sync_time
from rag_serving.artifacts.store import Store
from rag_serving.telemetry.metrics import all_series

OF_OPERATORS = {series.full_name for series in all_series().values() if series.of_operators}
TOKENS = {
    "reads": {"tenant": "acme"},
    "operates": {"tenant": "acme", "roles": ["operator"]},
    "elsewhere": {"tenant": "other", "roles": ["operator"]},
}
SOURCES: dict[str, Any] = {
    key: {"kind": "files", "tenant": tenant, "path": "/tmp", "schedule": "*/15 * * * *"}
    for key, tenant in (("eng", "acme"), ("late", "acme"), ("never", "acme"), ("secret", "other"))
}


def sampled(client: TestClient, **more: Any) -> dict[str, float]:
    """The samples of `/metrics`: value by name and labels."""
    lines = [line for line in client.get("/metrics", **more).text.splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def names(samples: dict[str, float]) -> set[str]:
    return {sample.partition("{")[0] for sample in samples}


def test_the_age_of_sources_and_of_the_generation_is_told(copied_wiki: Path) -> None:
    now = datetime.now(UTC)
    store = Store(copied_wiki)
    for source, hours in (("eng", 0), ("late", 30), ("secret", 0)):
        write_sync_time(store, source, now - timedelta(hours=hours))
    with client_of(copied_wiki, sources=SOURCES, tenants={"acme": {}, "other": {}}) as client:
        assert client.post("/v1/ask", json=QUESTION, params={"tenant": "acme"}).status_code == 200
        found = sampled(client, params={"tenant": "acme"})
    name = 'citelock_source_overdue{{source="{}",tenant="acme"}}'
    assert [found[name.format(source)] for source in ("eng", "late", "never")] == [0, 1, 1]
    name = 'citelock_source_last_sync_timestamp_seconds{{source="{}",tenant="acme"}}'
    assert found[name.format("eng")] == pytest.approx(now.timestamp(), abs=1)
    assert name.format("never") not in found
    assert "secret" not in str(found)
    current = store.current("acme")
    assert found[f'citelock_generation_info{{generation="{current}",tenant="acme"}}'] == 1
    assert 0 < now.timestamp() - found['citelock_generation_created_timestamp_seconds{tenant="acme"}'] < 86_400
    assert 0 < now.timestamp() - found['citelock_generation_published_timestamp_seconds{tenant="acme"}'] < 86_400
    assert found['citelock_generation_state{state="published",tenant="acme"}'] == 1
    assert found['citelock_part_up{part="home",tenant="acme"}'] == 1
    free = found['citelock_home_free_ratio{tenant="acme"}']
    assert 0 <= free <= 1
    assert round(free, 2) == free
    assert found['citelock_http_responses_total{code="200",tenant="acme"}'] == 1


def test_a_reader_is_not_told_what_an_operator_is(copied_wiki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    more = {"serving": {"auth": "tokens"}, "tenants": {"acme": {}, "other": {}}, "sources": SOURCES}
    with client_of(copied_wiki, **more) as client:
        for token in TOKENS:
            client.post("/v1/ask", json=QUESTION, headers=bearer(token))
        client.post("/v1/ask", json=QUESTION, headers=bearer("made up"))
        client.post("/v1/ask", json={"question": ""}, headers=bearer("reads"))
        reader, operator, foreign = (sampled(client, headers=bearer(token)) for token in TOKENS)
    assert names(reader) & OF_OPERATORS == set()
    assert {"citelock_source_overdue", "citelock_home_free_ratio", "citelock_part_up"} <= names(operator)
    assert {sample for sample in operator if 'tenant="acme"' not in sample} == set()
    assert {sample for sample in foreign if 'tenant="other"' not in sample or "eng" in sample} == set()
    assert reader['citelock_http_responses_total{code="200",tenant="acme"}'] == 2
    assert reader['citelock_http_responses_total{code="400",tenant="acme"}'] == 1  # 401 is nobody's
    assert foreign['citelock_generation_state{state="none",tenant="other"}'] == 1
    assert "citelock_generation_info" not in names(foreign)


def test_the_audit_logs_events_are_counted_those_that_are_lost_too(copied_wiki: Path) -> None:
    with client_of(copied_wiki, audit={"mode": "best_effort"}) as client:
        client.post("/v1/ask", json=QUESTION)
        log = client.app.state.service.pipelines["acme"].log.audit  # type: ignore[attr-defined]
        assert log.flush(5)
        assert sampled(client)['citelock_audit_events_total{fate="written",tenant="acme"}'] == 1
        assert sampled(client)['citelock_audit_events_total{fate="lost",tenant="acme"}'] == 0
        log._lost += 3
        assert sampled(client)['citelock_audit_events_total{fate="lost",tenant="acme"}'] == 3
        assert sampled(client)['citelock_audit_waiting{tenant="acme"}'] == 0


def test_a_home_that_is_gone_is_told(tmp_path: Path) -> None:
    config = configuration(tmp_path / "gone")
    assert not config.home.exists()
    with client_of(tmp_path / "gone") as client:
        found = sampled(client)
    assert found['citelock_part_up{part="home",tenant="acme"}'] == 0
    assert found['citelock_generation_state{state="none",tenant="acme"}'] == 1


def test_every_sample_of_metrics_is_in_the_list(copied_wiki: Path) -> None:
    limits = {"tokens_per_day": 5}
    more: dict[str, Any] = {"budgets": limits, "audit": {"mode": "best_effort"}, "jobs": {"embedding": "workers"}}
    more |= {"sources": {key: source for key, source in SOURCES.items() if source["tenant"] == "acme"}}
    with client_of(copied_wiki, **more, reranker={"url": "http://127.0.0.1:9/rerank"}) as client:
        client.post("/v1/ask", json=QUESTION)
        found = sampled(client)
    listed = {series.full_name for series in all_series().values()}
    suffixes = ("_bucket", "_sum", "_count")
    stages = {f"citelock_stage_seconds{suffix}" for suffix in suffixes}
    assert names(found) - stages <= listed
    assert stages <= names(found)
