"""The explanation of a search: reasons for each locked passage, and what was left out, in codes and one line of
English. Everything is read from the stages' columns, and from chunks that the reader may see."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from rag_serving.indexes.view import ReaderView
from rag_serving.records.answers import Evidence, SearchResults, Source
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.records.queries import Query
from rag_serving.retrieval.hybrid import COLUMNS
from rag_serving.retrieval.hygiene import is_near, shares_words
from rag_serving.retrieval.ranking import SCORE, Ranking, Scores
from rag_serving.retrieval.search import Search
from rag_serving.text.directed import MASK, REPLACED, neutralized, without_directed
from rag_serving.text.keyword_words import words_in
from rag_serving.text.marks import has_mark, is_role
from rag_serving.text.normalization import caseless, holds
from rag_serving.text.orders import may_order, orders_assistant
from rag_serving.text.structure import decode, structure_of

SNIPPET = 240  # characters of a snippet, at most
_MOST = 4000  # characters of a passage that a snippet is looked for in
_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")


def evidence_of(search: Search, lock: Lock, has_snippets: bool = True) -> tuple[Evidence, ...]:
    """Return a record for each locked passage. `has_snippets`: whether they show text; a withheld answer must not."""
    words = QueryWords.of(search.query, search.context.term_weights)
    places, hashes = _RankedPlaces(search), dict[str, str]()

    def evidence(candidate: Candidate) -> Evidence:
        chunk, matched = candidate.chunk, _matched(search, words, candidate.chunk)
        if chunk.page_id not in hashes:
            hashes[chunk.page_id] = content_hash(search.context.view, chunk)
        heading = chunk.heading_path[-1] if chunk.heading_path else ""
        file = (chunk.source_file.rpartition(".")[0] or chunk.source_file) if chunk.source_file else ""
        reasons = reasons_of(candidate, words, places.by_stage(chunk), places.moved(chunk))
        return Evidence(
            doc_slug=chunk.slug or file or chunk.page_id,
            title=_harmless(chunk.title),
            category=_harmless(chunk.category or ""),
            snippet=snippet_of(_read_text(chunk.text, chunk.structure, heading), matched) if has_snippets else "",
            score=round(candidate.score, 4),
            header_path=tuple(map(_harmless, chunk.heading_path)),
            content_hash=hashes[chunk.page_id],
            matched_terms=matched,
            source=_source(search, candidate),
            match_explain=tuple(reason.line for reason in reasons),
            chunk_index=chunk.chunk_idx,
            chunk_hash=chunk.text_hash,
        )

    return tuple(map(evidence, lock.passages))


def content_hash(view: ReaderView, chunk: Chunk) -> str:
    """Return a digest of all texts of a chunk's page that the reader may see, in the page's order."""
    row = view.row_of(chunk.chunk_id)
    if row is None:
        return ""
    rows = view.keywords.rows_of(int(view.keywords.page_of[row]))
    return hashlib.sha256("\n".join(view.text_hashes(rows)).encode()).hexdigest()[:32]


def snippet_of(text: str, matched: Iterable[str]) -> str:
    """Return a part of a text, on one line, that begins with the sentence that has most of some words."""
    parts = [part for part in _BREAK.split(text[:_MOST]) if part.strip()]
    if not parts:
        return ""
    wanted = frozenset(matched)
    counts = [len(wanted.intersection(words_in(part))) for part in parts]
    line = " ".join(" ".join(parts[counts.index(max(counts)) :]).split())
    if len(line) <= SNIPPET:
        return line
    return f"{line[: SNIPPET - 2].rpartition(' ')[0] or line[: SNIPPET - 2]} …"


def _harmless(name: str) -> str:
    """Return a title or heading; of one that is meant for an assistant nothing."""
    return REPLACED if orders_assistant(name) or is_role(name) or has_mark(name) else name


@lru_cache(maxsize=1024)
def _read_text(text: str, structure: str, heading: str) -> str:
    """Return the text of a passage of this structure, remembered: many questions find the same passages."""
    parts = decode(structure) if structure else structure_of(text)
    read = without_directed(text, parts, heading).replace(MASK, "")
    return neutralized(read)[0] if may_order(read) else read


def _matched(search: Search, words: QueryWords, chunk: Chunk) -> tuple[str, ...]:
    """Return the words of the question that a chunk has, as the question has them."""
    text = "\n".join((chunk.headings, " ".join(chunk.labels), chunk.text))
    if search.context.keywords:
        return search.context.keywords.question.shared(words_in(text))
    terms = frozenset(words.query.analyze_passage(text))
    return tuple(dict.fromkeys(word.lower() for term, word in words.words.items() if term in terms))


def _source(search: Search, candidate: Candidate) -> Source:
    if search.context.keywords or candidate.ranks.keys() == {"lexical"}:
        return "keyword"
    return "embedding" if candidate.ranks.keys() == {"dense"} else "hybrid"


Code = Literal[
    "title_words", "heading_words", "text_words", "label", "space", "phrase", "named_page", "keyword_rank",
    "lexical_rank", "dense_rank", "rerank_rank", "sentence", "newest", "older", "steps",
]  # fmt: skip
_MOST_WORDS = 4
_LONGEST = 40  # characters of a word that is shown
_PART = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\s,;!?\"“”()]+")

_REASONS: Mapping[Code, str] = {
    "title_words": "title has {words}",
    "heading_words": "heading has {words}",
    "text_words": "text has {words}",
    "label": "labelled {words}",
    "space": "in the space {words}",
    "phrase": "holds {words} to the letter",
    "named_page": "on the page that the question names",
    "keyword_rank": "keyword rank {rank}",
    "lexical_rank": "BM25 rank {rank}",
    "dense_rank": "dense rank {rank}",
    "rerank_rank": "reranker rank {rank}",
    "sentence": "holds the sentence nearest in meaning",
    "newest": "the newest version of this section, or the one that was asked for",
    "older": "another version of this section comes before it",
    "steps": "goes on with the steps of another passage",
}


@dataclass(frozen=True)
class Reason:
    """One reason for a passage: query words that it has, or its rank by a stage, from 1."""

    code: Code
    words: tuple[str, ...] = ()
    rank: int | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape, without empty fields."""
        shape = {"code": self.code, "words": list(self.words), "rank": self.rank}
        return {name: value for name, value in shape.items() if value}

    @property
    def line(self) -> str:
        """Return the reason in words."""
        words = ", ".join(f"‘{word}’" for word in self.words)
        return _REASONS[self.code].format(words=words, rank=self.rank)


