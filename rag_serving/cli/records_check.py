"""What `citelock doctor` finds of what is written and sent beside questions: jobs, traces.

Belongs here: one function per thing looked at. Does not belong here: telemetry, and what questions need (`doctor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rag_serving.artifacts.store import Store
from rag_serving.cli.finding import Finding, age
from rag_serving.config.loading import Config, ConfigError

if TYPE_CHECKING:
    from rag_serving.telemetry.job_series import QueueFigures


def examine_records(config: Config) -> Iterator[Finding]:
    """Yield a finding of each; nothing is made or changed."""
    yield _jobs(config)
    yield _tracing(config)


def _jobs(config: Config) -> Finding:
    if config.jobs.embedding != "workers":
        return Finding("workers", "ok", "builds embed by themselves: jobs.embedding is in_process")
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    from rag_serving.telemetry.job_series import queue_figures
    from rag_serving.telemetry.job_tables import METADATA
    from rag_serving.telemetry.recorder import TelemetryError
    from rag_serving.telemetry.tables import error_line, opened

    figures: dict[str, QueueFigures] = {}
    file = Store(config.home).serving_db()
    if config.telemetry.url is None and not file.exists():
        return Finding("workers", "ok", "the queue is made by the first build")
    try:
        with opened(config.telemetry.url, file) as engine, engine.connect() as connection:
            if not all(inspect(connection).has_table(name) for name in METADATA.tables):
                return Finding("workers", "ok", "the queue is made by the first build")
            for tenant in config.tenants:
                figures[tenant] = queue_figures(connection, tenant, config.jobs.lease_s)
    except (TelemetryError, SQLAlchemyError) as error:
        mend = "start the database or mend telemetry.url; until then builds wait"
        return Finding("workers", "fail", f"the queue cannot be read ({error_line(error)})", mend)
    return _queue(list(figures.values()))


def _queue(figures: list[QueueFigures]) -> Finding:
    counts = {state: sum(each.jobs[state] for each in figures) for state in ("waiting", "running", "dead")}
    oldest = max((each.oldest_s for each in figures), default=0.0)
    workers = max((each.workers for each in figures), default=0)
    seen = min((each.last_seen_s for each in figures if each.last_seen_s is not None), default=None)
    detail = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    detail += f", the oldest {age(oldest)} old" if counts["waiting"] + counts["running"] else ""
    told = f"the last sign of life {age(seen)} ago" if seen is not None else "none has given a sign of life of late"
    detail += f"; {workers} workers, {told}"
    if counts["waiting"] and not workers:
        return Finding("workers", "warn", detail, "start `citelock worker`")
    if counts["dead"]:
        return Finding("workers", "warn", detail, "`citelock jobs list --state dead`, then `citelock jobs retry --all`")
    return Finding("workers", "ok", detail)


def _tracing(config: Config) -> Finding:
    if config.tracing.endpoint is None:
        return Finding("tracing", "ok", "off: no trace leaves this machine (tracing.endpoint)")
    from rag_serving.tracing.exporting import address_of, is_taken

    address = address_of(config.tracing)
    try:
        if not is_taken(config.tracing):
            mend = "start the collector, or mend tracing.endpoint and OTEL_EXPORTER_OTLP_HEADERS; spans are dropped"
            return Finding("tracing", "warn", f"{address} cannot be reached, or refuses what it is sent", mend)
    except ConfigError as error:
        return Finding("tracing", "fail", str(error), "`citelock serve` refuses to start until then")
    text = "with questions and prompts" if config.tracing.text else "without any text"
    return Finding("tracing", "ok", f"{config.tracing.sample_ratio:.0%} of the traces go to {address}, {text}")
