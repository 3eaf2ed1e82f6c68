"""A search by keywords: from a question to ranked rows and what is done with it.

Belongs here: which rows of which documents come first. Does not belong here: the formula (`scoring`), the rules
(`confidence`), questions that ask for two things (`pipeline.several`), running stages (`retrieval.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_serving.config.keyword import Keyword
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.protocols import Mask
from rag_serving.records.decisions import Decision
from rag_serving.retrieval.keyword.confidence import decided
from rag_serving.retrieval.keyword.question import KeywordQuestion, QuestionReader
from rag_serving.retrieval.keyword.scoring import By, Scored, best_first
from rag_serving.retrieval.passages import Passages
from rag_serving.retrieval.ranking import SCORE, Ranking

KEYWORD = "keyword"
"""The column of its scores; its ranks are in `keyword_rank`."""
BY_TITLE, BY_QUOTE = "the question asks for a page by its whole title", "one page alone holds the words in quotes"
_CONTENDERS = 3
_DOCUMENTS = 2  # times as many documents as an answer is made from


@dataclass(frozen=True)
class KeywordRun:
    """One question with its scores over what one reader may see."""

    settings: Keyword
    keywords: ReadableKeywords
    question: KeywordQuestion
    scored: Scored

    def ranking(self, k: int) -> Ranking:
        """Return the first k rows, best first; columns `keyword` and `keyword_rank`.

        By documents: of each its opening, then its best chunks; by chunks: the best of all.
        """
        if self.scored.by == "chunks":
            return _ranking(self._chunks(k))
        pages = self.scored.pages(max(1, min(k, _DOCUMENTS * self.settings.top_k)))
        return _ranking(self.scored.openings(pages, self.settings.max_per_document)[:k] if pages else [])

    def decision(self, passages: Passages, holders: Mask | None = None, page: str | None = None) -> Decision:
        """Return what is done with the question.

        Args:
            passages: reads the chunks that speak for the documents.
            holders: the rows that hold what the question quotes: only their documents are meant.
            page: the title of the document that the question or its conversation names.
        """
        scored = self._holding(holders)
        best = scored.best(_CONTENDERS)
        chunks = passages.read(np.array([each.row for each in best], dtype=np.int64))
        if best and scored.named_page == best[0].page:
            return decided(best, chunks, self.settings, BY_TITLE)
        if len(best) == 1 and scored is not self.scored:
            return decided(best, chunks, self.settings, BY_QUOTE)
        decision = decided(best, chunks, self.settings)
        named = [place for place, chunk in enumerate(chunks) if chunk.title == page]
        if decision.action == "ambiguous" and named:
            return decided([best[named[0]]], [chunks[named[0]]], self.settings)
        return decision

    def _holding(self, holders: Mask | None) -> Scored:
        """Return the scores of the documents that hold what is quoted; of all where none does."""
        among = self.scored.among
        held = holders if holders is None or among is None else holders & among
        if held is None or not held.any():
            return self.scored
        return Scored(self.keywords, self.question, self.scored.by, held)

    def _chunks(self, k: int) -> list[tuple[int, float]]:
        """Return the best chunks; those of the page that is asked for by its name first."""
        rows, scores = self.scored.chunks
        named = self.scored.named_page
        if named is None:
            return best_first(rows, scores, k)
        first, its_scores = self.scored.rows_of(named)
        others = self.keywords.page_of[rows] != named
        return [*best_first(first, its_scores, k), *best_first(rows[others], scores[others], k)][:k]


def keyword_run(reader: QuestionReader, text: str, by: By, among: Mask | None = None) -> KeywordRun:
    """Return a question with its scores over what one reader may see; `among` [rows] narrows the search."""
    question = reader.read(text)
    scored = Scored(reader.keywords, question, by, among)
    return KeywordRun(reader.settings, reader.keywords, question, scored)


def _ranking(found: Sequence[tuple[int, float]]) -> Ranking:
    """Return rows with their scores, in their order."""
    rows, scores = np.array([row for row, _ in found], np.int64), np.array([score for _, score in found], np.float64)
    return Ranking(rows, {KEYWORD: scores, SCORE: scores, f"{KEYWORD}_rank": np.arange(1.0, len(rows) + 1)})
