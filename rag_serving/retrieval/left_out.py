"""Candidates that did not become passages, and why.

Belongs here: which stage let a candidate go. Does not belong here: the stages' rules (`hygiene`, `rerank`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from rag_serving.indexes.protocols import Rows
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.explain import all_columns
from rag_serving.retrieval.hygiene import is_near, shares_words
from rag_serving.retrieval.search import Search

Reason = Literal["boilerplate", "label", "few_words", "no_anchor", "ranked_lower"]
MOST = 12
_INDEXES = {"lexical": "BM25"}
_LINES: dict[Reason, str] = {
    "boilerplate": "a list of links or similar that answers nothing",
    "label": "its page has a label that excludes it from answers",
    "few_words": "shares too few words with the question",
    "no_anchor": "has no heading that a link could point to",
    "ranked_lower": "ranked lower than the passages that were read",
}


@dataclass(frozen=True)
class LeftOut:
    """A candidate that is no passage."""

    chunk: Chunk
    reason: Reason
    ranks: Mapping[str, int]  # in each index that found it, from 1

    @property
    def line(self) -> str:
        """Return the reason in words, with the ranks where nothing but they decided."""
        ranks = ", ".join(f"{_INDEXES.get(index, index)} rank {rank}" for index, rank in self.ranks.items())
        return _LINES[self.reason] + (f": {ranks}" if ranks and self.reason == "ranked_lower" else "")


def left_out(search: Search, locked: Collection[str], min_overlap: int) -> list[LeftOut]:
    """Return the first candidates, in their order before reranking, that are not among the locked chunk ids."""
    stages = _Stages(search, min_overlap)
    first = search.candidates.head(MOST + len(locked))
    found = zip(first.rows.tolist(), search.context.passages.read(first.rows), first.records(), strict=True)
    others = [each for each in found if each[1].chunk_id not in locked][:MOST]
    return [LeftOut(chunk, stages.reason(row, chunk), ranks) for row, chunk, (_, _, ranks) in others]


class _Stages:
    """Which rows each stage of a search kept."""

    def __init__(self, search: Search, min_overlap: int) -> None:
        self._context, self._min_overlap = search.context, min_overlap
        self._clean = _rows(search, "hygiene")
        self._gated = _rows(search, "keyword_gate") if "keyword_gate" in search.rankings else None
        ranking = all_columns(search)
        self._near = set(ranking.rows[is_near(ranking)].tolist())

    def reason(self, row: int, chunk: Chunk) -> Reason:
        if row not in self._clean:
            return "boilerplate" if chunk.is_boilerplate else "label"
        if self._gated is not None and row not in self._gated and not self._has_words(row, chunk):
            return "few_words"
        return "ranked_lower" if chunk.url.partition("#")[2] else "no_anchor"

    def _has_words(self, row: int, chunk: Chunk) -> bool:
        weights = self._context.term_weights
        return row in self._near or shares_words(chunk, self._context.query, self._min_overlap, weights)


def _rows(search: Search, stage: str) -> set[int]:
    rows: Rows = search.rankings[stage].rows
    return set(rows.tolist())
