"""Stored sessions: each for its own user, encrypted, gone when too old or forgotten; in SQLite and Postgres."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select
from support.wiki import configuration

from rag_serving.access.principals import Principal
from rag_serving.conversations.sessions import (
    METADATA,
    QUERIES,
    RESPONSES,
    SESSIONS,
    Exchange,
    SessionError,
    SessionStore,
)
from rag_serving.pipeline.tenant import open_sessions
from rag_serving.records.answers import Answer
from rag_serving.records.decisions import Clarification, ClarificationOption
from rag_serving.records.queries import Filters
from rag_serving.telemetry.tables import GuardedDatabase, open_engine

ANN, BOB = Principal("acme", "ann", frozenset({"hr"})), Principal("acme", "bob")
SECRET = "What is the name of the secret project?"


class Now:
    """A clock that is set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(microseconds=1)
        return self.time


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def empty(url: str | None, tmp_path: Path) -> None:
    engine = open_engine(url, tmp_path / "serving.db")
    METADATA.drop_all(engine)
    engine.dispose()


@pytest.fixture
def store(empty: None, url: str | None, tmp_path: Path, now: Now) -> Iterator[SessionStore]:  # noqa: ARG001
    with closing(opened(url, tmp_path, now)) as sessions:
        yield sessions


def opened(url: str | None, home: Path, now: Now, tenant: str = "acme", **more: object) -> SessionStore:
    telemetry = {"url": url} if url else {}
    config = configuration(
        home, telemetry=telemetry, tenants={"acme": {}, "other": {}}, sessions={"store_days": 90, **more}
    )
    return SessionStore(config, tenant, now)


def exchange(question: str = SECRET, answer: str = "It is Kestrel.", **more: object) -> Exchange:
    return Exchange(question, Answer("answered", answer, timings_ms={"total": 12.3}), **more)  # type: ignore[arg-type]


def rows(store: SessionStore) -> list[int]:
    return store._database.ask(
        lambda connection: [
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (SESSIONS, QUERIES, RESPONSES)
        ]
    )


def test_a_conversation_is_kept_and_read_again(store: SessionStore) -> None:
    identifier = store.begin(ANN)
    uuid.UUID(identifier)
    assert store.keep(ANN, identifier, exchange(filters=Filters(space=("OPS",))))
    offered = Answer("clarify", "Which?", clarification=Clarification("Which?", (ClarificationOption("A", "page"),)))
    assert store.keep(ANN, identifier, Exchange("and why?", offered))
    conversation = store.conversation(ANN, identifier)
    assert conversation
    first, second = conversation.turns
    assert (first.question, first.answer, first.filters) == (SECRET, "", Filters(space=("OPS",)))
    assert not first.may_offer
    assert second.may_offer
    turns = store.shown(ANN, identifier)
    assert turns
    assert [turn.answer for turn in turns] == ["It is Kestrel.", "Which?"]
    assert turns[0].facts["latency_ms"] == 12
    assert not turns[1].may_be_told(may_read=True), "a question back names pages that it does not cite"


def test_a_session_of_somebody_else_is_as_unknown_as_one_that_never_was(
    store: SessionStore, url: str | None, tmp_path: Path, now: Now
) -> None:
    identifier = store.begin(ANN)
    assert store.keep(ANN, identifier, exchange())
    others = [BOB, Principal("acme"), Principal("acme", None, frozenset({"hr"})), Principal("acme", "Ann")]
    with closing(opened(url, tmp_path, now, "other")) as elsewhere:
        asked = [(store, who, identifier) for who in others]
        asked += [(elsewhere, Principal("other", "ann"), identifier), (store, ANN, str(uuid.uuid4()))]
        asked += [(store, ANN, forged) for forged in ("", "' OR 1=1 --", "x" * 5000, identifier.upper() + " ")]
        for sessions, who, named in asked:
            assert sessions.conversation(who, named) is None
            assert sessions.shown(who, named) is None
            assert not sessions.keep(who, named, exchange())
            assert not sessions.delete(who, named)
            assert named not in [line.session_id for line in sessions.listed(who)]
    assert rows(store) == [1, 1, 1]


def test_nothing_that_was_said_stands_in_the_database(store: SessionStore, url: str | None, tmp_path: Path) -> None:
    identifier = store.begin(ANN)
    store.keep(ANN, identifier, exchange(context="Project Kestrel", filters=None))
    if url is None:
        for file in tmp_path.glob("serving.db*"):
            content = file.read_bytes()
            assert not any(word in content for word in (b"secret project", b"Kestrel", b"ann"))
    found = store._database.ask(lambda c: [*c.execute(select(QUERIES)).first()])  # type: ignore[misc]
    assert "secret" not in repr(found)


