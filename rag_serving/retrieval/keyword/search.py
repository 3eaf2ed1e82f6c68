"""A search by keywords: from a question to ranked rows and a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rag_serving.config.sections import Keyword
from rag_serving.indexes.keyword_index import ReadableKeywords
from rag_serving.indexes.view import Mask, Rows
from rag_serving.records.decisions import Action, Contender, Decision
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.keyword.question import KeywordQuestion, QuestionReader
from rag_serving.retrieval.ranking import SCORE, Passages, Ranking

PHRASE_IN_TITLE, IN_TITLE, IN_LABELS, IN_CONTENT = 5, 3, 2, 1

By = Literal["documents", "chunks"]
Numbers = NDArray[Any]


def final_scores(raw: Numbers, lengths: Numbers, has_phrase: Numbers) -> NDArray[np.float64]:
    """Return the scores [n] of sums of points: raw / √n of the content's words, raw - (raw - raw / √n) / 2 if the title
    has the phrase: to halve the divisor instead would leave every page over 53 words below a score of 3."""
    normalized = raw / np.sqrt(np.maximum(lengths, 1).astype(np.float64))
    return np.where(has_phrase, raw - (raw - normalized) / 2, normalized)


@dataclass(frozen=True)
class Best:
    """A document among the results."""

    page: int
    row: int  # its representative row: its best chunk
    score: float
    is_named: bool  # title or labels have a word of the question
    has_phrase: bool
    matched: tuple[str, ...]  # words of the question that it has

    @property
    def matched_terms(self) -> int:
        """Return how many words matched; an exact phrase in the title counts as two."""
        return max(len(self.matched), 2) if self.has_phrase else len(self.matched)


class Scored:
    """The scores of one question by documents or by chunks."""

    def __init__(
        self, keywords: ReadableKeywords, question: KeywordQuestion, by: By, among: Mask | None = None
    ) -> None:
        """`among` [rows] narrows the search; no score depends on it."""
        self._keywords, self._question, self.by, self.among = keywords, question, by, among
        rows, pages = keywords.size
        self._in_title = [keywords.pages_titled(token.forms, question.left_out) for token in question.tokens]
        self._in_labels = [keywords.pages_labelled(token.forms) for token in question.tokens]
        self._in_content = [keywords.rows_with(token.forms) for token in question.tokens]
        phrase = [token.forms for token in question.phrase]
        self._phrase_pages, self._whole_pages = keywords.pages_named(phrase, question.left_out)
        self._points = np.zeros(pages, np.int32)
        for found in self._in_title:
            self._points[found] += IN_TITLE
        for found in self._in_labels:
            self._points[found] += IN_LABELS
        self._points[self._phrase_pages] += PHRASE_IN_TITLE
        self._has_phrase = np.zeros(pages, np.bool_)
        self._has_phrase[self._phrase_pages] = True
        self._content = np.zeros(rows, np.int32)
        for found in self._in_content:
            self._content[found] += IN_CONTENT

    @cached_property
    def named_page(self) -> int | None:
        """The one page whose title is the topic of a question frame; None without a frame, or if several are."""
        whole = self._whole_pages
        if not self._question.is_framed or len(whole) != 1 or not len(self._among_of(int(whole[0]))):
            return None
        return int(whole[0])

    @cached_property
    def chunks(self) -> tuple[Rows, NDArray[np.float64]]:
        """The rows that match, ascending, and their scores as chunks."""
        raw = self._content + self._points[self._keywords.page_of]
        matching = raw > 0
        matching &= self._keywords.readable
        if self.among is not None:
            matching &= self.among
        rows = np.flatnonzero(matching)
        return rows, self.scores_of(rows)

    @cached_property
    def documents(self) -> tuple[Rows, NDArray[np.float64]]:
        """The pages that match, ascending, and their scores as documents."""
        raw = self._points.copy()
        for found in self._in_content:
            pages = self._keywords.page_of[found]
            raw[pages[_starts(pages)]] += IN_CONTENT
        if self.among is not None:
            inside = np.zeros(len(raw), np.bool_)
            inside[self._keywords.page_of[self.among & self._keywords.readable]] = True
            raw *= inside
        pages = np.flatnonzero(raw)
        return pages, final_scores(raw[pages], self._keywords.page_lengths[pages], self._has_phrase[pages])

    def scores_of(self, rows: Rows) -> NDArray[np.float64]:
        """Return the scores [n] of some rows as chunks; 0 if nothing matches."""
        pages = self._keywords.page_of[rows]
        raw = self._content[rows] + self._points[pages]
        return final_scores(raw, self._keywords.lengths[rows], self._has_phrase[pages])

    def pages(self, count: int) -> list[tuple[int, float]]:
        """Return the best documents with their scores, best first: their own, or those of their best chunks. The one
        document whose title is the topic of a question frame comes first: "What is home?" means the page `Home`."""
        pages, scores = self.documents if self.by == "documents" else self._by_best_chunk()
        found = best_first(pages, scores, count)
        named = self.named_page
        if named is not None and (place := np.flatnonzero(pages == named)).size:
            found = [(named, float(scores[place[0]])), *(each for each in found if each[0] != named)][:count]
        return found

    def best(self, count: int) -> list[Best]:
        """Return the same with each one's matched words of the question."""
        return [self._best(page, score) for page, score in self.pages(count)]

    def openings(self, pages: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
        """Return of each document its opening, then its best chunks, at most so many, with the document's score."""
        parts = [self._among_of(page) for page, _ in pages]
        sizes = [len(rows) for rows in parts]
        rows, document = np.concatenate(parts), np.repeat(np.arange(len(parts)), sizes)
        starts = np.cumsum([0, *sizes[:-1]])
        follows = np.ones(len(rows), np.bool_)
        follows[starts] = False
        order = np.lexsort((-self.scores_of(rows), follows, document))
        chosen = order[np.arange(len(rows)) - starts[document] < most]
        scores = (pages[place][1] for place in document[chosen].tolist())
        return [*zip(rows[chosen].tolist(), scores, strict=True)]

    def rows_of(self, page: int) -> tuple[Rows, NDArray[np.float64]]:
        """Return the rows of a document, ascending, and their scores as chunks."""
        rows = self._among_of(page)
        return rows, self.scores_of(rows)

    def _among_of(self, page: int) -> Rows:
        rows = self._keywords.rows_of(page)
        return rows if self.among is None else rows[self.among[rows]]

    def _by_best_chunk(self) -> tuple[Rows, NDArray[np.float64]]:
        rows, scores = self.chunks
        pages = self._keywords.page_of[rows]
        starts = _starts(pages)
        return pages[starts].astype(np.int64), np.maximum.reduceat(scores, starts) if len(starts) else scores

    def _best(self, page: int, score: float) -> Best:
        rows, scores = self.rows_of(page)
        row = int(rows[np.argmax(scores)])
        first, last = (int(rows[0]), int(rows[-1])) if self.by == "documents" else (row, row)
        columns = zip(self._in_title, self._in_labels, self._in_content, strict=True)
        where = [
            (_any(titles, page, page), _any(labels, page, page), _any(held, first, last))
            for titles, labels, held in columns
        ]
        return Best(
            page=page,
            row=row,
            score=score,
            is_named=any(in_title or in_labels for in_title, in_labels, _ in where),
            has_phrase=bool(self._has_phrase[page]),
            matched=tuple(word for word, places in zip(self._question.words, where, strict=True) if any(places)),
        )


def best_first(values: Rows, scores: NDArray[np.float64], count: int) -> list[tuple[int, float]]:
    """Return the values with the highest scores, and these; of equal ones the first."""
    if len(values) > count:
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        chosen = np.flatnonzero(scores >= least)
        values, scores = values[chosen], scores[chosen]
    order = np.argsort(-scores, kind="stable")[:count]
    return [*zip(values[order].tolist(), scores[order].tolist(), strict=True)]


def _starts(ascending: Numbers) -> Rows:
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _any(ascending: Rows, first: int, last: int) -> bool:
    """Return whether a value lies between two, both included."""
    place = int(ascending.searchsorted(first))
    return place < len(ascending) and int(ascending[place]) <= last


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
    """Return the decision on a question by its best documents, the best first. `best`: the documents. `chunks`: the
    representative chunk of each document. `asked_for`: how the question names the first document, which then needs no
    rule; empty if it does not."""
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


KEYWORD = "keyword"  # the column of its scores; its ranks are in `keyword_rank`
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
        """Return the first k rows, best first; columns `keyword` and `keyword_rank`. By documents: of each its opening,
        then its best chunks; by chunks: the best of all."""
        if self.scored.by == "chunks":
            return _ranking(self._chunks(k))
        pages = self.scored.pages(max(1, min(k, _DOCUMENTS * self.settings.top_k)))
        return _ranking(self.scored.openings(pages, self.settings.max_per_document)[:k] if pages else [])

    def decision(self, passages: Passages, holders: Mask | None = None, page: str | None = None) -> Decision:
        """Return the decision on the question. `passages`: reads the documents' representative chunks. `holders`: the
        rows with the question's quotes, which restrict the documents. `page`: the title of the document that the
        question or its conversation names."""
        scored, among = self.scored, self.scored.among
        held = holders if holders is None or among is None else holders & among
        if held is not None and held.any():
            scored = Scored(self.keywords, self.question, scored.by, held)
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

    def _chunks(self, k: int) -> list[tuple[int, float]]:
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
    rows, scores = np.array([row for row, _ in found], np.int64), np.array([score for _, score in found], np.float64)
    return Ranking(rows, {KEYWORD: scores, SCORE: scores, f"{KEYWORD}_rank": np.arange(1.0, len(rows) + 1)})
