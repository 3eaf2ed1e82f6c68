"""What a build did, as JSON for programs and as lines for people.

Belongs here: the documented shape of `citelock build --json`.
Does not belong here: doing it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rag_assets.state import read_publish_state, read_state
from rag_serving.store import Store

if TYPE_CHECKING:
    from rag_assets.runner import Outcome


@dataclass
class Summary:
    """Filled while a build goes on."""

    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def payload(self) -> dict[str, Any]:
        """The JSON shape; `errors` is there only when something failed."""
        shape: dict[str, Any] = {"sources": self.sources, "tenants": self.tenants, "seconds": round(self.seconds, 3)}
        return shape | ({"errors": self.errors} if self.errors else {})

    def lines(self) -> list[str]:
        """For people, one line for each source and tenant."""
        keys = [*self.sources, *self.tenants]
        width = max(map(len, keys), default=0)
        lines = [f"{key:<{width}}  {source_line(counts)}" for key, counts in self.sources.items()]
        lines += [f"{key:<{width}}  {tenant_line(facts)}" for key, facts in self.tenants.items()]
        return [*lines, f"{self.seconds:.1f} s"]


def source_counts(store: Store, key: str, outcome: Outcome | None) -> dict[str, int]:
    """The counts of a source: of its run, or of its tables where nothing had to be done."""
    state = read_state(store, key)
    pages, sections, chunks = state.pages, state.sections, state.chunks
    ran = outcome is not None
    return {
        "pages_seen": pages.pages_seen if pages else 0,
        "pages_changed": pages.pages_changed if pages and ran else 0,
        "pages_deleted": pages.pages_deleted if pages and ran else 0,
        "pages_failed": (pages.pages_failed if pages else 0) + (len(sections.failed) if sections else 0),
        "chunks": chunks.chunks if chunks else 0,
        "chunks_new": outcome.count("chunks", "chunks_new") if outcome is not None else 0,
        "macros_lost": sections.macros_lost if sections else 0,
    }


def tenant_facts(store: Store, tenant: str, outcome: Outcome | None) -> dict[str, Any]:
    """The facts of a tenant: of its run, or of what is published where nothing had to be done.

    `contexts_generated` counts what a model wrote; the metadata template costs nothing and does not count.
    """
    state = read_publish_state(store, tenant)
    made = outcome.metadata.get("generation", {}) if outcome is not None else {}
    reused = outcome.count("dense_index", "shards_reused") if outcome is not None else (state.shards if state else 0)
    return {
        "chunks": made.get("chunks", state.chunks if state else 0),
        "duplicates_dropped": 0,
        "contexts_generated": outcome.count("contexts", "contexts_generated") if outcome is not None else 0,
        "texts_embedded": outcome.count("embeddings", "texts_embedded") if outcome is not None else 0,
        "shards_built": outcome.count("dense_index", "shards_built") if outcome is not None else 0,
        "shards_reused": reused,
        "generation": store.current(tenant),
        "published": outcome is not None and outcome.error is None,
        "gates": state.gates if state else {},
    }


def source_line(counts: dict[str, int]) -> str:
    changes = [
        f"{counts[name]} {word}"
        for name, word in {"pages_changed": "changed", "pages_deleted": "deleted", "pages_failed": "failed"}.items()
        if counts[name]
    ]
    line = f"{counts['pages_seen']} pages ({', '.join(changes) or 'nothing changed'}), {counts['chunks']} chunks"
    line += f" ({counts['chunks_new']} new)" if counts["chunks_new"] else ""
    return line + (f", {counts['macros_lost']} macros lost" if counts["macros_lost"] else "")


def tenant_line(facts: dict[str, Any]) -> str:
    if facts["generation"] is None:
        return "nothing published"
    if not facts["published"]:
        return f"generation {facts['generation']} stays published, {facts['chunks']} chunks"
    return (
        f"generation {facts['generation']} published, {facts['chunks']} chunks "
        f"({facts['texts_embedded']} texts embedded, {facts['shards_built']} shards built, "
        f"{facts['shards_reused']} reused)"
    )