@dataclass(frozen=True)
class QueryWords:
    """A query's words by the terms that they give, the rarest first."""

    query: Query
    words: Mapping[str, str]

    @classmethod
    def of(cls, query: Query, weights: Mapping[str, float]) -> QueryWords:
        """`weights`: inverse document frequencies among the reader's rows."""
        words: dict[str, str] = {}
        for word in _WORD.findall(query.text):
            for name in (word.strip(".:'’"), *_PART.findall(word)):
                for term in query.analyze(name)[:1]:  # of a compound name the whole; its parts are named apart
                    words.setdefault(term, name[:_LONGEST])
        known = sorted((term for term in words if term in weights), key=lambda term: -weights[term])
        return cls(query, {term: words[term] for term in known})

    def shared(self, text: str) -> tuple[str, ...]:
        """Return the words that a text has, each once; of a compound name that it has no parts."""
        terms = set(self.query.analyze_passage(text))
        found = dict.fromkeys(word for term, word in self.words.items() if term in terms)
        parts = {part for word in found for part in _PART.findall(word) if part != word}
        return tuple(word for word in found if word not in parts)[:_MOST_WORDS]


def reasons_of(candidate: Candidate, words: QueryWords, by_stage: Mapping[str, int], moved: int) -> tuple[Reason, ...]:
    """Return the reasons for a passage, the most visible first. `by_stage`: its ranks by the stages after fusion;
    `moved`: above 0 if it took the place of another version of its section, below 0 if another one took its."""
    if "steps" in candidate.scores:
        return (Reason("steps"),)
    return tuple(_reasons(candidate, words, by_stage, moved))


