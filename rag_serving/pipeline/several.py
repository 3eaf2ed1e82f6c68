"""Two things asked in one question, which different pages answer: both are searched, locked and told.

Belongs here: whether a question is answered as two, the lock of both. Does not belong here: telling the two apart
(`query.intents`), what is written for each (`answering.selection.selector`), the closing question
(`answering.clarifying`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.selection.selector import Part
from rag_serving.pipeline.asked import Asked
from rag_serving.query.intents import intents_of
from rag_serving.query.vocabulary import Names
from rag_serving.receipts.recording import Request
from rag_serving.records.decisions import Contender, Decision
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.retrieval.clarity import category_of
from rag_serving.text.normalization import caseless

_EACH = 3  # passages of the lock for each of two
_AROUND = " \t\r\n.,;:!?"


def both_of(ask: Callable[[Request], Asked], request: Request, names: Names) -> Asked | None:
    """Return a question that asks for two things with the passages of both; None where it asks one thing, or where one
    page answers both.

    `ask` searches and locks; `names` are those of the pages that the asker may read.
    """
    two = intents_of(request.text)
    if two is None or _is_name(request.text, names):
        return None
    one = _clear(ask(replace(request, text=two[0])))
    other = _clear(ask(replace(request, text=two[1]))) if one else None
    if one is None or other is None or not _are_apart(one, other, request.text):
        return None
    first = [each for each in one.lock.passages if each.chunk.page_id != _page(other)][:_EACH]
    taken = {each.chunk.chunk_id for each in first}
    second = [each for each in other.lock.passages if each.chunk.chunk_id not in taken]
    second = [each for each in second if each.chunk.page_id != _page(one)][:_EACH]
    parts = (_part(one, 0, first), _part(other, len(first), second))
    told = (_contender(one), _contender(other))
    decision = Decision("answer", told, 1.0, "it asks for two things, and different pages tell them", is_several=True)
    query = one.search.query.noting(f"asked as two questions: “{two[0]}”, “{two[1]}”")
    search = replace(one.search, query=query, decision=decision)
    return Asked(one.view, search, Lock((*first, *second)), one.is_foreign, parts, told, second=other.search)


def tells_both(asked: Asked, written: AnswerTrace) -> bool:
    """Return whether a confident answer has something of both."""
    return written.answer.outcome == "told" and shows_both(asked, written)


def shows_both(asked: Asked, written: AnswerTrace) -> bool:
    """Return whether passages of both questions are shown, with confidence or as what comes closest."""
    cited = {citation.passage - 1 for citation in written.answer.citations}
    return all(any(part.first <= place < part.first + part.count for place in cited) for part in asked.parts)


def _clear(asked: Asked) -> Asked | None:
    """Return one of two questions, where something was found for it and it is clear what it means; of pages that are
    both called so the likelier one is meant, because only a short answer to each is given."""
    decision = asked.search.decision
    if decision and decision.action == "ambiguous" and decision.confidence:
        meant = replace(decision, action="answer", contenders=decision.contenders[:1])
        asked = replace(asked, search=replace(asked.search, decision=meant)).introduced(len(asked.lock))
        decision = meant
    is_clear = decision is None or decision.action in ("answer", "unsure")
    return asked if is_clear and asked.lock.passages and not asked.search.query.remark else None


def _are_apart(one: Asked, other: Asked, text: str) -> bool:
    """Return whether different pages answer two questions, and no heading names both at once."""
    if _page(one) == _page(other):
        return False
    both = caseless(text.strip(_AROUND))
    headings = (each.chunk.headings for asked in (one, other) for each in asked.lock.passages)
    return not any(both in caseless(heading) for heading in headings)


def _is_name(text: str, names: Names) -> bool:
    """Return whether a title holds the whole text."""
    both = caseless(text.strip(_AROUND))
    return any(both in title for title in names.titles)


def _part(asked: Asked, first: int, passages: list[Candidate]) -> Part:
    named = bool(asked.parts)
    count = min(len(passages), asked.parts[0].count) if named else len(passages)
    return asked.part(first, count, named)


def _page(asked: Asked) -> str:
    return asked.lock.passages[0].chunk.page_id


def _contender(asked: Asked) -> Contender:
    decision = asked.search.decision
    if decision and decision.contenders:
        return decision.contenders[0]
    candidate = asked.lock.passages[0]
    chunk = candidate.chunk
    return Contender(
        _label(chunk), category_of(chunk), asked.search.query.text, chunk.url, chunk.page_id, candidate.score
    )


def _label(chunk: Chunk) -> str:
    return " → ".join(dict.fromkeys((chunk.title, *chunk.heading_path[-1:])))
