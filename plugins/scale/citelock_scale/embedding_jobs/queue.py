"""The queue of embedding jobs: enqueued once, claimed in turn, leased, finished by the claimant.

A claim has a fence, a number that is higher with each claim of the job. Renewing, finishing or returning a job requires
it: a worker that lost the job has a lower number, and changes nothing.

Start-time fair queueing (Goyal, Vin, Cheng: Start-time fair queueing, SIGCOMM 1996) with equal weights: each tenant has
a virtual time up to which it was served, in tokens. The one with the least is next; it is charged when a job is
claimed. The clock of all is the start of the job that was claimed last: a new or returning tenant starts there, so that
nobody saves up turns while idle, and nobody pays for having worked alone."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from rag_assets.embedding_usage import JobsDatabase, PageUsage, add_usage
from rag_serving.config.loading import Config
from rag_serving.config.sections import JobLimits, Jobs, TenantJobs
from rag_serving.escaping.redaction import redacted
from rag_serving.escaping.targets import one_line
from rag_serving.telemetry.usage import JOBS, SHARES

LONGEST_BACKOFF_S = 300.0
OPEN = ("waiting", "running")
ENDED = "the worker that had it ended, or gave no sign of life"
LACKS_TEXTS = "the texts of the job are missing"
_ALL = ""  # the row of SHARES with the clock of all
_REASON_CHARS = 500
_DAY_S = 86_400.0
Clock = Callable[[], float]
"""Returns seconds since 1970."""


@dataclass(frozen=True)
class EmbeddingText:
    """A text to embed: its content address, and its page."""

    key: str
    text: str
    page_id: str


@dataclass(frozen=True)
class Batch:
    """Texts of one tenant for one model; the same texts are the same batch. `tokens`: about so many."""

    tenant: str
    model: str
    items: tuple[EmbeddingText, ...]
    tokens: int

    @property
    def id(self) -> str:
        return job_id(self.tenant, self.model, [item.key for item in self.items])


@dataclass(frozen=True)
class JobClaim:
    """A job that a worker has until its lease ends. `fence`: of this claim alone."""

    id: str
    tenant: str
    model: str
    keys: tuple[str, ...]
    tokens: int
    attempts: int
    fence: int


@dataclass(frozen=True)
class Failure:
    """Texts that could not be embedded, with the reason."""

    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class QueueState:
    """A tenant's open texts of a model: keys by job, those put aside with reasons, and the last failure."""

    open: dict[str, tuple[str, ...]]
    dead: dict[str, Failure]
    running: int
    lacking: dict[str, int]  # jobs that wait or were put aside because their texts are missing, with their tries
    last_reason: str | None
    last_finished_at: float | None  # of any tenant


