"""Decisions on due work, as pure functions for `citelock build` and for the sensors.

Belongs here: which sources to ingest, which tenants to publish, which partitions to register, and why.
Does not belong here: observations (`rag_assets.state.observed`), the work (`rag_assets.build.command`,
`rag_assets.sensors`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

QUIET_SECONDS = 600.0
"""How long a tenant's publish waits for syncs in flight before it goes ahead with what is there."""

RETRY_SECONDS = 900.0
"""How long after a publish that did not get through it is tried again; each time twice as long, a day at most."""

UNSEEN_SECONDS = 20.0
"""How long after a run was asked for it counts as never started where the instance has none: it is asked for again."""

LEFT_SECONDS = 30.0
"""How long the sensor leaves an upload to the process that waits for uploads."""


@dataclass(frozen=True)
class SourceFacts:
    """A source now, and what its tables were made from."""

    key: str
    tenant: str
    settings: str  # digest of all settings that shape its tables
    fingerprint: str | None  # None: only a sync can find out
    built_settings: str | None  # None: never built
    built_fingerprint: str | None


@dataclass(frozen=True)
class PartitionChanges:
    """Dynamic partitions that the configuration has and the instance lacks, and the other way round."""

    add: tuple[str, ...]
    delete: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.delete)


@dataclass(frozen=True)
class PublishAttempt:
    """The sensor's memory of a tenant between two ticks; times in seconds since the epoch."""

    inputs: str | None = None  # what a publish was last started for
    tries: int = 0  # how often, for the same inputs
    started_at: float = 0.0
    waiting_since: float | None = None  # when it first wanted to publish and let syncs finish

    def run_key(self, tenant: str) -> str:
        """Return the key of the run. It is of this occasion: inputs come again, and Dagster starts no run of a known
        key."""
        return f"{tenant}:{self.inputs}:{self.started_at}"

    def due(self, inputs: str, now: float) -> bool:
        """Return whether a publish for these inputs may start: the first time, or long enough after one that failed."""
        pause = min(RETRY_SECONDS * 2 ** max(self.tries - 1, 0), 86_400.0)
        return inputs != self.inputs or now - self.started_at >= pause


@dataclass(frozen=True)
class PublishRequests:
    """The publish runs to start, why the others wait, and what to remember."""

    start: Mapping[str, str]  # tenant -> digest of inputs
    skipped: Mapping[str, str]  # tenant -> reason
    memory: Mapping[str, PublishAttempt]


def sources_to_ingest(sources: Iterable[SourceFacts], only: Collection[str] = (), full: bool = False) -> dict[str, str]:
    """Return the sources whose tables differ from a sync's result now, each with the reason.

    Args:
        sources: facts on every configured source.
        only: keys to look at; empty: all.
        full: ingest even what has not changed.
    """
    due = {facts.key: _ingest_reason(facts, full) for facts in sources if not only or facts.key in only}
    return {key: reason for key, reason in due.items() if reason is not None}


def _ingest_reason(facts: SourceFacts, full: bool) -> str | None:
    if facts.built_settings is None:
        return "never built"
    if full:
        return "full build asked for"
    if facts.built_settings != facts.settings:
        return "its settings changed"
    if facts.fingerprint is None:
        return "only a sync can tell what changed"
    return None if facts.fingerprint == facts.built_fingerprint else "its pages changed"


def tenants_to_publish(wanted: Mapping[str, str], published: Mapping[str, str | None]) -> dict[str, str]:
    """Return the tenants whose published generation was made from other inputs, each with the reason.

    Args:
        wanted: per tenant the digest of its present inputs; tenants without any chunk table are absent.
        published: per tenant the digest in the published manifest, None if nothing is published.
    """
    return {
        tenant: "nothing published yet" if published.get(tenant) is None else "its chunks or settings changed"
        for tenant, inputs in wanted.items()
        if published.get(tenant) != inputs
    }


def uploads_to_take(
    waiting: Mapping[str, str],
    seen: Mapping[str, tuple[str, float]],
    is_watched: bool,
    now: float,
    delayed: Collection[str] = (),
) -> tuple[list[str], dict[str, tuple[str, float]]]:
    """Return the inboxes to start a run for, and the memory: each mark, and when it was first seen.

    If a process waits for uploads they are left to it, unless they have been there for LEFT_SECONDS.

    Args:
        waiting: per inbox with news a mark, which differs for other work.
        seen: the memory of the last tick.
        is_watched: whether there is such a process.
        now: seconds since the epoch.
        delayed: inboxes that this process cannot take soon, as it is busy with another tenant's.
    """
    since = {
        key: (mark, seen[key][1] if key in seen and seen[key][0] == mark else now) for key, mark in waiting.items()
    }
    taken = [
        key for key, (_, first) in since.items() if not is_watched or key in delayed or now - first >= LEFT_SECONDS
    ]
    return taken, since


def partition_changes(
    configured: Collection[str], existing: Collection[str], in_flight: Collection[str] = ()
) -> PartitionChanges:
    """Bring dynamic partitions in line with the configuration; one with a run in flight is not deleted."""
    gone = set(existing) - set(configured) - set(in_flight)
    return PartitionChanges(add=tuple(sorted(set(configured) - set(existing))), delete=tuple(sorted(gone)))


def publish_requests(
    wanted: Mapping[str, str],
    published: Mapping[str, str | None],
    publishing: Collection[str],
    syncing: Collection[str],
    memory: Mapping[str, PublishAttempt],
    now: float,
    never_started: Collection[str] = (),
) -> PublishRequests:
    """Return the tenants to publish at this tick.

    A tenant is started once for the same inputs, and again after RETRY_SECONDS when that did not publish them. It waits
    for syncs in flight, so that two sources synced in the same minute are published once, but no longer than
    QUIET_SECONDS: a source that is always syncing must not starve the others.

    Args:
        wanted: per tenant the digest of its present inputs.
        published: per tenant the digest in the published manifest.
        publishing: tenants with a publish run in flight.
        syncing: tenants with an ingest run in flight.
        memory: of the last tick.
        now: seconds since the epoch.
        never_started: tenants whose last run was requested and does not exist; that is no try.
    """
    start: dict[str, str] = {}
    skipped: dict[str, str] = {}
    remember: dict[str, PublishAttempt] = {}
    for tenant, inputs in wanted.items():
        before = memory.get(tenant, PublishAttempt())
        waiting_since = before.waiting_since if before.waiting_since is not None else now
        if published.get(tenant) == inputs:
            skipped[tenant], remember[tenant] = "nothing changed", PublishAttempt()
        elif tenant in publishing:
            skipped[tenant], remember[tenant] = "a publish run is in flight", before
        elif tenant not in never_started and not before.due(inputs, now):
            skipped[tenant], remember[tenant] = "the last publish did not get through; it is tried again later", before
        elif tenant in syncing and now - waiting_since < QUIET_SECONDS:
            skipped[tenant] = "a sync is in flight"
            remember[tenant] = replace(before, waiting_since=waiting_since)
        else:
            tries = before.tries + (tenant not in never_started) if before.inputs == inputs else 1
            start[tenant], remember[tenant] = inputs, PublishAttempt(inputs, tries, now)
    return PublishRequests(start, skipped, remember)
