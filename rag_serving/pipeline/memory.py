"""What one tenant's questions leave in the memory of a process: answers, vectors; and when it is dropped.

Belongs here: what there is, dropping all of it when something was forgotten. Does not belong here: what is kept of an
answer (`repeated_answers`, `earlier_answers`), how a process hears of it (`caching.forgotten`).

Before a question is answered, and again after it, the marks are looked at: what a question that began earlier has put
there meanwhile goes as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from rag_serving.caching.forgotten import ForgottenMarks
from rag_serving.config.loading import Config
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.models.embedding.recent_vectors import RecentVectors
from rag_serving.models.protocols import Embedder
from rag_serving.pipeline.earlier_answers import EarlierAnswers
from rag_serving.pipeline.repeated_answers import RepeatedAnswers
from rag_serving.receipts.recording import ReceiptWriter

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Memory:
    """The memory of one tenant. Safe to use from several threads.

    Attributes:
        vectors: of recent questions.
        repeated: answers that are given again.
        earlier: answers for when search fails; None: none is kept.
    """

    def __init__(self, config: Config, tenant: str, embedder: Embedder, writer: ReceiptWriter) -> None:
        self._config, self._tenant = config, tenant
        is_one_person = config.serving.auth == "loopback"
        self.vectors = RecentVectors(embedder, config.embedding.query_cache, is_one_person)
        redactor = config.privacy.redactor()
        self.repeated = RepeatedAnswers(config.cache, self.vectors, is_one_person, writer, redactor)
        self.earlier: EarlierAnswers | None = None
        self._marks = ForgottenMarks(config, tenant)
        self._lock = threading.Lock()
        self._mark: object = None

    def keep_earlier(self, published: CurrentGeneration, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep answers for when search fails. `clock`: seconds."""
        self.earlier = EarlierAnswers(self._config, self._tenant, published, clock)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Hold for the length of one question: nothing of before a mark is given, or kept."""
        began = self._followed()
        try:
            yield
        finally:
            if self._followed() != began:
                self.clear()

    def clear(self) -> None:
        """Drop all of it."""
        self.vectors.clear()
        self.repeated.cache.clear()
        if self.earlier:
            self.earlier.kept.clear()

    def close(self) -> None:
        """Drop all of it and close what is open."""
        self.clear()
        self._marks.close()

    def _followed(self) -> object:
        """Return the newest mark; where it is another one than before, nothing is in memory any more."""
        newest = self._marks.newest()
        with self._lock:
            if newest != self._mark:
                self.clear()
                self._mark = newest
        return newest


class Remembering(Protocol):
    """Whose questions leave something in memory."""

    memory: Memory


Asked = TypeVar("Asked", bound=Remembering)


def from_memory(
    method: Callable[Concatenate[Asked, Arguments], Result],
) -> Callable[Concatenate[Asked, Arguments], Result]:
    """Return a method that answers a question, with the marks looked at before it and after it."""

    @wraps(method)
    def held(pipeline: Asked, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with pipeline.memory.asked():
            return method(pipeline, *arguments, **named)

    return held
