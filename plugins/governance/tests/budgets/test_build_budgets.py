"""A build stops before a model is asked for more than the budget, and keeps what was done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from support.constants import section_of
from support.stand_in_chat import MODEL, StandInChat, served
from support.wiki import configuration

from rag_assets.llm_contexts.tenant import plan_contexts, write_contexts
from rag_assets.publishing.passage_vectors import BudgetedEmbedder
from rag_assets.state.content_cache import VectorCache
from rag_serving.config.models import Context, Embedding
from rag_serving.hooks import BudgetError, open_budgets
from rag_serving.models.protocols import Progress


class Counting:
    """A model that records its requests."""

    name, dimension = "counting", 2

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        self.texts += texts
        if progress:
            progress(len(texts), len(texts))
        return np.ones((len(texts), 2), dtype=np.float32) / np.float32(2**0.5)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self.embed_documents([text])[0]

    def check(self) -> str:
        return "ok"


def chunks(count: int) -> pa.Table:
    """Rows of SELECTED_CHUNKS, as far as contexts look at them."""
    return pa.Table.from_pylist(
        [
            {
                "chunk_id": f"p{word}:1:0",
                "page_id": f"p{word}",
                "readers": "everyone",
                "chunk_idx": 0,
                "title": f"Guide {word}",
                "heading_path": [f"Guide {word}", "Setup"],
                "text": f"setup of broker {word} with its partition and replica",
            }
            for word in ("one", "two", "three", "four", "five")[:count]
        ]
    )


def context(messages: list[dict[str, str]]) -> list[str]:
    """Sixty words of the passage and fillers."""
    passage = messages[-1]["content"].rpartition("setup of broker")[2].split("\n")[0]
    return [f"It tells of setup of broker{passage} " + "and " * 45 + "more."]


def test_contexts_end_with_the_budget_and_those_written_are_kept(tmp_path: Path) -> None:
    with served(StandInChat(context)) as server:
        settings = section_of(
            Context, provider="openai", model=MODEL, base_url=f"{server.url}/v1", max_workers=1, attempts=1,
            prices={MODEL: {"input": 1e6, "output": 1e6}},
        )  # fmt: skip
        config = configuration(tmp_path, budgets={"cost_per_day": 1})
        budget = open_budgets(config, ["acme"])["acme"]
        plan = plan_contexts(chunks(4), settings, tmp_path)
        found = write_contexts(plan, lambda _: None, budget)
        assert len(server.requests) == 1
        assert len(found.written) + len(found.failures) == 4
        assert len([why for why in found.failures.values() if "a cost of 1.00 a day is spent" in why]) == 3
        assert budget.used()["cost"] > 1
        again = write_contexts(plan_contexts(chunks(4), settings, tmp_path), lambda _: None, budget)
        assert len(server.requests) == 1
        assert again.written == found.written
        budget.close()


def test_embedding_ends_with_the_budget_and_what_was_embedded_is_kept(tmp_path: Path) -> None:
    config = configuration(tmp_path, budgets={"tokens_per_day": 600})
    budget, model = open_budgets(config, ["acme"])["acme"], Counting()
    texts = [f"Passage number {number} about brokers and their logs." for number in range(200)]

    def embed() -> int:
        cache = VectorCache(tmp_path / "cache", model.name)
        return cache.embed(BudgetedEmbedder(model, budget, Embedding()), texts).computed

    with pytest.raises(BudgetError, match="600 tokens a day is spent"):
        embed()
    done = len(model.texts)
    assert 0 < done < len(texts)
    with pytest.raises(BudgetError):
        embed()
    assert len(model.texts) == done
    budget.close()
    budget = open_budgets(configuration(tmp_path), ["acme"], always=True)["acme"]
    assert embed() == len(texts) - done
    budget.close()