def _reasons(candidate: Candidate, words: QueryWords, by_stage: Mapping[str, int], moved: int) -> Iterator[Reason]:
    chunk, query = candidate.chunk, words.query
    headings = " ".join(heading for heading in chunk.heading_path if heading != chunk.title)
    texts: dict[Code, str] = {"title_words": chunk.title, "heading_words": headings, "text_words": chunk.text}
    for code, text in texts.items():
        if shared := words.shared(text):
            yield Reason(code, shared)
    whole = caseless(f"{' '.join(chunk.heading_path)}\n{chunk.text}")
    if phrases := [phrase for phrase in query.phrases if holds(whole, caseless(phrase))]:
        yield Reason("phrase", tuple(phrase[:_LONGEST] for phrase in phrases[:_MOST_WORDS]))
    if query.page and chunk.title == query.page:
        yield Reason("named_page")
    wanted = {*query.filters.labels, *query.scope.labels}
    if labels := [label for label in chunk.labels if label in wanted]:
        yield Reason("label", tuple(labels[:_MOST_WORDS]))
    if chunk.space in {*query.filters.space, *query.scope.space}:
        yield Reason("space", (chunk.space,))
    ranks: dict[Code, int | None] = {
        "keyword_rank": candidate.ranks.get("keyword"),
        "lexical_rank": candidate.ranks.get("lexical"),
        "dense_rank": candidate.ranks.get("dense"),
        "rerank_rank": by_stage.get("rerank"),
    }
    for place, rank in ranks.items():
        if rank is not None:
            yield Reason(place, rank=rank)
    if by_stage.get("sentence") == 1:
        yield Reason("sentence")
    if moved:
        yield Reason("newest" if moved > 0 else "older")


def line_of(reasons: Sequence[Reason]) -> str:
    """Return the reasons as one line."""
    return "; ".join(reason.line for reason in reasons) or "near in meaning"


