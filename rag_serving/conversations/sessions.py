"""Sessions that are stored: questions and answers of conversations, each for its own user alone. A session of somebody
else, of another tenant, one that is too old and one that never was are the same: there is none. What answers say and
which pages they rest on is shown only to who may still read these (`pipeline`)."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import ColumnElement

from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SealError, SecretError, derived_key, seal, unseal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.conversations.turns import MOST_TURNS, Conversation, ConversationTurn
from rag_serving.query.filters import parse_filters
from rag_serving.receipts.receipt import ReceiptError, Secrecy
from rag_serving.records.answers import Answer
from rag_serving.records.queries import Filters
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import GuardedDatabase

SESSION_UNKNOWN, SESSION_UNAVAILABLE = "session_unknown", "session_unavailable"
MOST_LISTED = 200
MOST_SHOWN = 200
"""Sessions of a list and turns of a session that are shown, the newest."""
_SEALING_PURPOSE = "session texts"

Result = TypeVar("Result")
Clock = Callable[[], datetime]

_log = logging.getLogger(__name__)

METADATA = sa.MetaData()

SESSIONS = sa.Table(
    "sessions",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("tenant", sa.Text, nullable=False),
    sa.Column("user_id", sa.String(32), nullable=False, index=True),  # keyed digest
    sa.Column("created_at", sa.String(32), nullable=False),  # ISO 8601, UTC
    sa.Column("last_active", sa.String(32), nullable=False, index=True),
)

QUERIES = sa.Table(
    "queries",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("session_id", sa.String(36), nullable=False, index=True),
    sa.Column("query_text", sa.Text, nullable=False),  # encrypted, unless `telemetry.store_questions` is set
    sa.Column("is_sealed", sa.Boolean, nullable=False),  # whether texts of this row and of its response are encrypted
    sa.Column("mode", sa.String(20), nullable=False),  # corpus, book-wide, selected_text
    sa.Column("context_text", sa.Text),  # the selected text, encrypted as the question is
    sa.Column("filters", sa.JSON(none_as_null=True)),
    sa.Column("timestamp", sa.String(32), nullable=False),
)

RESPONSES = sa.Table(
    "responses",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("query_id", sa.String(36), nullable=False, index=True),
    sa.Column("answer_text", sa.Text, nullable=False),
    sa.Column("sources", sa.JSON, nullable=False),  # [{index, chunk_id, page_id}] of its citations
    sa.Column("status", sa.String(24), nullable=False),
    sa.Column("has_options", sa.Boolean, nullable=False),
    sa.Column("confidence", sa.Float),
    sa.Column("refused", sa.Boolean, nullable=False),
    sa.Column("receipt_id", sa.String(64)),
    sa.Column("latency_ms", sa.Integer, nullable=False),
    sa.Column("timestamp", sa.String(32), nullable=False),
)


@dataclass(frozen=True)
class Exchange:
    """A question and its answer as they are kept."""

    question: str
    answer: Answer
    filters: Filters | None = None
    context: str | None = None  # the selected text of the question, if any
    mode: str = "corpus"  # as the API names it


@dataclass(frozen=True)
class SessionLine:
    """A session in a list."""

    session_id: str
    created_at: str
    last_active: str
    questions: int
    title: str  # its first question

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return dict(vars(self))


@dataclass(frozen=True)
class StoredTurn:
    """A question with its answer as stored; access to the answer must be checked."""

    question: str
    context: str | None
    answer: str
    facts: Mapping[str, Any]  # the columns that are no text
    sources: Sequence[Mapping[str, Any]]

    @property
    def chunks(self) -> list[tuple[str, str]]:
        """Return page id and chunk id of everything that the answer cites."""
        return [(str(source["page_id"]), str(source["chunk_id"])) for source in self.sources]

    def may_be_told(self, may_read: bool) -> bool:
        """Return whether the answer may be shown to a reader with, or without, access to its citations. An answer from
        the asker's selected text is the asker's own; a clarifying question names pages that it does not cite."""
        if self.context is not None:
            return True
        return may_read and self.facts["status"] != "clarify"

    def payload(self, is_readable: bool) -> dict[str, Any]:
        """Return the JSON shape; of an answer that its reader may not read any more only that there was one."""
        told: dict[str, Any] = {"answer": self.answer, "sources": [dict(source) for source in self.sources]}
        shown = told if is_readable else {"answer": None, "sources": []}
        return {
            "question": self.question,
            "context_text": self.context,
            **self.facts,
            **shown,
            "withheld": not is_readable,
        }


class SessionError(Exception):
    """Sessions cannot be read or written; the message says why."""


class SessionStore:
    """The sessions of one tenant. Safe to use from several threads and processes."""

    def __init__(self, config: Config, tenant: str, clock: Clock, database: GuardedDatabase | None = None) -> None:
        self._settings, self._home, self._tenant = config.sessions, config.home, tenant
        self._keeps_texts = config.telemetry.store_questions
        self._secrecy = Secrecy(config.home)
        self._clock = clock
        serving_db = Store(config.home).serving_db()
        self._database = database or GuardedDatabase(config.telemetry.url, serving_db, METADATA)
        self._expired_on: date | None = None

    def begin(self, principal: Principal) -> str:
        """Return a new session's id; a user with too many loses the oldest. Raises SessionError: that failed."""
        identifier, now, owner = str(uuid.uuid4()), self._now(), self._owner(principal)
        row = {"id": identifier, "tenant": self._tenant, "user_id": owner, "created_at": now, "last_active": now}

        def write(connection: sa.Connection) -> None:
            connection.execute(sa.insert(SESSIONS), row)
            mine = sa.select(SESSIONS.c.id).where(*self._of(owner)).order_by(SESSIONS.c.last_active.desc())
            _delete(connection, [*connection.execute(mine.offset(self._settings.most_sessions)).scalars()])

        self._expire()
        self._ask(write)
        return identifier

    def conversation(self, principal: Principal, identifier: str) -> Conversation | None:
        """Return the last turns of a session of the principal's own, without answers; None if there is none. Raises
        SessionError: the database cannot be read."""
        found = self._rows(principal, identifier, MOST_TURNS)
        if found is None:
            return None
        turns = []
        for row in found:
            if row["context_text"] is None:
                filters, may_offer = parse_filters(row["filters"]), bool(row["has_options"])
                turns.append(ConversationTurn(self._text(row, "query_text"), "", filters, may_offer))
        return Conversation(tuple(turns))

    def keep(self, principal: Principal, identifier: str, exchange: Exchange) -> bool:
        """Keep a question with its answer; return whether there is such a session. Raises SessionError: that failed."""
        query_id, now, owner, answer = str(uuid.uuid4()), self._now(), self._owner(principal), exchange.answer
        kept = self._sealed(identifier, query_id)
        context = None if exchange.context is None else kept("context_text", exchange.context)
        query = {
            "id": query_id,
            "session_id": identifier,
            "query_text": kept("query_text", exchange.question),
            "is_sealed": not self._keeps_texts,
            "mode": exchange.mode,
            "context_text": context,
            "filters": exchange.filters.payload() if exchange.filters else None,
            "timestamp": now,
        }
        response = {
            "id": str(uuid.uuid4()),
            "query_id": query_id,
            "answer_text": kept("answer_text", answer.answer),
            "sources": [
                {"index": each.index, "chunk_id": each.chunk_id, "page_id": each.page_id} for each in answer.citations
            ],
            "status": answer.status,
            "has_options": bool(answer.clarification and answer.clarification.options),
            "confidence": answer.gates.get("confidence"),
            "refused": answer.status == "refused",
            "receipt_id": answer.receipt_id,
            "latency_ms": round(answer.timings_ms.get("total", 0.0)),
            "timestamp": now,
        }

        def write(connection: sa.Connection) -> bool:
            active = sa.update(SESSIONS).where(*self._of(owner), SESSIONS.c.id == identifier).values(last_active=now)
            if not connection.execute(active).rowcount:
                return False
            connection.execute(sa.insert(QUERIES), query)
            connection.execute(sa.insert(RESPONSES), response)
            of_session = sa.select(QUERIES.c.id).where(QUERIES.c.session_id == identifier)
            oldest = of_session.order_by(QUERIES.c.timestamp.desc(), QUERIES.c.id).offset(self._settings.most_turns)
            for old in [*connection.execute(oldest).scalars()]:
                connection.execute(sa.delete(RESPONSES).where(RESPONSES.c.query_id == old))
                connection.execute(sa.delete(QUERIES).where(QUERIES.c.id == old))
            return True

        self._expire()
        return self._ask(write)

    def listed(self, principal: Principal) -> list[SessionLine]:
        """Return the principal's sessions, the newest first; none for callers without a name, whose sessions only their
        ids open. Raises SessionError: the database cannot be read."""
        if not principal.user:
            return []
        owner = self._owner(principal)

        def read(connection: sa.Connection) -> list[tuple[Any, int, Any]]:
            mine = sa.select(SESSIONS).where(*self._of(owner)).order_by(SESSIONS.c.last_active.desc())
            lines = []
            for session in connection.execute(mine.limit(MOST_LISTED)).mappings():
                of_session = QUERIES.c.session_id == session["id"]
                count = connection.execute(
                    sa.select(sa.func.count()).select_from(QUERIES).where(of_session)
                ).scalar_one()
                first = sa.select(QUERIES).where(of_session).order_by(QUERIES.c.timestamp).limit(1)
                lines.append((session, int(count), connection.execute(first).mappings().first()))
            return lines

        lines = []
        for session, count, first in self._ask(read):
            title = self._text(first, "query_text") if first else ""
            lines.append(SessionLine(session["id"], session["created_at"], session["last_active"], count, title))
        return lines

    def shown(self, principal: Principal, identifier: str) -> list[StoredTurn] | None:
        """Return the turns of a session of the principal's own, oldest first; None if there is none. Raises
        SessionError: the database cannot be read."""
        rows = self._rows(principal, identifier, MOST_SHOWN)
        if rows is None:
            return None
        names, turns = ("mode", "timestamp", "status", "refused", "confidence", "latency_ms", "receipt_id"), []
        for row in rows:
            context = self._text(row, "context_text") if row["context_text"] is not None else None
            question, answer = self._text(row, "query_text"), self._text(row, "answer_text")
            turns.append(StoredTurn(question, context, answer, {name: row[name] for name in names}, row["sources"]))
        return turns

    def delete(self, principal: Principal, identifier: str) -> bool:
        """Delete one of the principal's sessions; return whether there was one. Raises SessionError: that failed."""
        owner = self._owner(principal)
        return self._deleted(*self._of(owner), SESSIONS.c.id == identifier) > 0

    def forget(self, user: str) -> int:
        """Delete a user's sessions in this tenant; return how many there were. Raises SessionError: that failed."""
        owner = self._owner(Principal(self._tenant, user))
        return self._deleted(SESSIONS.c.tenant == self._tenant, SESSIONS.c.user_id == owner)

    def close(self) -> None:
        self._database.close()

    def _rows(self, principal: Principal, identifier: str, most: int) -> list[Mapping[str, Any]] | None:
        """Return the newest rows of a session of the principal's own, oldest first; None if there is none."""
        owner = self._owner(principal)

        def read(connection: sa.Connection) -> list[Mapping[str, Any]] | None:
            mine = sa.select(SESSIONS.c.id).where(*self._of(owner), SESSIONS.c.id == identifier)
            if connection.execute(mine).first() is None:
                return None
            columns = [column for column in RESPONSES.c if column.name not in ("id", "query_id", "timestamp")]
            rows = sa.select(QUERIES, *columns).join(RESPONSES, RESPONSES.c.query_id == QUERIES.c.id)
            rows = rows.where(QUERIES.c.session_id == identifier).order_by(QUERIES.c.timestamp.desc(), QUERIES.c.id)
            found: list[Mapping[str, Any]] = [dict(row) for row in connection.execute(rows.limit(most)).mappings()]
            return found[::-1]

        return self._ask(read)

    def _deleted(self, *conditions: ColumnElement[bool]) -> int:
        def write(connection: sa.Connection) -> int:
            return _delete(connection, [*connection.execute(sa.select(SESSIONS.c.id).where(*conditions)).scalars()])

        return self._ask(write)

    def _expire(self) -> None:
        """Once a day, delete the tenant's sessions that are too old; failures are retried the next day."""
        today = self._clock().date()
        if self._expired_on == today:
            return
        self._expired_on = today
        with suppress(SessionError):
            self._deleted(SESSIONS.c.tenant == self._tenant, SESSIONS.c.last_active < self._oldest())

    def _of(self, owner: str) -> tuple[ColumnElement[bool], ...]:
        mine = SESSIONS.c.tenant == self._tenant, SESSIONS.c.user_id == owner
        return (*mine, SESSIONS.c.last_active >= self._oldest())

    def _oldest(self) -> str:
        return _stamp(self._clock() - timedelta(days=self._settings.store_days))

    def _now(self) -> str:
        return _stamp(self._clock())

    def _owner(self, principal: Principal) -> str:
        try:
            return self._secrecy.asker(principal)
        except ReceiptError as error:
            raise SessionError(str(error)) from error

    def _sealed(self, session: str, query: str) -> Callable[[str, str], str]:
        """Return a function that seals texts for storage: they open only in their own column and row."""
        if self._keeps_texts:
            return lambda _, text: text
        key = self._key()
        return lambda column, text: seal(key, text, self._beside(session, query, column))

    def _text(self, row: Mapping[str, Any], column: str) -> str:
        """Return a text of a row. Raises SessionError: it was altered, or sealed with another secret."""
        stored = str(row[column])
        if not row["is_sealed"]:
            return stored
        try:
            return unseal(self._key(), stored, self._beside(row["session_id"], row["id"], column))
        except SealError as error:
            raise SessionError(f"a stored question cannot be read: {error}") from error

    def _beside(self, session: str, query: str, column: str) -> bytes:
        return json.dumps([self._tenant, session, query, column]).encode()

    def _key(self) -> bytes:
        try:
            return derived_key(self._home, _SEALING_PURPOSE)
        except SecretError as error:
            raise SessionError(str(error)) from error

    def _ask(self, work: Callable[[sa.Connection], Result]) -> Result:
        try:
            return self._database.ask(work)
        except TelemetryError as error:
            raise SessionError(f"the database of sessions cannot be used ({error})") from error


