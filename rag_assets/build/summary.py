"""A build's expected and actual work, as JSON for programs and as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rag_assets.llm_contexts.tenant import TOKENS_OUT, ContextEstimate, ContextPlan, read_last_run
from rag_assets.publishing.arrange import ORDER
from rag_assets.publishing.passage_vectors import SentencesPart, wants_sentences, write_sentences
from rag_assets.publishing.publish import NARROWED_FROM
from rag_assets.state import records
from rag_assets.state.content_cache import SEAL_PURPOSE, EmbeddedTexts, VectorCache, vector_key
from rag_assets.state.planning import read_left_out
from rag_assets.steps.contexts.contextualize import build_contexts, contextualized, embedded_windows
from rag_serving.artifacts.manifest import EmbedderFacts, Manifest
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import show_generation
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.embedding.factory import TokenCount
from rag_serving.models.protocols import ModelError

if TYPE_CHECKING:
    from rag_assets.runs import RunOutcome


_DIMENSION = 8  # of vectors that nobody compares


@dataclass
class SourceEstimate:
    """Hold what of one source would be embedded."""

    pages: set[str] = field(default_factory=set)
    chunks: int = 0
    texts: int = 0  # passages, their windows, sentences
    tokens: int = 0

    def facts(self, price: float | None) -> dict[str, Any]:
        """Return it for a machine; `price`: of a million tokens, None if none is set."""
        cost = None if price is None else round(self.tokens * price / 1e6, 6)
        return {
            "pages": len(self.pages),
            "chunks": self.chunks,
            "texts": self.texts,
            "tokens": self.tokens,
            "cost": cost,
        }


@dataclass(frozen=True)
class EmbeddingEstimate:
    """A tenant's texts to embed, by source."""

    model: str
    price: float | None
    sources: Mapping[str, SourceEstimate]

    @property
    def total(self) -> SourceEstimate:
        """The sum of all sources."""
        parts = self.sources.values()
        return SourceEstimate(
            set(chain.from_iterable(part.pages for part in parts)),
            *(sum(getattr(part, name) for part in parts) for name in ("chunks", "texts", "tokens")),
        )

    def facts(self) -> dict[str, Any]:
        """Return it for a machine."""
        by_source = {key: part.facts(self.price) for key, part in sorted(self.sources.items())}
        return {"model": self.model, **self.total.facts(self.price), "sources": by_source}

    def lines(self) -> Iterable[str]:
        """Yield it for people: a line for all, and one for each source if there are several."""
        if not self.total.texts:
            yield f"nothing to embed: {self.model} knows all texts"
            return
        yield self._line(self.total)
        if len(self.sources) > 1:
            yield from (f"  {key}: {self._line(part)}" for key, part in sorted(self.sources.items()))

    def _line(self, part: SourceEstimate) -> str:
        cost = part.facts(self.price)["cost"]
        price = "no price (`embedding.prices`)" if cost is None else f"cost {cost:.4f}" if cost else "costs nothing"
        return (
            f"{part.chunks} chunks of {len(part.pages)} pages to embed: {part.texts:,} texts, about {part.tokens:,} "
            f"tokens, {price}"
        )


def estimate_embedding(
    config: Config, tenant: str, selected: pa.Table, plan: ContextPlan | None, scratch: Path
) -> EmbeddingEstimate:
    """Return what a build of these chunks (SELECTED_CHUNKS) would embed; no model is called. `plan`: the existing
    contexts, and those still to be written, taken as 110 tokens; `scratch`: a writable folder. Raises ModelError: the
    cache of vectors cannot be used."""
    settings = config.embedding
    is_remote = settings.provider != "local"
    try:
        name = open_embedder(config.embedding).name
    except ModelError:  # the server does not give it: then nothing counts as cached
        name = config.embedding.model
    known_contexts = _known(plan)
    template = "none" if config.context.provider == "none" else "metadata"
    chunks = contextualized(selected, build_contexts(selected, template, known_contexts))  # type: ignore[arg-type]
    store = Store(config.home)
    cache = VectorCache(store.cache(tenant), name, Seal(store.home, SEAL_PURPOSE))
    texts = [*_texts(chunks, config, scratch)]
    keys = {vector_key(name, text) for _, _, text in texts}
    lacking = keys - cache.known(keys)
    count, found = TokenCount(settings), dict[str, SourceEstimate]()
    source_of = dict(zip(chunks["page_id"].to_pylist(), chunks["source"].to_pylist(), strict=True))
    to_come = set(chunks["chunk_id"].to_pylist()) - known_contexts.keys() if plan else set()
    for page, chunk, text in texts:
        if (key := vector_key(name, text)) not in lacking:
            continue
        lacking.discard(key)
        part = found.setdefault(source_of.get(page) or "", SourceEstimate())
        part.pages.add(page)
        part.chunks += chunk is not None
        part.texts += 1
        part.tokens += count([text]) + (TOKENS_OUT if chunk in to_come else 0)
    price = settings.prices.get(settings.model)
    return EmbeddingEstimate(settings.model, price.input if price else None if is_remote else 0.0, found)


