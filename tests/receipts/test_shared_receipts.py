"""A receipt that its asker shares is seen by who may read all of its passages, and by nobody else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from support.wiki import PASSAGES, publish

from rag_serving.access.principals import ROLES, Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.receipts.receipt import NotTheAskerError, ReceiptError, Secrecy

QUESTION = "May I restart a broker while partitions are under-replicated?"
SALARY = "What salary bonus does the broker team earn in December?"
HR_GROUP = frozenset({"hr"})
ANN, BOB, BOSS = (
    Principal("acme", "ann", HR_GROUP),
    Principal("acme", "bob"),
    Principal("acme", "boss", HR_GROUP, ROLES),
)
EVE = Principal("acme", "eve", HR_GROUP)


def ask(pipeline: Pipeline, who: Principal, question: str = QUESTION) -> str:
    identifier = pipeline.ask(who, question).receipt_id
    assert identifier
    return identifier


def sees(pipeline: Pipeline, who: Principal, identifier: str) -> bool:
    try:
        return bool(pipeline.receipt(who, identifier))
    except ReceiptError:
        return False


def database(pipeline: Pipeline) -> sqlite3.Connection:
    return sqlite3.connect(Store(pipeline.config.home).serving_db())


def test_a_shared_receipt_is_seen_until_it_is_shared_no_more(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, BOB)
    assert not sees(pipeline, EVE, identifier)
    for _ in range(2):
        pipeline.proofs.share(BOB, identifier)
        assert sees(pipeline, EVE, identifier)
        assert pipeline.receipts.is_shared(identifier, pipeline.tenant)
    pipeline.proofs.share(BOB, identifier, is_shared=False)
    assert not sees(pipeline, EVE, identifier)
    assert sees(pipeline, BOB, identifier)


def test_who_is_shown_a_receipt_is_not_told_who_asked(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, BOB)
    pipeline.proofs.share(BOB, identifier)
    asker = Secrecy(pipeline.config.home).asker(BOB)
    assert pipeline.receipt(BOB, identifier)["asker"] == asker
    shown = pipeline.receipt(EVE, identifier)
    assert (shown["question"], asker in str(shown), "sealed" in shown) == (QUESTION, False, False)


def test_one_passage_that_may_not_be_read_hides_all_of_it(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, ANN, SALARY)
    pipeline.proofs.share(ANN, identifier)
    assert sees(pipeline, EVE, identifier)
    for who in (BOB, Principal("acme"), Principal("other", "ann", HR_GROUP)):
        assert not sees(pipeline, who, identifier)
        with pytest.raises(ReceiptError):
            pipeline.proof(identifier, who)


def test_only_its_asker_or_an_operator_shares(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, ANN)
    with pytest.raises(ReceiptError, match="another asker") as refused:
        pipeline.proofs.share(EVE, identifier)
    assert not isinstance(refused.value, NotTheAskerError), "whether it is there is told to nobody"
    pipeline.proofs.share(BOSS, identifier)
    for is_shared in (True, False):
        with pytest.raises(NotTheAskerError):
            pipeline.proofs.share(EVE, identifier, is_shared)
    assert sees(pipeline, EVE, identifier)
    with pytest.raises(ReceiptError):
        pipeline.proofs.share(ANN, "0" * 32)


def test_a_share_that_was_made_up_or_altered_is_none(pipeline: Pipeline) -> None:
    first, second = ask(pipeline, ANN), ask(pipeline, ANN, "How long are logs kept?")
    pipeline.proofs.share(ANN, first)
    with closing(database(pipeline)) as opened, opened:
        opened.execute(
            "INSERT INTO receipt_shares SELECT ?, tenant, shared_at, signature FROM receipt_shares", (second,)
        )
    assert not sees(pipeline, EVE, second), "a signature is of one receipt"
    pipeline.proofs.share(ANN, second)
    assert sees(pipeline, EVE, second)
    for column in ("shared_at", "signature"):
        pipeline.proofs.share(ANN, first)
        with closing(database(pipeline)) as opened, opened:
            opened.execute(f"UPDATE receipt_shares SET {column} = {column} || 'x' WHERE id = ?", (first,))
        assert not sees(pipeline, EVE, first), column


def test_a_share_goes_with_its_receipt(pipeline: Pipeline) -> None:
    identifier, kept = ask(pipeline, ANN), ask(pipeline, BOB)
    pipeline.proofs.share(ANN, identifier)
    pipeline.proofs.share(BOB, kept)
    assert pipeline.receipts.forget("acme", pipeline.secrecy.asker(ANN)) == 1
    with closing(database(pipeline)) as opened:
        assert opened.execute("SELECT id FROM receipt_shares").fetchall() == [(kept,)]


def test_a_database_of_an_older_program_has_no_shares(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, ANN)
    with closing(database(pipeline)) as opened, opened:
        opened.execute("DROP TABLE receipt_shares")
    assert not sees(pipeline, EVE, identifier)
    assert sees(pipeline, ANN, identifier)


def test_what_is_hidden_since_then_is_shown_to_nobody_whom_it_is_hidden_from(pipeline: Pipeline) -> None:
    identifier = ask(pipeline, BOB)
    pipeline.proofs.share(BOB, identifier)
    hidden = [replace(each, readers="group:hr") if each.page_id == "11" else each for each in PASSAGES]
    publish(pipeline.config.home, hidden)
    pipeline.published.refresh()
    assert sees(pipeline, EVE, identifier)
    assert not sees(pipeline, BOB, identifier)
    assert pipeline.proof(identifier, EVE).faults == ()


def test_a_passage_that_is_hidden_now_hides_the_receipt_though_its_page_is_read(pipeline: Pipeline) -> None:
    """A page may show text of another one that was restricted since."""
    identifier = ask(pipeline, BOB)
    rest = replace(PASSAGES[0], heading="More", text="Tell the team in the channel.", chunk_idx=1)
    hidden = [replace(each, readers="group:hr") if each.page_id == "11" else each for each in PASSAGES]
    publish(pipeline.config.home, [*hidden, rest])
    pipeline.published.refresh()
    with pipeline.published.acquire() as generation:
        assert generation.for_reader(BOB).has_page("11")
    assert not sees(pipeline, BOB, identifier)
