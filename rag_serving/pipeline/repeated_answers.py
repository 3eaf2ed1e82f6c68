"""Answers that a question gets again: what is looked for, what is kept, what a hit leaves behind.

Belongs here: the scope of a question, its receipt and record when it is answered again. Does not belong here: which two
questions are one, what is kept of an answer (`rag_serving.caching`), earlier answers for when search fails
(`earlier_answers`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rag_serving.access.principals import satisfied_classes
from rag_serving.answering.composing import AnswerTrace
from rag_serving.caching.answer_cache import AnswerCache, CachedAnswer, Scope, Vector
from rag_serving.config.caching import Cache
from rag_serving.models.embedding.recent_vectors import RecentVectors
from rag_serving.models.protocols import ModelError
from rag_serving.pipeline.opened_pages import Opened
from rag_serving.pipeline.tools import Tools
from rag_serving.privacy.redactor import Redactor
from rag_serving.receipts.recording import ReceiptWriter, Request
from rag_serving.records.answers import Answer
from rag_serving.records.flags import NEARLY_SPENT, REPEATED
from rag_serving.records.occasion import Occasion
from rag_serving.records.passages import Lock
from rag_serving.tracing import StageTrace


@dataclass(frozen=True)
class Place:
    """Where one question's answer is looked for and kept."""

    scope: Scope
    request: Request
    vector_of: Callable[[], Vector | None]


class RepeatedAnswers:
    """The answers of one tenant that are given again. Safe to use from several threads."""

    def __init__(
        self,
        settings: Cache,
        vectors: RecentVectors,
        is_one_person: bool,
        writer: ReceiptWriter,
        redactor: Redactor,
    ) -> None:
        """`is_one_person`: callers without a user name are one person, as in a demonstration on one machine;
        `redactor`: finds personal data in questions."""
        self._settings, self._vectors, self._writer = settings, vectors, writer
        self._is_one_person, self._redactor = is_one_person, redactor
        self.cache = AnswerCache(settings)

    def place(self, request: Request, tools: Tools, opened: Opened) -> Place | None:
        """Return where the answer of a question is looked for; None where it is always made anew: it is explained, or
        leans on a conversation or on the state of an application, has personal data, or nobody can tell whose it is."""
        occasion, user = request.occasion, request.principal.user
        is_plain = occasion == Occasion(occasion.is_book) and request.original is None and request.page is None
        is_somebody = self._settings.shared or user is not None or self._is_one_person
        if not self._settings.semantic or request.explain or not is_plain or not is_somebody:
            return None
        if self._redactor.find(request.text):
            return None
        settings = {
            "filters": request.filters.payload() if request.filters else {},
            "is_book": occasion.is_book,
            "features": sorted(tools.config.features.enabled),
            "phase": tools.phases.configured,
            "mode": tools.phases.mode,
        }
        principal = request.principal
        classes = satisfied_classes(principal, principal.tenant, opened.known)
        asker = None if self._settings.shared else user or ""
        scope = Scope(principal.tenant, asker, opened.view.id, classes, settings)
        return Place(scope, request, lambda: self._vector(user, request.text))

    def find(self, place: Place | None) -> CachedAnswer | None:
        """Return the answer that a question had before."""
        return self.cache.get(place.scope, place.request.text, place.vector_of) if place else None

    def given(self, trace: StageTrace, cached: CachedAnswer, request: Request) -> Answer:
        """Return an answer that is given again, which says so and has a receipt of its own."""
        for flag in (*cached.answer.flags, REPEATED):
            trace.raise_flag(flag)
        answer = replace(cached.answer, usage=None)
        return self._writer.repeated(trace, answer, cached.receipt, request)

    def keep(self, place: Place | None, answer: Answer, written: AnswerTrace) -> None:
        """Keep an answer, if it is a good one."""
        if place is None:
            return
        passages = tuple(
            replace(each, chunk=replace(each.chunk, text="", structure="", context_before="", context_after=""))
            for each in written.lock.passages
        )
        answer = replace(answer, flags=tuple(flag for flag in answer.flags if flag != NEARLY_SPENT))
        receipt = self._writer.of(replace(written, answer=answer), place.request)
        self.cache.put(place.scope, place.request.text, CachedAnswer(answer, receipt, Lock(passages)), place.vector_of)

    def _vector(self, user: str | None, text: str) -> Vector | None:
        try:
            return self._vectors.of(user).embed_query(text)
        except ModelError:
            return None
