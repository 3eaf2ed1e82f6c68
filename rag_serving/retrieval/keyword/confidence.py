"""How sure the keyword tier is of what it found: the rules of when a question is answered and when it is asked back.

Belongs here: the rules in their order, the documents that a decision is between. Does not belong here: scores
(`scoring`), wording (`answering.clarifying`), decisions on calibrated scores of the hybrid phase.

confidence = (best score - second score) / best score, over documents. The rules:

1. best score 0: no match
2. one document alone: the second score is 0
3. fewer words matched than `min_matched_terms`: weak
4. no word in title or labels, and no exact phrase in the title: weak
5. best score below `min_score`: weak
6. lead over the second below `min_gap`: ambiguous
7. confidence below `min_conf`: ambiguous

Else it is answered. A question frame around the whole title of one document asks for that one: the others are no
results of it then. So it is where one document alone holds the words that a question quotes. Of documents that are
about equal, the one that the question or its conversation names is meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_serving.config.keyword import Keyword
from rag_serving.records.decisions import Action, Contender, Decision
from rag_serving.records.passages import Chunk
from rag_serving.retrieval.keyword.scoring import Best


def confidence_of(best: Sequence[Best]) -> float:
    """Return (best score - second score) / best score; 0 where nothing was found."""
    if not best or best[0].score <= 0:
        return 0.0
    second = best[1].score if len(best) > 1 else 0.0
    return max(0.0, (best[0].score - second) / best[0].score)


def decided(best: Sequence[Best], chunks: Sequence[Chunk], settings: Keyword, asked_for: str = "") -> Decision:
    """Return what is done with a question by its best documents, the best first.

    Args:
        best: the documents.
        chunks: of each document the one that speaks for it.
        settings: the thresholds.
        asked_for: what the question asks for the first one by, so that no rule is needed; empty where it does not.
    """
    contenders = tuple(contender_of(each, chunk) for each, chunk in zip(best, chunks, strict=True))
    if asked_for:
        return Decision("answer", contenders[:1], 1.0, asked_for)
    action, reason = _ruled(best, settings)
    return Decision(action, contenders, round(confidence_of(best), 4), reason)


def _ruled(best: Sequence[Best], settings: Keyword) -> tuple[Action, str]:
    if not best or best[0].score <= 0:
        return "no_match", "no document has a word of the question"
    top, second = best[0], best[1].score if len(best) > 1 else 0.0
    if top.matched_terms < settings.min_matched_terms:
        return "weak", f"{top.matched_terms} of {settings.min_matched_terms} words matched"
    if not top.is_named and not top.has_phrase:
        return "weak", "no word of the question is in the title or the labels"
    if top.score < settings.min_score:
        return "weak", f"the best score is {top.score:.2f}, {settings.min_score:g} is needed"
    if top.score - second < settings.min_gap:
        return "ambiguous", f"the best leads by {top.score - second:.2f}, {settings.min_gap:g} is needed"
    if confidence_of(best) < settings.min_conf:
        return "ambiguous", f"the confidence is {confidence_of(best):.2f}, {settings.min_conf:g} is needed"
    return "answer", f"the best score is {top.score:.2f}, the second {second:.2f}"


def contender_of(best: Best, chunk: Chunk) -> Contender:
    """Return a document as what a question may mean; its category, else its space or source."""
    category = chunk.category or chunk.space or chunk.source
    return Contender(chunk.title, category, f"What is {chunk.title}?", chunk.url, chunk.page_id, round(best.score, 4))