Exclusion = Literal["boilerplate", "label", "few_words", "no_anchor", "ranked_lower"]
MOST = 12
_INDEXES = {"lexical": "BM25"}
_LINES: dict[Exclusion, str] = {
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
    reason: Exclusion
    ranks: Mapping[str, int]  # in each index that returned it, from 1

    @property
    def line(self) -> str:
        """Return the reason in words, with the ranks if nothing but they decided."""
        ranks = ", ".join(f"{_INDEXES.get(index, index)} rank {rank}" for index, rank in self.ranks.items())
        return _LINES[self.reason] + (f": {ranks}" if ranks and self.reason == "ranked_lower" else "")


def left_out(search: Search, locked: Collection[str], min_overlap: int) -> list[LeftOut]:
    """Return the first candidates, in their order before reranking, that are not among the locked chunk ids."""
    context, ranking, gated = search.context, all_columns(search), search.rankings.get("keyword_gate")
    clean, near = set(search.rankings["hygiene"].rows.tolist()), set(ranking.rows[is_near(ranking)].tolist())
    passed = None if gated is None else near.union(gated.rows.tolist())

    def reason(row: int, chunk: Chunk) -> Exclusion:
        if row not in clean:
            return "boilerplate" if chunk.is_boilerplate else "label"
        has_passed = passed is None or row in passed
        if not has_passed and not shares_words(chunk, context.query, min_overlap, context.term_weights):
            return "few_words"
        return "ranked_lower" if chunk.url.partition("#")[2] else "no_anchor"

    first = search.candidates.head(MOST + len(locked))
    found = zip(first.rows.tolist(), context.passages.read(first.rows), first.records(), strict=True)
    others = [each for each in found if each[1].chunk_id not in locked][:MOST]
    return [LeftOut(chunk, reason(row, chunk), ranks) for row, chunk, (_, _, ranks) in others]


_SHARES = {"dense": "dense", "lexical": "bm25", "sentence": "sentence"}
"""Scores with a zero of their own: shown as a share of the best one."""
_SPANS = {"page": "page", "rerank": "rerank", "final": SCORE}
"""Scores on a scale of this question alone: shown between its last candidate (0) and its best one (1)."""


def why_of(search: Search, lock: Lock, numbers: Mapping[int, int], min_overlap: int) -> dict[str, Any]:
    """Return the passages of the lock with their reasons, and the first candidates that are none of them. `numbers`:
    those that the answer cites passages by, by their places in the lock; `min_overlap`: the words that a passage has to
    share with a question."""
    places = _RankedPlaces(search)
    words = QueryWords.of(search.query, search.context.term_weights)
    passages = [
        _passage(places, words, place, candidate, numbers.get(place))
        for place, candidate in enumerate(lock.passages, start=1)
    ]
    others = left_out(search, set(lock.chunk_ids), min_overlap)
    return {
        "passages": passages,
        "left_out": [{**_shown(each.chunk), "reason": each.reason, "why": each.line} for each in others],
    }


class _RankedPlaces:
    """The positions of a search's rows, and their scores beside the best of the question."""

    def __init__(self, search: Search) -> None:
        self._view = search.context.view
        self.candidates, self.final = all_columns(search), search.ranking
        shares = {name: _share(self.candidates.column(column)) for name, column in _SHARES.items()}
        spans = {
            name: _span((self.candidates if name == "page" else self.final).column(column))
            for name, column in _SPANS.items()
        }
        self._relative = {**shares, **spans}
        self._of_candidate = {row: place for place, row in enumerate(self.candidates.rows.tolist())}
        self._of_final = {row: place for place, row in enumerate(self.final.rows.tolist())}
        self.ranks = {name: _ranks(self.final.column(name)) for name in ("rerank", "sentence")}
        before = [*search.rankings].index("versions") - 1 if "versions" in search.rankings else -1
        self._before = [*search.rankings.values()][before].rows.tolist() if before >= 0 else []

    def of(self, chunk: Chunk) -> tuple[int | None, int | None]:
        """Return the places of a chunk among all candidates and in the last ranking, from 0."""
        row = self._view.row_of(chunk.chunk_id)
        return (None, None) if row is None else (self._of_candidate.get(row), self._of_final.get(row))

    def relative(self, chunk: Chunk) -> dict[str, float]:
        """Return the scores of the stages that scored a chunk, each 0 … 1."""
        candidate, final = self.of(chunk)
        at = {name: final if name in _SPANS and name != "page" else candidate for name in self._relative}
        found = {name: values[at[name]] for name, values in self._relative.items() if at[name] is not None}
        return {name: round(float(value), 3) for name, value in found.items() if value == value}

    def by_stage(self, chunk: Chunk) -> dict[str, int]:
        """Return the ranks of a chunk by the stages after fusion that scored it."""
        _, final = self.of(chunk)
        return {name: int(ranks[final]) for name, ranks in self.ranks.items() if final is not None and ranks[final]}

    def moved(self, chunk: Chunk) -> int:
        """Return how many places a chunk was moved up among versions of its section; below 0 if down."""
        row, (_, final) = self._view.row_of(chunk.chunk_id), self.of(chunk)
        return 0 if final is None or row not in self._before else self._before.index(row) - final


def _passage(
    places: _RankedPlaces, words: QueryWords, place: int, candidate: Candidate, number: int | None
) -> dict[str, Any]:
    chunk = candidate.chunk
    reasons = reasons_of(candidate, words, places.by_stage(chunk), places.moved(chunk))
    return {
        "index": number,
        "passage": place,
        **_shown(chunk),
        "space": chunk.space,
        "cited": number is not None,
        "scores": places.relative(chunk),
        "reasons": [each.payload() for each in reasons],
        "why": line_of(reasons),
    }


def _shown(chunk: Chunk) -> dict[str, Any]:
    return {
        "chunk_id": chunk.chunk_id,
        "page_id": chunk.page_id,
        "title": chunk.title,
        "heading_path": list(chunk.heading_path),
    }


def _share(values: Scores) -> Scores:
    """Return values [n] as a share of the largest, none below 0; NaN stays."""
    best = np.nanmax(values) if not np.isnan(values).all() else 0.0
    return np.where(np.isnan(values), np.nan, np.maximum(values, 0.0) / best if best > 0 else 0.0)


def _span(values: Scores) -> Scores:
    """Return values [n] between the least (0) and the largest (1); 1 if all are equal; NaN stays."""
    if np.isnan(values).all():
        return values
    least, most = np.nanmin(values), np.nanmax(values)
    return (values - least) / (most - least) if most > least else np.where(np.isnan(values), np.nan, 1.0)


def _ranks(values: Scores) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the rank [n] of each value, the largest 1; 0 if it is not known."""
    order = np.argsort(-values, kind="stable")
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[order] = np.arange(1, len(values) + 1)
    return np.where(np.isnan(values), 0, ranks)


RankedIds = list[tuple[str, float]]


def search_results(search: Search, k: int, explain: bool) -> SearchResults:
    """Return the first k passages; with `explain`, or without any, also how the query was read."""
    results = tuple(search.context.passages.candidates(search.ranking.head(k)))
    return SearchResults(
        results,
        search.context.view.id,
        notes=search.query.notes if explain or not results else None,
        reranker=search.reranker,
        query=search.query if explain else None,
        candidates=explained_candidates(search) if explain else (),
    )


def scored_ids(search: Search, most: int) -> list[tuple[str, dict[str, float]]]:
    """Return the first candidates by chunk id, each with the scores of every stage."""
    ranking = all_columns(search).head(most)
    ids = search.context.view.chunk_ids(ranking.rows.tolist())
    return [(chunk_id, scores) for chunk_id, (_, scores, _) in zip(ids, ranking.records(), strict=True)]


def explained_candidates(search: Search) -> tuple[Candidate, ...]:
    """Return all candidates in the order before reranking, each with the scores of every stage."""
    ranking = all_columns(search)
    candidates = search.context.passages.candidates(ranking, together=max(1, len(ranking)))
    clean = np.isin(ranking.rows, search.rankings["hygiene"].rows).tolist()
    pairs = zip(candidates, clean, strict=True)
    return tuple(candidate if kept else replace(candidate, dropped_by="hygiene") for candidate, kept in pairs)


def all_columns(search: Search) -> Ranking:
    """Return the candidates in their order, with the columns of the stages after them."""
    return search.candidates.joined(search.ranking)


def index_rankings(search: Search, most: int) -> dict[str, RankedIds]:
    """Return the best rows by chunk id: of each index alone (`dense`, `lexical`), and of both (`fused`)."""
    best = search.rankings["best"].head(most)
    found = {"fused": (best.rows, best.score)}
    for index, column in COLUMNS.items():
        if index in search.rankings and column in search.rankings[index].columns:
            hits = search.rankings[index].found_by(index).head(most)
            found[index] = hits.rows, hits.columns[column]
    rows = sorted({row for those, _ in found.values() for row in those.tolist()})
    ids = dict(zip(rows, search.context.view.chunk_ids(rows), strict=True))
    return {
        name: [(ids[row], score) for row, score in zip(those.tolist(), scores.tolist(), strict=True)]
        for name, (those, scores) in found.items()
    }
