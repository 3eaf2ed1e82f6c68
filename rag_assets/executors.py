"""The executor of the definitions: that of `orchestration.executor`, or one that looks whose run it is.

Belongs here: Dagster's executors with the options of the configuration. Does not belong here: Celery's tasks
(the plug-in for scale), what runs are handed to (`dagster.yaml`).

The libraries of Celery, Docker and Kubernetes are imported when one of their executors is configured, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.retries import RetryMode

from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.orchestration import ExecutorKind, Orchestration
from rag_serving.plugins import one

PARTITION = "dagster/partition"


def open_executor(config: Config) -> dg.ExecutorDefinition:
    """Return the executor of a configuration.

    Raises:
        ConfigError: its library is not installed, or does not take an option; the message is one line.
    """
    usual = config.orchestration.executor
    kinds = {usual, *(config.executor_of(tenant) for tenant in config.tenants)}
    known = {kind: _definition(kind, config.orchestration) for kind in sorted(kinds)}
    return known[usual] if len(known) == 1 else _by_tenant(known, config)


def _definition(kind: ExecutorKind, settings: Orchestration) -> dg.ExecutorDefinition:
    """Return Dagster's executor of a kind with its options."""
    try:
        executor, options = _OPENERS[kind](settings)
    except ImportError as error:
        raise ConfigError(
            f"orchestration.executor {kind} needs {error.name or error}: pip install citelock[executors]"
        ) from None
    _check_options(kind, executor, options)
    return executor.configured(options, name=kind)


def _in_process(_: Orchestration) -> tuple[dg.ExecutorDefinition, dict[str, Any]]:
    return dg.in_process_executor, {}


def _multiprocess(settings: Orchestration) -> tuple[dg.ExecutorDefinition, dict[str, Any]]:
    return dg.multiprocess_executor, _bound(settings)


def _celery(settings: Orchestration) -> tuple[dg.ExecutorDefinition, dict[str, Any]]:
    celery = settings.celery
    addresses = {"broker": {"env": celery.broker_env}, "backend": {"env": celery.backend_env}}
    limits = {"queue": celery.queue, "lost_after_s": celery.lost_after_s, "attempts": celery.attempts}
    return one("citelock.executors", "celery", "executors"), addresses | limits


def _docker(settings: Orchestration) -> tuple[dg.ExecutorDefinition, dict[str, Any]]:
    from dagster_docker import docker_executor

    image = {"image": settings.image} if settings.image else {}
    return docker_executor, {**_bound(settings), **image, **settings.docker}


def _k8s(settings: Orchestration) -> tuple[dg.ExecutorDefinition, dict[str, Any]]:
    from dagster_k8s import k8s_job_executor

    image = {"job_image": settings.image} if settings.image else {}
    return k8s_job_executor, {**_bound(settings), **image, **settings.k8s}


def _bound(settings: Orchestration) -> dict[str, Any]:
    return {"max_concurrent": settings.max_concurrent} if settings.max_concurrent else {}


_OPENERS: Mapping[ExecutorKind, Callable[[Orchestration], tuple[dg.ExecutorDefinition, dict[str, Any]]]] = {
    "in_process": _in_process,
    "multiprocess": _multiprocess,
    "celery": _celery,
    "docker": _docker,
    "k8s": _k8s,
}


def _check_options(kind: ExecutorKind, executor: dg.ExecutorDefinition, options: Mapping[str, Any]) -> None:
    """Refuse options that the executor does not know; variables are looked up when a run starts, not here."""
    from dagster._config import validate_config

    if errors := validate_config(executor.config_schema.config_type, dict(options)).errors:
        told = " ".join(errors[0].message.partition(" Expected:")[0].split())
        raise ConfigError(f"orchestration: {kind} does not take its options: {told}")


def _by_tenant(known: Mapping[ExecutorKind, dg.ExecutorDefinition], config: Config) -> dg.ExecutorDefinition:
    """Return the executor that hands each run to the one of its tenant."""

    @dg.executor(name="by_tenant", requirements=dg.multiple_process_executor_requirements())
    def by_tenant(context: dg.InitExecutorContext) -> dg.Executor:
        return ByTenant(context, known, config)

    return by_tenant


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
        executor = self._opened(kind_of_run(self._config, run.job_name, run.tags))
        its_own = PlanOrchestrationContext(
            plan_context.plan_data,
            plan_context.log,
            executor,
            plan_context.output_capture,
            plan_context.resume_from_failure,
        )
        return executor.execute(its_own, execution_plan)

    def _opened(self, kind: ExecutorKind) -> dg.Executor:
        definition = self._known[kind]
        mapped: Any = definition.apply_config_mapping({"config": {}}).value
        given = self._context._replace(executor_def=definition, executor_config=mapped["config"])
        make: Any = definition.executor_creation_fn
        executor: dg.Executor = make(given)
        return executor


def kind_of_run(config: Config, job: str, tags: Mapping[str, str]) -> ExecutorKind:
    """Return where the steps of a run go: the partition of `publish` is a tenant, that of `ingest` a source."""
    key = tags.get(PARTITION, "")
    if key in config.sources and (job == "ingest" or key not in config.tenants):
        return config.executor_of(config.sources[key].tenant)
    return config.executor_of(key)
