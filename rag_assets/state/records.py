"""Records of syncs and runs beside their tables: inputs, counts, the outcome of every page."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, ValidationError

from rag_assets.parsing.reader import ScannedDocuments
from rag_assets.sources.base import ORIGINALS_FOLDER, SyncResult, remove_unnamed, settings_digest
from rag_assets.steps import dedup
from rag_assets.steps.chunks import chunking, select
from rag_assets.steps.chunks.chunking import ChunkSize
from rag_assets.steps.contexts import contextualize
from rag_assets.steps.readers import ReaderOrigins
from rag_assets.steps.sections import splitting as sections
from rag_serving.access import group_members as membership
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.artifacts import keyword_tables
from rag_serving.artifacts.schema import (
    CHUNKS,
    CONTEXTS,
    DEDUP_MAP,
    DUPLICATES,
    GENERATION_CHUNKS,
    GROUP_MEMBERS,
    PAGE_FACTS,
    PAGES,
    SECTIONS,
)
from rag_serving.artifacts.signed_files import write_signed_table, write_sync_time
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json, write_table
from rag_serving.config.index import Indexing
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import redacted_values
from rag_serving.indexes import chroma, lexical, sentence_vectors
from rag_serving.text import analyzer as terms


@dataclass(frozen=True)
class PassageReaders:
    """The passages of a source's chunk table by who may read them."""

    passages: int = 0
    for_everyone: int = 0
    for_nobody: int = 0

    def note(self, source: str) -> str | None:
        """Return what a caller without a name should expect; None if that is no surprise."""
        if not self.passages:
            return None
        if self.for_nobody == self.passages:
            return (
                f"nobody may read any of its {self.passages:,} passages; `citelock doctor` says why, "
                f"sources.{source}.readers says who may read the space"
            )
        if not self.for_everyone:
            return f"0 of {self.passages:,} passages are readable for everyone; who asks needs --user or --group"
        return None


def passage_readers(store: Store, source: str) -> PassageReaders:
    """Count the passages of a source; none if it has no table that can be read."""
    try:
        readers = read_table(store.source(source) / "chunks.parquet", CHUNKS, ["readers"])["readers"]
    except StoreError:
        return PassageReaders()
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(readers).to_pylist()}
    return PassageReaders(len(readers), counts.get(EVERYONE, 0), counts.get(NOBODY, 0))


SYNC_FILE = "sync_state.json"


@dataclass(frozen=True)
class LastSync:
    """The result of the last complete sync; page id -> reason."""

    finished_at: datetime | None
    enumerated: int
    excluded: dict[str, str]
    failed: dict[str, str]
    hidden: dict[str, str]
    notes: tuple[str, ...]
    origins: ReaderOrigins | None  # None: it was of an older program
    fingerprint: str | None = None  # of the source; None: only a sync can find out whether it changed


def write_sync(
    folder: Path, fingerprint: str | None, result: SyncResult, scans: ScannedDocuments | None = None
) -> None:
    """Write the result of a sync into `Store.source`; its state is written last, so that it covers the tables. Then
    files without a page are removed, with their OCR results (`scans`)."""
    write_table(folder / "pages.parquet", result.pages, PAGES)
    if result.groups is not None:
        members = [{"group": group, "user": user} for group, user in result.groups]
        store = Store(folder.parents[1])
        write_signed_table(store, folder / membership.FILE, GROUP_MEMBERS.table([*members]), GROUP_MEMBERS)
    write_json(
        folder / SYNC_FILE,
        {
            "state": result.state,
            "complete": True,
            "fingerprint": fingerprint,
            "enumerated": result.seen,
            "excluded": redacted_values(dict(result.excluded)),
            "failed": redacted_values(dict(result.failures)),
            "hidden": redacted_values(dict(result.hidden)),
            "notes": redacted_values(result.notes),
            "readers": result.origins.payload() if result.origins else None,
        },
    )
    remove_unnamed(folder / ORIGINALS_FOLDER, _named(result.pages, "sha256"))
    if scans is not None:
        scans.remove_unnamed(_named(result.pages, "received_sha256"))


def _named(pages: pa.Table, digest: str) -> frozenset[str]:
    return frozenset(pc.unique(pc.struct_field(pages["original"], digest)).drop_null().to_pylist())


