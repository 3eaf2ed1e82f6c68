"""Metrics of a server's questions, for Prometheus.

Every series has the label `tenant`, and a reader gets those of one tenant only.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from filelock import FileLock, Timeout
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.core import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from rag_serving.config.phases import PHASES
from rag_serving.models.breaker import State
from rag_serving.records.flags import CACHED, CACHED_OLDER, FINDINGS, PHASE_FAILED, REPEATED
from rag_serving.telemetry.recorder import Counts, TableName

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


BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the stages' times, in seconds."""
GenerationState = Literal["published", "older", "none"]
_MAX_VERDICTS = 10_000
_KINDS_OF_FILES = ("counter", "histogram", "gauge_sum", "gauge_livesum")
_BYTES_PER_TENANT = 1 << 16  # what the largest kind of file needs, with some to spare


class Metrics:
    """The metrics of one server. Safe to use from several threads.

    With a folder, this process counts in files there, and what is read adds up all processes that do: those that ended
    as well, except for gauges of what is now.
    """

    def __init__(self, folder: Path | None = None, tenants: int = 1) -> None:
        """`folder`: exists and is its owner's alone; at most one object in a process may have one."""
        self._registry = CollectorRegistry()
        self._source = folder or self._registry
        if folder:
            self._slot = _claim_slot(folder, tenants)  # held until this process ends
        else:
            values.ValueClass = values.MutexValue  # whatever the environment says
        self._lock = threading.Lock()
        self._totals: dict[tuple[str, str], int] = {}  # as they were last seen, by tenant and fate
        self._verdicts: dict[str, str] = {}  # the last ones, by row
        self._define()

    def _define(self) -> None:
        self._questions = self._counter("questions")
        self._degraded = self._counter("degraded_questions")
        self._claims = self._counter("claims")
        self._verified = self._counter("verified_claims")
        self._rows = self._counter("telemetry_rows")
        self._events = self._counter("audit_events")
        self._responses = self._counter("http_responses")
        series = SERIES["stage_seconds"]
        self._seconds = Histogram(
            f"{PREFIX}{series.name}",
            plain_text(series),
            series.all_labels,
            registry=self._registry,
            buckets=BUCKETS_S,
        )
        self._feedback = self._gauge("feedback", "sum")
        self._waiting = self._gauge("telemetry_waiting", "livesum")
        self._events_waiting = self._gauge("audit_waiting", "livesum")
        self._breakers = self._gauge("breaker_state", "livesum")
        self._phases = self._gauge("retrieval_phase", "livesum")
        self._generations = self._gauge("generation_state", "livesum")
        self._changes = self._counter("phase_changes")
        self._fallen = self._counter("fall_throughs")
        self._cached = self._counter("cached_answers")
        self._tokens = self._counter("tokens")
        self._cost = self._counter("cost")
        self._repeated = self._counter("repeated_answers")

    def _counter(self, name: str) -> Counter:
        series = SERIES[name]
        return Counter(f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=self._registry)

    def _gauge(self, name: str, mode: Literal["sum", "livesum"]) -> Gauge:
        series = SERIES[name]
        return Gauge(
            f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=self._registry, multiprocess_mode=mode
        )

    def add(self, table: TableName, row: Mapping[str, Any]) -> None:
        """Count a row of `events`."""
        if table == "feedback":
            self._add_verdict(row)
        elif table == "questions":
            self._add_question(row)

    def _add_question(self, row: Mapping[str, Any]) -> None:
        tenant = row["tenant"]
        self._questions.labels(tenant, row["kind"], row["status"], row["outcome"] or "").inc()
        self._degraded.labels(tenant).inc(bool(set(row["flags"]) - FINDINGS))
        self._claims.labels(tenant).inc(row["claims"])
        self._verified.labels(tenant).inc(row["verified"])
        for phase, flag in PHASE_FAILED.items():
            if flag in row["flags"]:
                self._fallen.labels(tenant, str(phase)).inc()
        self._tokens.labels(tenant, "in").inc(row["tokens_in"])
        self._tokens.labels(tenant, "out").inc(row["tokens_out"])
        self._cost.labels(tenant).inc(row["cost"])
        self._repeated.labels(tenant).inc(REPEATED in row["flags"])
        for flag, pages in ((CACHED, "same"), (CACHED_OLDER, "other")):
            if flag in row["flags"]:
                self._cached.labels(tenant, pages).inc()
        for stage, milliseconds in row["timings_ms"].items():
            self._seconds.labels(tenant, stage).observe(milliseconds / 1000)

    def _add_verdict(self, row: Mapping[str, Any]) -> None:
        """Count a verdict, and no longer the one that it replaces."""
        with self._lock:
            replaced = self._verdicts.pop(row["id"], None)
            self._verdicts[row["id"]] = row["verdict"]
            if len(self._verdicts) > _MAX_VERDICTS:
                del self._verdicts[next(iter(self._verdicts))]
        if replaced is not None:
            self._feedback.labels(row["tenant"], replaced).dec()
        self._feedback.labels(row["tenant"], row["verdict"]).inc()

    def set_breaker(self, tenant: str, server: str, current: State) -> None:
        """Set the state in which this process has a circuit breaker."""
        for state in get_args(State):
            self._breakers.labels(tenant, server, state).set(state == current)

    def set_phase(self, tenant: str, current: int) -> None:
        """Set the phase of retrieval that is in force in this process."""
        for phase in (0, *PHASES):
            self._phases.labels(tenant, str(phase)).set(phase == current)

    def add_change(self, tenant: str, direction: str, phase: int) -> None:
        """Count a step to a phase of retrieval."""
        self._changes.labels(tenant, direction, str(phase)).inc()

    def set_generation(self, tenant: str, current: GenerationState) -> None:
        """Set the generation that this process answers from."""
        for state in get_args(GenerationState):
            self._generations.labels(tenant, state).set(state == current)

    def add_response(self, tenant: str, code: int) -> None:
        """Count a response to a caller of a tenant."""
        self._responses.labels(tenant, str(code)).inc()

    def set_rows(self, tenant: str, counts: Counts) -> None:
        """Set how many rows of telemetry this process has written, dropped, and keeps waiting."""
        self._waiting.labels(tenant).set(counts.waiting)
        self._set_fates(self._rows, tenant, {"recorded": counts.recorded, "dropped": counts.dropped})

    def set_events(self, tenant: str, written: int, lost: int, waiting: int) -> None:
        """Set how many events of the audit log this process has written, lost, and keeps waiting."""
        self._events_waiting.labels(tenant).set(waiting)
        self._set_fates(self._events, tenant, {"written": written, "lost": lost})

    def _set_fates(self, counter: Counter, tenant: str, fates: Mapping[str, int]) -> None:
        """Count the increase since the last time."""
        for fate, total in fates.items():
            with self._lock:
                before = self._totals.get((tenant, fate), 0)
                self._totals[tenant, fate] = max(before, total)
            counter.labels(tenant, fate).inc(max(0, total - before))

    def exposition(self, tenant: str) -> bytes:
        """Return the series of a tenant in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_TenantSeries(self._source, tenant))
        return generate_latest(registry)


class _TenantSeries(Collector):
    """The series of a source that are one tenant's."""

    def __init__(self, source: Path | CollectorRegistry, tenant: str) -> None:
        """`source`: the metrics of this process, or the folder in which several count."""
        self._source, self._tenant = source, tenant

    def describe(self) -> list[Metric]:
        return []  # else registering would collect

    def collect(self) -> Iterator[Metric]:
        every = _merged(self._source, self._tenant) if isinstance(self._source, Path) else self._source.collect()
        for metric in every:
            metric.samples = [
                sample
                for sample in metric.samples
                if sample.labels.get("tenant") == self._tenant and not sample.name.endswith("_created")
            ]
            if metric.samples:
                yield metric


