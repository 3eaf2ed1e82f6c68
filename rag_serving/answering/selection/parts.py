"""Selection for several things from one lock: each from the passages that were found for it.

Belongs here: a draft for each part, put together. Does not belong here: telling the parts of a question
(`query.intents`), finding their passages (`pipeline.several`), one part's draft (`selector`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rag_serving.answering.selection.selector import MODEL, Selecting, select
from rag_serving.answering.selection.signs import Analyze
from rag_serving.records.claims import Draft
from rag_serving.records.passages import Lock

StoredSimilarity = Callable[[Sequence[str]], Sequence[float | None]]
"""Cosine similarity of each text to the question; None where no vector of it is stored."""


@dataclass(frozen=True)
class Part:
    """What is asked of some passages of the lock, apart from the others.

    Attributes:
        weights: of its terms.
        first, count: its passages, counted from 0.
        is_named: they are what it names: no sentence of them is doubted as an answer.
        vector, stored: of the part's own text, as `Question` has them of the whole.
    """

    text: str
    weights: Mapping[str, float]
    first: int
    count: int
    is_named: bool = False
    vector: NDArray[np.float32] | None = None
    stored: StoredSimilarity | None = None


def selected_apart(
    parts: Sequence[Part], lock: Lock, analyze: Analyze, options_of: Callable[[Part], Selecting]
) -> Draft:
    """Return what the lock says to each part, in their order; as confident as the least of those that are in doubt.

    Each part gets its share of the citations, at least one. A part without a sentence leaves the draft without any:
    half an answer would look like a whole one.
    """
    drafts = [_of(part, lock, analyze, _share(options_of(part), len(parts))) for part in parts]
    if not all(draft.claims for draft in drafts):
        return Draft((), MODEL)
    doubted = [draft for draft, part in zip(drafts, parts, strict=True) if not part.is_named]
    least = min(doubted, key=lambda draft: draft.confidence or 0.0, default=None)
    claims = dict.fromkeys(claim for draft in drafts for claim in draft.claims)
    return Draft(
        tuple(claims),
        MODEL,
        confidence=least.confidence if least else None,
        evidence=(least or drafts[0]).evidence,
        rejected=tuple(each for draft in drafts for each in draft.rejected),
    )


def _share(options: Selecting, parts: int) -> Selecting:
    return replace(options, max_citations=max(1, options.max_citations // parts))


def _of(part: Part, lock: Lock, analyze: Analyze, options: Selecting) -> Draft:
    """Return what a part's own passages say, with their places in the whole lock."""
    own = Lock(lock.passages[part.first : part.first + part.count])
    draft = select(part.text, own, part.weights, analyze, options)
    return replace(
        draft,
        claims=tuple(replace(claim, index=claim.index + part.first) for claim in draft.claims),
        rejected=tuple(replace(each, passage=each.passage + part.first) for each in draft.rejected),
    )