def job_id(tenant: str, model: str, keys: Sequence[str]) -> str:
    """Return the id of a batch: SHA-256 over tenant, model and keys in any order, 32 hexadecimal digits."""
    return hashlib.sha256("\0".join([tenant, model, *sorted(keys)]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TenantTurn:
    """A tenant with jobs that are due: so many of them `waiting`. `served`: virtual time in tokens; `free_at`: when its
    rates allow one more."""

    tenant: str
    served: float
    free_at: float
    waiting: int
    running: int
    limits: JobLimits


def next_tenant(turns: Iterable[TenantTurn], clock: float, now: float) -> TenantTurn | None:
    """Return the tenant of the next claim; None if each is at a limit. `clock`: virtual time of all. Among equally
    served ones, that with the fewest jobs."""
    allowed = [turn for turn in turns if turn.running < turn.limits.concurrency and turn.free_at <= now]
    return min(allowed, key=lambda turn: (max(turn.served, clock), turn.waiting, turn.tenant), default=None)


def charged(turn: TenantTurn, clock: float, tokens: int, now: float) -> tuple[float, float, float]:
    """Return the clock of all, the tenant's virtual time and its `free_at`, once a job of so many tokens is claimed."""
    start = max(turn.served, clock)
    pause = 60 * tokens / turn.limits.tokens_per_minute if turn.limits.tokens_per_minute else 0.0
    return start, start + max(tokens, 1), max(turn.free_at, now) + pause


def backoff(attempts: int, first_s: float) -> float:
    """Return the seconds before the next try, after so many that failed (at least one)."""
    return float(min(first_s * 2 ** min(attempts - 1, 30), LONGEST_BACKOFF_S))


class JobQueue:
    """The queue of one installation. Every method may raise JobsError; then nothing was changed."""

    def __init__(
        self, database: JobsDatabase, settings: Jobs, tenants: Mapping[str, TenantJobs], clock: Clock = time.time
    ) -> None:
        """`tenants`: the configured ones, with their own settings; jobs of others stay."""
        self.database, self.settings, self.clock = database, settings, clock
        self._tenants = tenants

    @classmethod
    def of(cls, config: Config, clock: Clock = time.time) -> JobQueue:
        """Return the queue that a configuration names."""
        tenants = {name: tenant.jobs for name, tenant in config.tenants.items()}
        jobs = config.jobs
        if config.embedding.device == "cuda":
            jobs = jobs.model_copy(update={"texts_per_job": jobs.texts_per_gpu_job})
        return cls(JobsDatabase(config), jobs, tenants, clock)

    def enqueue(self, batches: Sequence[Batch]) -> list[str]:
        """Enqueue batches of one tenant and model; return the ids of the new ones. A batch of which any text is in a
        job that waits, runs or was put aside is left out: that job embeds it. So are batches beyond the bound of the
        queue."""
        if not batches:
            return []
        tenant, model = batches[0].tenant, batches[0].model
        query = select(JOBS.c.state, JOBS.c.text_keys).where(
            JOBS.c.tenant == tenant, JOBS.c.model == model, JOBS.c.state != "done"
        )
        with self.database.writing() as connection:
            oldest = self.clock() - self.settings.keep_days * _DAY_S
            connection.execute(delete(JOBS).where(JOBS.c.state.in_(["done", "dead"]), JOBS.c.finished_at < oldest))
            rows = connection.execute(query).all()
            taken = {key for _, keys in rows for key in keys}
            room = max(0, self.settings.max_waiting - sum(state == "waiting" for state, _ in rows))
            new = [batch for batch in batches if taken.isdisjoint(item.key for item in batch.items)][:room]
            now, keys = self.clock(), [[item.key for item in batch.items] for batch in new]
            # A microsecond apart: they are claimed in this order.
            moments = [now + place * 1e-6 for place in range(len(new))]
            sizes = [batch.tokens for batch in new]
            _insert(connection, [_new_row(tenant, model, *each) for each in zip(keys, sizes, moments, strict=True)])
        return [batch.id for batch in new]

    def claim(self, worker: str, model: str, tenant: str | None = None) -> JobClaim | None:
        """Return the next job, leased for `lease_s`; None if none is due for this model. `tenant`: only jobs of this
        one, ignoring its limits."""
        if not self._has_due(model):
            return None
        with self.database.writing() as connection:
            now = self.clock()
            self._expire(connection, now)
            if tenant is None:
                tenant = self._charge_next(connection, model, now)
            row = self._first_due(connection, model, tenant, now) if tenant is not None else None
            if row is None:
                return None
            values = {"state": "running", "worker": worker, "fence": row.fence + 1, "finished_at": None}
            values |= {"lease_until": now + self.settings.lease_s, "claimed_at": now}
            connection.execute(update(JOBS).where(JOBS.c.id == row.id).values(values))
        return JobClaim(row.id, row.tenant, model, tuple(row.text_keys), row.tokens, row.attempts, row.fence + 1)

    def renew(self, claim: JobClaim) -> bool:
        """Hold a job for another `lease_s`; return False if it was lost."""
        with self.database.writing() as connection:
            return self._change(connection, claim, lease_until=self.clock() + self.settings.lease_s)

    def finish(self, claim: JobClaim, usage: Sequence[PageUsage], failures: Sequence[Failure] = ()) -> bool:
        """Note a job as done but for the texts that failed, which become jobs of their own; return False if it was
        lost, and nothing noted. A text that failed is tried again after a while, and put aside after
        `Jobs.attempts`."""
        with self.database.writing() as connection:
            now = self.clock()
            failed = {key for failure in failures for key in failure.keys}
            left = [key for key in claim.keys if key not in failed]
            if left:
                is_held = self._change(connection, claim, state="done", text_keys=left, finished_at=now, reason=None)
            else:
                is_held = connection.execute(delete(JOBS).where(*_held(claim))).rowcount == 1
            if not is_held:
                return False
            _insert(connection, [self._failed_row(claim, failure, now) for failure in failures])
            add_usage(connection, claim.tenant, claim.model, usage, now)
        return True

    def note_usage(self, claim: JobClaim, usage: Sequence[PageUsage]) -> None:
        """Count the usage of a job lost to another worker: the model was paid all the same."""
        with self.database.writing() as connection:
            add_usage(connection, claim.tenant, claim.model, usage, self.clock())

    def give_back(self, claim: JobClaim, reason: str | None = None, pause_s: float = 0.0) -> bool:
        """Let a job wait for another worker, as one that was not tried; return False if it was lost."""
        with self.database.writing() as connection:
            not_before = self.clock() + pause_s
            told = {"reason": _reason(reason)} if reason else {}
            return self._change(connection, claim, state="waiting", worker=None, not_before=not_before, **told)

    def split(self, claim: JobClaim, parts: Sequence[Sequence[str]]) -> bool:
        """Replace a job whose workers ended too often by jobs for parts of its texts; return False if it was lost."""
        with self.database.writing() as connection:
            if connection.execute(delete(JOBS).where(*_held(claim))).rowcount != 1:
                return False
            now, attempts = self.clock(), min(claim.attempts, self.settings.attempts - 1)
            _insert(connection, [_part_row(claim, part, now, attempts, ENDED) for part in parts])
        return True

    def withdraw(self, tenant: str, ids: Sequence[str]) -> None:
        """Forget jobs with missing texts and no worker: a build enqueues the texts that it still needs."""
        chosen = JOBS.c.tenant == tenant, JOBS.c.id.in_(ids), JOBS.c.state.in_(["waiting", "dead"])
        with self.database.writing() as connection:
            connection.execute(delete(JOBS).where(*chosen, JOBS.c.reason.startswith(LACKS_TEXTS)))

    def done(self, tenant: str, model: str | None) -> dict[tuple[str, int], frozenset[str]]:
        """Return the keys of a tenant's jobs that are done, of a model or of all, by id and fence."""
        query = select(JOBS.c.id, JOBS.c.fence, JOBS.c.text_keys).where(JOBS.c.tenant == tenant, JOBS.c.state == "done")
        query = query.where(JOBS.c.model == model) if model is not None else query
        with self.database.reading() as connection:
            return {(row.id, row.fence): frozenset(row.text_keys) for row in connection.execute(query)}

    def retry(self, tenant: str | None, ids: Sequence[str] = ()) -> list[str]:
        """Let jobs that were put aside wait again: those of the ids, or all; return the ids."""
        chosen = [JOBS.c.state == "dead"]
        chosen += [JOBS.c.id.in_(ids)] if ids else []
        chosen += [JOBS.c.tenant == tenant] if tenant is not None else []
        with self.database.writing() as connection:
            found = list(connection.execute(select(JOBS.c.id).where(*chosen)).scalars())
            values = {"state": "waiting", "attempts": 0, "not_before": self.clock(), "finished_at": None}
            connection.execute(update(JOBS).where(JOBS.c.id.in_(found)).values(values))
        return found

    def state(self, tenant: str, model: str) -> QueueState:
        """Return a tenant's open and put-aside jobs, and when any tenant's job was last done."""
        columns = JOBS.c.id, JOBS.c.state, JOBS.c.text_keys, JOBS.c.reason, JOBS.c.attempts
        mine = select(*columns).where(JOBS.c.tenant == tenant, JOBS.c.model == model, JOBS.c.state != "done")
        last = select(func.max(JOBS.c.finished_at)).where(JOBS.c.state == "done", JOBS.c.model == model)
        with self.database.reading() as connection:
            rows = connection.execute(mine.order_by(JOBS.c.created_at)).all()
            finished_at = connection.execute(last).scalar_one()
        return QueueState(
            open={row.id: tuple(row.text_keys) for row in rows if row.state in OPEN},
            dead={row.id: Failure(tuple(row.text_keys), row.reason or "") for row in rows if row.state == "dead"},
            running=sum(row.state == "running" for row in rows),
            lacking={
                row.id: row.attempts
                for row in rows
                if row.state != "running" and (row.reason or "").startswith(LACKS_TEXTS)
            },
            last_reason=next((row.reason for row in rows if row.state in OPEN and row.reason), None),
            last_finished_at=finished_at,
        )

    def _has_due(self, model: str) -> bool:
        """Return whether a claim may succeed: idle workers block no writer."""
        now = self.clock()
        waits = and_(JOBS.c.state == "waiting", JOBS.c.model == model, JOBS.c.not_before <= now)
        is_lost = and_(JOBS.c.state == "running", JOBS.c.lease_until < now)
        with self.database.reading() as connection:
            return connection.execute(select(JOBS.c.id).where(or_(waits, is_lost)).limit(1)).first() is not None

    def _expire(self, connection: Connection, now: float) -> None:
        """Take jobs from workers that gave no sign of life. A single text that did so too often is put aside."""
        lost = select(JOBS).where(JOBS.c.state == "running", JOBS.c.lease_until < now)
        for row in connection.execute(lost).all():
            attempts = row.attempts + 1
            is_over = attempts >= self.settings.attempts and len(row.text_keys) == 1
            values = {"state": "dead" if is_over else "waiting", "attempts": attempts, "worker": None}
            values |= {"reason": ENDED, "finished_at": now if is_over else None}
            connection.execute(update(JOBS).where(JOBS.c.id == row.id).values(values))

    def _charge_next(self, connection: Connection, model: str, now: float) -> str | None:
        """Return the next tenant, charged with its first job."""
        due = JOBS.c.state == "waiting", JOBS.c.model == model, JOBS.c.not_before <= now
        tenants = select(JOBS.c.tenant, func.count()).where(*due).group_by(JOBS.c.tenant)
        waiting = {str(name): int(count) for name, count in connection.execute(tenants) if name in self._tenants}
        counts = select(JOBS.c.tenant, func.count()).where(JOBS.c.state == "running").group_by(JOBS.c.tenant)
        running = {str(name): int(count) for name, count in connection.execute(counts)}
        shares = {row.tenant: row for row in connection.execute(select(SHARES)).all()}
        clock = shares[_ALL].served if _ALL in shares else 0.0
        turns = []
        for name, count in waiting.items():
            served, free_at = (shares[name].served, shares[name].free_at) if name in shares else (0.0, 0.0)
            limits = self.settings.limits_of(self._tenants[name])
            turns.append(TenantTurn(name, served, free_at, count, running.get(name, 0), limits))
        turn = next_tenant(turns, clock, now)
        if turn is None:
            return None
        job = self._first_due(connection, model, turn.tenant, now)
        start, served, free_at = charged(turn, clock, job.tokens, now)
        connection.execute(delete(SHARES).where(SHARES.c.tenant.in_([_ALL, turn.tenant])))
        rows = [(_ALL, start, 0.0), (turn.tenant, served, free_at)]
        connection.execute(insert(SHARES), [dict(zip(SHARES.c.keys(), row, strict=True)) for row in rows])
        return turn.tenant

    def _first_due(self, connection: Connection, model: str, tenant: str, now: float) -> Any:
        due = JOBS.c.state == "waiting", JOBS.c.tenant == tenant, JOBS.c.model == model, JOBS.c.not_before <= now
        return connection.execute(select(JOBS).where(*due).order_by(JOBS.c.created_at, JOBS.c.id).limit(1)).first()

    def _change(self, connection: Connection, claim: JobClaim, **values: Any) -> bool:
        """Change a claimed job; return False if the claim was lost."""
        return connection.execute(update(JOBS).where(*_held(claim)).values(values)).rowcount == 1

    def _failed_row(self, claim: JobClaim, failure: Failure, now: float) -> dict[str, Any]:
        """Return the row of texts that failed once more."""
        attempts = claim.attempts + 1
        row = _part_row(claim, failure.keys, now, attempts, _reason(failure.reason))
        row["not_before"] = now + backoff(attempts, self.settings.backoff_s)
        if attempts >= self.settings.attempts:
            row |= {"state": "dead", "finished_at": now}
        return row


def _held(claim: JobClaim) -> tuple[Any, ...]:
    """Return the conditions of a job that is still its claimant's."""
    return JOBS.c.id == claim.id, JOBS.c.fence == claim.fence, JOBS.c.state == "running"


def _new_row(tenant: str, model: str, keys: list[str], tokens: int, now: float) -> dict[str, Any]:
    fence = int(now * 1000)  # higher than those of a job of the same texts that was done before
    own = {"id": job_id(tenant, model, keys), "tenant": tenant, "model": model, "text_keys": keys, "tokens": tokens}
    times = {"created_at": now, "not_before": 0.0, "finished_at": None}
    return {**own, **times, "state": "waiting", "attempts": 0, "fence": fence, "reason": None}


def _part_row(claim: JobClaim, keys: Sequence[str], now: float, attempts: int, reason: str) -> dict[str, Any]:
    tokens = max(1, claim.tokens * len(keys) // max(1, len(claim.keys)))
    row = _new_row(claim.tenant, claim.model, list(keys), tokens, now)
    return {**row, "attempts": attempts, "reason": reason}


def _insert(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert jobs; one that was done before and has to be done again takes its own place."""
    if rows:
        connection.execute(delete(JOBS).where(JOBS.c.id.in_([row["id"] for row in rows])))
        connection.execute(insert(JOBS), list(rows))


def _reason(text: str) -> str:
    return one_line(redacted(text))[:_REASON_CHARS]
