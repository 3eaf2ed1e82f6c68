"""Tokens and cost of texts that were embedded, page by page.

Belongs here: counting, and keeping what a build embeds itself. Does not belong here: rows (`usage_rows`), what workers
embed, which is kept with their job (`queue`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from rag_assets.embedding_jobs.database import JobsDatabase
from rag_assets.embedding_jobs.records import JobsError
from rag_assets.embedding_jobs.usage_rows import PageUsage, add_usage, forget_usage
from rag_serving.config.models import Embedding
from rag_serving.models.embedding.token_count import TokenCount

WRITE_EVERY_S = 5.0
"""What a killed build embedded in the last seconds is in no figure."""

_log = logging.getLogger(__name__)


class UsageCounter:
    """Counts tokens by the local model's tokenizer, which servers of models do not share, and prices them."""

    def __init__(self, settings: Embedding) -> None:
        self._count = TokenCount(settings)
        self._price = settings.prices.get(settings.model)

    def of(self, computed: Sequence[tuple[str, str]]) -> list[PageUsage]:
        """Return what pages and texts took, by page."""
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

    def __init__(self, database: JobsDatabase, counter: UsageCounter, tenant: str, model: str, keep_days: int) -> None:
        """`keep_days`: of what was embedded before."""
        self._database, self._counter = database, counter
        self._tenant, self._model, self._keep_days = tenant, model, keep_days
        self._is_away = False
        self._waiting: list[PageUsage] = []
        self._written_at = time.monotonic()
        self.pages: dict[str, PageUsage] = {}

    def expect(self, pages: Sequence[str]) -> None:
        """No-op: only what was embedded is counted."""

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Take in pages and texts that were embedded; they are written soon, or by `flush`."""
        usage = self._counter.of(computed)
        for part in usage:
            before = self.pages.get(part.page_id)
            self.pages[part.page_id] = before.plus(part) if before else part
        self._waiting += usage
        if time.monotonic() - self._written_at >= WRITE_EVERY_S and not self._is_away:
            self.flush()

    def flush(self) -> None:
        """Write what was not written yet."""
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
