"""Runs of a job in this process, which the UI shows like any other; from what is new in an upload inbox, or of a wiki's
events, to the published generation."""

import logging
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from rag_assets.assets.run_queue import queue_tags
from rag_assets.monitoring.source_health import without_secrets
from rag_assets.publishing.documents import note_stopped, settle_documents
from rag_assets.publishing.publish import narrow_readers
from rag_assets.resources import NOTED_TAG, SHOWN_TAG, STEP_WAIT_SECONDS, Installation, writing
from rag_assets.state.locks import locked
from rag_assets.state.planning import (
    UNSEEN_SECONDS,
    PublishAttempt,
    attempts,
    published_inputs,
    tenants_to_publish,
    wanted_inputs,
)
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.redaction import redacted
from rag_serving.models import ModelError, open_embedder

_log = logging.getLogger(__name__)

PROCESS = "citelock/process"
"""Of a run: the mark of the process that runs it."""


def own_mark() -> str:
    """Return the mark of this process: machine, number, and when it was started, as numbers are given again."""
    return f"{platform.node()}:{os.getpid()}:{_started(os.getpid())}"


def has_ended(mark: str) -> bool:
    """Return whether the process of a mark was on this machine and is there no more."""
    host, number, started = mark.rsplit(":", 2) if mark.count(":") >= 2 else ("", "", "")
    if host != platform.node() or not (number.isascii() and number.isdecimal()):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it is another account's
    return _started(int(number)) != started


def _started(number: int) -> str:
    """Return a process's start time, in clock ticks since boot; empty if the system does not report it. Field 22 of
    /proc/PID/stat, of which the second, a name in parentheses, may have spaces: proc(5)."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return ""


UNKNOWN = "the run failed; its log shows why"


def step_failure(event: dg.DagsterEvent) -> str | None:
    """Return the reason of a step's failure: the step's own message, else its error."""
    data = event.step_failure_data
    if data.user_failure_data is not None and data.user_failure_data.description:
        return f"{event.step_key}: {data.user_failure_data.description}"
    if data.error is not None:
        error = data.error.cause or data.error
        return f"{event.step_key}: {' '.join(error.message.split())}"
    return None


LOCATION = "citelock"
"""Name of the code location in `workspace.yaml`."""
_MOST_ENGINES = 32
NO_RETRY = {"dagster/max_retries": "0"}


@dataclass(frozen=True)
class RunOutcome:
    """One run of a job: the metadata and duration of every materialized asset, and the reason of a failure."""

    error: str | None
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def count(self, asset: str, name: str) -> int:
        """Return a number from an asset's metadata, 0 if the run did not get that far."""
        return int(self.metadata.get(asset, {}).get(name, 0))


@dataclass(frozen=True)
class RunOptions:
    """The options of a run. `only`: the assets of the job to make; empty: all."""

    tags: Mapping[str, str] = field(default_factory=dict)
    only: Sequence[str] = ()
    log_level: str = "INFO"


class ProjectJobs:
    """The jobs of the project, by name; a resource of the ops that run them."""

    def __init__(self, named: Callable[[str], dg.JobDefinition]) -> None:
        self._named = named

    def load(self, *jobs: str) -> None:
        """Put the definitions of jobs together, which the first run of each would do."""
        for job in jobs:
            self._named(job)

    def run(
        self, job: str, partition: str, instance: dg.DagsterInstance, options: RunOptions | None = None
    ) -> RunOutcome:
        """Run a job for a partition in this process; a failure is an outcome, not an exception. Raises
        KeyboardInterrupt: a person stopped it."""
        options = options or RunOptions()
        try:
            with listed_under(instance, job):
                result = self._named(job).execute_in_process(
                    run_config={"loggers": {"console": {"config": {"log_level": options.log_level}}}},
                    instance=instance,
                    partition_key=partition,
                    raise_on_error=False,
                    asset_selection=[dg.AssetKey(name) for name in options.only] or None,
                    tags={**NO_RETRY, PROCESS: own_mark(), **queue_tags(frozenset({job}), partition), **options.tags},
                )
        except dg.DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None
        if was_interrupted(result):
            raise KeyboardInterrupt
        return RunOutcome(None if result.success else failure_of(result), metadata_of(result), seconds_of(result))


