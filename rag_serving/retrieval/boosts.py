"""What a query asked for to the letter comes before what is only alike: quoted phrases, a page called by its name.

Belongs here: how much that is worth. Does not belong here: finding it (`retrieval.search`), what was asked
(`query.parsing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.records import Candidate, Query
from rag_serving.text.normalization import caseless, holds

# In spans between the best and the last score: each phrase outweighs whatever ranked the candidates; words that name a
# page may be meant otherwise.
_PHRASE, _PAGE = 1.1, 0.5


def boosted(candidates: Sequence[Candidate], query: Query) -> Sequence[Candidate]:
    """Return the candidates best first, those with quoted phrases or of the named page raised; others keep score and
    order.

    None is looked at where the query names neither.
    """
    if not candidates or not (query.phrases or query.page):
        return candidates
    scores = [candidate.score for candidate in candidates]
    span = (max(scores) - min(scores)) or 1.0
    raised = [_raised(candidate, query, span) for candidate in candidates]
    return tuple(sorted(raised, key=lambda candidate: -candidate.score))


def _raised(candidate: Candidate, query: Query, span: float) -> Candidate:
    chunk = candidate.chunk
    wording = caseless(f"{' '.join(chunk.heading_path)}\n{chunk.text}")
    phrases = sum(holds(wording, caseless(phrase)) for phrase in query.phrases)
    worth = _PHRASE * phrases + _PAGE * (chunk.title == query.page)
    return candidate.scored("asked for", candidate.score + worth * span) if worth else candidate
