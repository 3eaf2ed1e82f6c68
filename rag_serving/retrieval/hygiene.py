"""Candidates that must not become passages: boilerplate, excluded labels, far vectors, no shared words.

Belongs here: one predicate per rule. Does not belong here: ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from rag_serving.records import Candidate, Chunk

Analyze = Callable[[str], Sequence[str]]

# The source document's exemption: code and tables answer with few words of prose.
_UNGATED_TYPES = frozenset({"code", "table"})


def is_clean(chunk: Chunk, drop_labels: Collection[str]) -> bool:
    """Return whether the chunk is content: no boilerplate, none of the excluded labels."""
    return not chunk.is_boilerplate and not set(drop_labels).intersection(chunk.labels)


def shares_words(chunk: Chunk, terms: Collection[str], analyze: Analyze, min_overlap: int) -> bool:
    """Return whether heading path and text share enough stemmed terms with the query; a query of fewer terms needs
    fewer."""
    if chunk.content_type in _UNGATED_TYPES:
        return True
    have = set(analyze(" ".join((*chunk.heading_path, chunk.text))))
    return len(have.intersection(terms)) >= min(min_overlap, len(set(terms)))


def keyword_gate(
    candidates: Iterable[Candidate], query: str, analyze: Analyze, min_overlap: int
) -> Iterator[Candidate]:
    """Return the candidates that share words with the query, in order, each looked at only when it is asked for."""
    terms = set(analyze(query))
    return (candidate for candidate in candidates if shares_words(candidate.chunk, terms, analyze, min_overlap))