def mark_run(instance: dg.DagsterInstance, run_id: str) -> None:
    """Mark a run as one of this process."""
    instance.add_run_tags(run_id, {PROCESS: own_mark()})


def end_orphans(instance: dg.DagsterInstance) -> list[str]:
    """Note runs whose process was killed as failed, and free their places in pools, so that nothing waits for them.
    Return their ids. Dagster itself notices this only for processes of its code server, as long as the server lives."""
    running = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]))
    orphans = [run for run in running if has_ended(run.tags.get(PROCESS, ""))]
    for run in orphans:
        if instance.event_log_storage.supports_global_concurrency_limits:
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        instance.report_run_failed(run, "The process that ran it has ended, or was killed.")
    return [run.run_id for run in orphans]


def never_started(instance: dg.DagsterInstance, memory: Mapping[str, PublishAttempt], now: float) -> frozenset[str]:
    """Return the tenants whose last publish was requested long enough ago and has no run of any status."""
    return frozenset(
        tenant
        for tenant, attempt in memory.items()
        if attempt.inputs is not None
        and now - attempt.started_at >= UNSEEN_SECONDS
        and not instance.get_runs(dg.RunsFilter(tags={"dagster/run_key": attempt.run_key(tenant)}), limit=1)
    )


@contextmanager
def listed_under(instance: dg.DagsterInstance, job: str) -> Iterator[None]:
    """List runs that are made in the block under a job of the code location, in the UI's job pages and timeline.
    Dagster gives runs that are executed in process no origin, and has no public way to name one: this uses names of the
    pinned version that are its own."""
    from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), "__repository__")
    create = instance.create_run_for_job
    instance.create_run_for_job = partial(create, remote_job_origin=RemoteJobOrigin(repository, job))  # type: ignore[method-assign]
    try:
        yield
    finally:
        instance.create_run_for_job = create  # type: ignore[method-assign]


def keep_engines() -> None:
    """Let Dagster's SQLite storages open a file by one engine. They make an engine for each statement, and with it lose
    its compiled queries: a tenth of a small build. No connection is kept. This uses names of the pinned version that
    are its own."""
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage

    for module in (sqlite_event_log, sqlite_run_storage):
        module.create_engine = _kept(module.create_engine)  # type: ignore[attr-defined]


def _kept(make: Callable[..., Any]) -> Callable[..., Any]:
    engines: dict[str, Any] = {}

    def engine(url: str, **options: Any) -> Any:
        if url not in engines:
            if len(engines) >= _MOST_ENGINES:  # each run has a file
                engines.clear()
            engines[url] = make(url, **options)
        return engines[url]

    return engine


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Return the metadata of each asset's materialization, by asset name."""
    made = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    return {one.asset_key.to_user_string(): {k: v.value for k, v in one.metadata.items()} for one in made}


def seconds_of(result: dg.ExecuteInProcessResult) -> dict[str, float]:
    """Return the duration of each asset, in the order they ended; steps of checks alone are left out."""
    made = metadata_of(result)
    ended = result.filter_events(lambda event: event.is_step_success and event.step_key in made)
    return {event.step_key: round(event.step_success_data.duration_ms / 1000, 3) for event in ended if event.step_key}


