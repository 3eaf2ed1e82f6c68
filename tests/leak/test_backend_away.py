"""A server whose pages are in a database and in no folder: the sample wiki from question to receipt, and while the
database is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from built_wiki import WordEmbedder, publish_wiki
from restricted_wiki import TENANT, Wiki
from support.constants import section_of
from support.index_backends import REMOTE, Backends
from support.postgres import Postgres
from support.stand_in_http import StandIn
from support.waiting import wait_until

from citelock_stores.remote.parts import RemoteDense
from rag_serving.access.principals import Principal
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.index import Index
from rag_serving.config.phases import Degradation
from rag_serving.indexes.current import UnpublishedError
from rag_serving.indexes.readable_rows import Hit
from rag_serving.records.answers import Answer
from rag_serving.records.flags import CACHED

SAMPLE = Path(__file__).parents[2] / "sample"
QUESTIONS = (
    "What is under-keel clearance?",
    "How big can a message on the event bus be?",
    "How many requests per minute may an API client send?",
    "Is there a client library for PHP?",
    "Who decides on a database failover if the SRE lead does not answer?",
)
ANYBODY = Principal(TENANT)


@dataclass(frozen=True)
class Served:
    server: Postgres | StandIn
    remote: Pipeline
    disk: Pipeline


@pytest.fixture(scope="module", params=REMOTE)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    built, away = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("serves-alone")
    folders = {"eng": SAMPLE / "ENG", "ops": SAMPLE / "OPS"}
    envelopes = {
        key: [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        for key, folder in folders.items()
    }
    with pytest.MonkeyPatch.context() as patch, Backends(built) as backends:
        patch.setenv(SECRET_ENV, "of both machines")
        config = publish_wiki(built, Wiki(envelopes, dict.fromkeys(envelopes, "everyone")))
        backend = backends.get(request.param)
        index = section_of(Index, **backend.settings(built)["index"], statement_timeout_s=60)
        current = Store(built).current(TENANT)
        assert current
        backend.publish(config.model_copy(update={"index": index}), TENANT, current)
        patient = config.model_copy(update={"degradation": Degradation(phase_timeout_s=60)})  # on a busy machine, too
        alone = patient.model_copy(update={"index": index, "home": away})
        remote, disk = (Pipeline.open(each, TENANT, WordEmbedder()) for each in (alone, config))
        remote.watch()
        yield Served(backends.servers[request.param], remote, disk)
        remote.close()
        disk.close()


def cited(answer: Answer) -> list[tuple[str, str, str]]:
    return [(citation.chunk_id, citation.quote, citation.url) for citation in answer.citations]


def test_answers_cite_what_they_cite_from_the_folder_and_their_receipts_hold(served: Served) -> None:
    told = 0
    for question in QUESTIONS:
        got, wanted = (pipeline.ask(ANYBODY, question) for pipeline in (served.remote, served.disk))
        assert (got.status, got.answer, cited(got)) == (wanted.status, wanted.answer, cited(wanted))
        told += bool(got.citations)
        if got.receipt_id:
            proof = served.remote.proof(got.receipt_id, ANYBODY)
            assert (proof.faults, proof.changes) == ((), ())
            assert served.remote.receipt(ANYBODY, got.receipt_id)["passages"]
    assert told == len(QUESTIONS)
    assert not (served.remote.config.home / "tenants" / TENANT / "generations").exists()


def test_a_database_that_is_away_is_told_and_comes_back(served: Served) -> None:
    before = served.remote.ask(ANYBODY, QUESTIONS[0])
    assert served.remote.problem() is None
    served.server.stop()
    try:
        again = served.remote.ask(ANYBODY, QUESTIONS[0])
        other = served.remote.ask(ANYBODY, "Which berth is the ferry moored at?")
        assert served.remote.problem()
        with pytest.raises(UnpublishedError), served.remote.reading(ANYBODY):
            pass
    finally:
        served.server.start()
    assert other.status == "unavailable"
    assert "127.0.0.1" not in other.answer
    assert (before.outcome, before.flags) == ("told", ())
    assert CACHED in again.flags
    assert cited(again) == cited(before)
    wait_until(lambda: served.remote.problem() is None)
    after = served.remote.ask(ANYBODY, QUESTIONS[0])
    assert (after.answer, cited(after), after.flags) == (before.answer, cited(before), before.flags)
    assert served.remote.problem() is None


def test_a_database_that_stops_between_two_statements_of_a_question_costs_that_question_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest passages came, and what is read after them does not."""
    wait_until(lambda: served.remote.problem() is None)
    question, stopped = "Who may approve a change of the under-keel clearance?", list[int]()
    search = RemoteDense.search

    def stopping(self: RemoteDense, *arguments: Any, **named: Any) -> list[Hit]:
        hits = search(self, *arguments, **named)
        if not stopped:
            stopped.append(len(hits))
            served.server.stop()
        return hits

    with monkeypatch.context() as patch:
        patch.setattr(RemoteDense, "search", stopping)
        try:
            answer = served.remote.ask(ANYBODY, question)
        finally:
            served.server.start()
    assert stopped[0] > 0
    assert (answer.status, answer.citations) == ("unavailable", ())
    assert "127.0.0.1" not in answer.answer
    wait_until(lambda: served.remote.problem() is None)
    after, wanted = (pipeline.ask(ANYBODY, question) for pipeline in (served.remote, served.disk))
    assert (after.status, after.answer, cited(after)) == (wanted.status, wanted.answer, cited(wanted))


def test_a_database_that_goes_away_in_the_middle_of_a_question_costs_that_question_alone(served: Served) -> None:
    wait_until(lambda: served.remote.problem() is None)
    with served.remote.published.acquire() as generation:
        view = generation.for_reader(ANYBODY)
        served.server.stop()
        try:
            answer = served.remote.ask(ANYBODY, QUESTIONS[1])
        finally:
            served.server.start()
        assert answer.status == "unavailable" or CACHED in answer.flags
        wait_until(lambda: served.remote.problem() is None)
        assert view.chunks(view.sample(3).tolist())
    assert served.remote.ask(ANYBODY, QUESTIONS[1]).status != "unavailable"