def _merged(folder: Path, tenant: str) -> list[Metric]:
    """Return the processes' counts of a tenant, added up.

    Only this tenant's values are merged, which takes some 10 microseconds each: reading one takes one.
    """
    with TemporaryDirectory() as own:
        for file in folder.glob("*.db"):
            with suppress(FileNotFoundError):  # of a process that just ended
                _copy_values(file, Path(own) / file.name, tenant)
        return list(MultiProcessCollector.merge([str(file) for file in Path(own).iterdir()]))


def _copy_values(file: Path, copy: Path, tenant: str) -> None:
    """Copy the values of one tenant. No other label can have this text: JSON escapes quotation marks in strings."""
    mark = f'"tenant": {json.dumps(tenant)}'
    found = [entry for entry in MmapedDict.read_all_values_from_file(str(file)) if mark in entry[0]]
    if found:
        copy.write_bytes(bytes(_BYTES_PER_TENANT))
        values = MmapedDict(str(copy))
        for key, value, timestamp, _ in found:
            values.write_value(key, value, timestamp)
        values.close()


def _claim_slot(folder: Path, tenants: int) -> FileLock:
    """Count in the files of a number that no other living process has, going on where its last process ended.

    So there are never more files than processes at a time. Space is taken at once: where a disk is full, writing to a
    mapped file would kill the process.
    """
    slot, lock = next(_free_slots(folder))
    mark_process_dead(slot, str(folder))
    for kind in _KINDS_OF_FILES:
        _take_space(folder / f"{kind}_{slot}.db", _BYTES_PER_TENANT * tenants)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: slot)
    return lock


def _take_space(file: Path, size: int) -> None:
    """Append zeros until a file has so many bytes."""
    with file.open("ab") as end:
        end.write(bytes(max(0, size - end.tell())))


def _free_slots(folder: Path) -> Iterator[tuple[int, FileLock]]:
    """Yield each number that no living process uses, with its lock."""
    for slot in count():
        lock = FileLock(folder / f"{slot}.lock")
        with suppress(Timeout):
            lock.acquire(timeout=0)
            yield slot, lock


def forget_ended(folder: Path) -> None:
    """Remove ended processes' present state; their counts stay."""
    for file in folder.glob("*.lock"):
        with suppress(Timeout), FileLock(file, timeout=0):
            mark_process_dead(int(file.stem), str(folder))