def _known(plan: ContextPlan | None) -> dict[str, Any]:
    if plan is None:
        return {}
    passages = [passage for document in plan.documents for passage in document.passages]
    return {passage.chunk_id: plan.known[passage.key] for passage in passages if passage.key in plan.known}


def _texts(chunks: pa.Table, config: Config, scratch: Path) -> Iterable[tuple[str, str | None, str]]:
    windows = embedded_windows(chunks, open_input_limit(config.embedding))
    for page, chunk, texts in zip(chunks["page_id"].to_pylist(), chunks["chunk_id"].to_pylist(), windows, strict=True):
        yield from ((page, chunk if place == 0 else None, text) for place, text in enumerate(texts))
    if wants_sentences(config) and len(chunks):
        sentences: list[tuple[str, str | None, str]] = []

        def embed(part: SentencesPart) -> EmbeddedTexts:
            sentences.extend((page, None, text) for page, text in zip(part.pages, part.texts, strict=True))
            return EmbeddedTexts(np.ones((len(part.texts), _DIMENSION), np.float32), ["" for _ in part.texts], 0)

        scratch.mkdir(parents=True, exist_ok=True)
        write_sentences(scratch, chunks.sort_by(ORDER), embed, EmbedderFacts(name="estimate", dimension=_DIMENSION))
        yield from sentences


