"""An answer from a text that its asker selected: nothing is searched.

Belongs here: the order of its stages. Does not belong here: answers from pages (`pipeline.answers`), the lock of a
selection (`answering.lock`).
"""

from __future__ import annotations

from rag_serving.answering.answerer import NO_VECTORS, Answering, Question
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.lock import lock_selection
from rag_serving.models.protocols import Embedder
from rag_serving.text.analyzer import analyze
from rag_serving.text.small_talk import remark_of
from rag_serving.tracing import StageTrace


def answered_from(
    selection: str, question: str, answering: Answering, embedder: Embedder, trace: StageTrace, explain: bool
) -> AnswerTrace:
    """Return an answer whose citations are offsets into the selected text."""
    lock, vector = lock_selection(selection), None
    with trace.part("embed", NO_VECTORS):
        vector = embedder.embed_query(question)
    terms, remark = dict.fromkeys(analyze(question), 1.0), remark_of(question)
    read = Question(question, question, terms, vector, remark=remark)
    return answering.answer(trace, read, lock, explain=explain)
