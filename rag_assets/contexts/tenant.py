"""The contexts of one tenant: what its build asks for, and what the last one could not get.

Belongs here: putting cache, model and writer together as configured; the file that tells of failures.
Does not belong here: Dagster (`assets.contexts`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.contexts.cache import ContextCache
from rag_assets.contexts.servers import model_name, models_of, open_servers
from rag_assets.contexts.tally import Tally
from rag_assets.contexts.writer import ContextWriter, Watch, document_budget
from rag_assets.steps.context_prompt import build_documents
from rag_assets.steps.contextualize import WrittenContext
from rag_serving.settings import Context
from rag_serving.store import Store, StoreError, read_json, write_json

FILE = "contexts.json"
TOLD_S = 5.0


@dataclass(frozen=True)
class TenantContexts:
    """By chunk id what a model wrote and why it did not, and what that took."""

    written: dict[str, WrittenContext] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=lambda: Tally(0))


def write_contexts(chunks: pa.Table, settings: Context, cache: Path, watch: Watch) -> TenantContexts:
    """The contexts that the configured model writes about rows of SELECTED_CHUNKS; none where no model is configured.

    Raises:
        ModelError: no model is named, its key is missing, or the cache cannot be used.
    """
    models = models_of(settings)
    if not models:
        return TenantContexts()
    documents = build_documents(chunks, document_budget(settings))
    known_of = ContextCache(cache, *(model_name(model).key for model in models.values()))
    writer = ContextWriter(settings, known_of, open_servers(settings), watch)
    found = writer.write(documents)
    passages = [passage for document in documents for passage in document.passages]
    return TenantContexts(
        {each.chunk_id: found.written[each.key] for each in passages if each.key in found.written},
        {each.chunk_id: found.failures[each.key] for each in passages if each.key in found.failures},
        found.tally,
    )


@dataclass(frozen=True)
class Failures:
    """How many chunks a model was to write about and did not, and the most frequent reason."""

    count: int = 0
    reason: str = ""


def note_failures(store: Store, tenant: str, failures: Mapping[str, str]) -> Failures:
    """Keep how many chunks have no context of the model, for the next build; `failures` are reasons by chunk id."""
    reason = Counter(failures.values()).most_common(1)[0][0] if failures else ""
    write_json(store.tenant(tenant) / FILE, {"failures": len(failures), "reason": reason})
    return Failures(len(failures), reason)


def read_failures(store: Store, tenant: str) -> Failures:
    """Return what the last build noted; none where it cannot be read."""
    try:
        noted = read_json(store.tenant(tenant) / FILE)
        return Failures(int(noted["failures"]), str(noted.get("reason", "")))
    except (StoreError, KeyError, TypeError, ValueError, AttributeError):
        return Failures()


def has_failures(store: Store, tenant: str) -> bool:
    """Whether the last build left chunks without a context of the model."""
    return bool(read_failures(store, tenant).count)


@dataclass
class Telling:
    """Tells of a tally: every step to a bar, every few seconds a line to a log and facts to the asset's page."""

    advance: Callable[[int, int], None]
    say: Callable[[str], object]
    observe: Callable[[dict[str, Any]], object]
    told_at: float = field(default_factory=time.monotonic)

    def __call__(self, tally: Tally) -> None:
        self.advance(tally.handled, tally.total)
        now = time.monotonic()
        if now - self.told_at >= TOLD_S:
            self.told_at = now
            self.say(tally.line())
            self.observe(dict(tally.facts()))