@dataclass
class Summary:
    """Filled while a build goes on."""

    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    estimates: dict[str, ContextEstimate | None] = field(
        default_factory=dict
    )  # by tenant; None: no model writes contexts
    embedding: dict[str, EmbeddingEstimate] = field(default_factory=dict)  # by tenant: what would be embedded
    errors: dict[str, str] = field(default_factory=dict)
    step_seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)  # why pages of a source that was read are not there
    seconds: float = 0.0

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape; `errors` is present only after a failure, `step_seconds` only after work. `estimates`
        is present on request, null for a tenant whose contexts need no model, and `embedding_estimates` beside it;
        `notes` if a caller without a name can read nothing of a source."""
        shape: dict[str, Any] = {"sources": self.sources, "tenants": self.tenants, "seconds": round(self.seconds, 3)}
        estimates = {tenant: expected and expected.facts() for tenant, expected in self.estimates.items()}
        extra = {
            "notes": self.notes(),
            "estimates": estimates,
            "embedding_estimates": {tenant: expected.facts() for tenant, expected in self.embedding.items()},
            "step_seconds": self.step_seconds,
            "errors": self.errors,
        }
        return shape | {name: value for name, value in extra.items() if value}

    def notes(self) -> dict[str, str]:
        """Return the notes on sources that would surprise a caller, by source."""
        notes = {key: readers_of(counts).note(key) for key, counts in self.sources.items()}
        return {key: note for key, note in notes.items() if note}

    def lines(self) -> list[str]:
        """For people, one line for each source and tenant."""
        keys = [*self.sources, *self.tenants, *self.estimates]
        width = max(map(len, keys), default=0)
        lines = []
        for key, counts in self.sources.items():
            told = (source_line(counts), *self.reasons.get(key, ()), *_not_searched(counts))
            lines += [f"{key:<{width}}  {line}" for line in told]
        lines += [f"{key:<{width}}  {note}" for key, note in self.notes().items()]
        lines += [f"{key:<{width}}  {tenant_line(facts)}" for key, facts in self.tenants.items()]
        for tenant, embedding in self.embedding.items():
            lines += [f"{tenant:<{width}}  {line}" for line in embedding.lines()]
        lines += [f"{tenant:<{width}}  {estimate_line(expected)}" for tenant, expected in self.estimates.items()]
        return [*lines, f"{self.seconds:.1f} s"]


def source_counts(store: Store, key: str, outcome: RunOutcome | None, error: str | None = None) -> dict[str, Any]:
    """Return the counts of a source: of its run, or of its tables if nothing had to be done. `pages_cut` is there where
    pages were too long to be read whole, `pages_excluded` where some are left out. A source that failed also has its
    `error`, and `kept_from`: when the tables that stay were made, null for none."""
    state = records.read_state(store, key)
    pages, sections, chunks = state.pages, state.sections, state.chunks
    readers, last = records.passage_readers(store, key), records.read_last_sync(store.source(key))
    ran = outcome is not None and "pages" in outcome.metadata
    counts: dict[str, Any] = {
        "pages_seen": pages.pages_seen if pages else 0,
        "pages_changed": pages.pages_changed if pages and ran else 0,
        "pages_deleted": pages.pages_deleted if pages and ran else 0,
        "pages_failed": (pages.pages_failed if pages else 0) + (len(sections.failed) if sections else 0),
        "chunks": chunks.chunks if chunks else 0,
        "chunks_new": outcome.count("chunks", "chunks_new") if outcome is not None else 0,
        "macros_lost": sections.macros_lost if sections else 0,
    }
    if last and last.excluded:
        counts["pages_excluded"] = len(last.excluded)
    if sections and sections.cut:
        counts["pages_cut"] = len(sections.cut)
    if readers.passages:
        counts |= {"chunks_for_everyone": readers.for_everyone, "chunks_for_nobody": readers.for_nobody}
    return counts if error is None else {**counts, "error": error, "kept_from": _made_at(store, key)}


def searched_pages(store: Store, tenant: str, keys: Iterable[str]) -> dict[str, int]:
    """Return how many pages of each source the published generation has; of none if nothing is published."""
    manifest = _manifest(store, tenant)
    return {key: manifest.pages[key].pages if key in manifest.pages else 0 for key in keys} if manifest else {}


def left_out(store: Store, key: str) -> list[str]:
    """Return the first reasons why pages of a source are missing, failures first, and the file with the others."""
    folder, sections = store.source(key), records.read_state(store, key).sections
    last = records.read_last_sync(folder)
    failed = [*(last.failed if last else {}).values(), *(sections.failed if sections else {}).values()]
    excluded = [*(last.excluded if last else {}).values()]
    told = [*(f"failed: {why}" for why in failed[:_TOLD]), *(f"left out: {why}" for why in excluded[:_TOLD])]
    more = len(failed) + len(excluded) - len(told)
    return [*told, f"and {more} more, in {folder / records.SYNC_FILE}"] if more else told


def readers_of(counts: dict[str, Any]) -> records.PassageReaders:
    """The passages of a source's counts by who may read them."""
    if "chunks_for_everyone" not in counts:
        return records.PassageReaders()
    return records.PassageReaders(counts["chunks"], counts["chunks_for_everyone"], counts["chunks_for_nobody"])


def _made_at(store: Store, key: str) -> str | None:
    try:
        made_at = (store.source(key) / "chunks.parquet").stat().st_mtime
    except OSError:
        return None
    return datetime.fromtimestamp(made_at, UTC).isoformat(timespec="seconds")


def tenant_facts(store: Store, tenant: str, outcome: RunOutcome | None) -> dict[str, Any]:
    """Return the state of a tenant's publication, and this build's work on it: nothing without a run.
    `contexts_generated` counts a model's contexts; the metadata template costs nothing and does not count.
    `contexts_failed` counts the chunks for which a model failed, in this build or the last with requests. `left_out`
    has faulty documents. `narrowed_from` is present if the readers of a published generation were narrowed because no
    build succeeded since. If a candidate was made and not published, `candidate` names it and `gates` are its own."""
    state, manifest = records.read_publish_state(store, tenant), _manifest(store, tenant)
    chunks, shards = (manifest.chunks, len(manifest.shards)) if manifest else (0, 0)
    current = state if state and manifest and state.generation == manifest.id else None
    stopped = _stopped_candidate(store, tenant, outcome)
    judged, contexts = stopped or current, read_last_run(store, tenant)
    facts = {
        "chunks": chunks,
        "duplicates_dropped": current.duplicates_dropped if current else 0,
        "contexts_generated": outcome.count("contexts", "contexts_generated") if outcome is not None else 0,
        "contexts_failed": contexts.failures,
        "texts_embedded": outcome.count("embeddings", "texts_embedded") if outcome is not None else 0,
        "sentences_embedded": outcome.count("embeddings", "sentences_embedded") if outcome is not None else 0,
        "shards_built": outcome.count("dense_index", "shards_built") if outcome is not None else 0,
        "shards_reused": outcome.count("dense_index", "shards_reused") if outcome is not None else shards,
        "generation": manifest.id if manifest else None,
        "published": outcome is not None and outcome.error is None,
        "gates": judged.gates if judged else {},
    }
    extra: dict[str, Any] = {"contexts_failure": contexts.reason} if contexts.reason else {}
    if manifest and (before := manifest.settings.get(NARROWED_FROM)):
        extra[NARROWED_FROM] = before
    if faults := read_left_out(store, tenant):
        extra["left_out"] = {page: why for page, (_, why) in faults.items()}
    return {**facts, **extra, "candidate": stopped.generation} if stopped else {**facts, **extra}