def was_interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Return whether a person stopped the run: Dagster reports that as a failure of the current step."""
    failures = [event.step_failure_data.error for event in result.filter_events(lambda event: event.is_step_failure)]
    names = {error.cls_name for failure in failures if failure for error in (failure, failure.cause) if error}
    return not names.isdisjoint({"DagsterExecutionInterruptedError", "KeyboardInterrupt"})


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """Return why a run failed, in one line."""
    failed = [check for check in result.get_asset_check_evaluations() if not check.passed and check.blocking]
    if failed:
        return "; ".join(
            f"check {check.check_name!r} failed: {check.description or 'see its metadata'}" for check in failed
        )
    for event in result.filter_events(lambda event: event.is_step_failure):
        if reason := step_failure(event):
            return reason
    return "the run failed; `citelock build --verbose` shows why"


JOB, OP = "add_documents", "ingest_and_publish"
STARTED_BY, INBOXES = "citelock/started_by", "inboxes"
"""The tag of a run, and its value for the process that waits for uploads."""
_TAGS = {STARTED_BY: JOB}


@dataclass(frozen=True)
class InboxBuild:
    """One source, and the jobs that publish its news."""

    config: Config
    source: str
    jobs: ProjectJobs
    instance: dg.DagsterInstance
    options: RunOptions

    def run(self) -> dict[str, RunOutcome]:
        """Run `ingest`, then `publish` if that is due; return the outcome of each. A failure ends it. The locks are
        kept from a job's first step to its last: steps of another build of the same tables wait. Raises LockedError:
        another build takes longer than a step waits. Raises KeyboardInterrupt: a person stopped it."""
        try:
            outcomes = self._run()
        except ModelError as error:
            self._tell(str(error))
            raise
        for outcome in outcomes.values():
            if outcome.error is not None:
                self._tell(outcome.error)
        return outcomes

    def _run(self) -> dict[str, RunOutcome]:
        store, tenant = Store(self.config.home), self.config.sources[self.source].tenant
        noted = NotedPages(store.source(self.source))
        with locked(self.config, store.source(self.source), STEP_WAIT_SECONDS):
            tags, mark = dict(self.options.tags), noted.mark()
            tags |= {SHOWN_TAG: self.source} if noted.progress() else {}
            options = replace(self.options, tags={**tags, NOTED_TAG: mark} if mark else tags)
            outcomes = {"ingest": self.jobs.run("ingest", self.source, self.instance, options)}
        if outcomes["ingest"].error is not None:
            return outcomes
        if mark:  # a restriction does not wait for texts to be embedded
            narrow_readers(self.config, tenant, _log.warning)
        with locked(self.config, store.tenant(tenant), STEP_WAIT_SECONDS):
            try:
                wanted = wanted_inputs(self.config, store, open_embedder(self.config.embedding), [tenant])
            except ModelError:
                narrow_readers(self.config, tenant, _log.warning)
                raise
            if tenants_to_publish(wanted, {tenant: published_inputs(store, tenant)}):
                for _ in attempts(store, tenant):
                    outcomes["publish"] = self.jobs.run("publish", tenant, self.instance, replace(options, tags=tags))
                if outcomes["publish"].error is not None:
                    note_stopped(self.config, tenant)
            settle_documents(self.config, tenant)
        if not any(outcome.error for outcome in outcomes.values()):
            noted.forget()
        return outcomes

    def _tell(self, error: str) -> None:
        settings, noted = self.config.sources[self.source], NotedPages(Store(self.config.home).source(self.source))
        if noted.progress():
            noted.show("failed", error=without_secrets(redacted(error), settings))


class InboxConfig(dg.Config):
    """The upload inbox or wiki to read."""

    source: str


@dg.op(name=OP, description="Runs `ingest` for an upload inbox or a wiki and, where that changed anything, `publish`.")
def ingest_and_publish(
    context: dg.OpExecutionContext, config: InboxConfig, installation: Installation, jobs: dg.ResourceParam[ProjectJobs]
) -> None:
    mark_run(context.instance, context.run_id)
    settings = installation.config()
    build = InboxBuild(settings, config.source, jobs, context.instance, RunOptions(_TAGS))
    with writing(settings, Store(settings.home).source(config.source)):
        outcomes = build.run()
    for job, outcome in outcomes.items():
        if outcome.error is not None:
            # Not tried again: the document says why.
            raise dg.Failure(f"{job} failed: {outcome.error}", allow_retries=False)
        context.log.info("%s took %.1f s", job, sum(outcome.seconds.values()))


@dg.job(
    name=JOB,
    description="Make what was uploaded, or what a wiki told of, searchable: `ingest` of the source, then `publish`.",
    executor_def=dg.in_process_executor,  # whose process has the locks of both
)
def add_documents() -> None:
    ingest_and_publish()


def run_config(source: str) -> dict[str, object]:
    """Return the configuration of a run for a source."""
    return {"ops": {OP: {"config": {"source": source}}}}
