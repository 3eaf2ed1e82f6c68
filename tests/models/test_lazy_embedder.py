from __future__ import annotations

import time

import pytest
from support.wiki import embedder

from rag_serving.models.lazy_embedder import GuardedEmbedder
from rag_serving.models.protocols import Embedder, ModelError


def test_the_model_is_opened_once_and_when_needed() -> None:
    opened: list[Embedder] = []

    def open_model() -> Embedder:
        opened.append(embedder())
        return embedder()

    guarded = GuardedEmbedder(open_model)
    assert opened == []
    assert guarded.embed_query("x").shape == (guarded.dimension,)
    assert guarded.embed_documents(["x", "y"]).shape == (2, guarded.dimension)
    assert guarded.name == embedder().name
    assert guarded.check() == embedder().check()
    assert len(opened) == 1


def test_warming_opens_the_model_of_questions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of passages takes as long again, and most answers need no vector that was not made before."""
    asked: list[str] = []
    real = embedder().embed_query
    monkeypatch.setattr(embedder(), "embed_query", lambda text: asked.append(text) or real(text))
    monkeypatch.setattr(embedder(), "embed_documents", None)
    GuardedEmbedder(embedder).warm()
    assert asked == ["warm"]


def test_after_a_failure_questions_do_not_wait_for_the_model() -> None:
    tries = []

    def open_model() -> Embedder:
        tries.append(1)
        if len(tries) == 1:
            raise ModelError("the server does not answer")
        return embedder()

    guarded = GuardedEmbedder(open_model, retry_s=0.2)
    for _ in range(3):
        with pytest.raises(ModelError, match="the server does not answer"):
            guarded.embed_query("x")
    assert len(tries) == 1
    time.sleep(0.25)
    assert guarded.embed_query("x").shape == (384,)
