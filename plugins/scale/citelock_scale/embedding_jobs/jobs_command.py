"""`citelock jobs`: list, show, retry; workers; what embedding took."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event
from types import FrameType
from typing import Annotated, Any, Literal

import typer
from sqlalchemy import select

from citelock_scale.embedding_jobs.job_files import PayloadError
from citelock_scale.embedding_jobs.queue import JobClaim, JobQueue
from citelock_scale.embedding_jobs.waiting import open_payloads, open_worker
from citelock_scale.embedding_jobs.worker import AWAY_S, Worker, WorkerRegister
from rag_assets.embedding_usage import PageUsage, read_usage
from rag_assets.progress import duration
from rag_serving.artifacts.store import StoreError
from rag_serving.cli.group import FAILED, UsageError
from rag_serving.cli.options import AsJson, ConfigPath, Tenant, chosen_tenant
from rag_serving.config.loading import Config, load_config
from rag_serving.escaping.targets import for_json, for_log, for_terminal_line
from rag_serving.models import ModelError, open_embedder
from rag_serving.privacy import complain, log_to_stderr
from rag_serving.telemetry.usage import JOBS


def command(
    config: ConfigPath = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when no job is due.")] = False,
) -> None:
    """Embed what builds enqueue, a job at a time, until stopped (SIGTERM, Ctrl-C): the current job is completed first.

    \b
    citelock worker &
    citelock worker &
    citelock build

    Builds enqueue where `jobs.embedding` is workers. Each worker is a process on any machine with the same
    configuration: the same home, a folder or an object store, and the same database. Start as many as the model serves.
    Tenants take turns, within `jobs.concurrency` and the rates of each. One that is killed loses nothing: after
    a minute another worker takes its job.
    """
    log_to_stderr()
    settings = load_config(config)
    if settings.jobs.embedding != "workers":
        complain("no build enqueues anything: jobs.embedding is in_process; set it to workers")
    stop = Event()
    _end_on_signals(stop)
    queue = JobQueue.of(settings)
    try:
        worker = _opened(settings, queue, stop)
        if worker is None:
            return
        _tell(f"{worker.name} embeds with {worker.model}")
        try:
            tally = worker.run(stop, until_idle)
        finally:
            worker.close()
        lost = f", {tally.lost} lost to others" if tally.lost else ""
        _tell(f"{tally.jobs} jobs, {tally.texts} texts embedded, {tally.failed} failed{lost}")
    finally:
        queue.database.close()


def _opened(config: Config, queue: JobQueue, stop: Event) -> Worker | None:
    """Return the worker; wait for a model server that does not answer yet, until the worker is stopped."""
    while not stop.is_set():
        try:
            return open_worker(config, queue, open_embedder(config.embedding))
        except ModelError as error:
            if config.embedding.provider in ("local", "flagembedding"):
                raise
            complain(str(error))
            stop.wait(AWAY_S)
    return None


def _end_on_signals(stop: Event) -> None:
    """End the work after the job at hand; a second signal ends it at once."""

    def end(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        _tell(f"{signal.Signals(number).name}: ending after this job")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _tell(line: str) -> None:
    print(f"worker: {for_log(line)}", file=sys.stderr, flush=True)


app = typer.Typer(help="List, show or retry embedding jobs; what embedding took.", no_args_is_help=True)
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only jobs of this tenant.")]
_SHOWN_CHARS = 200


_COLUMNS = (
    "id", "tenant", "model", "state", "tokens", "attempts", "created_at", "claimed_at", "finished_at", "lease_until",
    "worker", "reason",
)  # fmt: skip


def _payload(job: Any) -> dict[str, Any]:
    """Return a row of JOBS for JSON, with the number of its texts in place of their addresses."""
    return {**{name: getattr(job, name) for name in _COLUMNS}, "texts": len(job.text_keys)}


@app.command("list")
def list_command(
    state: Annotated[
        Literal["waiting", "running", "done", "dead"] | None,
        typer.Option("--state", help="Only jobs in this state; dead ones were put aside after too many tries."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="So many at most.")] = 50,
    tenant: OfTenant = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, those that were put aside first, with the reason of their last failure.

    \b
    citelock jobs list --state dead
    """
    query = select(JOBS).order_by(JOBS.c.state != "dead", JOBS.c.created_at, JOBS.c.id).limit(most)
    query = query.where(JOBS.c.tenant == tenant) if tenant is not None else query
    query = query.where(JOBS.c.state == state) if state is not None else query
    with _queue(config) as (_, queue), queue.database.reading() as connection:
        jobs = connection.execute(query).all()
    if as_json:
        typer.echo(for_json([*map(_payload, jobs)]))
        return
    for job in jobs:
        typer.echo(for_terminal_line(_line(job)))


