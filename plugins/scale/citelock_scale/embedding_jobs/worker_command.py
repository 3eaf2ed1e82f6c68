"""`citelock worker`: a process that embeds what builds enqueue.

Belongs here: arguments, signals, what is printed. Does not belong here: the work (`worker`).
"""

from __future__ import annotations

import signal
import sys
from threading import Event
from types import FrameType
from typing import Annotated

import typer

from citelock_scale.embedding_jobs.opening import open_worker
from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.embedding_jobs.worker import AWAY_S, Worker
from rag_serving.cli.options import ConfigPath
from rag_serving.config.loading import Config, load_config
from rag_serving.escaping.targets import for_log
from rag_serving.models import ModelError, open_embedder
from rag_serving.privacy import complain, log_to_stderr


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
