"""What speaks for a passage, as codes and one line of English.

Belongs here: reasons of a passage that was locked. Does not belong here: scores beside those of others (`why`), why
another one was left out (`why`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_serving.records.passages import Candidate, Chunk
from rag_serving.records.queries import Query
from rag_serving.text.normalization import caseless, holds

Code = Literal[
    "title_words", "heading_words", "text_words", "label", "space", "phrase", "named_page", "keyword_rank",
    "lexical_rank", "dense_rank", "rerank_rank", "sentence", "newest", "older", "steps",
]  # fmt: skip
_MOST_WORDS = 4
_LONGEST = 40  # characters of a word that is shown
_PART = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\s,;!?\"“”()]+")


@dataclass(frozen=True)
class Reason:
    """One thing that speaks for a passage: words of the query that it has, or its rank by a stage, from 1."""

    code: Code
    words: tuple[str, ...] = ()
    rank: int | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape, without what is empty."""
        shape = {"code": self.code, "words": list(self.words), "rank": self.rank}
        return {name: value for name, value in shape.items() if value}

    @property
    def line(self) -> str:
        """Return the reason in words."""
        words = ", ".join(f"‘{word}’" for word in self.words)
        match self.code:
            case "title_words":
                return f"title has {words}"
            case "heading_words":
                return f"heading has {words}"
            case "text_words":
                return f"text has {words}"
            case "label":
                return f"labelled {words}"
            case "space":
                return f"in the space {words}"
            case "phrase":
                return f"holds {words} to the letter"
            case "named_page":
                return "on the page that the question names"
            case "keyword_rank":
                return f"keyword rank {self.rank}"
            case "lexical_rank":
                return f"BM25 rank {self.rank}"
            case "dense_rank":
                return f"dense rank {self.rank}"
            case "rerank_rank":
                return f"reranker rank {self.rank}"
            case "sentence":
                return "holds the sentence nearest in meaning"
            case "newest":
                return "the newest version of this section, or the one that was asked for"
            case "older":
                return "another version of this section comes before it"
            case "steps":
                return "goes on with the steps of another passage"


@dataclass(frozen=True)
class QueryWords:
    """A query's words by the terms that they give, the rarest first."""

    query: Query
    words: Mapping[str, str]

    @classmethod
    def of(cls, query: Query, weights: Mapping[str, float]) -> QueryWords:
        """`weights`: inverse document frequencies among what the reader may see."""
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
    """Return what speaks for a passage, what a person sees first.

    `by_stage`: its ranks by the stages after fusion; `moved`: above 0 where it took the place of another
    version of its section, below 0 where another one took its.
    """
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
    yield from _asked_for(chunk, query)
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


def _asked_for(chunk: Chunk, query: Query) -> Iterator[Reason]:
    """Yield what the query asked for by name."""
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


def line_of(reasons: Sequence[Reason]) -> str:
    """Return the reasons as one line."""
    return "; ".join(reason.line for reason in reasons) or "near in meaning"
