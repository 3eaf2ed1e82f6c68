"""The vectors of a build, and their usage: tokens and cost of texts, page by page and day by day."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Engine, delete, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from rag_assets.state.content_cache import SEAL_PURPOSE, EmbeddingObserver, TextVectors, VectorCache
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.models import Embedding
from rag_serving.escaping.redaction import RedactedError
from rag_serving.models.embedding.factory import TokenCount
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.plugins import one
from rag_serving.telemetry.recorder import TelemetryError
from rag_serving.telemetry.tables import create_tables, error_line, open_engine
from rag_serving.telemetry.usage import EMBEDDED, JOBS_METADATA

WRITE_EVERY_S = 5.0
"""What a killed build embedded in the last seconds is in no figure."""
_LOCK = 7_304_415_920_118
"""Of Postgres' advisory locks, which all writers of the queue take."""
_READING = "citelock_reading"

_log = logging.getLogger(__name__)


class JobsError(RedactedError):
    """The database of embedding jobs cannot be used; the message is one line that says how to mend it."""


class DeadTextsError(ModelError):
    """Texts were put aside by the queue; the message names their pages and the reason. No retry of the build helps."""


@dataclass
class WaitFigures:
    """A build's figures of the queue."""

    jobs: int = 0  # that it enqueued
    waited_s: float = 0.0
    held_up_s: float = 0.0  # of it, by the bound of the queue
    own_jobs: int = 0  # that it did itself, for want of workers
    dead_letters: int = 0  # texts that were put aside


@dataclass(frozen=True)
class PageUsage:
    """The embedding usage of a page, in one go or in all."""

    page_id: str
    texts: int
    tokens: int
    cost: float

    def plus(self, other: PageUsage) -> PageUsage:
        """Return the sum of two of one page."""
        sums = self.texts + other.texts, self.tokens + other.tokens, self.cost + other.cost
        return PageUsage(self.page_id, *sums)


def by_page(usage: Iterable[PageUsage]) -> dict[str, PageUsage]:
    """Return the sum of each page, by page."""
    sums: dict[str, PageUsage] = {}
    for part in usage:
        before = sums.get(part.page_id)
        sums[part.page_id] = before.plus(part) if before else part
    return sums


def add_usage(connection: Connection, tenant: str, model: str, usage: Iterable[PageUsage], now: float) -> None:
    """Add embedding usage to the day's rows of its pages. Raises SQLAlchemyError: the database does not take it."""
    day = datetime.fromtimestamp(now, UTC).date().isoformat()
    given = {"tenant": tenant, "model": model, "day": day}
    rows: list[Mapping[str, Any]] = [given | asdict(part) for _, part in sorted(by_page(usage).items())]
    if not rows:
        return
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(EMBEDDED)
    sums = {name: EMBEDDED.c[name] + insert.excluded[name] for name in ("texts", "tokens", "cost")}
    connection.execute(insert.on_conflict_do_update(index_elements=[*EMBEDDED.primary_key], set_=sums), rows)


def read_usage(connection: Connection, tenant: str, model: str | None = None) -> dict[str, PageUsage]:
    """Return the embedding usage of each page of a tenant over all days, by one model or by any. Raises
    SQLAlchemyError: the database is unavailable."""
    sums = [func.sum(EMBEDDED.c[name]) for name in ("texts", "tokens", "cost")]
    query = select(EMBEDDED.c.page_id, *sums).where(EMBEDDED.c.tenant == tenant)
    query = query.where(EMBEDDED.c.model == model) if model is not None else query
    rows = connection.execute(query.group_by(EMBEDDED.c.page_id)).all()
    return {page: PageUsage(page, int(texts), int(tokens), float(cost)) for page, texts, tokens, cost in rows}


def forget_usage(connection: Connection, keep_days: int, now: float) -> None:
    """Delete the rows of days before the last `keep_days`. Raises SQLAlchemyError: the database does not take it."""
    oldest = (datetime.fromtimestamp(now, UTC).date() - timedelta(days=keep_days)).isoformat()
    connection.execute(delete(EMBEDDED).where(EMBEDDED.c.day < oldest))


def since(now: Mapping[str, PageUsage], before: Mapping[str, PageUsage]) -> dict[str, PageUsage]:
    """Return the increase of each page's usage; unchanged pages are left out."""
    added = {}
    for page, usage in now.items():
        old = before.get(page, PageUsage(page, 0, 0, 0.0))
        if usage.texts > old.texts:
            grown = usage.texts - old.texts, usage.tokens - old.tokens, usage.cost - old.cost
            added[page] = PageUsage(page, *grown)
    return added