def _stopped_candidate(store: Store, tenant: str, outcome: RunOutcome | None) -> records.PublishState | None:
    """Return the candidate that a run made and did not publish; None if there is none."""
    made = outcome.metadata.get("generation", {}).get("generation") if outcome and outcome.error else None
    try:
        checked = records.read_checked(store, tenant) if made else None
    except StoreError:
        return None
    return checked if checked and checked.generation == made else None


def _manifest(store: Store, tenant: str) -> Manifest | None:
    try:
        return show_generation(store, tenant)
    except StoreError:
        return None


_CHANGES = {
    "pages_changed": "changed",
    "pages_deleted": "deleted",
    "pages_excluded": "left out",
    "pages_failed": "failed",
    "pages_cut": "cut short",
}

_DONE = ("pages_changed", "pages_deleted", "pages_failed", "pages_cut")
_TOLD = 3


def source_line(counts: dict[str, Any]) -> str:
    pages, chunks = of(counts["pages_seen"], "page"), of(counts["chunks"], "chunk")
    if "error" in counts:
        if counts["kept_from"] is None:
            return "failed; it has no earlier sync, so nothing of it is indexed"
        return f"failed; kept from {counts['kept_from']}: {pages}, {chunks}"
    changes = [f"{counts[name]} {word}" for name, word in _CHANGES.items() if counts.get(name)]
    if not any(counts.get(name) for name in _DONE):
        changes.insert(0, "nothing changed")
    searched = f", {counts['pages_searched']} searched" if "pages_searched" in counts else ""
    line = f"{pages} ({', '.join(changes)}){searched}, {chunks}"
    line += f" ({counts['chunks_new']} new)" if counts["chunks_new"] else ""
    return line + (f", {of(counts['macros_lost'], 'macro')} lost" if counts["macros_lost"] else "")


def _not_searched(counts: dict[str, Any]) -> list[str]:
    read = counts["pages_seen"] - counts.get("pages_excluded", 0) - counts["pages_failed"]
    missing = read - counts.get("pages_searched", read)
    why = "they have a label of ingestion.drop_labels, or no text of their own"
    return [f"not searched: {of(missing, 'page')}, because {why}"] if missing > 0 else []


def estimate_line(expected: ContextEstimate | None) -> str:
    line = expected.line() if expected else "contexts need no model (`context.provider`)"
    return f"{line}; nothing was asked or published"


def tenant_line(facts: dict[str, Any]) -> str:
    parts = [_publication(facts)]
    if "candidate" in facts:
        failed = ", ".join(name for name, passed in facts["gates"].items() if not passed) or "see the error"
        parts.append(f"candidate {facts['candidate']} is not published ({failed})")
    parts += [f"{page} is left out: {why}" for page, why in [*facts.get("left_out", {}).items()][:_TOLD]]
    if facts["contexts_failed"]:
        parts.append(
            f"{of(facts['contexts_failed'], 'chunk')} without a context of the model, title and headings instead: "
            f"{facts.get('contexts_failure', 'it failed')} (`citelock build --retry-contexts` asks again)"
        )
    return "; ".join(parts)


def _publication(facts: dict[str, Any]) -> str:
    if facts["generation"] is None:
        return "nothing published"
    what = f"generation {facts['generation']}"
    if not facts["published"]:
        if NARROWED_FROM in facts:
            what += f" ({facts[NARROWED_FROM]}, for those alone who still may read its pages)"
        return f"{what} stays published, {of(facts['chunks'], 'chunk')}"
    return (
        f"{what} published, {of(facts['chunks'], 'chunk')} ({of(facts['texts_embedded'], 'text')} and "
        f"{of(facts['sentences_embedded'], 'sentence')} embedded, "
        f"{of(facts['shards_built'], 'shard')} built, {facts['shards_reused']} reused)"
    )


def of(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
