"""The instances of `deploy/dagster`, loaded by Dagster itself over a real Postgres."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import dagster as dg
import pytest
import yaml
from dagster._core.launcher import RunLauncher
from support.postgres import Postgres

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "dagster"
LAUNCHERS = {"celery": "CeleryRuns", "docker": "DockerRunLauncher", "k8s": "K8sRunLauncher"}


def settings(kind: str) -> dict[str, dict[str, object]]:
    return dict(yaml.safe_load((FOLDER / kind / "dagster.yaml").read_text()))


@pytest.fixture
def variables(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    address = urlsplit(postgres.database("dagster_instances"))
    monkeypatch.setenv("DAGSTER_PG_HOST", str(address.hostname))
    monkeypatch.setenv("DAGSTER_PG_USERNAME", str(address.username))
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "")
    monkeypatch.setenv("DAGSTER_PG_DB", address.path.lstrip("/"))
    monkeypatch.setenv("CITELOCK_ASSETS_IMAGE", "registry.example/citelock-assets:0.1.0")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://127.0.0.1:1/1")


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize("kind", LAUNCHERS)
def test_dagster_takes_the_instance(
    kind: str, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubernetes.config.load_incluster_config", lambda: None)  # there is no cluster
    text = (FOLDER / kind / "dagster.yaml").read_text()
    (tmp_path / "dagster.yaml").write_text(text.replace("port: 5432", f"port: {postgres.port}"))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        launcher: RunLauncher[dg.DagsterInstance] = instance.run_launcher
        assert type(launcher).__name__ == LAUNCHERS[kind]
        assert type(instance.run_coordinator).__name__ == "RunQueue"
        assert type(instance.run_storage).__name__ == "PostgresRunStorage"
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        assert type(instance.schedule_storage).__name__ == "PostgresScheduleStorage"
        assert instance.global_op_concurrency_default_limit == 2
        assert instance.get_runs() == []
        assert instance.run_monitoring_enabled
        assert launcher.supports_resume_run
        assert instance.run_monitoring_max_resume_run_attempts == 5


@pytest.mark.usefixtures("variables")
def test_a_key_that_dagster_does_not_know_is_refused(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "celery" / "dagster.yaml", tmp_path)
    with (tmp_path / "dagster.yaml").open("a") as file:
        file.write("\nrun_launchers: {}\n")
    with (
        pytest.raises(dg.DagsterInvalidConfigError, match="run_launchers"),
        dg.DagsterInstance.from_config(str(tmp_path)),
    ):
        pass


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_runs_wait_for_each_other_as_on_one_machine(kind: str) -> None:
    here = yaml.safe_load((ROOT / "dagster_home/dagster.yaml").read_text())
    there = settings(kind)
    for section in ("run_coordinator", "run_retries", "retention", "telemetry"):
        assert there[section] == here[section]
    limits = here["concurrency"]["runs"]["tag_concurrency_limits"]
    assert all(limit in limits for limit in there["concurrency"]["runs"]["tag_concurrency_limits"])  # type: ignore[index]
    assert there["concurrency"]["pools"] == here["concurrency"]["pools"]
