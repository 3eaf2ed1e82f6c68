"""Vectors of recent questions: kept for whoever asked, bounded, there while the model is down."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from rag_serving.models.lazy_embedder import RecentVectors, normalized
from rag_serving.models.protocols import ModelError, Progress


class Counting:
    """A model that remembers what it was asked, and may be down or become another."""

    dimension = 2

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.model, self.down = "model@1", False

    @property
    def name(self) -> str:
        self._respond()
        return self.model

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self._respond()
        self.asked.append(text)
        return np.array([len(text), len(self.asked)], np.float32)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        raise NotImplementedError

    def check(self) -> str:
        return self.name

    def _respond(self) -> None:
        if self.down:
            raise ModelError("down")


def test_the_same_asker_is_answered_from_memory() -> None:
    model = Counting()
    alice = RecentVectors(model, 10).of("alice")
    first = alice.embed_query("How long?")
    assert alice.embed_query("  How\n long? ") is first
    assert alice.name == "model@1"
    assert model.asked == ["How long?"]
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_what_one_asked_is_computed_again_for_another() -> None:
    model = Counting()
    recent = RecentVectors(model, 10)
    for user in ("alice", "bob", None, None, ""):
        recent.of(user).embed_query("Who is on call?")
    assert len(model.asked) == 5
    assert len(recent) == 3  # nothing for callers without a name


def test_callers_without_a_name_are_one_where_that_is_so() -> None:
    model = Counting()
    recent = RecentVectors(model, 10, anonymous=True)
    recent.of(None).embed_query("Who is on call?")
    recent.of(None).embed_query("Who is on call?")
    recent.of("").embed_query("Who is on call?")
    recent.of("alice").embed_query("Who is on call?")
    assert len(model.asked) == 3


def test_the_oldest_is_forgotten_first() -> None:
    model = Counting()
    alice = RecentVectors(model, 2).of("alice")
    for question in ("a", "b", "a", "c", "a", "b"):
        alice.embed_query(question)
    assert model.asked == ["a", "b", "c", "b"]


def test_nothing_is_kept_where_that_is_switched_off() -> None:
    model = Counting()
    recent = RecentVectors(model, 0, anonymous=True)
    for user in ("alice", None, "alice", None):
        recent.of(user).embed_query("a  b")
    assert (model.asked, len(recent)) == (["a b"] * 4, 0)


def test_another_model_is_asked_again() -> None:
    model = Counting()
    alice = RecentVectors(model, 10).of("alice")
    alice.embed_query("a")
    model.model = "model@2"
    alice.embed_query("a")
    assert model.asked == ["a", "a"]


def test_what_is_known_is_known_while_the_model_is_down() -> None:
    model = Counting()
    alice = RecentVectors(model, 10).of("alice")
    model.down = True
    with pytest.raises(ModelError):
        alice.embed_query("a")
    model.down = False
    known = alice.embed_query("a")
    model.down = True
    assert alice.embed_query("a") is known
    assert alice.name == "model@1"
    with pytest.raises(ModelError):
        alice.embed_query("b")


def test_keys_cannot_be_mixed_up() -> None:
    model = Counting()
    recent = RecentVectors(model, 100)
    recent.of("a").embed_query("b c")
    recent.of("a b").embed_query("c")
    recent.of("user:a").embed_query("b c")
    assert len(model.asked) == 3


def test_characters_are_composed() -> None:
    assert normalized("cafe\u0301  au\tlait ") == "café au lait"


def test_many_threads_keep_no_more_than_the_limit() -> None:
    recent = RecentVectors(Counting(), 5)

    def ask(number: int) -> float:
        return float(recent.of(f"user{number % 3}").embed_query("x" * (number % 7))[0])

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(ask, range(500))] == [number % 7 for number in range(500)]
    assert len(recent) == 5
