"""One tenant's state in the memory of a process: answers, vectors; and its invalidation. Before a question is answered,
and again after it, the marks are checked: what an earlier question has stored meanwhile is dropped as well. A mark is a
file in the home folder, which costs one `stat`. Servers with a home of their own see it in the installation's database,
if `telemetry.url` names one: they poll every `FRESH_S`. A mark only says that it has changed, so clocks of several
machines need not agree, and a forged one only makes a server compute anew."""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rag_serving.access.principals import Principal, satisfied_classes, satisfies
from rag_serving.answering.composing import AnswerTrace
from rag_serving.artifacts.contents import stamp_of
from rag_serving.artifacts.secret import derived_key
from rag_serving.artifacts.store import Store, StoreError, write_json
from rag_serving.caching.answers import (
    AnswerCache,
    AnswerScope,
    AnswerSource,
    Asking,
    CachedAnswer,
    KeptAnswers,
    Vector,
)
from rag_serving.config.loading import Config
from rag_serving.config.sections import Cache
from rag_serving.conversations.turns import QuestionRequest
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.indexes.sources import classes_of_pages
from rag_serving.models.lazy_embedder import RecentVectors
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.privacy import Redactor
from rag_serving.receipts.proofs import ReceiptWriter
from rag_serving.records.answers import Answer
from rag_serving.records.flags import NEARLY_SPENT, REPEATED
from rag_serving.records.passages import Lock
from rag_serving.records.queries import Occasion
from rag_serving.tracing import StageTrace

if TYPE_CHECKING:
    from pathlib import Path

    from rag_serving.telemetry.tables import GuardedDatabase


@dataclass(frozen=True)
class CachePlace:
    """The cache key of one question's answer."""

    scope: AnswerScope
    question: str
    vector_of: Callable[[], Vector | None]


class RepeatedAnswers:
    """The answers of one tenant that are given again. Safe to use from several threads."""

    def __init__(
        self, settings: Cache, vectors: RecentVectors, is_one_person: bool, writer: ReceiptWriter, redactor: Redactor
    ) -> None:
        """`is_one_person`: callers without a user name are one person, as in a demonstration on one machine;
        `redactor`: finds personal data in questions."""
        self._settings, self._vectors, self._writer = settings, vectors, writer
        self._is_one_person, self._redactor = is_one_person, redactor
        self.cache = AnswerCache(settings)

    def place(
        self, request: QuestionRequest, generation: str, known: frozenset[str], settings: Mapping[str, Any]
    ) -> CachePlace | None:
        """Return the cache key of a question. None if it must be answered anew: it is explained, depends on a
        conversation or an application's state, has personal data, or its owner is unknown. `known`: the reader classes
        of the generation; `settings`: other inputs of an answer."""
        occasion, user = request.occasion, request.principal.user
        is_plain = occasion == Occasion(occasion.mode) and request.original is None and request.page is None
        is_somebody = self._settings.semantic == "shared" or user is not None or self._is_one_person
        if not self._settings.semantic or request.explain or not is_plain or not is_somebody:
            return None
        if self._redactor.find(request.text):
            return None
        filters = request.filters.payload() if request.filters else {}
        principal = request.principal
        classes = satisfied_classes(principal, principal.tenant, known)
        asker = None if self._settings.semantic == "shared" else user or ""
        scope = AnswerScope(
            principal.tenant, asker, generation, classes, {**settings, "filters": filters, "mode": occasion.mode}
        )
        return CachePlace(scope, request.text, lambda: self._vector(user, request.text))

    def find(self, place: CachePlace | None) -> CachedAnswer | None:
        """Return the answer that a question had before."""
        return self.cache.get(place.scope, place.question, place.vector_of) if place else None

    def given(self, trace: StageTrace, cached: CachedAnswer, request: QuestionRequest) -> Answer:
        """Return a repeated answer, marked as such, with a receipt of its own."""
        for flag in (*cached.answer.flags, REPEATED):
            trace.raise_flag(flag)
        answer = replace(cached.answer, usage=None)
        return self._writer.repeated(trace, answer, cached.receipt, request.principal, request.text)

    def keep(self, place: CachePlace | None, answer: Answer, written: AnswerTrace) -> None:
        """Keep an answer, if it is a good one."""
        if place is None:
            return
        passages = tuple(
            replace(each, chunk=replace(each.chunk, text="", structure="", context_before="", context_after=""))
            for each in written.lock.passages
        )
        answer = replace(answer, flags=tuple(flag for flag in answer.flags if flag != NEARLY_SPENT))
        receipt = self._writer.of(replace(written, answer=answer))
        self.cache.put(place.scope, place.question, CachedAnswer(answer, receipt, Lock(passages)), place.vector_of)

    def _vector(self, user: str | None, text: str) -> Vector | None:
        try:
            return self._vectors.of(user).embed_query(text)
        except ModelError:
            return None


_NOT_ASKED = frozenset({"principal", "text", "original", "explain"})


