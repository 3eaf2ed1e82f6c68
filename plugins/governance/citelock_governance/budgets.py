"""The budget of one tenant: what may still be done, and what was used. A question, or a document, is counted before it
is worked on, in the transaction that looks at the limits: of several processes no two get the last one. Tokens and
money are known afterwards: what is under way when a limit is reached is finished. A process that is killed loses what
its questions under way had used."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from rag_serving.artifacts.store import Store
from rag_serving.hooks import BudgetError
from rag_serving.telemetry.recorder import TelemetryError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from rag_serving.config.loading import Config
    from rag_serving.config.sections import Budgets, Limit
    from rag_serving.telemetry.tables import GuardedDatabase
    from rag_serving.telemetry.usage import Measure, Part

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
_LIMITS: Mapping[Measure, str] = {
    "questions": "questions_per_minute",
    "tokens": "tokens_per_day",
    "cost": "cost_per_day",
    "documents": "documents_per_day",
}


def opened(config: Config, tenants: Iterable[str]) -> dict[str, CountedBudget]:
    """Return the budgets of tenants. Nothing is connected before the first count."""
    from rag_serving.telemetry.tables import GuardedDatabase
    from rag_serving.telemetry.usage import METADATA  # here: SQLAlchemy takes as long to import as a question takes

    database = GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), METADATA)
    return {tenant: CountedBudget(config, tenant, database) for tenant in tenants}


@dataclass(frozen=True)
class ReachedLimit:
    """A soft limit that is reached."""

    measure: Measure
    amount: float
    limit: float

    @property
    def line(self) -> str:
        """Return it in words."""
        return f"{self.amount:,.6g} used of a budget that warns from {told(self.measure, self.limit)}"


class CountedBudget:
    """Counts what one tenant uses, in the database; a `rag_serving.hooks.TenantBudget`."""

    def __init__(
        self, config: Config, tenant: str, database: GuardedDatabase, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock`: seconds since 1970."""
        budgets = config.budgets_of(tenant)
        self.tenant, self.limits = tenant, limits_of(budgets)
        self._keep_days = config.telemetry.retention_days
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._unwritten: Counter[tuple[Measure, str, Part]] = Counter()  # counted while the database was away
        self._known: dict[tuple[Measure, str], float] = {}  # what the database said last, and what came since
        self._told: set[tuple[Measure, str]] = set()  # warnings that the log has

    def take(self, measure: Measure, part: Part) -> list[ReachedLimit]:
        return self._checked({measure, *self._spent}, measure, part)

    def check(self) -> list[ReachedLimit]:
        return self._checked(set(self._spent), None, "questions")

    def spend(self, part: Part, tokens: int, cost: float) -> None:
        now = self._clock()
        amounts: dict[Measure, float] = {"tokens": float(tokens), "cost": cost}
        keys = {(measure, span_of(measure, now).name, part): amount for measure, amount in amounts.items() if amount}
        if not keys:
            return
        with self._lock:
            self._unwritten.update(keys)
            for (measure, span, _), amount in keys.items():
                self._known[measure, span] = self._known.get((measure, span), 0.0) + amount
        try:
            self._asked(lambda _: None)
        except TelemetryError as error:
            self._away(error)

    def give_back(self, measure: Measure, part: Part) -> None:
        key = measure, span_of(measure, self._clock()).name
        if measure in self.limits:
            with self._lock:
                self._unwritten[(*key, part)] -= 1
                self._known[key] = self._known.get(key, 1.0) - 1

    def close(self) -> None:
        """Write queued items, and release the database."""
        if self._unwritten:
            try:
                self._asked(lambda _: None)
            except TelemetryError as error:
                _log.warning("tenant %s: what was used since the database is away is lost: %s", self.tenant, error)
        self._database.close()

    def exposition(self) -> bytes:
        # Read on demand: processes of one server would add up the same figures.
        from prometheus_client import CollectorRegistry, generate_latest

        from rag_serving.telemetry.metrics import gauge_of

        if not (used := self.used()):
            return b""
        registry = CollectorRegistry()
        amounts, limits = gauge_of("budget_used", registry), gauge_of("budget_limit", registry)
        for measure, amount in used.items():
            amounts.labels(self.tenant, measure).set(amount)
            for name in ("soft", "hard"):
                if (limit := getattr(self.limits[measure], name)) is not None:
                    limits.labels(self.tenant, measure, name).set(limit)
        return generate_latest(registry)

    def used(self) -> dict[Measure, float]:
        """Return the usage of each limited measure in the present minute or day; empty if unknown."""
        now = self._clock()
        spans = {measure: span_of(measure, now).name for measure in self.limits}
        try:
            return self._asked(lambda connection: self._read(connection, spans)) if spans else {}
        except TelemetryError:
            return {}

    @property
    def _spent(self) -> list[Measure]:
        """The limited measures that are known only afterwards."""
        return [measure for measure in ("tokens", "cost") if measure in self.limits]

    def _checked(self, measures: set[Measure], counted: Measure | None, part: Part) -> list[ReachedLimit]:
        limited = {measure: self.limits[measure] for measure in self.limits if measure in measures}
        if not limited:
            return []
        now = self._clock()
        spans = {measure: span_of(measure, now) for measure in limited}
        try:
            amounts = self._asked(lambda connection: self._take(connection, spans, counted, part, now))
        except TelemetryError as error:
            self._away(error)
            amounts = self._take_by_memory(spans, counted, part)
        if spent := self._spent_of(amounts, counted):
            raise self._spent_error(spent, spans[spent], now)
        return self._warnings(limited, spans, amounts)

    def _take(
        self, connection: Connection, spans: Mapping[Measure, Span], counted: Measure | None, part: Part, now: float
    ) -> dict[Measure, float]:
        """Return the usage of each measure, including the one counted now; if a limit is reached, nothing is
        counted."""
        from rag_serving.telemetry.usage import add, prune

        amounts = self._read(connection, {measure: span.name for measure, span in spans.items()})
        if counted is not None and counted in spans and not self._spent_of(amounts, None):
            amounts[counted] = add(connection, self.tenant, counted, spans[counted].name, part, 1.0)
            if self._spent_of(amounts, counted):  # another process got the last one
                add(connection, self.tenant, counted, spans[counted].name, part, -1.0)
            elif amounts[counted] == 1:
                prune(connection, now, self._keep_days)
        elif counted is not None and counted in spans:
            amounts[counted] += 1
        with self._lock:
            now_known = {(measure, span.name): amounts[measure] for measure, span in spans.items()}
            self._known = {key: amount for key, amount in self._known.items() if key[0] not in spans} | now_known
        return amounts

    def _take_by_memory(
        self, spans: Mapping[Measure, Span], counted: Measure | None, part: Part
    ) -> dict[Measure, float]:
        with self._lock:
            amounts = {measure: self._known.get((measure, span.name), 0.0) for measure, span in spans.items()}
            is_open = not self._spent_of(amounts, None)
            if counted is not None and counted in spans:
                amounts[counted] += 1
                if is_open:
                    key = counted, spans[counted].name
                    self._known[key] = amounts[counted]
                    self._unwritten[(*key, part)] += 1
        return amounts

    def _spent_of(self, amounts: Mapping[Measure, float], counted: Measure | None) -> Measure | None:
        """Return a measure whose hard limit is reached; the counted one's amount includes this count."""
        for measure, amount in amounts.items():
            hard = self.limits[measure].hard
            if hard is not None and (amount > hard if measure == counted else amount >= hard):
                return measure
        return None

    def _spent_error(self, measure: Measure, span: Span, now: float) -> BudgetError:
        retry_after_s = max(1, math.ceil(span.ends_at - now))
        at = datetime.fromtimestamp(span.ends_at, UTC).strftime("%H:%M UTC")
        spent = told(measure, self.limits[measure].hard or 0.0)
        message = f"the budget of {spent} is spent; it begins anew at {at} (budgets in the configuration)"
        return BudgetError(message, retry_after_s)

    def _warnings(
        self, limited: Mapping[Measure, Limit], spans: Mapping[Measure, Span], amounts: Mapping[Measure, float]
    ) -> list[ReachedLimit]:
        reached = [
            ReachedLimit(measure, amounts[measure], limit.soft)
            for measure, limit in limited.items()
            if limit.soft is not None and amounts[measure] >= limit.soft
        ]
        for warning in reached:
            key = warning.measure, spans[warning.measure].name
            if key not in self._told:
                self._told = {known for known in self._told if known[1] >= min(s.name for s in spans.values())} | {key}
                _log.warning("tenant %s: %s", self.tenant, warning.line)
        return reached

    def _read(self, connection: Connection, spans: Mapping[Measure, str]) -> dict[Measure, float]:
        from rag_serving.telemetry.usage import used

        return used(connection, self.tenant, spans)

    def _asked(self, work: Callable[[Connection], Result]) -> Result:
        """Return the result of some work in one transaction, which first writes queued items; they stay queued if the
        transaction fails."""
        from rag_serving.telemetry.usage import add

        with self._lock:
            waiting, self._unwritten = self._unwritten, Counter()

        def both(connection: Connection) -> Result:
            for (measure, span, part), amount in waiting.items():
                add(connection, self.tenant, measure, span, part, amount)
            return work(connection)

        try:
            return self._database.ask(both)
        except TelemetryError:
            with self._lock:
                self._unwritten.update(waiting)
            raise

    def _away(self, error: TelemetryError) -> None:
        _log.warning("tenant %s: budgets go by this process alone: %s", self.tenant, error)