class JobsDatabase:
    """The database of one installation; its tables are made when it is first used. Safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._url = config.telemetry.url
        self._file = Store(config.home).serving_db()
        self._opening = threading.Lock()
        self._engine: Engine | None = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a transaction that no other writer of the queue overlaps: decisions rest on what it reads. Raises
        JobsError: the database cannot be used; nothing was changed."""
        with _told_in_one_line(), self._opened().begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a read-only transaction, which blocks no writer. Raises JobsError: the database cannot be used."""
        options = {_READING: True}
        with _told_in_one_line(), self._opened().execution_options(**options).connect() as connection:
            yield connection

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is None:
                engine = open_engine(self._url, self._file)
                if engine.dialect.name == "sqlite":
                    _lock_at_once(engine)
                create_tables(JOBS_METADATA, engine)
                self._engine = engine
            return self._engine


def _lock_at_once(engine: Engine) -> None:
    """Let SQLite's transactions take the write lock when they begin: one that reads first could not get it later.
    https://docs.sqlalchemy.org/en/20/dialects/sqlite.html#pysqlite-serializable."""

    @event.listens_for(engine, "connect")
    def _no_own_transactions(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        is_reading = connection.get_execution_options().get(_READING)
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, TelemetryError, OSError) as error:
        raise JobsError(
            f"the database of embedding jobs cannot be used ({error_line(error)}); see telemetry.url"
        ) from error


class UsageCounter:
    """Counts tokens by the local model's tokenizer, which servers of models do not share, and prices them."""

    def __init__(self, settings: Embedding) -> None:
        self._count = TokenCount(settings)
        self._price = settings.prices.get(settings.model)

    def of(self, computed: Sequence[tuple[str, str]]) -> list[PageUsage]:
        """Return the usage of pages and texts, by page."""
        texts: dict[str, list[str]] = {}
        for page, text in computed:
            texts.setdefault(page, []).append(text)
        usage = []
        for page, of_page in texts.items():
            tokens = self._count(of_page)
            usage.append(PageUsage(page, len(of_page), tokens, self._price.of(tokens, 0) if self._price else 0.0))
        return usage


class UsageLog:
    """Keeps what a build of a tenant embeds itself. A database that does not take it stops no build."""

    def __init__(
        self, database: JobsDatabase, config: Config, tenant: str, model: str, observer: EmbeddingObserver
    ) -> None:
        """`observer`: is told the same."""
        self._database, self._counter, self._observer = database, UsageCounter(config.embedding), observer
        self._tenant, self._model, self._keep_days = tenant, model, config.telemetry.retention_days
        self._is_away = False
        self._waiting: list[PageUsage] = []
        self._written_at = time.monotonic()
        self.pages: dict[str, PageUsage] = {}

    def expect(self, pages: Sequence[str]) -> None:
        """Count nothing: only embedded texts are counted."""
        self._observer.expect(pages)

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Take in pages and texts that were embedded; they are written soon, or by `flush`."""
        usage = self._counter.of(computed)
        self.pages |= by_page([*(self.pages[part.page_id] for part in usage if part.page_id in self.pages), *usage])
        self._waiting += usage
        if time.monotonic() - self._written_at >= WRITE_EVERY_S and not self._is_away:
            self.flush()
        self._observer.count(computed)

    def flush(self) -> None:
        """Write pending usage; the other observer is flushed by who made it."""
        self._written_at = time.monotonic()
        if not self._waiting:
            return
        try:
            with self._database.writing() as connection:
                add_usage(connection, self._tenant, self._model, self._waiting, time.time())
                forget_usage(connection, self._keep_days, time.time())
        except JobsError as error:
            self._is_away = True  # looked for again at the end: each look may take seconds
            _log.warning("what embedding took is not recorded: %s", error)
        else:
            self._waiting = []


@dataclass
class BuildVectors:
    """A build's embedder, and its usage. `waits` is None if the build embeds itself."""

    vectors: TextVectors
    usage: Callable[[], dict[str, PageUsage]]
    waits: WaitFigures | None


@contextmanager
def build_vectors(
    config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver, tell: Callable[[str], object]
) -> Iterator[BuildVectors]:
    """Yield the embedder of a tenant's build, which counts its usage; `tell` is the run's log. Raises ConfigError:
    workers are configured, and the plug-in `scale` is not installed. Raises ModelError: the database of jobs cannot be
    used. Raises SecretError: the installation's secret cannot be used."""
    if config.jobs.embedding == "workers":
        opened = one("citelock.embedding", "workers", "scale")(config, tenant, embedder, observer, tell)
    else:
        opened = _in_process(config, tenant, embedder, observer)
    with opened as vectors:
        try:
            yield vectors
        finally:
            observer.flush()


@contextmanager
def _in_process(config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver) -> Iterator[BuildVectors]:
    database = JobsDatabase(config)
    log = UsageLog(database, config, tenant, embedder.name, observer)
    try:
        yield BuildVectors(open_cache(config, tenant, embedder, log), lambda: log.pages, None)
    finally:
        log.flush()
        database.close()


def open_cache(
    config: Config, tenant: str, embedder: Embedder, observer: EmbeddingObserver | None = None
) -> VectorCache:
    """Return the vectors that are remembered of a tenant."""
    store = Store(config.home)
    return VectorCache(store.cache(tenant), embedder.name, Seal(store.home, SEAL_PURPOSE), observer)