def read_last_sync(folder: Path) -> LastSync | None:
    """Return the result of the last sync of a source; None if there was none, or it is unreadable."""
    try:
        content = read_json(folder / SYNC_FILE)
        return LastSync(
            finished_at=_moment(content["state"].get("finished_at")),
            enumerated=int(content["enumerated"]),
            excluded=_reasons(content["excluded"]),
            failed=_reasons(content["failed"]),
            hidden=_reasons(content["hidden"]),
            notes=tuple(map(str, content["notes"])),
            origins=ReaderOrigins.of(content.get("readers")),
            fingerprint=content["fingerprint"],
        )
    except (StoreError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _reasons(content: Any) -> dict[str, str]:
    return {str(page_id): str(reason) for page_id, reason in content.items()}


def _moment(written: object) -> datetime | None:
    try:
        return datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None


def digest(*parts: object) -> str:
    """Return a short SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def sections_settings(config: Config) -> str:
    changed = config.documents.changed()
    return digest(SECTIONS.version, sections.VERSION, config.ingestion.max_page_bytes, *([changed] if changed else []))


def source_sections_settings(config: Config, source: str) -> str:
    return digest(sections_settings(config), config.sources[source].resolve_lists)


def chunk_size(config: Config, source: str) -> ChunkSize:
    """Return how long the chunks of a source are."""
    return ChunkSize.of(config.profiles.of(config.sources[source]), config.ingestion)


def chunks_settings(config: Config, source: str) -> str:
    embedding = config.embedding
    return digest(
        sections_settings(config),
        CHUNKS.version,
        chunking.VERSION,
        asdict(chunk_size(config, source)),
        config.profiles.name_of(config.sources[source]),
        (embedding.provider, embedding.model, embedding.weights_dir),  # whose tokenizer counts
    )


def ingest_settings(config: Config, source: str) -> str:
    """Return all that shapes a source's tables, beside its content."""
    return digest(settings_digest(source, config.sources[source]), chunks_settings(config, source))


def table_digest(table: pa.Table) -> str:
    """Return a digest of the table's content, column by column: names and values, independent of their memory
    layout."""
    whole = hashlib.sha256()
    for name in table.column_names:
        whole.update(json.dumps([name, table[name].to_pylist()], default=str).encode())
    return whole.hexdigest()[:32]


def pages_digest(pages: pa.Table) -> str:
    """Return a digest of everything that pages of other sources may take from these."""
    return table_digest(pages.select(["page_id", "space", "title", "url", "readers", "content_hash"]))


def facts_digest(pages: pa.Table) -> str:
    """Return a digest of these pages' data in a generation beside their chunks."""
    return table_digest(pages.drop_columns(["tenant", "position", "body", "body_format", "anchor_flavor", "original"]))


def page_facts_digests(store: Store, sources: Iterable[str]) -> dict[str, str]:
    """Return the digest of the facts of each source's pages, as of its last sync."""
    return {key: state.facts if (state := read_state(store, key).pages) else "" for key in sources}


NO_FACTS: Mapping[str, str] = MappingProxyType({})


def tenant_inputs(
    config: Config,
    chunks: Mapping[str, str],
    embedder: str,
    pages: Mapping[str, str],
    facts: Mapping[str, str] = NO_FACTS,
) -> str:
    """Return all that shapes a tenant's generation. `chunks`: digest of each source's chunk table, `pages`: of its
    pages, where sources show pages of each other, else empty, `facts`: of their facts; `embedder`: name of the
    model."""
    ingestion = config.ingestion
    most, always = config.indexing.graph_chunks, config.indexing.dense_search == "chroma"
    return digest(
        dict(chunks),
        dict(pages),
        (PAGE_FACTS.version, DUPLICATES.version, dict(facts)),
        (embedder, contextualize.WINDOWS_VERSION),
        (CONTEXTS.version, GENERATION_CHUNKS.version, contextualize.VERSION, select.VERSION),
        (config.context.provider, config.context.model, False),
        (sorted(ingestion.drop_labels), ingestion.drop_boilerplate),
        (DEDUP_MAP.version, dedup.SIGNATURE_VERSION, dedup.VERSION),
        (ingestion.dedup_enabled, ingestion.dedup_method, ingestion.dedup_threshold),
        config.indexing.max_shard_chunks,
        *((most, always) if always or most != Indexing().graph_chunks else ()),
        (lexical.FORMAT, chroma.FORMAT, terms.ANALYZER_VERSION, keyword_tables.FORMAT),
        (sentence_vectors.FORMAT, config.indexing.sentence_vectors, config.embedding.provider),
        *_database(config),
    )


def _database(config: Config) -> tuple[tuple[str, str], ...]:
    """Return the database that generations are copied to: another one has none of them yet."""
    if config.index.kind == "disk":
        return ()
    address = urlsplit(config.index.writer_url or config.index.url or "")
    place = f"{address.netloc.rpartition('@')[2]}{address.path}"
    if config.index.kind == "qdrant":
        place += f" {config.index.collection} {config.index.collections}"
    return ((config.index.kind, place),)


SETTLE_SECONDS = 10.0
"""How long to wait for a sync that is between writing its chunks and signing them."""
BEGUN = "begun"
"""The file beside a candidate from the first step of its build until it is published."""


class _State(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


State = TypeVar("State", bound=_State)


class PagesState(_State):
    """The result of the last sync."""

    fingerprint: str | None  # of the source before the sync; None: only a sync can find out
    pages_seen: int
    pages_changed: int
    pages_deleted: int
    pages_failed: int
    facts: str = ""  # see `facts_digest`
    synced_at: datetime | None = None  # when it ended, or when a build found that nothing had changed since


class SectionsState(_State):
    """The inputs of `sections`."""

    settings: str
    failed: dict[str, str]  # page id -> reason
    cut: dict[str, str] = {}  # page id -> why the rest of the page is left out
    macros_lost: int
    macros_unresolved: int = 0  # references to missing pages
    missed: list[str] = []  # pages with such references, which other sources of the tenant may answer
    pages: str = ""  # see `inputs.pages_digest`, of the pages that were read


class ChunksState(_State):
    """The inputs of `chunks`; written last, so it covers the whole source."""

    settings: str  # of the whole source, see `inputs.ingest_settings`
    cut_by: str  # see `inputs.chunks_settings`
    fingerprint: str | None
    digest: str  # of the whole table
    chunks: int
    chunks_new: int


class IngestState(_State):
    """All of a source; a part is missing until its asset was materialized."""

    pages: PagesState | None = None
    sections: SectionsState | None = None
    chunks: ChunksState | None = None


class SourceAccount(_State):
    """The pages behind a chunk table, signed with the table's digest."""

    digest: str
    fingerprint: str | None
    enumerated: list[str]
    explained: dict[str, str]  # page id -> why it has no chunk


class CandidateState(_State):
    """The inputs of a candidate generation, recorded when its chunks were selected."""

    inputs: str  # see `inputs.tenant_inputs`
    embedder: str
    sources: dict[str, str | None]  # sync fingerprints
    enumerated: dict[str, list[str]]
    explained: dict[str, str]
    duplicates_dropped: int = 0
    selected: dict[str, int] = {}  # chunks to index, by source


class PublishState(_State):
    """A checked generation, and what it was made from."""

    generation: str
    inputs: str
    chunks: int
    shards: int
    gates: dict[str, bool]
    duplicates_dropped: int = 0
    override: str | None = None  # why a person published it although a gate of quality failed


def read_state(store: Store, source: str) -> IngestState:
    """Return the source's state; empty if there is none or it cannot be read."""
    return _read(store.source(source) / "ingest_state.json", IngestState) or IngestState()


def update_state(store: Store, source: str, **parts: Any) -> IngestState:
    """Write some parts of the source's state and keep the others; when it was synced, signed for the server as well."""
    state = read_state(store, source).model_copy(update=parts)
    write_json(store.source(source) / "ingest_state.json", state.model_dump(mode="json"))
    if "pages" in parts and state.pages and state.pages.synced_at:
        write_sync_time(store, source, state.pages.synced_at)
    return state


def note_unchanged(store: Store, source: str, now: datetime) -> None:
    """Note that a source was looked at and is as its tables say: as good as a sync."""
    pages = read_state(store, source).pages
    if pages is not None:
        update_state(store, source, pages=pages.model_copy(update={"synced_at": now}))


def last_sync(store: Store, source: str) -> datetime | None:
    """Return when the source was last synced as a whole; None if that never was, or nobody knows."""
    pages = read_state(store, source).pages
    return pages.synced_at if pages is not None else None


def read_publish_state(store: Store, tenant: str) -> PublishState | None:
    """Return the last publication, or None if there was none or it cannot be read."""
    return _read(store.tenant(tenant) / "publish_state.json", PublishState)


def write_publish_state(store: Store, tenant: str, state: PublishState) -> None:
    write_json(store.tenant(tenant) / "publish_state.json", state.model_dump())


def read_checked(store: Store, tenant: str) -> PublishState:
    """Return the candidate generation that was put together last. Raises StoreError: there is none."""
    return _read_made(store.candidate(tenant) / "checked.json", PublishState, "generation", tenant)


def write_checked(store: Store, tenant: str, state: PublishState) -> None:
    write_json(store.candidate(tenant) / "checked.json", state.model_dump())


def read_candidate(store: Store, tenant: str) -> CandidateState:
    """Return the inputs of the candidate. Raises StoreError: its chunks were not selected."""
    return _read_made(store.candidate(tenant) / "inputs.json", CandidateState, "dedup_map", tenant)


def write_candidate(store: Store, tenant: str, state: CandidateState) -> None:
    write_json(store.candidate(tenant) / "inputs.json", state.model_dump())


def write_account(store: Store, source: str, account: SourceAccount) -> None:
    write_json(store.source(source) / "account.json", account.model_dump())


def settled_chunks(store: Store, source: str) -> tuple[pa.Table, SourceAccount]:
    """Return a source's chunks with the account of their pages, both of the same run. Table and account are two files,
    and a sync may be writing them: the account is signed with the table's digest, and when they differ the sync is
    given a moment to finish. Raises StoreError: there are none, or they still differ."""
    folder = store.source(source)
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        table = read_table(folder / "chunks.parquet", CHUNKS)
        account = _read(folder / "account.json", SourceAccount)
        if account is not None and account.digest == table_digest(table):
            return table, account
        if time.monotonic() >= deadline:
            raise StoreError(f"the chunks in {folder} were not finished; run `citelock build {source} --full`")
        time.sleep(0.5)


def _read_made(path: Path, model: type[State], asset: str, tenant: str) -> State:
    state = _read(path, model)
    if state is None:
        raise StoreError(f"{path} is missing or unreadable; materialize `{asset}` of tenant {tenant!r} again")
    return state


def _read(path: Path, model: type[State]) -> State | None:
    try:
        return model.model_validate(read_json(path))
    except (StoreError, ValidationError):
        return None