@dataclass(frozen=True)
class Span:
    """A minute or a day (UTC): `2026-01-31T09:59` or `2026-01-31`."""

    name: str
    ends_at: float  # seconds since 1970


def span_of(measure: Measure, now: float) -> Span:
    """Return the time in which a measure is counted; `now`: seconds since 1970."""
    at = datetime.fromtimestamp(now, UTC)
    if measure == "questions":
        begin = at.replace(second=0, microsecond=0)
        return Span(begin.strftime("%Y-%m-%dT%H:%M"), (begin + timedelta(minutes=1)).timestamp())
    begin = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return Span(begin.date().isoformat(), (begin + timedelta(days=1)).timestamp())


def limits_of(budgets: Budgets) -> dict[Measure, Limit]:
    """Return the limits that are set."""
    limits: dict[Measure, Limit | None] = {measure: getattr(budgets, name) for measure, name in _LIMITS.items()}
    return {measure: limit for measure, limit in limits.items() if limit}


def told(measure: Measure, amount: float) -> str:
    """Return an amount of a measure in words."""
    per = "a minute" if measure == "questions" else "a day"
    number = f"{amount:,.2f}" if measure == "cost" else f"{amount:,.0f}"
    return f"{'a cost of ' if measure == 'cost' else ''}{number}{'' if measure == 'cost' else f' {measure}'} {per}"
