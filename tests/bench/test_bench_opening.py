"""The benches that build a generation by the product's own steps: what they build can be opened and asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench import opening
from evals.bench.real_text import Sentence
from evals.evaluation.bench import TENANT
from rag_serving.artifacts.store import Store


def test_what_is_built_is_opened_and_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"A berth of quay {number} is free for {2 * number} hours after the tide." for number in range(40)]
    sentences = [Sentence(f"page {number // 4}", number % 4, text, text) for number, text in enumerate(texts)]
    monkeypatch.setattr(opening, "read_sentences", lambda: sentences)
    opening.build(tmp_path, 100, 16)
    found = opening.opened(tmp_path)
    assert found["to_first_answer_s"] >= found["open_s"] > 0
    assert found["rss_mb"] > 0
    assert Store(tmp_path).current(TENANT)
