"""Candidates of both indexes and their order: each index searched alone, results combined, one score. Scores say how
much better one candidate is, ranks only that it is. So scores are fused by default, each brought to mean 0 and
deviation 1 over the candidates first; ranks remain for indexes whose scores mean nothing. All evidence comes from rows
visible to the reader: a hidden page raises nothing. Verbatim matches of a query come before similar ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.manifest import WORDS
from rag_serving.config.sections import Retrieval
from rag_serving.indexes.lexical import best_of
from rag_serving.indexes.view import ReaderView, Vector
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Query
from rag_serving.retrieval.ranking import RANK_SUFFIX, SCORE, Ranking, Scores, min_max, standard
from rag_serving.retrieval.stage import SearchContext
from rag_serving.text.normalization import caseless, holds

HEADING, SENTENCE = "heading", "sentence"  # the columns of both similarities; NaN where no vector is stored
POOL = 30
HEADING_WORTH, SENTENCE_WORTH = 0.1, 0.2
"""Deviations of the score that one deviation of each is worth: twice and three times as much find more of what people
ask in their own words, and put the right paragraph of SQuAD first less often."""


@dataclass(frozen=True)
class SentenceEvidence:
    """The first rows in the order of score and sentences; columns `heading` and `sentence`: one answering sentence of a
    passage is visible in its own vector only (Dai and Callan, SIGIR 2019). Without stored vectors, or without a vector
    of the query, everything stays as it is."""

    pool: int = POOL  # how many rows are reordered

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        first = ranking.head(self.pool)
        if context.vector is None or not len(first):
            return ranking
        found = context.view.sentence_evidence(context.vector, first.rows.tolist())
        if np.isnan(found).all():
            return ranking
        evidence = np.full((len(ranking), 2), np.nan)
        evidence[: len(first)] = found
        score, order = ranking.score.copy(), np.arange(len(ranking))
        worth = HEADING_WORTH * _standard(found[:, 0]) + SENTENCE_WORTH * _standard(found[:, 1])
        deviation = first.score.std() or 1.0
        lifted = first.score + deviation * worth
        floor = score[len(first)] if len(ranking) > len(first) else -np.inf
        score[: len(first)] = np.maximum(lifted, floor)
        order[: len(first)] = np.argsort(-score[: len(first)], kind="stable")
        columns = {HEADING: evidence[:, 0], SENTENCE: evidence[:, 1], SCORE: score}
        return Ranking(ranking.rows, {**ranking.columns, **columns}).take(order)


def _standard(values: Scores) -> Scores:
    """Return values [n] with mean 0 and deviation 1; unknown ones become the least of them."""
    known = values[~np.isnan(values)]
    return standard(np.where(np.isnan(values), known.min() if len(known) else 0.0, values))


Mode = Literal["hybrid", "dense", "lexical", "keyword_documents", "keyword_chunks"]
"""What passages are found by; the last two by words of titles, labels and text alone."""

DENSE_UNAVAILABLE, LEXICAL_UNAVAILABLE = "dense_unavailable", "lexical_unavailable"
COLUMNS = {"dense": "dense", "lexical": "bm25"}
"""The column of each index's scores; its ranks are in `dense_rank` and `lexical_rank`."""


class RetrievalError(Exception):
    """No index can answer; the message says why."""


def query_vector(view: ReaderView, embedder: Embedder, query: str) -> Vector:
    """Return the query's vector [d], if it can be compared with those of the generation. Raises ModelError: the model
    does not answer, or is not the one that made the generation's vectors."""
    built = view.embedder
    if built == WORDS:
        return embedder.embed_query(query)  # sentences are compared with it
    if embedder.name != built.name:
        raise ModelError(
            f"the index was built with {built.name}, the configuration names {embedder.name}; run `citelock build`"
        )
    vector = embedder.embed_query(query)
    if vector.shape != (built.dimension,):
        raise ModelError(f"the model gave a vector of shape {vector.shape}, the index has {built.dimension} dimensions")
    return vector


