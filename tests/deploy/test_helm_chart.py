"""The chart, rendered by the real helm with values of several installations, validated by Kubernetes' own schemas.

Its monitors and rules are in test_helm_monitoring.py, the values for Dagster's chart in test_dagster_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fastapi.routing import APIRoute
from support.helm import CASES, CHART, chart_without_dependencies, rendered, run_helm

from rag_serving.api.app import router
from rag_serving.config.keys import unknown_variable
from rag_serving.config.loading import Config, parse_config
from rag_serving.config.models import RerankService
from rag_serving.config.serving import Serving

ROOT = CHART.parents[2]
VERSIONS = ("1.29", "1.33", "1.35")
Objects = list[dict[str, Any]]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chart_without_dependencies(tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def release(chart: Path) -> Callable[[str], Objects]:
    known: dict[str, Objects] = {}

    def render(case: str) -> Objects:
        if case not in known:
            known[case] = rendered(chart, case)
        return known[case]

    return render


def pods(objects: Objects) -> Iterator[dict[str, Any]]:
    yield from (each["spec"]["template"] for each in objects if each["kind"] == "Deployment")


def containers(objects: Objects) -> Iterator[dict[str, Any]]:
    for pod in pods(objects):
        yield from [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]


def one(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def test_lint_finds_nothing(chart: Path) -> None:
    run = run_helm("lint", "--strict", str(chart))
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("version", [VERSIONS[0], pytest.param(VERSIONS[1], marks=pytest.mark.nightly), VERSIONS[-1]])
@pytest.mark.parametrize("case", CASES)
def test_each_object_is_valid_in_each_version_of_kubernetes(
    release: Callable[[str], Objects], case: str, version: str
) -> None:
    objects = release(case)
    assert {"Deployment", "Service", "ConfigMap"} <= {each["kind"] for each in objects}
    for each in objects:
        if each["apiVersion"] != "monitoring.coreos.com/v1":  # test_helm_monitoring.py
            kubernetes_validate.validate(each, version, strict=True)


def test_the_validator_refuses_what_kubernetes_would(release: Callable[[str], Objects]) -> None:
    wrong = {**one(release("minimal"), "Deployment", "citelock-serving")}
    wrong["spec"] = {**wrong["spec"], "replica": 1}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("case", CASES)
def test_no_container_has_more_rights_than_it_needs(release: Callable[[str], Objects], case: str) -> None:
    objects = release(case)
    for pod in pods(objects):
        assert pod["spec"]["automountServiceAccountToken"] is False
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] >= 10000
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(objects):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["privileged"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("case", CASES)
def test_each_image_is_pinned(release: Callable[[str], Objects], case: str) -> None:
    for container in containers(release(case)):
        assert re.search(r"(:(?!latest)[\w.-]+|@sha256:[0-9a-f]{64})$", container["image"]), container["image"]


@pytest.mark.parametrize("case", CASES)
def test_each_variable_is_one_that_the_configuration_knows(release: Callable[[str], Objects], case: str) -> None:
    objects = release(case)
    content = yaml.safe_load(one(objects, "ConfigMap", "citelock")["data"]["app.yaml"])
    for container in containers(objects):
        variables = {each["name"]: each.get("value", "x") for each in container["env"]}
        assert unknown_variable(Config, variables, content) is None


@pytest.mark.parametrize("case", CASES)
def test_the_configuration_in_the_map_is_valid(release: Callable[[str], Objects], case: str) -> None:
    content = yaml.safe_load(one(release(case), "ConfigMap", "citelock")["data"]["app.yaml"])
    assert parse_config(content).serving.auth == "tokens"


@pytest.mark.parametrize("case", CASES)
def test_probes_ask_routes_that_exist_at_ports_that_are_open(release: Callable[[str], Objects], case: str) -> None:
    routes = {route.path for route in router.routes if isinstance(route, APIRoute)}
    assert {"/healthz", "/readyz"} <= routes
    for container in containers(release(case)):
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        expected = Serving().port if container["name"] == "serving" else RerankService().port
        assert ports == {"http": expected}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["path"] in routes
            assert asked["port"] in ports
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


@pytest.mark.parametrize("case", [case for case in CASES if case != "fixed-size"])
def test_each_pod_has_a_policy_of_its_network(release: Callable[[str], Objects], case: str) -> None:
    objects = release(case)
    chosen = [
        each["spec"]["podSelector"].get("matchLabels") for each in objects if each["kind"] == "NetworkPolicy"
    ]  # Dagster's pods are chosen by expressions
    for pod in pods(objects):
        labels = pod["metadata"]["labels"].items()
        assert any(wanted and wanted.items() <= labels for wanted in chosen)


def test_services_and_budgets_choose_the_pods_that_they_are_for(release: Callable[[str], Objects]) -> None:
    objects = release("production")
    labels = {pod["spec"]["containers"][0]["name"]: pod["metadata"]["labels"].items() for pod in pods(objects)}
    for kind in ("Service", "PodDisruptionBudget"):
        for each in objects:
            if each["kind"] == kind:
                selector = each["spec"]["selector"]
                wanted = selector.get("matchLabels", selector).items()
                component = each["metadata"]["labels"]["app.kubernetes.io/component"]
                assert [name for name, found in labels.items() if wanted <= found] == [component]


@pytest.mark.parametrize("case", CASES)
def test_a_pod_is_given_the_time_that_its_requests_may_take(release: Callable[[str], Objects], case: str) -> None:
    pod = one(release(case), "Deployment", "citelock-serving")["spec"]["template"]["spec"]
    variables = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    slept = int(re.findall(r"sleep\((\d+)\)", pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])[0])
    # The process ends at most 8 s after its drain.
    assert pod["terminationGracePeriodSeconds"] >= slept + int(variables["CITELOCK_SERVING__DRAIN_S"]) + 10


def test_a_fixed_number_of_pods_is_not_scaled_and_a_scaled_one_not_fixed(release: Callable[[str], Objects]) -> None:
    fixed, scaled = release("fixed-size"), release("production")
    assert one(fixed, "Deployment", "citelock-serving")["spec"]["replicas"] == 4
    assert "HorizontalPodAutoscaler" not in {each["kind"] for each in fixed}
    assert "replicas" not in one(scaled, "Deployment", "citelock-serving")["spec"]
    assert one(scaled, "HorizontalPodAutoscaler", "citelock-serving")["spec"]["maxReplicas"] == 20


def test_a_reranker_with_a_gpu_asks_for_one_and_serving_asks_it(release: Callable[[str], Objects]) -> None:
    objects = release("gpu")
    reranker = one(objects, "Deployment", "citelock-reranker")["spec"]["template"]["spec"]["containers"][0]
    assert reranker["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert not reranker["image"].endswith("-cpu")
    serving = one(objects, "Deployment", "citelock-serving")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "CITELOCK_RERANKER__URL", "value": "http://citelock-reranker:8000/rerank"} in serving["env"]


def test_a_home_in_an_object_store_is_fetched_into_a_volume_of_each_pod(release: Callable[[str], Objects]) -> None:
    objects = release("object-store")
    assert "PersistentVolumeClaim" not in {each["kind"] for each in objects}
    pod = one(objects, "Deployment", "citelock-serving")["spec"]["template"]["spec"]
    (home,) = [each for each in pod["volumes"] if each["name"] == "home"]
    assert home == {"name": "home", "emptyDir": {"sizeLimit": "40Gi"}}
    serving = pod["containers"][0]
    assert {"name": "home", "mountPath": "/var/lib/citelock", "readOnly": False} in serving["volumeMounts"]
    assert serving["resources"]["requests"]["ephemeral-storage"] == "40Gi"
    probe = serving["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 1200
    content = yaml.safe_load(one(objects, "ConfigMap", "citelock")["data"]["app.yaml"])
    assert parse_config(content).object_store.url == "s3://acme-citelock/prod"


def test_a_home_in_a_volume_starts_within_three_minutes(release: Callable[[str], Objects]) -> None:
    pod = one(release("minimal"), "Deployment", "citelock-serving")["spec"]["template"]["spec"]
    probe = pod["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 180


def test_serving_reaches_every_kind_of_index_at_its_usual_port(release: Callable[[str], Objects]) -> None:
    rules = one(release("minimal"), "NetworkPolicy", "citelock-serving")["spec"]["egress"]
    ports = {each["port"] for rule in rules for each in rule["ports"]}
    assert {53, 443, 5432, 6333} <= ports  # DNS, https, Postgres, Qdrant


def test_a_tenant_that_floods_a_server_is_bounded_by_default() -> None:
    tenants = parse_config(VALUES["config"]).tenants
    assert {tenant.requests_at_once for tenant in tenants.values()} == {1}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("home.kind=objectStore", "config.home"),
        ("config.home=s3://acme/prod", "objectStore"),
        ("home.kind=objectStore,config.home=s3://acme/prod,serving.homeReadOnly=true", "homeReadOnly"),
        ("home.kind=objectStore,config.home=s3://acme/prod,dagster.enabled=true", "emptyDir"),
        ("monitoring.serviceMonitor.enabled=true", "tenants"),
        ("monitoring.prometheusRule.runbookUrl=runbook.md", "runbookUrl"),
        ("image.tag=latest", "image/tag|image.tag"),
        ("serving.replica=3", "replica"),
        ("home.kind=existing", "claimName"),
        ("securityContext.privileged=true", "privileged"),
        ("podSecurityContext.runAsNonRoot=false", "runAsNonRoot"),
        ("config.serving.auth=loopback", "auth"),
        ("serving.autoscaling.cpuPercent=200", "cpuPercent"),
    ],
)
def test_values_that_cannot_work_are_refused(chart: Path, setting: str, told: str) -> None:
    run = run_helm("template", "citelock", str(chart), "--set", setting)
    assert run.returncode != 0
    assert re.search(told, run.stderr)
