"""The telemetry of one tenant's questions: hands over what happened, and never fails or waits.

Belongs here: what is configured, whether anything is recorded at all. Does not belong here: rows (`events`), their way
to the database (`recorder`), figures (`metrics`, `rag_assets.reports.kpis`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.telemetry import Telemetry as Settings
from rag_serving.records.answers import Answer, SearchResults
from rag_serving.telemetry.events import FeedbackVerdict, Kind, Origin, RowBuilder, Trace
from rag_serving.telemetry.recorder import Counts, Recorder, TableName, Writer

KEY_PURPOSE = "telemetry"
PATIENCE_S = 5.0
Count = Callable[[TableName, Mapping[str, Any]], None]

_log = logging.getLogger(__name__)


class Telemetry:
    """What one tenant's questions leave behind. Safe to use from several threads."""

    def __init__(
        self,
        config: Config,
        tenant: str,
        patience_s: float = PATIENCE_S,
        origin: Origin = "server",
        count: Count | None = None,
    ) -> None:
        """`patience_s`: how long closing waits for the database; `count` gets every row."""
        self._patience_s, self._count = patience_s, count
        self._settings, self._home, self._tenant, self._origin = config.telemetry, config.home, tenant, origin
        self._redactor = config.privacy.redactor()
        serving_db = Store(config.home).serving_db()
        self._recorder = Recorder(
            lambda: _open_writer(config.telemetry, serving_db),
            loss_of=lambda rows: ("losses", self._row_builder.of_loss(rows)),
        )
        self._off = False

    def answered(
        self, principal: Principal | None, question: str, answer: Answer, trace: Trace, kind: Kind = "ask"
    ) -> None:
        self._record("questions", lambda: self._row_builder.of_answer(principal, question, answer, trace, kind))

    def searched(self, principal: Principal, query: str, found: SearchResults, trace: Trace) -> None:
        self._record("questions", lambda: self._row_builder.of_search(principal, query, found, trace))

    def judged(
        self, principal: Principal, receipt_id: str, verdict: FeedbackVerdict, citation: int | None, comment: str | None
    ) -> None:
        self._record(
            "feedback", lambda: self._row_builder.of_feedback(principal, receipt_id, verdict, citation, comment)
        )

    def counts(self) -> Counts:
        return self._recorder.counts()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is written, for so many seconds at most; whether it is."""
        return self._recorder.flush(seconds)

    def close(self) -> None:
        """Write what waits."""
        self._recorder.close(self._patience_s)

    @cached_property
    def _row_builder(self) -> RowBuilder:
        key = derived_key(self._home, KEY_PURPOSE)
        stores, redact = self._settings.store_questions, self._redactor.redacted
        return RowBuilder(self._tenant, key, stores, self._origin, redact)

    def _record(self, table: TableName, row_of: Callable[[], Mapping[str, Any]]) -> None:
        """Hand over a row. Nothing is recorded of a home that does not exist yet: asking must not make one."""
        if self._off or not self._home.is_dir():
            return
        try:
            row = row_of()
            if self._count:
                self._count(table, row)
        except Exception as error:  # no question fails for what is noted of it
            self._off = True
            _log.warning("no telemetry: %s", error)
            return
        self._recorder.record(table, row)


def open_telemetry(
    config: Config,
    tenant: str,
    patience_s: float = PATIENCE_S,
    origin: Origin = "server",
    count: Count | None = None,
) -> Telemetry | None:
    """Return the telemetry of a tenant, or None where it is switched off. Nothing is opened before the first
    question."""
    return Telemetry(config, tenant, patience_s, origin, count) if config.telemetry.enabled else None


def _open_writer(settings: Settings, serving_db: Path) -> Writer:
    def database_writer() -> Writer:
        from rag_serving.telemetry.tables import open_engine
        from rag_serving.telemetry.writer import DatabaseWriter

        return DatabaseWriter(lambda: open_engine(settings.url, serving_db), settings.retention_days)

    if settings.url is not None:
        return database_writer()
    from rag_serving.telemetry.sqlite_writer import SqliteWriter

    return SqliteWriter(serving_db, settings.retention_days, database_writer)
