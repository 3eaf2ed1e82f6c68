"""The series of `/metrics`: name, type, unit, labels and meaning of each, in one list.

Belongs here: the list, from which metrics are made, the reference in docs/monitoring.md and the dashboard in
deploy/monitoring are generated, and which rules of alerts are checked against. Does not belong here: counting
(`metrics`), reading what is true now (`job_series`, `api.tenant_status`), the sidecar's series
(`rerank_service.api`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry, Gauge

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["count", "seconds", "timestamp", "ratio", "currency", "budget", "flag"]
"""`timestamp`: seconds since 1970; `flag`: 1 or 0; `budget`: questions, tokens, money or documents, by a label."""

TENANT = "tenant"
PREFIX = "citelock_"
_SUMMED = frozenset(
    {
        "feedback",
        "breaker_state",
        "retrieval_phase",
        "generation_state",
        "telemetry_waiting",
        "audit_waiting",
        "rerank_requests_in_progress",
    }
)


@dataclass(frozen=True)
class Series:
    """One metric. `name` is without the prefix and without a counter's `_total`; `labels` without the tenant's."""

    name: str
    kind: Kind
    group: str
    text: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """What each label may be, in Markdown; empty: its name says it."""
    unit: Unit = "count"
    of_operators: bool = False
    """Whether only tokens of operators see it: it tells of pages that not every reader may know of."""
    has_tenant: bool = True

    @property
    def is_summed(self) -> bool:
        """Return whether servers that are scraped each have a part of it; else each sees all of it."""
        return self.kind != "gauge" or self.name in _SUMMED

    @property
    def full_name(self) -> str:
        """Return the name of the family, as samples have it but for a histogram's suffixes."""
        return f"{PREFIX}{self.name}" + "_total" * (self.kind == "counter")

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Return the labels of its samples, `le` of a histogram's buckets excepted."""
        return (*((TENANT,) if self.has_tenant else ()), *self.labels)


