"""Reranking: the clean candidates in the order of a cross-encoder, or of what stands in for it.

Belongs here: who ranks, what a model reads of a candidate, what is done when the sidecar fails.
Does not belong here: the wire (`models.reranker_client`), how words are weighed (`retrieval.lexical_reranker`),
choosing passages (`answering.lock`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from rag_serving.models.protocols import ModelError
from rag_serving.records import Candidate, Ranker

RERANKER_DOWN = "reranker_unavailable"

Heuristic = Callable[[Iterable[Candidate]], Iterable[Candidate]]


class Sidecar(Protocol):
    """A cross-encoder behind HTTP; `models.reranker.RemoteReranker` is one."""

    def rank(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]: ...


@dataclass(frozen=True)
class Reranked:
    """Candidates, best first, and who put them in this order."""

    candidates: Iterable[Candidate]
    by: Ranker
    flags: tuple[str, ...] = ()


def rerank(
    query: str,
    candidates: Iterable[Candidate],
    top_n: int,
    pool: int,
    sidecar: Sidecar | None,
    heuristic: Heuristic | None,
) -> Reranked:
    """Return of the first `pool` candidates the `top_n` best by the sidecar; without one, or where it fails, by the
    heuristic.

    A query never fails here: with neither the order stays. Without a sidecar no candidate is looked at too early.
    """
    flags: tuple[str, ...] = ()
    if sidecar:
        candidates = tuple(islice(candidates, pool))
        try:
            return Reranked(_by_sidecar(query, candidates, top_n, sidecar) if candidates else (), "sidecar")
        except ModelError:
            flags = (RERANKER_DOWN,)
    if heuristic:
        return Reranked(heuristic(candidates), "heuristic", flags)
    return Reranked(candidates, "none", flags)


def passage_text(candidate: Candidate) -> str:
    """Return what the model reads: the heading path above the text, because a passage often does not name its
    subject."""
    chunk = candidate.chunk
    return f"{' > '.join(chunk.heading_path)}\n{chunk.text}" if chunk.heading_path else chunk.text


def _by_sidecar(query: str, candidates: Sequence[Candidate], top_n: int, sidecar: Sidecar) -> tuple[Candidate, ...]:
    by_id = {candidate.chunk.chunk_id: candidate for candidate in candidates}
    passages = [(identifier, passage_text(candidate)) for identifier, candidate in by_id.items()]
    return tuple(
        by_id[identifier].scored("rerank", score) for identifier, score in sidecar.rank(query, passages, top_n)
    )
