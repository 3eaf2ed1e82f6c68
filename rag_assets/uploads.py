"""The job `add_documents`: from an upload inbox to the published generation in one run's process.

Belongs here: running `ingest` for the inbox, then `publish` for its tenant, so that who uploads waits for the start of
one process and one tick of a sensor. Does not belong here: the two jobs (`jobs`), what starts this one (`sensors`).
"""

import dagster as dg

from rag_assets.publishing.documents import note_stopped, settle_documents
from rag_assets.resources import Installation
from rag_assets.runs import Jobs, Outcome, RunOptions
from rag_assets.state.observed import published_inputs, wanted_inputs
from rag_assets.state.planning import tenants_to_publish
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.models import open_embedder

JOB, OP = "add_documents", "ingest_and_publish"
_TAGS = {"citelock/started_by": JOB}


class Inbox(dg.Config):
    """Which upload inbox is read."""

    source: str


@dg.op(name=OP, description="Runs `ingest` for an upload inbox and, where that changed anything, `publish`.")
def ingest_and_publish(
    context: dg.OpExecutionContext, config: Inbox, installation: Installation, jobs: dg.ResourceParam[Jobs]
) -> None:
    settings = installation.config()
    tenant = settings.sources[config.source].tenant
    options = RunOptions(_TAGS)
    _told(context, "ingest", jobs.run("ingest", config.source, context.instance, options))
    if _is_due(settings, tenant):
        outcome = jobs.run("publish", tenant, context.instance, options)
        if outcome.error is not None:
            note_stopped(settings, tenant)
        _told(context, "publish", outcome)
    settle_documents(settings, tenant)


def _is_due(config: Config, tenant: str) -> bool:
    store = Store(config.home)
    wanted = wanted_inputs(config, store, open_embedder(config.embedding), [tenant])
    return bool(tenants_to_publish(wanted, {tenant: published_inputs(store, tenant)}))


def _told(context: dg.OpExecutionContext, job: str, outcome: Outcome) -> None:
    """Log how a run ended; a failed one fails this one, too, and is not tried again: the document says why."""
    if outcome.error is not None:
        raise dg.Failure(f"{job} failed: {outcome.error}", allow_retries=False)
    context.log.info("%s took %.1f s", job, sum(outcome.seconds.values()))


@dg.job(name=JOB, description="Make what was uploaded searchable: `ingest` of an inbox, then `publish`.")
def add_documents() -> None:
    ingest_and_publish()


def run_config(source: str) -> dict[str, object]:
    """Return the configuration of a run for an inbox."""
    return {"ops": {OP: {"config": {"source": source}}}}
