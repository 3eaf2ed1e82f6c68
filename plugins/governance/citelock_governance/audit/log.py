"""The audit log of one tenant as the rest of the program sees it: events go in, by the configured mode. Whatever waits
while a transaction is committed goes with the next one: a commit serves many callers. In mode `required` a caller waits
until its event is on disk; in mode `best_effort` nobody waits, events stay in memory while the database is away, and
those that must be dropped are counted in the log itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from rag_serving.hooks import AuditCounts, AuditUnavailableError, Event, Kind
from rag_serving.models.breaker import Breaker
from rag_serving.telemetry.recorder import WritingThread

if TYPE_CHECKING:
    from citelock_governance.audit.ledger import Ledger
    from rag_serving.access.principals import Principal
    from rag_serving.config.loading import Config
    from rag_serving.records.answers import Answer, SearchResults

MAX_RETRIEVED = 100
WAIT_S = 3.0
BATCH = 500
CAPACITY = 20_000
_KEEP_S = 0.1
_OPEN_S = 7.0  # that the first event waits longer: what reaches the database is imported, tables are made
_FAILURES, _RETRY_S = 2, 5.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Entry:
    event: Event
    done: Future[None] | None  # None: nobody waits, and it is tried again


class AuditWriter(WritingThread[_Entry]):
    """Writes events from one thread; a `rag_serving.hooks.AuditLog`. Safe to use from several."""

    def __init__(
        self,
        open_ledger: Callable[[], Ledger],
        is_required: bool,
        is_there: Callable[[], bool] = lambda: True,
        wait_s: float = WAIT_S,
    ) -> None:
        """`open_ledger` is called with the first event, in the writing thread; `is_there`: whether there is a place for
        events that are not required."""
        super().__init__("audit")
        self._open, self.is_required, self._wait_s = open_ledger, is_required, wait_s
        self._is_there = is_there
        self._breaker = Breaker(_FAILURES, _RETRY_S)
        self._ledger: Ledger | None = None
        self._cut_on: date | None = None
        self._kept_at = float("-inf")
        self._written = self._lost = self._losses_logged = 0

    def record(self, event: Event) -> None:
        if not self.is_required:
            self.note(event)
            return
        if not self._breaker.allow():
            raise AuditUnavailableError("it failed a moment ago")
        done: Future[None] = Future()
        try:
            self._put(_Entry(event, done))
            done.result(self._wait_s if self._ledger else self._wait_s + _OPEN_S)
        except TimeoutError:
            done.cancel()
            self._breaker.fail()
            raise AuditUnavailableError("the database does not answer") from None
        except CancelledError:
            self._breaker.fail()
            raise AuditUnavailableError("too much waits for it, or this process is about to end") from None
        except Exception as error:
            self._breaker.fail()
            raise AuditUnavailableError(" ".join(str(error).split())) from error
        self._breaker.succeed()

    def note(self, event: Event) -> None:
        if self._is_there():
            self._put(_Entry(event, None))

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, locked: Sequence[str], is_selected: bool
    ) -> None:
        usage = answer.usage
        facts = {
            "status": answer.status,
            "model": answer.generator,
            "tokens_in": usage.prompt_tokens if usage else 0,
            "tokens_out": usage.completion_tokens if usage else 0,
            "cost": float(usage.cost) if usage else 0.0,
            "latency_ms": float(answer.timings_ms.get("total", 0.0)),
            "generation": answer.generation or None,
        }
        details = {"receipt_id": answer.receipt_id, "flags": list(answer.flags)}
        user = principal.user if principal else None
        kind: Kind = "selected_text" if is_selected else "question"
        self.record(Event(kind, user, None, question, list(locked)[:MAX_RETRIEVED], facts, details))

    def searched(self, principal: Principal, query: str, results: SearchResults) -> None:
        facts = {
            "status": "found" if results.results else "not_found",
            "latency_ms": float(results.timings_ms.get("total", 0.0)),
            "generation": results.generation,
        }
        chunks = [candidate.chunk.chunk_id for candidate in results.results[:MAX_RETRIEVED]]
        details = {"flags": list(results.degraded)}
        self.record(Event("search", principal.user, None, query, chunks, facts, details))

    def counts(self) -> AuditCounts:
        with self._news:
            return AuditCounts(self._written, self._lost, len(self._items) + self._writing)

    def _close_writer(self) -> None:
        if self._ledger is not None:
            self._ledger.close()

    def _put(self, entry: _Entry) -> None:
        with self._news:
            if not self._take_in(entry, CAPACITY):
                self._lost += 1
                if entry.done:
                    entry.done.cancel()

    def _run(self) -> None:
        wait_s = _FIRST_WAIT_S
        while batch := self._next():
            try:
                self._write(batch)
                wait_s = _FIRST_WAIT_S
            except Exception as error:  # of a driver: the waiting caller gets it, the others' events are tried again
                _log.warning("audit: %s", " ".join(str(error).split()))
                self._give_back(batch, error)
                self._pause(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _next(self) -> list[_Entry]:
        """Return the entries to write now, those that nobody gave up; none once closed and empty."""
        with self._news:
            self._writing = 0
            self._news.notify_all()
            while True:
                self._news.wait_for(lambda: self._items or self._deadline is not None)
                taken = [self._items.popleft() for _ in range(min(BATCH, len(self._items)))]
                batch = [one for one in taken if one.done is None or one.done.set_running_or_notify_cancel()]
                self._writing = len(batch)
                if batch or (not self._items and self._deadline is not None):
                    return batch

    def _write(self, batch: list[_Entry]) -> None:
        events = [entry.event for entry in batch]
        with self._news:
            lost = self._lost
        if lost > self._losses_logged:
            events.append(Event("audit.lost", details={"events": lost - self._losses_logged}))
        self._ledger = self._ledger or self._open()
        self._ledger.append(events, keeps_head=False)
        self._losses_logged = lost
        with self._news:
            self._written += len(batch)
        for entry in batch:
            if entry.done:
                entry.done.set_result(None)
        try:
            self._cut(self._ledger)
            # Keep the newest head in the home folder: at once if nothing waits, else ten times a second
            now = time.monotonic()
            with self._news:
                is_busy = bool(self._items)
            if not is_busy or now - self._kept_at > _KEEP_S:
                self._kept_at = now
                self._ledger.keep_head()
        except Exception as error:  # the rows are written: nobody gets an error, and they are not written again
            _log.error("audit: after writing: %s: %s", type(error).__name__, error)

    def _cut(self, ledger: Ledger) -> None:
        """Once a day, delete the rows that are too old; failures are retried the next day."""
        today = datetime.now(UTC).date()
        if self._cut_on == today:
            return
        self._cut_on = today
        from citelock_governance.audit.ledger import cut_old

        cut_old(ledger, ledger.settings.retention_days)

    def _give_back(self, batch: list[_Entry], error: Exception) -> None:
        """Report the failure to waiting callers, and keep the other entries for the next try."""
        kept = [entry for entry in batch if entry.done is None]
        with self._news:
            is_over = self._deadline is not None and time.monotonic() > self._deadline
            if is_over:
                self._lost += len(kept) + sum(entry.done is None for entry in self._items)
                kept = []
                self._items.clear()
            self._items.extendleft(reversed(kept))
        for entry in batch:
            if entry.done:
                entry.done.set_exception(error)

    def _pause(self, wait_s: float) -> None:
        """Wait before the next try, unless somebody waits for one or the time is over."""
        with self._news:
            deadline = self._deadline
            self._news.wait_for(
                lambda: self._deadline is not deadline or any(entry.done for entry in self._items), wait_s
            )


def opened(config: Config, tenant: str, wait_s: float = WAIT_S) -> AuditWriter:
    """Return the audit log of a tenant. Nothing is opened before the first event, which waits `wait_s` for it."""

    def ledger() -> Ledger:
        from citelock_governance.audit.ledger import Ledger

        return Ledger(config.home, config.telemetry.url, tenant, config.audit, config.privacy.redactor().redacted)

    def is_there() -> bool:  # asking must not make a home
        return config.telemetry.url is not None or config.home.is_dir()

    return AuditWriter(ledger, config.audit.mode == "required", is_there, wait_s)