def _counter(name: str, group: str, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(name, "counter", group, text, labels, unit)


def _gauge(name: str, group: str, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(name, "gauge", group, text, labels, unit)


def _state(name: str, group: str, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(name, "gauge", group, text, labels, unit, of_operators=True)


_PHASE = "`3`, `2`, `1`"

SERIES: Mapping[str, Series] = {
    series.name: series
    for series in (
        _counter(
            "questions",
            "Questions",
            "Questions and searches.",
            kind="`ask`, `selected_text`, `search`, `check`",
            status="",
            outcome="`told`, `closest`, `none`; empty of searches",
        ),
        _counter(
            "degraded_questions",
            "Questions",
            "Questions and searches with something degraded (`flags`, less those that tell of the pages).",
        ),
        _counter("claims", "Questions", "Claims of answers."),
        _counter("verified_claims", "Questions", "Claims that were verified."),
        _gauge(
            "feedback",
            "Questions",
            "Readers' verdicts, one per reader and answer; one that was replaced is taken off.",
            verdict="",
        ),
        _counter("cached_answers", "Questions", "Questions that got an earlier answer.", pages="`same`, `other`"),
        _counter("repeated_answers", "Questions", "Questions that got their answer again."),
        _counter(
            "http_responses",
            "Requests",
            "Responses to callers that were known, probes and `/metrics` excepted.",
            code="",
        ),
        Series(
            "stage_seconds",
            "histogram",
            "Time",
            "Time of each stage; `total` is the whole question.",
            {"stage": ""},
            "seconds",
        ),
        _gauge(
            "breaker_state",
            "Parts that fail",
            "Processes of this server that have the circuit breaker before a model's server in that state.",
            server="`reranker`, `embedder`, `generator`",
            state="`closed`, `open`, `half_open`",
        ),
        _gauge(
            "retrieval_phase",
            "Parts that fail",
            "Processes of this server in which that phase of retrieval is in force.",
            phase=f"{_PHASE}; `0`: none",
        ),
        _counter(
            "phase_changes",
            "Parts that fail",
            "Steps from a phase of retrieval to another.",
            direction="`down`, `up`, `configured`",
            phase="",
        ),
        _counter(
            "fall_throughs", "Parts that fail", "Questions and searches that a phase of retrieval failed.", phase=_PHASE
        ),
        _gauge(
            "generation_state",
            "Pages",
            "Processes of this server by what they answer from: the published generation, an older one, or none.",
            state="`published`, `older`, `none`",
        ),
        _state("generation_info", "Pages", "The published generation; always 1.", "flag", generation=""),
        _state(
            "generation_created_timestamp_seconds", "Pages", "When the published generation was built.", "timestamp"
        ),
        _state(
            "generation_published_timestamp_seconds",
            "Pages",
            "When the published generation was first published.",
            "timestamp",
        ),
        _state("generation_chunks", "Pages", "Chunks of the published generation."),
        _state("generation_pages", "Pages", "Pages of the published generation, by source.", source=""),
        _state(
            "source_last_sync_timestamp_seconds",
            "Pages",
            "When the last complete sync of a source ended; absent where there was none, or this machine cannot know.",
            "timestamp",
            source="",
        ),
        _state(
            "source_overdue",
            "Pages",
            "Whether a source had no complete sync for longer than its schedule or `monitoring` allows.",
            "flag",
            source="",
        ),
        _state(
            "part_up",
            "Parts that fail",
            "Whether a part answers: the home folder, where pages are served from it; the database of "
            "`telemetry.url`; the database of `index`; the object store that the home is shared by (0: this machine "
            "does not have what was published last). Absent where it is not configured.",
            "flag",
            part="`home`, `database`, `index`, `object_store`",
        ),
        _state(
            "home_free_ratio", "Parts that fail", "Share of the home's disk that is free, in steps of 0.01.", "ratio"
        ),
        _counter(
            "telemetry_rows",
            "Records",
            "Rows of telemetry that were written, or dropped.",
            fate="`recorded`, `dropped`",
        ),
        _gauge("telemetry_waiting", "Records", "Rows of telemetry that are not written yet."),
        _counter(
            "audit_events", "Records", "Events of the audit log that were written, or lost.", fate="`written`, `lost`"
        ),
        _gauge("audit_waiting", "Records", "Events of the audit log that are not written yet."),
        _gauge(
            "embedding_jobs",
            "Embedding by workers",
            "Embedding jobs, where workers are configured.",
            state="`waiting`, `running`, `done`: of the last 30 days; `dead`: put aside",
        ),
        _gauge(
            "embedding_oldest_job_seconds",
            "Embedding by workers",
            "Age of the oldest embedding job that waits or runs; 0: there is none.",
            "seconds",
        ),
        _gauge(
            "embedding_workers",
            "Embedding by workers",
            "Workers of the installation that gave a sign of life within a minute.",
        ),
        _counter("tokens", "Cost", "Tokens that models took for questions.", direction="`in`, `out`"),
        _counter("cost", "Cost", "What they cost, in the currency of the prices.", "currency"),
        _gauge("build_tokens", "Cost", "Tokens that builds used today (UTC).", part="`contexts`, `embedding`"),
        _gauge(
            "build_cost",
            "Cost",
            "What builds cost today (UTC), in the currency of the prices.",
            "currency",
            part="`contexts`, `embedding`",
        ),
        _gauge(
            "budget_used",
            "Cost",
            "Used in the present minute, or day (UTC), where it is limited.",
            "budget",
            measure="`questions`, `tokens`, `cost`, `documents`",
        ),
        _gauge("budget_limit", "Cost", "Limits of a budget.", "budget", measure="", limit="`soft`, `hard`"),
    )
}


def gauge_of(name: str, registry: CollectorRegistry) -> Gauge:
    """Return a gauge of the list in a registry of its own, for values read on demand."""
    series = SERIES[name]
    return Gauge(f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=registry)


def plain_text(series: Series) -> str:
    """Return the help line of a series."""
    return series.text.replace("`", "")
