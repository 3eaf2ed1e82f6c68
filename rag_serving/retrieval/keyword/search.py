"""A search by keywords: from a question to ranked rows and a decision.

Belongs here: the order of rows and documents, and the decision to answer from the best, to ask back or to decline. Does
not belong here: the formula (`scoring`), questions about two topics (`pipeline.locked`), running stages
(`retrieval.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rag_serving.config.sections import Keyword
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.protocols import Mask
from rag_serving.records.decisions import Action, Contender, Decision
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.keyword.question import KeywordQuestion, QuestionReader
from rag_serving.retrieval.keyword.scoring import Best, By, Scored, best_first
from rag_serving.retrieval.passages import Passages
from rag_serving.retrieval.ranking import SCORE, Ranking

MIN_SCORE = 3  # of the best document, else a question back
MIN_CONF = 0.3  # (best - second) / best, below which a question is ambiguous
MIN_GAP = 2  # lead over the second document, below which it is, too
MIN_MATCHED_TERMS = 2  # words of the question in the best document; an exact phrase in its title counts as two


def confidence_of(best: Sequence[Best]) -> float:
    """Return (best score - second score) / best score; 0 without results."""
    if not best or best[0].score <= 0:
        return 0.0
    second = best[1].score if len(best) > 1 else 0.0
    return max(0.0, (best[0].score - second) / best[0].score)


def decided(best: Sequence[Best], chunks: Sequence[Chunk], asked_for: str = "") -> Decision:
    """Return the decision on a question by its best documents, the best first.

    Args:
        best: the documents.
        chunks: the representative chunk of each document.
        asked_for: how the question names the first document, which then needs no rule; empty if it does not.
    """
    contenders = tuple(contender_of(each, chunk) for each, chunk in zip(best, chunks, strict=True))
    if asked_for:
        return Decision("answer", contenders[:1], 1.0, asked_for)
    action, reason = _ruled(best)
    return Decision(action, contenders, round(confidence_of(best), 4), reason)


def _ruled(best: Sequence[Best]) -> tuple[Action, str]:
    if not best or best[0].score <= 0:
        return "no_match", "no document has a word of the question"
    top, second = best[0], best[1].score if len(best) > 1 else 0.0
    if top.matched_terms < MIN_MATCHED_TERMS:
        return "weak", f"{top.matched_terms} of {MIN_MATCHED_TERMS} words matched"
    if not top.is_named and not top.has_phrase:
        return "weak", "no word of the question is in the title or the labels"
    if top.score < MIN_SCORE:
        return "weak", f"the best score is {top.score:.2f}, {MIN_SCORE:g} is needed"
    if top.score - second < MIN_GAP:
        return "ambiguous", f"the best leads by {top.score - second:.2f}, {MIN_GAP:g} is needed"
    if confidence_of(best) < MIN_CONF:
        return "ambiguous", f"the confidence is {confidence_of(best):.2f}, {MIN_CONF:g} is needed"
    return "answer", f"the best score is {top.score:.2f}, the second {second:.2f}"


def contender_of(best: Best, chunk: Chunk) -> Contender:
    """Return a document as a possible meaning of a question; its category, else its space or source."""
    category = chunk.category or chunk.space or chunk.source
    return Contender(chunk.title, category, f"What is {chunk.title}?", chunk.url, chunk.page_id, round(best.score, 4))


KEYWORD = "keyword"
"""The column of its scores; its ranks are in `keyword_rank`."""
BY_TITLE, BY_QUOTE = "the question asks for a page by its whole title", "one page alone holds the words in quotes"
_CONTENDERS = 3
_DOCUMENTS = 2  # times as many documents as an answer is made from


@dataclass(frozen=True)
class KeywordRun:
    """One question with its scores over one reader's rows."""

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
        """Return the decision on the question.

        Args:
            passages: reads the documents' representative chunks.
            holders: the rows with the question's quotes, which restrict the documents.
            page: the title of the document that the question or its conversation names.
        """
        scored = self._holding(holders)
        best = scored.best(_CONTENDERS)
        chunks = passages.read(np.array([each.row for each in best], dtype=np.int64))
        if best and scored.named_page == best[0].page:
            return decided(best, chunks, BY_TITLE)
        if len(best) == 1 and scored is not self.scored:
            return decided(best, chunks, BY_QUOTE)
        decision = decided(best, chunks)
        named = [place for place, chunk in enumerate(chunks) if chunk.title == page]
        if decision.action == "ambiguous" and named:
            return decided([best[named[0]]], [chunks[named[0]]])
        return decision

    def _holding(self, holders: Mask | None) -> Scored:
        """Return the scores of the documents with the quotes; of all if none has them."""
        among = self.scored.among
        held = holders if holders is None or among is None else holders & among
        if held is None or not held.any():
            return self.scored
        return Scored(self.keywords, self.question, self.scored.by, held)

    def _chunks(self, k: int) -> list[tuple[int, float]]:
        """Return the best chunks, those of the page named by its title first."""
        rows, scores = self.scored.chunks
        named = self.scored.named_page
        if named is None:
            return best_first(rows, scores, k)
        first, its_scores = self.scored.rows_of(named)
        others = self.keywords.page_of[rows] != named
        return [*best_first(first, its_scores, k), *best_first(rows[others], scores[others], k)][:k]


def keyword_run(reader: QuestionReader, text: str, by: By, among: Mask | None = None) -> KeywordRun:
    """Return a question with its scores over one reader's rows; `among` [rows] narrows the search."""
    question = reader.read(text)
    scored = Scored(reader.keywords, question, by, among)
    return KeywordRun(reader.settings, reader.keywords, question, scored)


def _ranking(found: Sequence[tuple[int, float]]) -> Ranking:
    """Return rows with their scores, in their order."""
    rows, scores = np.array([row for row, _ in found], np.int64), np.array([score for _, score in found], np.float64)
    return Ranking(rows, {KEYWORD: scores, SCORE: scores, f"{KEYWORD}_rank": np.arange(1.0, len(rows) + 1)})
