"""The tables of a published tenant that are examined for contradictions, what is kept of it, and what people
acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

import pyarrow as pa
import yaml

from rag_assets.state.content_cache import SignatureCache
from rag_assets.state.records import digest, read_state
from rag_assets.steps.contradictions.examination import EXAMINED, VERSION, Advance, ExaminedPages, examined
from rag_assets.steps.contradictions.findings import Acknowledgement, LintFinding, acknowledgements, finding_of
from rag_serving.artifacts.manifest import read_manifest, read_named_table
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES, SECTIONS
from rag_serving.artifacts.signed_files import read_signed, read_signed_table, write_signed, write_signed_table
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.catalog import current_generation
from rag_serving.indexes.generation_parts import CHUNKS_FILE

_FILE, _OF_VERSIONS = "contradictions.json", "contradictions-versions.json"


def read_acknowledged(path: Path | None) -> Mapping[str, Acknowledgement]:
    """Return the acknowledgements of a YAML file, by id; without a file none. Raises ConfigError: it cannot be read;
    the message says why."""
    if path is None:
        return {}
    try:
        return acknowledgements(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None


def acknowledged_of(config: Config, tenant: str) -> Mapping[str, Acknowledgement]:
    """Return the acknowledgements in a tenant's file beside the gold sets; without one none. Raises ConfigError: it
    cannot be read; the message says why."""
    path = config.evaluation.gold.parent / "acknowledged" / f"{tenant}.yaml"
    return read_acknowledged(path if path.is_file() else None)


def tenant_findings(
    config: Config, store: Store, tenant: str, today: date, advance: Advance, *, versions: bool = False
) -> tuple[str, int, list[LintFinding]]:
    """Return the published generation of a tenant, how many pages it has, and what is wrong in them. What did not
    change is not compared again. Raises StoreError: nothing is published, or a table is missing or damaged."""
    generation = current_generation(store, tenant)
    states = [read_state(store, key) for key in sorted(config.sources_of(tenant))]
    made = [state.sections.model_dump() if state.sections else None for state in states]
    key = digest(generation, config.ingestion.dedup_threshold, made)
    folder = store.cache(tenant)
    read = partial(read_corpus, config, store, tenant)
    return generation, *findings_of(store, folder, key, read, today, advance, versions=versions)


def findings_of(
    store: Store,
    folder: Path,
    key: str,
    read: Callable[[], ExaminedPages],
    today: date,
    advance: Advance,
    *,
    versions: bool = False,
) -> tuple[int, list[LintFinding]]:
    """Return how many pages there are and what is wrong in them, which a folder keeps with what they were compared by.
    `key`: what the pages are known by."""
    cache = folder / (_OF_VERSIONS if versions else _FILE)
    key = digest(VERSION, key, today)
    try:
        kept = read_signed(store, cache)
        if kept["key"] == key:
            return kept["pages"], [finding_of(values) for values in kept["findings"]]
    except (StoreError, KeyError, TypeError):
        pass
    before = None
    with suppress(StoreError):
        before = read_signed_table(store, cache.with_suffix(".parquet"), EXAMINED)
    corpus = read()
    made = examined(corpus, today, before, versions=versions, advance=advance)
    pages, found = corpus.pages.num_rows, [asdict(finding) for finding in made.findings]
    with suppress(OSError):  # who may only read the folder keeps nothing
        write_signed_table(store, cache.with_suffix(".parquet"), made.kept, EXAMINED)
        write_signed(store, cache, {"key": key, "pages": pages, "findings": found})
    return pages, made.findings


def read_corpus(config: Config, store: Store, tenant: str) -> ExaminedPages:
    """Return the published chunks of a tenant, with the sections and pages that its sources have now. Raises
    StoreError: nothing is published, or a table is missing or damaged."""
    manifest = read_manifest(store, tenant, current_generation(store, tenant))
    chunks = read_named_table(store, manifest, CHUNKS_FILE, GENERATION_CHUNKS)
    folders = [store.source(key) for key in sorted(set(chunks["source"].to_pylist()) & config.sources.keys())]
    sections = [read_table(folder / "sections.parquet", SECTIONS) for folder in folders]
    pages = [read_table(folder / "pages.parquet", PAGES) for folder in folders]
    texts = chunks["text"].to_pylist(), chunks["text_hash"].to_pylist()
    return ExaminedPages(
        chunks,
        SignatureCache(store.cache(tenant)).fingerprints(*texts)[0],
        config.ingestion.dedup_threshold,
        pa.concat_tables([SECTIONS.empty(), *sections]),
        pa.concat_tables([PAGES.empty(), *pages]),
    )
