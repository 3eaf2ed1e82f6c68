"""Everything Dagster knows of this project.

Celery, Docker and Kubernetes are imported when one of their executors is configured, and not before.

Loading reads the configuration (which schedules there are) and nothing else; a source that is misspelt there costs its
own schedule, and the UI starts and reports it.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.retries import RetryMode

from rag_assets import assets
from rag_assets.asset_checks import synced_on_time
from rag_assets.partitions import DAYS, days
from rag_assets.progress import LogReporter
from rag_assets.resources import Installation
from rag_assets.runs import ProjectJobs, add_documents
from rag_assets.sensors import (
    alert_when_a_build_fails,
    freshness,
    ingest,
    ingest_uploads,
    notify_followers,
    publish,
    publish_when_sources_changed,
    register_partitions,
    report,
    report_day,
    report_when_published,
    report_yesterday,
    schedules,
    watch_sources,
)
from rag_serving.config.loading import Config, ConfigError, load_usable
from rag_serving.config.sections import ExecutorKind
from rag_serving.plugins import one

PARTITION = "dagster/partition"


def open_executor(config: Config) -> dg.ExecutorDefinition:
    """Return the executor of a configuration. Raises ConfigError: its library is not installed, or does not take an
    option; the message is one line."""
    usual = config.orchestration.executor
    kinds = {usual, *(config.executor_of(tenant) for tenant in config.tenants)}
    known = {kind: _definition(kind, config.orchestration.options.get(kind, {})) for kind in sorted(kinds)}
    if len(known) == 1:
        return known[usual]

    @dg.executor(name="by_tenant", requirements=dg.multiple_process_executor_requirements())
    def by_tenant(context: dg.InitExecutorContext) -> dg.Executor:
        return ByTenant(context, known, config)

    return by_tenant


def _definition(kind: ExecutorKind, options: Mapping[str, Any]) -> dg.ExecutorDefinition:
    try:
        executor = _executor(kind)
    except ImportError as error:
        raise ConfigError(
            f"orchestration.executor {kind} needs {error.name or error}: pip install citelock[executors]"
        ) from None
    from dagster._config import validate_config

    if errors := validate_config(executor.config_schema.config_type, dict(options)).errors:
        told = " ".join(errors[0].message.partition(" Expected:")[0].split())
        raise ConfigError(f"orchestration: {kind} does not take its options: {told}")
    return executor.configured(dict(options), name=kind)


def _executor(kind: ExecutorKind) -> dg.ExecutorDefinition:
    match kind:
        case "in_process":
            return dg.in_process_executor
        case "multiprocess":
            return dg.multiprocess_executor
        case "celery":
            executor: dg.ExecutorDefinition = one("citelock.executors", "celery", "executors")
            return executor
        case "docker":
            from dagster_docker import docker_executor

            return docker_executor
        case "k8s":
            from dagster_k8s import k8s_job_executor

            return k8s_job_executor


class ByTenant(dg.Executor):
    """Hands a run to the executor of the tenant that its partition is, or whose source it is."""

    def __init__(
        self, context: dg.InitExecutorContext, known: Mapping[ExecutorKind, dg.ExecutorDefinition], config: Config
    ) -> None:
        self._context, self._known, self._config = context, known, config

    @property
    def retries(self) -> RetryMode:
        return RetryMode.ENABLED

    def execute(self, plan_context: PlanOrchestrationContext, execution_plan: Any) -> Iterator[Any]:
        run = plan_context.dagster_run
        definition = self._known[kind_of_run(self._config, run.job_name, run.tags)]
        mapped: Any = definition.apply_config_mapping({"config": {}}).value
        given = self._context._replace(executor_def=definition, executor_config=mapped["config"])
        make: Any = definition.executor_creation_fn
        executor: dg.Executor = make(given)
        output, resumes = plan_context.output_capture, plan_context.resume_from_failure
        its_own = PlanOrchestrationContext(plan_context.plan_data, plan_context.log, executor, output, resumes)
        return executor.execute(its_own, execution_plan)


def kind_of_run(config: Config, job: str, tags: Mapping[str, str]) -> ExecutorKind:
    """Return the executor of a run's steps: the partition of `publish` is a tenant, that of `ingest` a source."""
    key = tags.get(PARTITION, "")
    if key in config.sources and (job == "ingest" or key not in config.tenants):
        return config.executor_of(config.sources[key].tenant)
    return config.executor_of(key)


def build_defs(config_path: Path | None = None, **resources: Any) -> dg.Definitions:
    """Return the project's definitions. `config_path`: else CITELOCK_CONFIG, else config/app.yaml; `resources`: in
    place of the usual ones. Raises ConfigError: the configuration cannot be used; the message is one line."""
    config, faults = load_usable(config_path)
    for fault in faults.values():
        logging.getLogger(__name__).warning("%s; this source has no schedule until that is mended", fault)
    usual = {
        "installation": Installation(config_path=str(config_path) if config_path else ""),
        "reporter": LogReporter(),
        "jobs": ProjectJobs(lambda name: definitions.resolve_job_def(name)),
    }
    definitions = dg.Definitions(
        assets=with_days(dg.load_assets_from_package_module(assets), config),
        asset_checks=[synced_on_time],
        jobs=[ingest, publish, add_documents, report, report_day, freshness],
        schedules=[*schedules(config), report_yesterday],
        sensors=[
            ingest_uploads,
            register_partitions,
            publish_when_sources_changed,
            report_when_published,
            watch_sources,
            notify_followers,
            alert_when_a_build_fails,
        ],
        resources={**usual, **resources},
        # By default steps of one run share a process: they hand on files, and a process each would cost seconds each.
        executor=open_executor(config),
    )
    return definitions


def with_days(definitions: Sequence[Any], config: Config) -> Sequence[Any]:
    """Return the assets; those with a partition for each day have their days. These are the ones whose rows may still
    be there, so that "Materialize all" reports on no day of which nothing can be known any more."""
    first = datetime.now(UTC).date() - timedelta(days=config.telemetry.retention_days)

    def spec(one: dg.AssetSpec) -> dg.AssetSpec:
        return one.replace_attributes(partitions_def=days(first)) if one.partitions_def == DAYS else one

    return dg.map_asset_specs(spec, definitions)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions for Dagster's tools; importing `build_defs` alone reads no configuration."""
    return build_defs()