class EarlierAnswers:
    """One tenant's answers, in the memory of this process. Safe to use from several threads."""

    def __init__(
        self, config: Config, tenant: str, published: CurrentGeneration, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tenant, self._published = tenant, published
        self._store = Store(config.home)
        self._lock = threading.Lock()
        self._last: tuple[str, Mapping[str, frozenset[str]]] | None = None  # readers of the generation read last
        self._redactor = config.privacy.redactor()
        self.kept = KeptAnswers(config.degradation, clock)

    def keep(self, request: QuestionRequest, answer: Answer, written: AnswerTrace, known: frozenset[str]) -> None:
        """Store a good answer unless the question has personal data."""
        if self._redactor.find(request.text):
            return
        classes = satisfied_classes(request.principal, self._tenant, known)
        pages = {passage.chunk.page_id for passage in written.lock.passages}
        pages |= {citation.page_id for citation in answer.citations}
        self.kept.put(_asking(request), answer, AnswerSource(known, classes, frozenset(pages)))

    def find(self, request: QuestionRequest, trace: StageTrace) -> Answer | None:
        """Return a question's earlier answer, if it may still be shown."""
        if not len(self.kept.entries):
            return None
        published = self._published.named()
        if published is None:  # current access is unknown
            return None
        may_read = partial(self._may_read, request.principal, published)
        earlier = self.kept.get(_asking(request), published, may_read)
        if earlier is None:
            return None
        flags = dict.fromkeys((*trace.flags, *earlier.flags))
        return replace(earlier, understood=request.understood, flags=tuple(flags), timings_ms=trace.timings_ms)

    def _may_read(self, principal: Principal, generation_id: str, pages: frozenset[str]) -> bool:
        known = self._classes_of(generation_id)
        if known is None or not pages or principal.tenant != self._tenant:
            return False
        return all((classes := known.get(page)) and all(satisfies(principal, one) for one in classes) for page in pages)

    def _classes_of(self, generation_id: str) -> Mapping[str, frozenset[str]] | None:
        with self._lock:
            if self._last is None or self._last[0] != generation_id:
                try:
                    self._last = generation_id, classes_of_pages(self._store, self._tenant, generation_id)
                except StoreError as error:
                    _log.error("no earlier answer of another generation is shown: %s", error)
                    return None
            return self._last[1]


def _asking(request: QuestionRequest) -> Asking:
    scope = {name: value for name, value in vars(request).items() if name not in _NOT_ASKED and value}
    return Asking(request.principal, request.text, scope)


class Memory:
    """The memory of one tenant. Safe to use from several threads. `vectors`: of recent questions. `repeated`: answers
    that are given again. `earlier`: answers for when search fails; None: none is kept."""

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

    def keep_earlier(self, published: CurrentGeneration, clock: Callable[[], float]) -> None:
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
        self.repeated.cache.entries.clear()
        if self.earlier:
            self.earlier.kept.entries.clear()

    def close(self) -> None:
        """Drop everything and close open resources."""
        self.clear()
        self._marks.close()

    def _followed(self) -> object:
        """Return the newest mark; if it is another one than before, nothing is in memory any more."""
        newest = self._marks.newest()
        with self._lock:
            if newest != self._mark:
                self.clear()
                self._mark = newest
        return newest


FRESH_S = 2.0
"""Seconds after which a server looks into the database again."""
_WAIT_S = 0.5  # that a question waits for it
_KEY_PURPOSE = "forgotten"

_log = logging.getLogger(__name__)


def mark_forgotten(config: Config, tenant: str) -> None:
    """Have servers drop a tenant's data from memory. Raises TelemetryError: the database cannot be written."""
    mark = secrets.token_hex(16)
    if config.telemetry.url is not None:
        from rag_serving.telemetry.tables import write_mark

        with closing(_database(config, wait_s=10)) as database:
            digest = _digest(config, tenant)
            database.ask(lambda connection: write_mark(connection, digest, mark))
    path = _path(config, tenant)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"mark": mark})


class ForgottenMarks:
    """The marks of one tenant, as a server sees them. Safe to use from several threads."""

    def __init__(self, config: Config, tenant: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._tenant, self._clock = config, tenant, clock
        self._path = _path(config, tenant)
        self._looking = threading.Lock()
        self._database: GuardedDatabase | None = None
        self._looked_at: float | None = None
        self._row: str | None = None
        self._is_away = False

    def newest(self) -> object:
        """Return a value that changes whenever something was forgotten; without the database the last known one."""
        if self._config.telemetry.url is not None:
            self._look()
        return stamp_of(self._path), self._row

    def close(self) -> None:
        """Close the connections."""
        with self._looking:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _look(self) -> None:
        """Read the row, if that was not done a moment ago; questions at once wait for one of them."""
        if self._is_due():
            with self._looking:
                if self._is_due():
                    self._read()
                    self._looked_at = self._clock()

    def _is_due(self) -> bool:
        return self._looked_at is None or self._clock() - self._looked_at >= FRESH_S

    def _read(self) -> None:
        from rag_serving.telemetry.recorder import TelemetryError
        from rag_serving.telemetry.tables import read_mark

        try:
            self._database = self._database or _database(self._config, _WAIT_S)
            digest = _digest(self._config, self._tenant)
            self._row = self._database.ask(lambda connection: read_mark(connection, digest))
            self._is_away = False
        except TelemetryError as error:
            if not self._is_away:
                _log.warning("whether something of %s was forgotten cannot be told: %s", self._tenant, error)
            self._is_away = True


def _path(config: Config, tenant: str) -> Path:
    return config.home / "forgotten" / f"{tenant}.json"


def _digest(config: Config, tenant: str) -> str:
    return hmac.new(derived_key(config.home, _KEY_PURPOSE), tenant.encode(), "sha256").hexdigest()


def _database(config: Config, wait_s: float) -> GuardedDatabase:
    from rag_serving.telemetry.tables import FORGOTTEN_METADATA, GuardedDatabase

    return GuardedDatabase(config.telemetry.url, Store(config.home).serving_db(), FORGOTTEN_METADATA, wait_s)
