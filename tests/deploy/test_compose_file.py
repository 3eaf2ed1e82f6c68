"""The compose file: by the specification's schema, and each command, variable, image and mount that it names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._core.instance.ref import InstanceRef

from rag_serving.config.keys import unknown_variable
from rag_serving.config.loading import Config, load_config
from rag_serving.config.models import RerankService
from rag_serving.config.serving import Serving

FOLDER = Path(__file__).parents[2] / "deploy" / "compose"
ROOT = FOLDER.parents[1]
FILE = FOLDER / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
OURS = {name: each for name, each in SERVICES.items() if "citelock-" in each["image"]}
PROGRAMS = {script.name for script in entry_points(group="console_scripts")}


def valid(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_file_is_valid_by_the_specification_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    run = valid(FILE)
    assert run.returncode == 0, run.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(FILE.read_text().replace("healthcheck:", "health_check:"))
    assert valid(wrong).returncode == 1


def test_the_whole_is_there() -> None:
    assert set(SERVICES) == {
        "serving", "code", "webserver", "daemon", "worker", "inboxes", "postgres", "redis", "ollama", "ollama-model",
        "proxy", "reranker", "reranker-cpu",
    }  # fmt: skip


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_pinned_bounded_and_watched(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":(?!latest)[^:/]*\d", service["image"])
    assert service["deploy"]["resources"]["limits"]["memory"]
    assert "privileged" not in service
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["healthcheck"].get("test") or service["healthcheck"] == {"disable": True}
    assert all(port.startswith("${") and "127.0.0.1" in port for port in service.get("ports", ()))


@pytest.mark.parametrize("name", OURS)
def test_what_is_ours_runs_with_a_root_that_nobody_writes(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert "/tmp" in SERVICES[name]["tmpfs"]


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_one_that_there_is(name: str) -> None:
    command = SERVICES[name].get("command")
    if command is None:
        return  # the image's own
    if command[0] == "python":
        assert find_spec(command[2]) is not None
    elif "citelock-serving" in SERVICES[name]["image"]:
        assert f"\n## `citelock {command[0]}`\n" in (ROOT / "docs/commands.md").read_text()
    else:
        assert command[0] in PROGRAMS


@pytest.mark.parametrize("name", OURS)
def test_each_variable_of_a_service_is_one_that_the_configuration_knows(name: str) -> None:
    variables = {key: str(value) for key, value in SERVICES[name]["environment"].items()}
    assert unknown_variable(Config, variables, {}) is None


@pytest.mark.parametrize("name", SERVICES)
def test_each_file_that_is_mounted_or_built_from_exists(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source = volume.partition(":")[0]
        assert not source.startswith(".") or (FOLDER / source).exists()
    if build := SERVICES[name].get("build"):
        assert (FOLDER / build["context"] / build["dockerfile"]).exists()


def configured(monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], **given: str) -> Config:
    """The configuration that a container loads, with what a person exported before `docker compose up`."""
    monkeypatch.chdir(ROOT)
    for name, value in variables.items():
        if name.startswith("CITELOCK_") and name not in ("CITELOCK_SECRET", "CITELOCK_TOKENS"):
            default = re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda found: given.get(found[1], found[2]), str(value))
            monkeypatch.setenv(name, default)
    return load_config(FOLDER / "app.yaml")


def test_serving_calls_the_reranker_and_the_model_of_the_profiles_that_were_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = SERVICES["serving"]["environment"]
    without = configured(monkeypatch, variables)
    assert without.reranker.url is None
    assert without.generation.provider == "extractive"
    url = f"http://reranker:{RerankService().port}/rerank"
    given = {"CITELOCK_RERANKER__URL": url, "CITELOCK_GENERATION__PROVIDER": "ollama"}
    config = configured(monkeypatch, variables, **given)
    assert config.reranker.url == url
    assert config.reranker.token_env == "RERANK_TOKEN"
    assert config.generation.provider == "ollama"
    assert config.generation.base_url == "http://ollama:11434"
    assert SERVICES["ollama-model"]["command"] == [variables["CITELOCK_GENERATION__MODEL"]]
    assert SERVICES["reranker-cpu"]["networks"]["inside"]["aliases"] == ["reranker"]
    for service in ("serving", "reranker", "reranker-cpu"):  # an empty token would end the sidecar again and again
        assert SERVICES[service]["environment"]["RERANK_TOKEN"].startswith("${RERANK_TOKEN:?")


def test_a_reranker_on_processors_has_the_memory_of_its_model() -> None:
    memory = SERVICES["reranker-cpu"]["deploy"]["resources"]["limits"]["memory"]
    assert int(memory.removesuffix("g")) >= 4


def test_a_tenant_that_floods_the_server_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = configured(monkeypatch, {}).tenants
    assert {tenant.requests_at_once for tenant in tenants.values()} == {1}


def test_the_override_moves_the_home_of_every_service_to_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    override = FOLDER / "object-store.yaml"
    assert valid(override).returncode == 0
    services = yaml.safe_load(override.read_text())["services"]
    of_home = {name for name, service in OURS.items() if "home:/var/lib/citelock" in service["volumes"]}
    assert set(services) == of_home
    for service in services.values():
        config = configured(monkeypatch, service["environment"], CITELOCK_OBJECT_STORE__URL="s3://acme/prod")
        assert config.object_store.url == "s3://acme/prod"
        assert config.home == config.object_store.cache == Path("/var/lib/citelock")


def test_no_secret_stands_in_the_file() -> None:
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|TOKEN", key) and not key.endswith("_ENV"):
                assert value.startswith("${")


def test_the_configuration_of_the_containers_is_valid_and_fits_the_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config(FOLDER / "app.yaml")
    assert config.serving.port == Serving().port
    assert SERVICES["serving"]["ports"] == [f"${{CITELOCK_PORT:-127.0.0.1:{Serving().port}}}:{Serving().port}"]
    assert f":{RerankService().port}/readyz" in json.dumps(SERVICES["reranker"]["healthcheck"])
    grace = int(SERVICES["serving"]["stop_grace_period"].removesuffix("s"))
    variables = SERVICES["serving"]["environment"]
    assert grace >= int(variables["CITELOCK_SERVING__LEAVE_S"]) + config.serving.drain_s + 10
    for source in config.sources.values():
        assert (ROOT / "sample" / Path(str(source.path)).name).is_dir()


def test_dagsters_instance_is_one_that_dagster_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dagster.yaml").write_text((FOLDER / "dagster.yaml").read_text())
    monkeypatch.setenv("PGPASSWORD", "not-a-password")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis:6379/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://redis:6379/1")
    reference = InstanceRef.from_dir(str(tmp_path))
    assert type(reference.run_launcher).__name__ == "CeleryRuns"
    assert type(reference.run_coordinator).__name__ == "RunQueue"
    assert reference.run_storage_data.class_name == "PostgresRunStorage"


@pytest.mark.parametrize("section", ["concurrency", "run_coordinator", "run_retries", "retention"])
def test_limits_of_the_instance_are_those_of_a_single_machine(section: str) -> None:
    here = yaml.safe_load((ROOT / "dagster_home/dagster.yaml").read_text())
    assert yaml.safe_load((FOLDER / "dagster.yaml").read_text())[section] == here[section]