@dataclass(frozen=True)
class DenseSearch:
    """The k nearest rows by cosine similarity; columns `dense` and `dense_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        if context.vector is None or context.view.embedder == WORDS:
            return ranking
        hits = context.view.dense(context.vector, self.k, context.among)
        return ranking.joined(Ranking.of_hits("dense", "dense_rank", hits))


@dataclass(frozen=True)
class LexicalSearch:
    """The k best rows by BM25; columns `bm25` and `lexical_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        scores, among = context.lexical_scores, context.among
        hits = best_of(scores if among is None else np.where(among, scores, np.float32(0)), self.k)
        return ranking.joined(Ranking.of_hits("bm25", "lexical_rank", hits))


@dataclass(frozen=True)
class Candidates:
    """The rows that an index ranked near enough, each scored by every index that answered."""

    mode: Mode
    cosine_floor: float

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        if not ranking.columns:
            message = "neither index can answer" if self.mode == "hybrid" else f"the {self.mode} index cannot answer"
            raise RetrievalError(message)
        near = ranking.column("dense") >= self.cosine_floor
        found = np.flatnonzero(near | ~np.isnan(ranking.column("lexical_rank")))
        order = found[np.argsort(ranking.rows[found])]
        columns = dict(ranking.take(order).columns)
        rows = ranking.rows[order]
        if "dense" in columns and context.vector is not None:
            columns["dense_rank"] = np.where(near[order], columns["dense_rank"], np.nan)
            columns["dense"] = context.view.similarities(context.vector, rows).astype(np.float64)
        if "bm25" in columns:
            columns["bm25"] = context.lexical_scores[rows].astype(np.float64)
        return Ranking(rows, columns)


Method = Literal["zscore", "minmax", "rrf"]


@dataclass(frozen=True)
class Fusion:
    """One score of both indexes, or of the only one that answered; column `fused`."""

    settings: Retrieval

    def __call__(self, _: SearchContext, ranking: Ranking) -> Ranking:
        settings = self.settings
        if settings.fusion == "rrf":
            ranks = (values for name, values in ranking.columns.items() if name.endswith(RANK_SUFFIX))
            fused = reciprocal_rank_fusion(ranks, settings.rrf_k)
        else:
            weights = {"dense": settings.dense_weight, "bm25": 1 - settings.dense_weight}
            scores = {name: ranking.columns[name] for name in weights if name in ranking.columns}
            fused = weighted_sum(scores, weights, settings.fusion)
        fused = standard(fused)
        return Ranking(ranking.rows, {**ranking.columns, "fused": fused, SCORE: fused})


@dataclass(frozen=True)
class SingleIndex:
    """The scores of one index as they are."""

    column: str

    def __call__(self, _: SearchContext, ranking: Ranking) -> Ranking:
        return ranking.with_scores(SCORE, ranking.column(self.column))


def reciprocal_rank_fusion(ranks: Iterable[Scores], k: int = 60) -> Scores:
    """Return the sum [n] of 1 / (k + rank) over the ranks [n] in each index, counted from 1; NaN: not ranked by it.
    Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
    SIGIR 2009."""
    shares = [np.nan_to_num(1.0 / (k + values), nan=0.0) for values in ranks]
    total: Scores = np.sum(shares, axis=0)
    return total


def weighted_sum(scores: Mapping[str, Scores], weights: Mapping[str, float], method: Method = "zscore") -> Scores:
    """Return the weighted mean [n] of the normalized scores [n] of every index, which all score the same n candidates.
    Fox and Shaw, "Combination of Multiple Searches", TREC-2 (1994), CombSUM; normalized as compared by Montague and
    Aslam, "Relevance Score Normalization for Metasearch", CIKM 2001."""
    normalize = min_max if method == "minmax" else standard
    total = sum(weights[index] for index in scores)
    shares = [weights[index] / total * normalize(values) for index, values in scores.items()]
    mean: Scores = np.sum(shares, axis=0)
    return mean


Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class PageEvidence:
    """The evidence added to the fused score; columns `page`, `document`, `parent`, none for a weight of 0."""

    settings: Retrieval

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        """`ranking`: in the order of the rows, with the column `fused`."""
        view, rows, fused, settings = context.view, ranking.rows, ranking.columns["fused"], self.settings
        worth: dict[str, Scores] = {}
        pages = view.pages(rows)
        if settings.page_weight:
            worth["page"] = settings.page_weight * of_page(fused, pages)
        if settings.document_weight and "bm25" in ranking.columns:
            means = view.page_means(context.lexical_scores, rows)
            worth["document"] = settings.document_weight * standard(means)
        if settings.parent_weight:
            so_far = fused + worth.get("page", 0.0)
            worth["parent"] = settings.parent_weight * of_parent(so_far, pages, view.parents(rows))
        score = np.sum([fused, *worth.values()], axis=0)
        return Ranking(rows, {**ranking.columns, **worth, SCORE: score})


def of_page(scores: Scores, pages: Numbers) -> Scores:
    """Return the best score of a candidate's page, as a standard score [n]. Passages of a page that has a good one are
    better than the same passages elsewhere: document evidence in passage retrieval, Callan, "Passage-Level Evidence in
    Document Retrieval", SIGIR 1994, turned around."""
    numbers, places = np.unique(pages, return_inverse=True)
    return standard(_best(scores, places, len(numbers))[places])


def of_parent(scores: Scores, pages: Numbers, parents: Numbers) -> Scores:
    """Return the best score of the page above a candidate's own [n]; 0 if it has none above 0 or is no candidate. A
    question in the words of an overview page is about one of the pages below it. `parents` are page numbers, below zero
    for none."""
    numbers, places = np.unique(pages, return_inverse=True)
    best = np.maximum(_best(scores, places, len(numbers)), 0.0)
    found = np.minimum(np.searchsorted(numbers, parents), max(len(numbers) - 1, 0))
    worth: Scores = np.where(numbers[found] == parents, best[found], 0.0) if len(numbers) else np.zeros(0)
    return worth


def _best(scores: Scores, places: Numbers, count: int) -> Scores:
    best = np.full(count, -np.inf)
    np.maximum.at(best, places, scores)
    return best


@dataclass(frozen=True)
class Diversity:
    """All candidates in the order of maximal marginal relevance; their scores stay."""

    balance: float

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        relevance, vectors = min_max(ranking.score).tolist(), context.view.vectors(ranking.rows.tolist())
        return ranking.take(maximal_marginal_relevance(relevance, vectors, len(ranking), self.balance))


def maximal_marginal_relevance(
    relevance: Sequence[float], vectors: NDArray[np.float32], count: int, balance: float = 0.5
) -> list[int]:
    """Positions of up to `count` items, chosen one by one for `balance * relevance - (1 - balance) * max similarity`.
    Carbonell and Goldstein, "The Use of MMR, Diversity-Based Reranking", SIGIR 1998. `relevance` should lie in [0, 1]
    and `vectors` [n, d] be L2-normalized, so that both terms have one scale. Ties go to the earlier item."""
    if len(relevance) != len(vectors):
        raise ValueError(f"{len(relevance)} relevance scores do not fit {len(vectors)} vectors")
    gain = balance * np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(gain))
    open_ = np.ones(len(gain), dtype=bool)
    chosen: list[int] = []
    while open_.any() and len(chosen) < count:
        best = int(np.argmax(np.where(open_, gain - (1 - balance) * nearest, -np.inf)))
        chosen.append(best)
        open_[best] = False
        nearest = np.maximum(nearest, vectors @ vectors[best])
    return chosen


ASKED_FOR = "asked for"

# In spans between the best and the last score: each phrase outweighs whatever ranked the candidates; words that name a
# page may be meant otherwise.
_PHRASE, _PAGE = 1.1, 0.5

# Passages with a quoted phrase that are added where the indexes ranked others before them.
_ADDED = 20


def add_quoted(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the ranking, and at its end rows with a quoted phrase that it lacks, scored as its last."""
    if context.holders is None:
        return ranking
    among = context.holders if context.among is None else context.holders & context.among
    hits = Ranking.of_hits("bm25", "lexical_rank", context.view.lexical(context.query.terms, _ADDED, among))
    added = hits.where(~np.isin(hits.rows, ranking.rows))
    last = float(ranking.score.min()) if len(ranking) else 0.0
    scores = {"bm25": added.columns["bm25"], SCORE: np.full(len(added), last)}
    return ranking.joined(Ranking(added.rows, scores))


def boost(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the rows best first, those with quoted phrases or of the named page raised; column `asked for`. Other rows
    keep score and order. No passage is read if the query names neither."""
    query = context.query
    if not len(ranking) or not (query.phrases or query.page):
        return ranking
    span = float(np.ptp(ranking.score)) or 1.0
    worth = np.array([_worth(chunk, query) for chunk in context.passages.read(ranking.rows)])
    raised = np.where(worth > 0, ranking.score + worth * span, np.nan)
    return ranking.scored(ASKED_FOR, raised).ordered_by(SCORE)


def _worth(chunk: Chunk, query: Query) -> float:
    text = caseless(f"{' '.join(chunk.heading_path)}\n{chunk.text}")
    phrases = sum(holds(text, caseless(phrase)) for phrase in query.phrases)
    return _PHRASE * phrases + _PAGE * (chunk.title == query.page)
