"""The audit log, the keys of machines and the budgets as the rest of the program sees them: a plug-in brings them."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rag_serving.plugins import HOOKS, loaded, one

if TYPE_CHECKING:
    from rag_serving.access.principals import Principal
    from rag_serving.config.loading import Config
    from rag_serving.documents.inbox import Upload
    from rag_serving.records.answers import Answer, SearchResults
    from rag_serving.telemetry.usage import Measure, Part

GOVERNANCE = "governance"
AUDIT_DOWN = "What is asked cannot be logged at the moment, and is not answered without that. Try again in a minute."
MAX_SUBJECT_CHARS = 200
_WAIT_S = 3.0
_COMMAND_S = 1.0  # that a command waits for a database that failed

Kind = Literal[
    "question", "search", "selected_text", "document.uploaded", "document.deleted", "key.created", "key.revoked",
    "generation.rolled_back", "index.claims_signed", "gates.overridden", "user.forgotten", "phase.changed",
    "source.connected",
    "audit.lost", "audit.cut", "audit.read", "audit.restarted",
]  # fmt: skip


class AuditUnavailableError(Exception):
    """The act cannot be logged, and is refused for that (`audit.mode: required`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the audit log cannot be written, and nothing is answered without it ({reason})")


@dataclass(frozen=True)
class Event:
    """Something that was done, by whom and to what."""

    kind: Kind
    user: str | None = None  # account id or name of who acted; None if there is none
    subject: str | None = None  # id of what was acted on
    query: str | None = None  # the words of a question; kept only if `audit.store_queries` says so
    retrieved: Sequence[str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Columns of a question's row: status, model, tokens_in, tokens_out, cost, latency_ms, generation."""
    details: Mapping[str, Any] = field(default_factory=dict)  # anything else, as JSON; no personal data belongs there
    at: datetime = field(default_factory=partial(datetime.now, UTC))


@dataclass(frozen=True)
class AuditCounts:
    """Events so far."""

    written: int
    lost: int
    waiting: int


class AuditLog(Protocol):
    """The audit log of one tenant. Safe to use from several threads."""

    def record(self, event: Event) -> None:
        """Log an event before the act that it is of: in mode `required` it is on disk when this returns. Raises
        AuditUnavailableError: it is required, and was not written."""

    def note(self, event: Event) -> None:
        """Log an event soon, in any mode: nobody waits for it, and it may be lost."""

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, locked: Sequence[str], is_selected: bool
    ) -> None:
        """Log a question that was answered, or not; errors as `record`. `locked`: ids of the chunks that it was
        answered from; `is_selected`: it was of a text that the caller gave."""

    def searched(self, principal: Principal, query: str, results: SearchResults) -> None:
        """Log a search; errors as `record`."""

    def counts(self) -> AuditCounts: ...

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything handed over is written or lost; return whether that came to be."""

    def close(self, timeout_s: float = 5.0) -> None:
        """Write queued items, for `timeout_s` at most."""


def open_audit(config: Config, tenant: str) -> AuditLog | None:
    """Return the audit log of a tenant, or None if it is switched off. Nothing is opened before the first event. Raises
    ConfigError: the plug-in is not installed."""
    if config.audit.mode == "off":
        return None
    log: AuditLog = one(HOOKS, "audit", GOVERNANCE)(config, tenant)
    return log


def record(config: Config, tenant: str, event: Event) -> None:
    """Log one event of a command; it is on disk on return, if possible. Do nothing if the log is off. Call it before
    the act: in mode `required` an act that cannot be logged must not happen. An `event` without a user is attributed to
    the account that runs the command. Raises AuditUnavailableError: the log is required, and could not be written."""
    log = open_audit(config, tenant)
    if log is None:
        return
    try:
        log.record(event if event.user else replace(event, user=_local_account()))
        log.flush(_WAIT_S)
    finally:
        log.close(_COMMAND_S)


def of_upload(user: str | None, source: str, upload: Upload) -> Event:
    """Return the event of a document that is put into the inbox of a source; its bytes are named by their digest."""
    facts = {"source": source, "sha256": upload.spool.sha256, "bytes": upload.spool.size}
    return Event("document.uploaded", user, upload.document_id, details=facts)


def _local_account() -> str | None:
    try:
        return f"os:{getpass.getuser()}"
    except (KeyError, OSError):
        return None


class KeysAwayError(Exception):
    """Keys cannot be looked up; the message says why."""


@dataclass(frozen=True)
class MachineKey:
    """A key of a machine that is in force."""

    id: str
    principal: Principal
    expires: int
    """Seconds since 1970."""
    resource: str | None
    """The only address that it opens; None: all."""


class MachineKeys(Protocol):
    """The keys of an installation, looked up by the event loop."""

    def is_key(self, token: str) -> bool:
        """Return whether a token is written as a key."""

    async def of_token(self, token: str) -> MachineKey | None:
        """Return the valid key that a token is. Raises KeysAwayError: the database of keys is unavailable."""

    async def of_id(self, identifier: str) -> MachineKey | None:
        """Return a key that is in force by its id; errors as `of_token`."""

    def close(self) -> None: ...


def open_keys(config: Config) -> MachineKeys | None:
    """Return the keys of an installation; None if the plug-in is not installed: then none opens anything."""
    if "keys" not in loaded(HOOKS):
        return None
    keys: MachineKeys = one(HOOKS, "keys", GOVERNANCE)(config)
    return keys


class BudgetError(Exception):
    """A hard limit is reached; the message says which, and when it begins anew."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TenantBudget(Protocol):
    """One tenant's limits and usage. Safe to use from several threads; processes share it."""

    def take(self, measure: Measure, part: Part) -> Sequence[object]:
        """Count one question, or one document, that is about to be worked on; return the soft limits that are reached.
        Raises BudgetError: a hard limit is reached; nothing is counted."""

    def check(self) -> Sequence[object]:
        """Return the soft limits reached by tokens and money; call it before a further request to a model. Raises
        BudgetError: as `take`."""

    def spend(self, part: Part, tokens: int, cost: float) -> None:
        """Count the usage of models. Never fails: unwritten counts are added to the next one."""

    def give_back(self, measure: Measure, part: Part) -> None:
        """Take back a count of something that was not done after all; written with the next count."""

    def exposition(self) -> bytes:
        """Return the usage of each limit in Prometheus' text format; nothing if the database is away."""

    def close(self) -> None: ...


def open_budgets(config: Config, tenants: Iterable[str], always: bool = False) -> Mapping[str, TenantBudget]:
    """Return the budgets of the limited tenants; with `always` of all, so that their usage is counted, if the plug-in
    is installed. Nothing is connected before the first count. Raises ConfigError: something is limited, and the plug-in
    is not installed."""
    counts = always and "budgets" in loaded(HOOKS)
    wanted = [tenant for tenant in tenants if counts or config.budgets_of(tenant).is_limited]
    if not wanted:
        return {}
    budgets: Mapping[str, TenantBudget] = one(HOOKS, "budgets", GOVERNANCE)(config, wanted)
    return budgets


@contextmanager
def counted(budget: TenantBudget | None, measure: Measure, part: Part) -> Iterator[None]:
    """Count something while it is done; where that fails it is not counted. None: nothing is limited. Raises
    BudgetError: as `TenantBudget.take`."""
    if budget:
        budget.take(measure, part)
    try:
        yield
    except BaseException:
        if budget:
            budget.give_back(measure, part)
        raise
