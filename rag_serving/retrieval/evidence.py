"""Evidence of the locked passages: their places, matches, and reasons.

Belongs here: composing the records from the stages' columns. Does not belong here: reasons, and the passages left out
(`why`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from rag_serving.indexes.protocols import ReaderView
from rag_serving.records.answers import Evidence, Source
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.retrieval.search import Search
from rag_serving.retrieval.why import QueryWords, passage_reasons
from rag_serving.text.directed import MASK, without_directed
from rag_serving.text.injections import REPLACED, neutralized
from rag_serving.text.keyword_words import words_in
from rag_serving.text.marks import has_mark, is_role
from rag_serving.text.orders import may_order, orders_assistant
from rag_serving.text.structure import decode, structure_of

SNIPPET = 240
"""Characters of a snippet, at most."""
_MOST = 4000  # characters of a passage that a snippet is looked for in
_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")


def evidence_of(search: Search, lock: Lock, has_snippets: bool = True) -> tuple[Evidence, ...]:
    """Return a record for each passage of the lock, in its order.

    `has_snippets`: whether they show text, which a withheld answer must not.
    """
    words = QueryWords.of(search.query, search.context.term_weights)
    hashes: dict[str, str] = {}
    reasons = passage_reasons(search, lock, words)
    found = tuple(
        _evidence(search, candidate, words, lines, hashes)
        for candidate, lines in zip(lock.passages, reasons, strict=True)
    )
    if not has_snippets:
        return found
    return tuple(
        replace(each, snippet=snippet_of(_read(candidate.chunk), each.matched_terms))
        for each, candidate in zip(found, lock.passages, strict=True)
    )


def _evidence(
    search: Search, candidate: Candidate, words: QueryWords, lines: Iterable[str], hashes: dict[str, str]
) -> Evidence:
    chunk = candidate.chunk
    matched = _matched(search, words, chunk)
    if chunk.page_id not in hashes:
        hashes[chunk.page_id] = content_hash(search.context.view, chunk)
    return Evidence(
        doc_slug=chunk.slug or _stem(chunk.source_file) or chunk.page_id,
        title=_harmless(chunk.title),
        category=_harmless(chunk.category or ""),
        snippet="",
        score=round(candidate.score, 4),
        header_path=tuple(map(_harmless, chunk.heading_path)),
        content_hash=hashes[chunk.page_id],
        matched_terms=matched,
        source=_source(search, candidate),
        match_explain=tuple(lines),
        chunk_index=chunk.chunk_idx,
        chunk_hash=chunk.text_hash,
    )


def content_hash(view: ReaderView, chunk: Chunk) -> str:
    """Return a digest of all texts of a chunk's page visible to the reader, in the order of the page; hidden ones
    change nothing."""
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


def _read(chunk: Chunk) -> str:
    """Return the text of a chunk without parts addressed to an assistant."""
    return _read_text(chunk.text, chunk.structure, chunk.heading_path[-1] if chunk.heading_path else "")


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
    return tuple(dict.fromkeys(_spelt(words, terms)))


def _spelt(words: QueryWords, terms: frozenset[str]) -> Iterator[str]:
    return (word.lower() for term, word in words.words.items() if term in terms)


def _stem(name: str | None) -> str:
    """Return a file's name without its ending: `docs/home.md` is `docs/home`."""
    return name.rpartition(".")[0] or name if name else ""


def _source(search: Search, candidate: Candidate) -> Source:
    if search.context.keywords or candidate.ranks.keys() == {"lexical"}:
        return "keyword"
    return "embedding" if candidate.ranks.keys() == {"dense"} else "hybrid"
