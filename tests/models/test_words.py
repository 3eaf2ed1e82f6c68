from __future__ import annotations

from pathlib import Path

import pytest

from rag_serving.config.models import Embedding
from rag_serving.models.embedding.factory import Words


@pytest.mark.parametrize("word", ["retention", "dogs", "sunday"])
def test_a_word_of_the_language_is_one_whatever_the_pages_hold(word: str) -> None:
    assert Words(Embedding())(word)


@pytest.mark.parametrize("word", ["retension", "configuraton", "cosnumer", ""])
def test_a_misspelt_word_is_none(word: str) -> None:
    assert not Words(Embedding())(word)


def test_without_a_tokenizer_no_word_is_known(tmp_path: Path) -> None:
    assert not Words(Embedding(weights_dir=tmp_path))("retention")


def test_a_question_waits_for_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_serving.models.embedding.weights.packaged_folder", lambda: None)
    assert Words(Embedding(provider="ollama", model="bge-m3"))("retention") is False
