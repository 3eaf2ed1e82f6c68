"""What the chart gives to Prometheus and Grafana: by the operator's own schemas, and as the alerts expect it."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from support.helm import CHART, chart_without_dependencies, rendered
from support.promql import matchers

from scripts.generate_monitoring import ROOT

Objects = list[dict[str, Any]]
MONITORING = ROOT / "deploy" / "monitoring"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chart_without_dependencies(tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def production(chart: Path) -> Objects:
    return rendered(chart, "production")


def of_kind(objects: Objects, kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


def validated(content: dict[str, Any]) -> dict[str, Any]:
    """What the schema of the operator's own CRD keeps of an object: without the keys that it does not know."""
    models = importlib.import_module(
        "cloudcoil.models.prometheus_operator.v1"
    )  # 58,000 lines: not for the type checker
    model: type[BaseModel] = getattr(models, content["kind"])
    return model.model_validate(content).model_dump(mode="json", by_alias=True, exclude_unset=True)


def jobs_of(monitor: dict[str, Any]) -> list[str]:
    """The label `job` that each endpoint of a monitor ends with."""
    relabelings = [rule for endpoint in monitor["spec"]["endpoints"] for rule in endpoint["relabelings"]]
    return [rule["replacement"] for rule in relabelings if rule["targetLabel"] == "job"]


def test_monitors_and_rules_are_valid_by_the_operators_schemas(production: Objects) -> None:
    objects = [each for each in production if each["apiVersion"] == "monitoring.coreos.com/v1"]
    assert sorted(each["kind"] for each in objects) == ["PrometheusRule", "ServiceMonitor", "ServiceMonitor"]
    for each in objects:
        assert validated(each) == each


def test_the_schemas_refuse_what_the_operator_would(production: Objects) -> None:
    monitor = of_kind(production, "ServiceMonitor")["citelock"]
    (first, *_) = monitor["spec"]["endpoints"]
    unknown = {**monitor, "spec": {**monitor["spec"], "endpoints": [{**first, "relabeling": []}]}}
    assert validated(unknown) != unknown
    with pytest.raises(ValidationError, match="action"):
        validated(
            {**monitor, "spec": {**monitor["spec"], "endpoints": [{**first, "relabelings": [{"action": "set"}]}]}}
        )


def test_the_alerts_find_the_jobs_that_the_monitors_make(production: Objects) -> None:
    monitors = of_kind(production, "ServiceMonitor")
    assert jobs_of(monitors["citelock"]) == ["citelock-acme", "citelock-globex"]
    assert jobs_of(monitors["citelock-reranker"]) == ["citelock-reranker"]
    made = [job for monitor in monitors.values() for job in jobs_of(monitor)]
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"] if "up{" in rule["expr"]]
    found = [each for expression in expressions for each in matchers(expression) if each[:2] == ("up", "job")]
    patterns = {value for _, _, operator, value in found if operator == "MatchOp.Re"}
    assert patterns == {"citelock-.*"}
    for pattern in patterns:
        assert all(re.fullmatch(pattern, job) for job in made)
    assert {value for _, _, operator, value in found if operator == "MatchOp.NotEqual"} == {"citelock-reranker"}


def test_each_tenant_is_scraped_with_its_own_token_and_named_where_nothing_answers(production: Objects) -> None:
    endpoints = of_kind(production, "ServiceMonitor")["citelock"]["spec"]["endpoints"]
    keys = [endpoint["authorization"]["credentials"]["key"] for endpoint in endpoints]
    assert keys == ["METRICS_TOKEN_ACME", "METRICS_TOKEN_GLOBEX"]
    tenants = [
        rule["replacement"] for each in endpoints for rule in each["relabelings"] if rule["targetLabel"] == "tenant"
    ]
    assert tenants == ["acme", "globex"]
    assert all(endpoint["honorLabels"] for endpoint in endpoints)


def test_each_monitor_chooses_one_service_and_its_port(production: Objects) -> None:
    services = of_kind(production, "Service")
    for name, monitor in of_kind(production, "ServiceMonitor").items():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        chosen = [service for service in services.values() if wanted <= service["metadata"]["labels"].items()]
        assert [service["metadata"]["name"] for service in chosen] == [name]
        assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
            each["name"] for each in chosen[0]["spec"]["ports"]
        }


def test_prometheus_may_reach_what_it_scrapes(production: Objects) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}
    policies = of_kind(production, "NetworkPolicy")
    for name in ("citelock-serving", "citelock-reranker"):
        peers = [peer for rule in policies[name]["spec"]["ingress"] for peer in rule["from"]]
        assert peer in peers, name


def test_each_job_of_the_release_is_missed_when_it_has_no_target(production: Objects, tmp_path: Path) -> None:
    rule = of_kind(production, "PrometheusRule")["citelock"]["spec"]
    (own,) = [group for group in rule["groups"] if group["name"] == "citelock-release"]
    jobs = ["citelock-acme", "citelock-globex", "citelock-reranker"]
    assert [each["expr"] for each in own["rules"]] == [f'absent(up{{job="{job}"}})' for job in jobs]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule))
    done = subprocess.run(["promtool", "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_and_dashboard_arrive_whole_with_the_address_of_the_runbook(production: Objects) -> None:
    spec = of_kind(production, "PrometheusRule")["citelock"]["spec"]
    shipped = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    address = "https://wiki.acme.example/citelock/runbook.md#"
    urls = [
        each["annotations"]["runbook_url"] for group in spec["groups"] for each in group["rules"] if "alert" in each
    ]
    assert all(re.fullmatch(re.escape(address) + r"citelock[a-z]+", url) for url in urls)
    arrived = yaml.safe_load(
        yaml.safe_dump(spec["groups"][: len(shipped["groups"])]).replace(address, "docs/runbook.md#")
    )
    assert arrived == shipped["groups"]
    data = of_kind(production, "ConfigMap")["citelock-dashboard"]["data"]["citelock.json"]
    assert data == (MONITORING / "dashboard.json").read_text()


@pytest.mark.parametrize("name", ["rules.yaml", "dashboard.json"])
def test_rules_and_dashboard_of_the_chart_are_those_of_monitoring(name: str) -> None:
    assert (CHART / "files" / name).read_bytes() == (MONITORING / name).read_bytes()
