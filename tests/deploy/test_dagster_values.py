"""The chart's values for Dagster's own chart: names that it reads, and an instance that Dagster takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.ref import InstanceRef
from support.dagster_chart import instance, unknown_names
from support.helm import CHART

from rag_serving.config.keys import unknown_variable
from rag_serving.config.loading import Config

ROOT = CHART.parents[2]
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
DAGSTER = VALUES["dagster"]


def merged(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Values with those of another file, as Helm puts them together."""
    result = dict(values)
    for name, value in others.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


CASES = {
    path.stem: merged(DAGSTER, yaml.safe_load(path.read_text()).get("dagster", {}))
    for path in sorted((CHART / "ci").glob("*.yaml"))
}


@pytest.mark.parametrize("case", CASES)
def test_dagsters_chart_reads_every_value_that_we_set(case: str) -> None:
    assert unknown_names(CASES[case]) == []


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"dagsterDaemon": {"runRetries": {"max_retries": 1}}}, "dagsterDaemon.runRetries.max_retries"),
        ({"dagsterDaemon": {"run_monitoring": {}}}, "dagsterDaemon.run_monitoring"),
        (
            {"runLauncher": {"config": {"k8sRunLauncher": {"podSecurityContext": {}}}}},
            "runLauncher.config.k8sRunLauncher.podSecurityContext",
        ),
    ],
)
def test_a_value_that_the_chart_would_drop_is_found(wrong: dict[str, Any], name: str) -> None:
    assert unknown_names(merged(DAGSTER, wrong)) == [name]


@pytest.mark.parametrize("case", CASES)
def test_dagster_takes_the_instance_that_its_chart_writes(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda: None)  # there is no cluster
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(instance(CASES[case])))
    reference = InstanceRef.from_dir(str(tmp_path))
    launcher = reference.run_launcher
    assert type(launcher).__name__ == "K8sRunLauncher"
    assert type(reference.run_coordinator).__name__ == "RunQueue"
    pod = vars(launcher)["_run_k8s_config"]
    assert pod["pod_spec_config"]["securityContext"]["fsGroup"] == 10001
    assert pod["pod_spec_config"]["securityContext"]["runAsNonRoot"] is True


def test_the_instance_has_the_limits_of_the_one_without_the_chart() -> None:
    here = yaml.safe_load((ROOT / "deploy/dagster/k8s/dagster.yaml").read_text())
    written = instance(DAGSTER)
    for section in ("run_monitoring", "run_retries", "retention", "run_coordinator", "telemetry", "freshness"):
        assert written[section] == here[section], section
    assert written["run_monitoring"]["max_resume_run_attempts"] == 5
    alone = yaml.safe_load((ROOT / "dagster_home/dagster.yaml").read_text())
    assert written["concurrency"] == alone["concurrency"]


def test_the_chart_is_the_version_that_is_locked_and_runs_our_image_and_code() -> None:
    (dependency,) = yaml.safe_load((CHART / "Chart.yaml").read_text())["dependencies"]
    locked = re.findall(r"^dagster==(\S+)", (ROOT / "requirements/assets.txt").read_text(), re.MULTILINE)
    assert [dependency["version"]] == locked
    assert dependency["condition"] == "dagster.enabled"
    for values in CASES.values():
        (code,) = values["dagster-user-deployments"]["deployments"]
        assert code["codeServerArgs"] == ["--module-name", "rag_assets.definitions", "--location-name", "citelock"]
        images = [values["dagsterWebserver"]["image"], values["dagsterDaemon"]["image"], code["image"]]
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
        ours = f"{VALUES['image']['registry']}/citelock-assets:{version}"
        assert {f"{each['repository']}:{each['tag']}" for each in images} == {ours}
        for part in (values["dagsterWebserver"], values["dagsterDaemon"], code):
            assert unknown_variable(Config, part["env"], {}) is None
            assert part["securityContext"]["allowPrivilegeEscalation"] is False
            assert part["resources"]["limits"]["memory"]


def test_pods_of_dagster_have_the_same_volumes_and_share_none_with_a_home_in_an_object_store() -> None:
    for case, values in CASES.items():
        (code,) = values["dagster-user-deployments"]["deployments"]
        volumes = [code["volumes"], values["dagsterDaemon"]["volumes"]]
        assert volumes == [values["runLauncher"]["config"]["k8sRunLauncher"]["volumes"]] * 2
        (home,) = [each for each in code["volumes"] if each["name"] == "home"]
        assert ("emptyDir" in home) == (case == "object-store")