def _delete(connection: sa.Connection, sessions: Sequence[str]) -> int:
    for identifier in sessions:
        queries = sa.select(QUERIES.c.id).where(QUERIES.c.session_id == identifier)
        connection.execute(sa.delete(RESPONSES).where(RESPONSES.c.query_id.in_(queries)))
        connection.execute(sa.delete(QUERIES).where(QUERIES.c.session_id == identifier))
        connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.id == identifier))
    return len(sessions)


def _stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


class Remembered:
    """One question of a session, or of none."""

    def __init__(self, store: SessionStore | None, principal: Principal, session_id: str | None) -> None:
        """`store`: None if no sessions are stored; `session_id`: None if the asker named none."""
        self._store, self._principal, self._session_id = store, principal, session_id
        self._flag: str | None = None

    def conversation(self, given: Conversation) -> Conversation:
        """Return the turns before the question: those that its asker gave, else those of the session."""
        found = self._tried(lambda store, session: store.conversation(self._principal, session))
        return given if given.turns or found is None else found

    def kept(self, exchange: Exchange) -> Answer:
        """Keep the question with its answer; return the answer with the session's id, or a flag that says why not."""
        answer = exchange.answer
        if self._session_id is None:
            return answer
        if self._flag is None:
            self._tried(lambda store, session: store.keep(self._principal, session, exchange) or None)
        if self._flag is None:
            return replace(answer, session_id=self._session_id)
        return replace(answer, flags=(*answer.flags, self._flag))

    def _tried(self, work: Callable[[SessionStore, str], Result | None]) -> Result | None:
        """Return what some work finds of the session; None, with a flag, if there is none, or none can be had."""
        if self._session_id is None:
            return None
        try:
            found = work(self._store, self._session_id) if self._store else None
            self._flag = SESSION_UNKNOWN if found is None else None
        except SessionError as error:
            found, self._flag = None, SESSION_UNAVAILABLE
            _log.warning("%s: %s", self._flag, error)
        return found
