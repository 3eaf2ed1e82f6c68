"""The tables of a published tenant that are examined for contradictions, and what people acknowledged of them.

Belongs here: reading them. Does not belong here: what is wrong (`steps.contradictions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import yaml

from rag_assets.steps.contradictions.examination import Corpus
from rag_assets.steps.contradictions.findings import Acknowledgement, acknowledgements
from rag_serving.artifacts.manifest import read_manifest, read_named_table
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES, SECTIONS
from rag_serving.artifacts.store import Store, read_table
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.catalog import current_generation
from rag_serving.indexes.generation_parts import CHUNKS_FILE


def read_acknowledged(path: Path | None) -> Mapping[str, Acknowledgement]:
    """Return what a YAML file acknowledges, by id; without a file nothing.

    Raises:
        ConfigError: it cannot be read; the message says why.
    """
    if path is None:
        return {}
    try:
        return acknowledgements(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None


def read_corpus(config: Config, store: Store, tenant: str) -> Corpus:
    """Return the published chunks of a tenant, with the sections and pages that its sources have now.

    Raises:
        StoreError: nothing is published, or a table is missing or damaged.
    """
    manifest = read_manifest(store, tenant, current_generation(store, tenant))
    chunks = read_named_table(store, manifest, CHUNKS_FILE, GENERATION_CHUNKS)
    folders = [store.source(key) for key in sorted(set(chunks["source"].to_pylist()) & config.sources.keys())]
    sections = [read_table(folder / "sections.parquet", SECTIONS) for folder in folders]
    pages = [read_table(folder / "pages.parquet", PAGES) for folder in folders]
    return Corpus(chunks, pa.concat_tables([SECTIONS.empty(), *sections]), pa.concat_tables([PAGES.empty(), *pages]))