@app.command("show")
def show_command(
    job: Annotated[str, typer.Argument(help="Its id, or how it begins.")],
    config: ConfigPath = None,
) -> None:
    """Show a job as JSON, with the pages and the beginnings of its texts."""
    query = select(JOBS).where(JOBS.c.id.startswith(job, autoescape=True)).limit(2)
    with _queue(config) as (settings, queue), queue.database.reading() as connection:
        found = connection.execute(query).all()
    if len(found) != 1:
        complain(f"{job}: {'several jobs begin so' if found else 'no such job'}; `citelock jobs list` shows their ids")
        raise typer.Exit(FAILED)
    typer.echo(for_json({**_payload(found[0]), "items": _items(settings, found[0])}, indent=2))


@app.command("retry")
def retry_command(
    jobs: Annotated[list[str] | None, typer.Argument(help="Their ids.", metavar="[JOB]…")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that were put aside.")] = False,
    tenant: OfTenant = None,
    config: ConfigPath = None,
) -> None:
    """Let jobs that were put aside be tried again, as if they had never failed.

    \b
    citelock jobs retry --all --tenant demo
    """
    if bool(jobs) == every:
        raise UsageError("name the jobs to retry, or give --all")
    with _queue(config) as (_, queue):
        ids = queue.retry(tenant, jobs or ())
    for lacking in sorted(set(jobs or ()) - set(ids)):
        complain(f"{lacking}: no such job was put aside; `citelock jobs list --state dead` shows them")
    typer.echo(f"{len(ids)} jobs wait again")
    if jobs and len(ids) < len(set(jobs)):
        raise typer.Exit(FAILED)


@app.command("workers")
def workers_command(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """List the workers that gave a sign of life within a lease's time."""
    with _queue(config) as (_, queue):
        workers = WorkerRegister(queue).living()
    if as_json:
        typer.echo(for_json([asdict(worker) for worker in workers]))
        return
    for worker in workers:
        note = f": {worker.note}" if worker.note else ""
        typer.echo(for_terminal_line(f"{worker.name}  {worker.model}  {_ago(worker.seen_at)}{note}"))


@app.command("usage")
def usage_command(
    most: Annotated[int, typer.Option("--most", min=1, help="So many pages at most.")] = 50,
    tenant: Tenant = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show what embedding took of a tenant's pages and documents: texts, tokens, cost (`embedding.prices`); the dearest
    first."""
    with _queue(config) as (settings, queue):
        name = chosen_tenant(settings, tenant)
        with queue.database.reading() as connection:
            pages = [*read_usage(connection, name).values()]
    pages.sort(key=lambda page: (-page.cost, -page.tokens, page.page_id))
    total = PageUsage("", *(sum(getattr(page, name) for page in pages) for name in ("texts", "tokens", "cost")))
    if as_json:
        typer.echo(for_json({"total": _figures(total), "pages": [asdict(page) for page in pages[:most]]}))
        return
    for page in pages[:most]:
        typer.echo(for_terminal_line(f"{page.page_id}  {_spent(page)}"))
    typer.echo(f"in all {_spent(total)}, {len(pages)} pages")


@contextmanager
def _queue(config: Any) -> Iterator[tuple[Config, JobQueue]]:
    settings = load_config(config)
    queue = JobQueue.of(settings)
    try:
        yield settings, queue
    finally:
        queue.database.close()


def _line(job: Any) -> str:
    tries = f", {job.attempts} tries" if job.attempts else ""
    who = f", held by {job.worker}" if job.state == "running" else ""
    reason = f": {job.reason}" if job.reason and job.state != "done" else ""
    return (
        f"{job.id}  {job.tenant}  {job.state}  {len(job.text_keys)} texts, {_ago(job.created_at)}{tries}{who}{reason}"
    )


def _ago(at: float) -> str:
    return f"{duration(max(0.0, time.time() - at))} ago"


def _items(config: Config, job: Any) -> list[dict[str, str]]:
    """Return the pages and the beginnings of a job's texts; none if its file is gone, as those of done jobs are."""
    claim = JobClaim(job.id, job.tenant, job.model, tuple(job.text_keys), job.tokens, job.attempts, 0)
    try:
        items = open_payloads(config).load(claim)
    except (PayloadError, StoreError, OSError):
        return []
    return [{"key": item.key, "page_id": item.page_id, "text": item.text[:_SHOWN_CHARS]} for item in items]


def _figures(usage: PageUsage) -> dict[str, float]:
    return {"texts": usage.texts, "tokens": usage.tokens, "cost": round(usage.cost, 6)}


def _spent(usage: PageUsage) -> str:
    cost = f", cost {usage.cost:.4f}" if usage.cost else ""
    return f"{usage.texts:,} texts, {usage.tokens:,} tokens{cost}"
