"""Scores are those of an index without what the reader may not see, to the last bit, whatever evidence counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.synthetic import MODEL, TENANT, WORDS, chunk_row, clustered_vectors, config_for

from rag_assets.publishing.build import build_generation
from rag_assets.steps.contexts.contextualize import lexical_prefixes
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.sections import Retrieval
from rag_serving.indexes.view import ReaderView
from rag_serving.retrieval.search import search_candidates
from rag_serving.retrieval.stages import SearchOptions

STAFF = frozenset({"everyone", "group:staff"})
EVERY_STAGE = Retrieval(dense_k=12, lexical_k=12, cosine_floor=-1)


class OneVector:
    """An embedder whose every query has the same vector."""

    name, dimension = MODEL, 8

    def __init__(self, vector: NDArray[np.float32]) -> None:
        self._vector = vector

    def embed_query(self, _: str) -> NDArray[np.float32]:
        return self._vector


def wiki(seed: int) -> list[dict[str, Any]]:
    """Pages of several passages in a tree, a third of the passages hidden, whole pages and parts of pages."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for page in range(12):
        hidden = random.random() < 0.25
        for index in range(int(random.integers(1, 5))):
            secret = hidden or random.random() < 0.15
            text = " ".join(random.choice(WORDS, 8)) if index else "class Crane {\n  void lift(int load) {"
            readers = "group:board" if secret else str(random.choice(["everyone", "group:staff"]))
            parent = f"{int(random.integers(0, 12))}" if page else ""
            rows.append(chunk_row(f"{page}", index, text, readers=readers, parent_id=parent))
    return rows


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))])
@pytest.mark.parametrize("rm3", [False, True])
def test_what_is_hidden_moves_no_score(tmp_path: Path, seed: int, rm3: bool) -> None:
    rows, vectors = wiki(seed), clustered_vectors(60, dimension=8, seed=seed)
    seen = [number for number, row in enumerate(rows) if row["readers"] in STAFF]
    beside = found(tmp_path / "all", rows, vectors[: len(rows)], vectors[0], rm3)
    alone = found(tmp_path / "seen", [rows[number] for number in seen], vectors[seen], vectors[0], rm3)
    assert len(seen) < len(rows)
    assert beside == alone
    assert any(scores.get("parent") for _, scores in beside)


def found(
    home: Path, rows: list[dict[str, Any]], vectors: NDArray[np.float32], asked: NDArray[np.float32], rm3: bool
) -> list[tuple[str, dict[str, float]]]:
    """Chunk ids with the scores of every stage, as staff gets them."""
    table = GENERATION_CHUNKS.table(rows)
    place = table.column_names.index("lexical_prefix")
    table = table.set_column(place, table.schema.field("lexical_prefix"), [lexical_prefixes(table)])
    config: Config = config_for(home)
    generation = build_generation(Store(home), TENANT, table, vectors, config, MODEL)
    try:
        text, options = " ".join(WORDS[:3]) + " crane lift", SearchOptions(EVERY_STAGE, rm3=rm3)
        embedder: Any = OneVector(asked)
        search = search_candidates(ReaderView(generation, STAFF), embedder, text, options)
        candidates = list(search.context.passages.candidates(search.ranking))
    finally:
        generation.close()
    return [(candidate.chunk.chunk_id, dict(candidate.scores)) for candidate in candidates]
