"""An answer is given again in its own scope, to words that come to the same, for a bounded time."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.constants import section_of
from support.ticking import Clock

from rag_serving.caching.answers import AnswerCache, AnswerScope, CachedAnswer, Vector
from rag_serving.config.sections import Cache
from rag_serving.records.answers import Answer
from rag_serving.records.decisions import Refusal
from rag_serving.records.passages import Lock

SCOPE = AnswerScope("acme", "ann", "g1", frozenset({"everyone"}), {"phase": 3})
QUESTION = "How long is a token valid?"
ALIKE = "how long is a token valid"


def cached(text: str = "168 hours [1]", **more: Any) -> CachedAnswer:
    return CachedAnswer(replace(Answer("answered", text, generation="g1"), **more), {"answer": text}, Lock(()))


def vector(angle: float = 0.0) -> Vector:
    return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


def put(cache: AnswerCache, scope: AnswerScope = SCOPE, question: str = QUESTION, **more: Any) -> bool:
    return cache.put(scope, question, cached(**more), vector)


def test_the_same_question_gets_it_again_and_other_words_for_it_too() -> None:
    cache = AnswerCache(Cache())
    assert put(cache)
    for question in (QUESTION, ALIKE, "Hi! How long is a token valid? Thanks!"):
        found = cache.get(SCOPE, question, vector)
        assert found
        assert found.answer.answer == "168 hours [1]"
    assert cache.get(SCOPE, "How long is a cookie valid?", vector) is None


def test_wordings_whose_vectors_are_far_apart_do_not_meet() -> None:
    cache = AnswerCache(Cache())
    put(cache)
    assert cache.get(SCOPE, ALIKE, lambda: vector(0.6))  # cosine 0.83
    assert cache.get(SCOPE, ALIKE, lambda: vector(0.7)) is None  # 0.76
    assert cache.get(SCOPE, QUESTION, lambda: vector(0.7))  # the same text needs no vector


def test_without_a_model_only_the_same_text_meets() -> None:
    cache = AnswerCache(Cache())
    put(cache)
    assert cache.get(SCOPE, ALIKE, lambda: None) is None
    assert cache.get(SCOPE, QUESTION, lambda: None)


@pytest.mark.parametrize(
    "other",
    [
        {"tenant": "umbrella"}, {"user": "bob"}, {"user": None}, {"generation": "g2"},
        {"classes": frozenset({"everyone", "group:hr"})}, {"classes": frozenset()}, {"settings": {"phase": 2}},
    ],
)  # fmt: skip
def test_nothing_leaves_its_scope(other: dict[str, Any]) -> None:
    cache = AnswerCache(Cache())
    put(cache)
    assert cache.get(replace(SCOPE, **other), QUESTION, vector) is None


@pytest.mark.parametrize(
    "more",
    [
        {"status": "not_found"},
        {"refusal": Refusal("confidence", "doubtful")},
        {"flags": ("generator_unavailable",)},
        {"flags": ("stale_generation",)},
        {"flags": ("receipt_not_stored",)},
    ],
)
def test_what_is_not_told_with_confidence_or_was_degraded_is_not_kept(more: dict[str, Any]) -> None:
    cache = AnswerCache(Cache())
    assert not put(cache, **more)
    assert len(cache.entries) == 0


def test_an_answer_is_forgotten_when_it_is_old() -> None:
    clock = Clock()
    cache = AnswerCache(section_of(Cache, max_age_s=60), clock)
    put(cache)
    clock.pass_by(60)
    assert cache.get(SCOPE, QUESTION, vector)
    clock.pass_by(1)
    assert cache.get(SCOPE, QUESTION, vector) is None
    assert (len(cache.entries), cache.entries.size) == (0, 0)


def test_answers_are_bounded_in_number_and_in_bytes() -> None:
    cache = AnswerCache(section_of(Cache, max_answers=50, max_bytes=100_000))
    for number in range(500):
        put(cache, question=f"What is item {number}?", text="word " * 100)
    assert 0 < len(cache.entries) <= 50
    assert cache.entries.size <= 100_000
    assert cache.get(SCOPE, "What is item 499?", vector)
    assert cache.get(SCOPE, "What is item 0?", vector) is None
    assert not put(cache, text="x" * 200_000)


def test_threads_may_ask_and_keep_at_once() -> None:
    cache = AnswerCache(section_of(Cache, max_answers=20))
    failed: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for number in range(start, start + 300):
                put(cache, question=f"What is item {number % 40}?")
                cache.get(SCOPE, f"what is item {(number + 1) % 40}", vector)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, len(cache.entries)) == ([], 20)