def test_a_text_opens_only_in_its_own_row(store: SessionStore) -> None:
    mine, other = store.begin(ANN), store.begin(BOB)
    store.keep(ANN, mine, exchange())
    store.keep(BOB, other, exchange("harmless"))

    def swap(connection: object) -> None:
        text = connection.execute(select(QUERIES.c.query_text).where(QUERIES.c.session_id == mine)).scalar_one()  # type: ignore[attr-defined]
        connection.execute(QUERIES.update().where(QUERIES.c.session_id == other).values(query_text=text))  # type: ignore[attr-defined]

    store._database.ask(swap)
    with pytest.raises(SessionError, match="altered, or belongs elsewhere"):
        store.shown(BOB, other)


def test_sessions_end_after_their_days_and_are_deleted(store: SessionStore, now: Now) -> None:
    old = store.begin(ANN)
    store.keep(ANN, old, exchange())
    now.time += timedelta(days=91)
    assert store.conversation(ANN, old) is None
    assert not store.keep(ANN, old, exchange())
    assert store.listed(ANN) == []
    store.begin(ANN)
    assert rows(store) == [1, 0, 0]


def test_a_session_lives_as_long_as_it_is_used(store: SessionStore, now: Now) -> None:
    used = store.begin(ANN)
    for _ in range(4):
        now.time += timedelta(days=60)
        assert store.keep(ANN, used, exchange())


@pytest.mark.usefixtures("empty")
def test_what_is_kept_of_one_user_is_bounded(url: str | None, tmp_path: Path, now: Now) -> None:
    with closing(opened(url, tmp_path, now, most_sessions=2, most_turns=5)) as store:
        kept = [store.begin(ANN) for _ in range(4)]
        assert [line.session_id for line in store.listed(ANN)] == kept[:1:-1]
        for number in range(9):
            store.keep(ANN, kept[-1], exchange(f"question {number}"))
        turns = store.shown(ANN, kept[-1])
        assert turns
        assert [turn.question for turn in turns] == [f"question {number}" for number in range(4, 9)]
        store.forget("ann")
        assert rows(store) == [0, 0, 0]


def test_a_list_names_sessions_by_their_first_question(store: SessionStore) -> None:
    identifier = store.begin(ANN)
    for question in ("first", "second"):
        store.keep(ANN, identifier, exchange(question))
    (line,) = store.listed(ANN)
    assert (line.title, line.questions) == ("first", 2)
    nameless = store.begin(Principal("acme"))
    assert store.listed(Principal("acme")) == []
    assert store.conversation(Principal("acme"), nameless)


def test_a_user_is_forgotten_and_others_are_not(store: SessionStore) -> None:
    mine, other = store.begin(ANN), store.begin(BOB)
    store.keep(ANN, mine, exchange())
    store.keep(BOB, other, exchange())
    assert store.forget("ann") == 1
    assert rows(store) == [1, 1, 1]
    assert store.delete(BOB, other)
    assert rows(store) == [0, 0, 0]


def test_a_database_that_cannot_be_used_is_an_error_in_one_line(tmp_path: Path, now: Now) -> None:
    (tmp_path / "serving.db").write_bytes(b"no database" * 100)
    with closing(opened(None, tmp_path, now)) as store, pytest.raises(SessionError, match="cannot be used") as raised:
        store.begin(ANN)
    assert "\n" not in str(raised.value)


def test_a_database_that_never_answers_is_waited_for_once(tmp_path: Path, now: Now) -> None:
    with closing(sqlite3.connect(tmp_path / "serving.db")) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        config = configuration(tmp_path, sessions={"store_days": 90})
        database = GuardedDatabase(None, tmp_path / "serving.db", METADATA, wait_s=0.05)
        store = SessionStore(config, "acme", now, database)
        reasons = []
        for _ in range(4):
            with pytest.raises(SessionError) as raised:
                store.conversation(ANN, "x")
            reasons.append(str(raised.value))
        assert "failed a moment ago" in reasons[-1]


def test_no_session_is_stored_unless_the_installation_says_so(tmp_path: Path) -> None:
    assert open_sessions(configuration(tmp_path), "acme") is None
    assert open_sessions(configuration(tmp_path, sessions={"store_days": 90}), "acme")
