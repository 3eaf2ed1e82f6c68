"""A question read in its conversation, before it is searched.

Belongs here: asking earlier questions again as who asks now may, by extraction alone. Does not belong here: what the
question takes from them (`conversations.reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

from rag_serving.answering.answerer import Answering
from rag_serving.answering.composing import AnswerTrace
from rag_serving.config.loading import Config
from rag_serving.conversations.reading import FoundAgain, FoundPage, Reading, read_in
from rag_serving.conversations.rewriting import RewriteError, Rewriter
from rag_serving.conversations.turns import Conversation, Turn
from rag_serving.indexes.protocols import ReaderView
from rag_serving.models.protocols import Embedder
from rag_serving.pipeline.answers import answered
from rag_serving.pipeline.tools import Tools
from rag_serving.receipts.recording import Request
from rag_serving.records.claims import EXTRACTIVE
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import RetrievalError
from rag_serving.tracing import StageTrace

CONVERSATION, NOT_REWRITTEN, NOT_READ = "conversation", "question_not_rewritten", "conversation_not_read"


class Conversing:
    """Reads the questions of one tenant in their conversations. Safe to use from several threads."""

    def __init__(self, config: Config, embedder: Embedder) -> None:
        self._config, self._embedder = config, embedder
        self._rewriter = Rewriter(config.generation, config.sessions)

    def read(
        self, tools: Tools, trace: StageTrace, view: ReaderView, request: Request, conversation: Conversation
    ) -> Request:
        """Return the request with its question as it is meant after the turns of a conversation."""
        reading = Reading(request.text, filters=request.filters)
        with trace.part(CONVERSATION, NOT_READ):
            ask_again = self._asking_again(tools, view, request)
            reading = read_in(conversation, request.text, request.filters, ask_again, partial(self._rewritten, trace))
        original = request.text if reading.text != request.text else None
        return replace(request, text=reading.text, original=original, filters=reading.filters, page=reading.page)

    @cached_property
    def _extractive(self) -> Answering:
        """Who answers earlier questions again."""
        extractive = self._config.generation.model_copy(update={"provider": EXTRACTIVE})
        return Answering(self._config.model_copy(update={"generation": extractive}), self._embedder)

    def _rewritten(self, trace: StageTrace, question: str, turns: Sequence[Turn]) -> str | None:
        try:
            return self._rewriter.rewritten(question, turns)
        except RewriteError:
            trace.raise_flag(NOT_REWRITTEN)
            return None

    def _asking_again(
        self, tools: Tools, view: ReaderView, request: Request
    ) -> Callable[[str, Filters | None], FoundAgain]:
        """Return what asks an earlier question again, once, without a model or a record of it."""
        phases = tools.phases.beside()
        plain = replace(tools, answering=self._extractive, cited=None, is_recorded=False, phases=phases)

        has_failed = False  # what cannot be searched now is not tried for each earlier question anew

        @cache
        def ask_again(text: str, filters: Filters | None) -> FoundAgain:
            nonlocal has_failed
            if has_failed:
                return FoundAgain()
            given = filters or (request.filters if request.occasion.mode == "book-wide" else None)
            try:
                written, _ = answered(
                    plain, StageTrace(), view, replace(request, text=text, filters=given, explain=False)
                )
            except RetrievalError:
                has_failed = True
                return FoundAgain()
            return _found(written)

        return ask_again


def _found(written: AnswerTrace) -> FoundAgain:
    """Return what an earlier question came to: its options, and its pages, those that are cited first."""
    answer = written.answer
    chunks = [each.chunk for each in written.lock.passages]
    cited = {each.page_id for each in answer.citations}
    chunks.sort(key=lambda chunk: chunk.page_id not in cited)
    return FoundAgain(
        is_told=answer.outcome == "told",
        confidence=answer.gates.get("confidence", 0.0),
        options=answer.clarification.options if answer.clarification else (),
        pages=tuple(dict.fromkeys(FoundPage(chunk.title, chunk.url) for chunk in chunks)),
    )
