"""From candidates to passages: no boilerplate, no excluded labels, shared words, the newest of several versions. Of
near-identical sections of several versions the newest comes first, or the one of the version that the query names. Rows
change places among themselves: the newest takes the place of the first older version, and no other row moves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from rag_serving.indexes.view import Mask, ReaderView, Rows
from rag_serving.records.passages import Chunk
from rag_serving.records.queries import Query
from rag_serving.retrieval.keyword.search import KEYWORD
from rag_serving.retrieval.ranking import SCORE, Ranking
from rag_serving.retrieval.stage import SearchContext
from rag_serving.text.analyzer import analyze_passage
from rag_serving.text.currency import (
    Version,
    are_comparable,
    docs_version,
    family_of,
    is_of_version,
    mark_of_labels,
    mark_of_title,
    names_version,
    version_of,
    versions_in,
    without_versions,
)
from rag_serving.text.keyword_words import words_in
from rag_serving.text.normalization import caseless, holds

_READ_AT_MOST = 1000  # rows whose text is looked at
_ADDED = 20  # rows with a phrase that are added where others were ranked before them


def rows_holding(view: ReaderView, phrase: str) -> Rows:
    """Return the rows with a phrase verbatim, ascending, of the first 1,000 with all its words in content or title."""
    keywords = view.keywords
    has_all = keywords.readable.copy()
    words = set(words_in(phrase))
    keywords.expect(words)
    for word in words:
        has_word = np.zeros(len(has_all), np.bool_)
        has_word[keywords.rows_with({word})] = True
        titled = np.zeros(keywords.size[1], np.bool_)
        titled[keywords.pages_titled({word}, frozenset())] = True
        has_all &= has_word | titled[keywords.page_of]
    rows = np.flatnonzero(has_all)[:_READ_AT_MOST].tolist() if words else []
    wanted = caseless(phrase)
    return np.array([row for row in rows if holds(caseless(view.indexed_text(row)), wanted)], np.int64)


def add_holders(context: SearchContext, ranking: Ranking) -> Ranking:
    """Return the ranking, and at its end the best rows with a quoted phrase that it lacks, with their own scores."""
    if context.holders is None or context.keywords is None:
        return ranking
    held = context.holders if context.among is None else context.holders & context.among
    rows = np.setdiff1d(np.flatnonzero(held), ranking.rows)
    scores = context.keywords.scored.scores_of(rows)
    best = np.argsort(-scores, kind="stable")[:_ADDED]
    added = {KEYWORD: scores[best], SCORE: scores[best]}
    return ranking.joined(Ranking(rows[best], added))


@dataclass(frozen=True)
class KeywordSearch:
    """The first k rows by keywords; columns `keyword` and `keyword_rank`."""

    k: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        return context.keywords.ranking(self.k) if context.keywords else ranking


@dataclass(frozen=True)
class PerDocument:
    """At most so many rows of one document."""

    most: int

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        counts, kept = Counter[int](), list[int]()
        for at, page in enumerate(context.view.pages(ranking.rows).tolist()):
            counts[page] += 1
            if counts[page] <= self.most:
                kept.append(at)
        return ranking.take(kept)


# The source document's exemption: code and tables answer with few words of prose.
_UNGATED_TYPES = frozenset({"code", "table"})
# Cosine similarity of a passage that says the same in other words.
_NEAR = 0.45
# Share of the query's weight (inverse document frequency) that one rare word brings.
_ENOUGH_WEIGHT = 0.4
# Rows that are read whatever their words are, because both indexes together put them in front of all.
_IN_FRONT = 3


@dataclass(frozen=True)
class Hygiene:
    """Rows that are content: no boilerplate, none of the excluded labels."""

    drop_labels: Set[str]

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        clean = ~context.view.boilerplate(ranking.rows)
        if self.drop_labels:
            labels = context.view.labels(ranking.rows)
            clean &= np.array([self.drop_labels.isdisjoint(each) for each in labels], dtype=np.bool_)
        return ranking.where(clean)


@dataclass(frozen=True)
class KeywordGate:
    """The first rows that share words with the query: several, or rare ones, or that are near to it by meaning."""

    min_overlap: int  # terms that a row must share; a query of fewer terms needs fewer
    enough: int  # rows that later stages look at; no passage is read for more

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        passed = list[int]()
        near, weights = is_near(ranking), context.term_weights
        for start in range(0, len(ranking), self.enough):
            chunks = context.passages.read(ranking.rows[start : start + self.enough])
            passed += [
                at
                for at, chunk in enumerate(chunks, start)
                if at < _IN_FRONT or near[at] or shares_words(chunk, context.query, self.min_overlap, weights)
            ]
            if len(passed) >= self.enough:
                break
        return ranking.take(passed[: self.enough])


def is_near(ranking: Ranking) -> Mask:
    """Return which rows [n] may say the same in other words, by cosine similarity."""
    near: Mask = ranking.column("dense") >= _NEAR
    return near


def shares_words(chunk: Chunk, query: Query, min_overlap: int, weights: Mapping[str, float]) -> bool:
    """Return whether heading path and text share enough stemmed terms with the query, by number or by weight."""
    if chunk.content_type in _UNGATED_TYPES:
        return True
    terms = query.text_terms
    shared = terms & set(query.analyze(" ".join((*chunk.heading_path, chunk.text))))
    if len(shared) >= min(min_overlap, len(terms)):
        return True
    return sum(weights.get(term, 0.0) for term in shared) >= _ENOUGH_WEIGHT * sum(weights.values()) > 0


VERSION = "version"  # the column of the scores of rows that changed places

_ALIKE = 0.5  # Jaccard similarity of two texts that are versions of one


@dataclass(frozen=True)
class NewestVersion:
    """The first rows with the newest of several versions in front; column `version`."""

    pool: int  # how many rows are looked at

    def __call__(self, context: SearchContext, ranking: Ranking) -> Ranking:
        chunks = context.passages.read(ranking.head(self.pool).rows)
        asked, text = versions_in(context.query.text), context.query.text
        order = list(range(len(ranking)))
        for places in _sections(chunks, asked):
            keys = {place: _currency(chunks[place], asked, text, _have_versions(chunks, places)) for place in places}
            best = sorted(places, key=lambda place: keys[place], reverse=True)
            for place, chosen in zip(places, best, strict=True):
                order[place] = chosen
        moved = np.array(order) != np.arange(len(ranking))
        if moved.any():
            ranking = ranking.take(order).scored(VERSION, np.where(moved, ranking.score, np.nan))
        told = [place for place, chunk in enumerate(chunks) if docs_version(chunk.title)]
        wanted = {place for place in told if _is_asked(chunks[place], asked, text)}
        others = set(told) - wanted if wanted else set()
        return ranking.take([at for at, place in enumerate(order) if place not in others]) if others else ranking


def _is_asked(chunk: Chunk, asked: Sequence[Version], text: str) -> bool:
    name = docs_version(chunk.title)
    by_name = name is not None and names_version(text, name)
    return by_name or any(is_of_version(_version(chunk), wanted) for wanted in asked)


def _sections(chunks: Sequence[Chunk], asked: Sequence[Version]) -> list[list[int]]:
    """Return the places, in their order, of chunks that are versions of one section, each of another page."""
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, chunk in enumerate(chunks):
        heading = without_versions(chunk.heading_path[-1] if chunk.heading_path else "")
        alike[(*family_of(chunk.title, chunk.space), heading)].append(place)
    found = []
    for places in alike.values():
        versions = [place for place in places if _is_version(chunks[place], chunks[places[0]], asked)]
        if len(versions) > 1:
            found.append(versions)
    return found


def _is_version(chunk: Chunk, first: Chunk, asked: Sequence[Version]) -> bool:
    """Return whether a chunk is the first one, or the same section of another page in another version."""
    if chunk is first:
        return True
    if chunk.page_id == first.page_id:
        return False
    told = docs_version(chunk.title), docs_version(first.title)
    if asked or all(told):
        return True
    one, two = set(analyze_passage(chunk.text)), set(analyze_passage(first.text))
    return len(one & two) / (len(one | two) or 1) >= _ALIKE


def _currency(chunk: Chunk, asked: Sequence[Version], text: str, have_versions: bool) -> tuple[Any, ...]:
    """Return a version's sort key: greater is more current."""
    version, is_asked = _version(chunk), _is_asked(chunk, asked, text)
    is_marked = bool(mark_of_title(chunk.title) or mark_of_labels(chunk.labels))
    updated = chunk.updated_at.timestamp() if chunk.updated_at else 0.0
    return is_asked, not is_marked, version if have_versions else (), updated


def _have_versions(chunks: Sequence[Chunk], places: Sequence[int]) -> bool:
    """Return whether all of them that are in force name a version, and in the same way."""
    versions = [_version(chunks[place]) for place in places if not mark_of_title(chunks[place].title)]
    return bool(versions) and all(versions) and all(are_comparable(versions[0], version) for version in versions)


def _version(chunk: Chunk) -> Version:
    return version_of(chunk.heading_path, chunk.title, chunk.space) or ()
