"""From an upload inbox, the pages that a wiki named in events, or a source that was just connected, to the published
generation in one process: `ingest` of the source, then `publish` for its tenant.

Belongs here: the order of the two, and the job `add_documents` that a sensor starts. Does not belong here: the two jobs
(`jobs`), the sensor (`sensors`), the process that waits for uploads (`build.inboxes`).
"""

import logging
from dataclasses import dataclass, replace

import dagster as dg

from rag_assets.monitoring.source_health import without_secrets
from rag_assets.publishing.documents import note_stopped, settle_documents
from rag_assets.publishing.narrowing import narrow_readers
from rag_assets.resources import NOTED_TAG, SHOWN_TAG, STEP_WAIT_SECONDS, Installation, writing
from rag_assets.runs import ProjectJobs, RunOptions, RunOutcome, mark_run
from rag_assets.state.locks import locked
from rag_assets.state.observed import attempts, published_inputs, wanted_inputs
from rag_assets.state.planning import tenants_to_publish
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.redaction import redacted
from rag_serving.models import ModelError, open_embedder

_log = logging.getLogger(__name__)

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
        """Run `ingest`, then `publish` if that is due; return the outcome of each. A failure ends it.

        The locks are kept from a job's first step to its last: steps of another build of the same tables wait.

        Raises:
            LockedError: another build takes longer than a step waits.
            KeyboardInterrupt: a person stopped it.
        """
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
            if self._is_due(store, tenant):
                for _ in attempts(store, tenant):
                    outcomes["publish"] = self.jobs.run("publish", tenant, self.instance, replace(options, tags=tags))
                if outcomes["publish"].error is not None:
                    note_stopped(self.config, tenant)
            settle_documents(self.config, tenant)
        if not any(outcome.error for outcome in outcomes.values()):
            noted.forget()
        return outcomes

    def _tell(self, error: str) -> None:
        """Tell operators who look at the first sync of a source why it failed."""
        settings, noted = self.config.sources[self.source], NotedPages(Store(self.config.home).source(self.source))
        if noted.progress():
            noted.show("failed", error=without_secrets(redacted(error), settings))

    def _is_due(self, store: Store, tenant: str) -> bool:
        try:
            wanted = wanted_inputs(self.config, store, open_embedder(self.config.embedding), [tenant])
        except ModelError:
            narrow_readers(self.config, tenant, _log.warning)
            raise
        return bool(tenants_to_publish(wanted, {tenant: published_inputs(store, tenant)}))


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
