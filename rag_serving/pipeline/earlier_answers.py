"""The answers that a tenant's questions had before, kept for when search fails.

Belongs here: what of an answered question is kept, and finding it again. Does not belong here: to whom an answer may be
shown again (`rag_serving.caching`), when there is no other (`pipeline`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from rag_serving.access.principals import satisfied_classes
from rag_serving.answering.composing import AnswerTrace
from rag_serving.artifacts.store import Store
from rag_serving.caching.kept_answers import Asking, KeptAnswers, Source
from rag_serving.caching.published_readers import PublishedReaders
from rag_serving.config.loading import Config
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.pipeline.opened_pages import Opened
from rag_serving.receipts.recording import Request
from rag_serving.records.answers import Answer
from rag_serving.tracing import StageTrace

_NOT_ASKED = frozenset({"principal", "text", "original", "explain"})


class EarlierAnswers:
    """What one tenant was answered, in the memory of this process. Safe to use from several threads."""

    def __init__(
        self,
        config: Config,
        tenant: str,
        published: CurrentGeneration,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tenant, self._published = tenant, published
        self._readers = PublishedReaders(Store(config.home), tenant)
        self._redactor = config.privacy.redactor()
        self.kept = KeptAnswers(config.degradation, clock)

    def keep(self, request: Request, answer: Answer, written: AnswerTrace, opened: Opened) -> None:
        """Keep an answer, if it is a good one, and nothing personal was asked."""
        if self._redactor.find(request.text):
            return
        classes = satisfied_classes(request.principal, self._tenant, opened.known)
        pages = {passage.chunk.page_id for passage in written.lock.passages}
        pages |= {citation.page_id for citation in answer.citations}
        self.kept.put(_asking(request), answer, Source(opened.known, classes, frozenset(pages)))

    def find(self, request: Request, trace: StageTrace) -> Answer | None:
        """Return the answer that a question had before, where it may still be shown."""
        if not len(self.kept):
            return None
        published = self._published.named()
        if published is None:  # nobody knows who may read what now
            return None
        earlier = self.kept.get(_asking(request), published, self._readers.of(request.principal, published))
        if earlier is None:
            return None
        flags = dict.fromkeys((*trace.flags, *earlier.flags))
        return replace(earlier, flags=tuple(flags), timings_ms=trace.timings_ms)


def _asking(request: Request) -> Asking:
    """Return a question with all that its answer depends on, whatever else a request comes to have."""
    scope = {name: value for name, value in vars(request).items() if name not in _NOT_ASKED and value}
    return Asking(request.principal, request.text, scope)
