"""The executor of the definitions, as the configuration names it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import dagster as dg
import pytest
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.retries import RetryMode
from support.celery_processes import Cluster
from support.envelopes import Wiki

from rag_assets.definitions import ByTenant, build_defs, kind_of_run, open_executor
from rag_assets.partitions import register
from rag_serving.config.loading import Config, ConfigError, load_config, parse_config


def configured(**orchestration: Any) -> Config:
    content = {"tenants": {"small": {}, "large": {"orchestration": {"executor": "multiprocess"}}}}
    content |= {"sources": {key: source(key) for key in ("small", "wiki")}}
    return parse_config({**content, "orchestration": orchestration})


def source(key: str) -> dict[str, object]:
    tenant = "large" if key == "wiki" else "small"
    return {"kind": "confluence_dump", "tenant": tenant, "path": key, "readers": "everyone"}


def test_without_a_word_of_it_steps_run_in_the_process_of_their_run() -> None:
    assert open_executor(parse_config({})) is not None
    assert open_executor(parse_config({})).name == "in_process"


@pytest.mark.parametrize("kind", ["multiprocess", "celery", "docker", "k8s"])
def test_each_kind_opens_with_options_that_dagster_takes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://127.0.0.1:1/1")
    image = "registry.example/citelock-assets:1"
    options: dict[str, Any] = {
        "multiprocess": {"max_concurrent": 3},
        "celery": {"queue": "steps", "lost_after_s": 60},
        "docker": {"max_concurrent": 3, "image": image, "networks": ["inside"]},
        "k8s": {"max_concurrent": 3, "job_image": image, "job_namespace": "citelock"},
    }
    executor = open_executor(parse_config({"orchestration": {"executor": kind, "options": options}}))
    assert executor.name == kind
    assert executor.apply_config_mapping({"config": {}}).success


def test_an_option_that_dagster_does_not_know_is_an_error_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r'orchestration: k8s does not take .*"namespace"') as caught:
        open_executor(configured(executor="k8s", options={"k8s": {"namespace": "citelock"}}))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_missing_library_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dagster_k8s", None)
    with pytest.raises(ConfigError, match=r"executor k8s needs dagster_k8s: pip install citelock\[executors\]"):
        open_executor(configured(executor="k8s"))


def test_a_tenants_own_executor_holds_for_it_and_for_its_sources() -> None:
    config = configured()
    assert open_executor(config).name == "by_tenant"
    assert kind_of_run(config, "publish", {"dagster/partition": "large"}) == "multiprocess"
    assert kind_of_run(config, "ingest", {"dagster/partition": "wiki"}) == "multiprocess"
    assert kind_of_run(config, "publish", {"dagster/partition": "small"}) == "in_process"
    assert kind_of_run(config, "ingest", {"dagster/partition": "small"}) == "in_process"
    assert kind_of_run(config, "__ASSET_JOB", {}) == "in_process"


class Context(NamedTuple):
    """What an executor is opened with."""

    executor_def: dg.ExecutorDefinition
    executor_config: dict[str, object]


class Named(dg.Executor):
    """Runs nothing: its only event is its name, and whether the run's context names it as the executor."""

    retries = RetryMode.DISABLED

    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, plan_context: PlanOrchestrationContext, execution_plan: Any) -> Iterator[Any]:
        yield self.name, plan_context.executor is self, execution_plan


@pytest.mark.parametrize(
    ("partition", "kind"), [("large", "multiprocess"), ("wiki", "multiprocess"), ("small", "in_process")]
)
def test_a_run_is_handed_to_the_executor_of_its_tenant(partition: str, kind: str) -> None:
    def named(name: str) -> dg.ExecutorDefinition:
        return dg.ExecutorDefinition(name, executor_creation_fn=lambda _: Named(name))

    known: Any = {name: named(name) for name in ("in_process", "multiprocess")}
    context: Any = Context(named("by_tenant"), {})
    run = SimpleNamespace(job_name="ingest", tags={"dagster/partition": partition})
    plan: Any = SimpleNamespace(dagster_run=run)
    by_tenant = ByTenant(context, known, configured())
    of_run = PlanOrchestrationContext(plan, SimpleNamespace(), by_tenant, None)  # type: ignore[arg-type]
    assert list(by_tenant.execute(of_run, "the plan")) == [(kind, True, "the plan")]


def test_builds_alone_run_elsewhere(wiki: Wiki) -> None:
    wiki.configure(orchestration={"executor": "multiprocess"})
    defs = build_defs(wiki.config_path)
    assert {name: defs.resolve_job_def(name).executor_def.name for name in ("ingest", "publish")} == {
        "ingest": "multiprocess",
        "publish": "multiprocess",
    }
    others = "report", "report_day", "freshness", "add_documents"
    assert {defs.resolve_job_def(name).executor_def.name for name in others} == {"in_process"}
    dg.Definitions.validate_loadable(defs)


@pytest.mark.slow
@pytest.mark.nightly  # a process for each step; what is handed to it is said above
def test_dagster_runs_the_steps_of_a_tenant_by_its_executor(wiki: Wiki, tmp_path: Path) -> None:
    tenants = {"demo": {"orchestration": {"executor": "multiprocess"}}, "small": {}}
    wiki.configure(tenants=tenants, sources={"eng": wiki.source("eng")})
    cluster = Cluster(tmp_path / "dagster", wiki.config_path, redis=0)
    with dg.DagsterInstance.from_config(str(cluster.folder)) as instance:
        register(instance, load_config(wiki.config_path))
    with closing(cluster):
        assert cluster.run("ingest", "eng").wait(600) == 0
    assert "Executing steps using multiprocess executor" in (cluster.folder / "ingest-eng.log").read_text()
    assert (wiki.home / "sources" / "eng" / "chunks.parquet").exists()
