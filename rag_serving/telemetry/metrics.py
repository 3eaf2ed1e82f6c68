"""Prometheus' metrics of questions. Each series has the label `tenant`; a reader gets those of one tenant."""

from __future__ import annotations

import json
import os
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
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
_LIVE = (
    *("telemetry_waiting", "audit_waiting", "breaker_state", "retrieval_phase", "generation_state", "feedback"),
    "rerank_requests_in_progress",
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
        return self.kind != "gauge" or self.name in _LIVE

    @property
    def full_name(self) -> str:
        """Return the name of the family, as samples have it but for a histogram's suffixes."""
        return f"{PREFIX}{self.name}" + "_total" * (self.kind == "counter")

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Return the labels of its samples, `le` of a histogram's buckets excepted."""
        return (*((TENANT,) if self.has_tenant else ()), *self.labels)


@cache
def all_series() -> Mapping[str, Series]:
    """Return the metrics by name, as `series.toml` lists them."""
    text = Path(__file__).with_name("series.toml").read_text(encoding="utf-8")
    return {name: Series(name, **given) for name, given in tomllib.loads(text).items()}


def gauge_of(name: str, registry: CollectorRegistry) -> Gauge:
    """Return a gauge of the list in a registry of its own, for values read on demand."""
    series = all_series()[name]
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


_COUNTED_HERE = (
    *("questions", "degraded_questions", "claims", "verified_claims", "stage_seconds", "tokens", "cost", "feedback"),
    *("telemetry_rows", "telemetry_waiting", "audit_events", "audit_waiting", "http_responses", "breaker_state"),
    *("retrieval_phase", "phase_changes", "fall_throughs", "generation_state", "cached_answers", "repeated_answers"),
)


class Metrics:
    """The metrics of one server. Safe to use from several threads. With a folder, this process counts in files there,
    and what is read adds up all processes that do: those that ended as well, except for gauges of what is now."""

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
        self._of = {name: self._metric(name) for name in _COUNTED_HERE}

    def _metric(self, name: str) -> Any:
        series, mode = all_series()[name], "sum" if name == "feedback" else "livesum"
        kinds: dict[str, Callable[..., Any]] = {
            "counter": Counter,
            "gauge": partial(Gauge, multiprocess_mode=mode),  # type: ignore[arg-type]
            "histogram": partial(Histogram, buckets=BUCKETS_S),
        }
        named = f"{PREFIX}{name}", plain_text(series), series.all_labels
        return kinds[series.kind](*named, registry=self._registry)

    def add(self, table: TableName, row: Mapping[str, Any]) -> None:
        """Count a row of `events`."""
        if table == "feedback":
            self._add_verdict(row)
        elif table == "questions":
            self._add_question(row)

    def _add_question(self, row: Mapping[str, Any]) -> None:
        tenant = row["tenant"]
        self._of["questions"].labels(tenant, row["kind"], row["status"], row["outcome"] or "").inc()
        self._of["degraded_questions"].labels(tenant).inc(bool(set(row["flags"]) - FINDINGS))
        self._of["claims"].labels(tenant).inc(row["claims"])
        self._of["verified_claims"].labels(tenant).inc(row["verified"])
        for phase, flag in PHASE_FAILED.items():
            if flag in row["flags"]:
                self._of["fall_throughs"].labels(tenant, str(phase)).inc()
        self._of["tokens"].labels(tenant, "in").inc(row["tokens_in"])
        self._of["tokens"].labels(tenant, "out").inc(row["tokens_out"])
        self._of["cost"].labels(tenant).inc(row["cost"])
        self._of["repeated_answers"].labels(tenant).inc(REPEATED in row["flags"])
        for flag, pages in ((CACHED, "same"), (CACHED_OLDER, "other")):
            if flag in row["flags"]:
                self._of["cached_answers"].labels(tenant, pages).inc()
        for stage, milliseconds in row["timings_ms"].items():
            self._of["stage_seconds"].labels(tenant, stage).observe(milliseconds / 1000)

    def _add_verdict(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            replaced = self._verdicts.pop(row["id"], None)
            self._verdicts[row["id"]] = row["verdict"]
            if len(self._verdicts) > _MAX_VERDICTS:
                del self._verdicts[next(iter(self._verdicts))]
        if replaced is not None:
            self._of["feedback"].labels(row["tenant"], replaced).dec()
        self._of["feedback"].labels(row["tenant"], row["verdict"]).inc()

    def set_breaker(self, tenant: str, server: str, current: State) -> None:
        """Set the state in which this process has a circuit breaker."""
        for state in get_args(State):
            self._of["breaker_state"].labels(tenant, server, state).set(state == current)

    def set_phase(self, tenant: str, current: int) -> None:
        """Set the phase of retrieval that is in force in this process."""
        for phase in (0, *PHASES):
            self._of["retrieval_phase"].labels(tenant, str(phase)).set(phase == current)

    def add_change(self, tenant: str, direction: str, phase: int) -> None:
        """Count a step to a phase of retrieval."""
        self._of["phase_changes"].labels(tenant, direction, str(phase)).inc()

    def set_generation(self, tenant: str, current: GenerationState) -> None:
        """Set the generation that this process answers from."""
        for state in get_args(GenerationState):
            self._of["generation_state"].labels(tenant, state).set(state == current)

    def add_response(self, tenant: str, code: int) -> None:
        """Count a response to a caller of a tenant."""
        self._of["http_responses"].labels(tenant, str(code)).inc()

    def set_rows(self, tenant: str, counts: Counts) -> None:
        """Set how many rows of telemetry this process has written, dropped, and keeps waiting."""
        self._of["telemetry_waiting"].labels(tenant).set(counts.waiting)
        self._set_fates(self._of["telemetry_rows"], tenant, {"recorded": counts.recorded, "dropped": counts.dropped})

    def set_events(self, tenant: str, written: int, lost: int, waiting: int) -> None:
        """Set how many events of the audit log this process has written, lost, and keeps waiting."""
        self._of["audit_waiting"].labels(tenant).set(waiting)
        self._set_fates(self._of["audit_events"], tenant, {"written": written, "lost": lost})

    def _set_fates(self, counter: Counter, tenant: str, fates: Mapping[str, int]) -> None:
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
    """Return the processes' counts of a tenant, added up. Only this tenant's values are merged, which takes some 10
    microseconds each: reading one takes one."""
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
    """Count in the files of a number that no other living process has, going on where its last process ended. So there
    are never more files than processes at a time. Space is taken at once: where a disk is full, writing to a mapped
    file would kill the process."""
    slot, lock = next(_free_slots(folder))
    mark_process_dead(slot, str(folder))
    for kind in _KINDS_OF_FILES:
        with (folder / f"{kind}_{slot}.db").open("ab") as end:
            end.write(bytes(max(0, _BYTES_PER_TENANT * tenants - end.tell())))
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: slot)
    return lock


def _free_slots(folder: Path) -> Iterator[tuple[int, FileLock]]:
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
