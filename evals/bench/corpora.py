"""Real pages as the passages that a build indexes: sections and chunks as `ingest` makes them, near-duplicates too."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from evals.evaluation.bench import with_column
from rag_assets.sources import open_source
from rag_assets.sources.envelope import Origin, load_envelope, row_of
from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.chunks.select import select_chunks
from rag_assets.steps.contexts.contextualize import lexical_prefixes, metadata_prefixes
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES
from rag_serving.config.loading import load_config
from rag_serving.config.models import Embedding
from rag_serving.config.sections import Ingestion
from rag_serving.models import open_tokenizer

ROOT = Path(__file__).parents[2]
_TITLE = re.compile(r"^#+\s+(.+)$", re.MULTILINE)
_TABLE_OF_CONTENTS = {"SUMMARY.md", "toc.html"}


@dataclass(frozen=True)
class PassageCorpus:
    """Pages cut as they are indexed: rows of SECTIONS, and those rows of CHUNKS that are selected."""

    name: str
    sections: pa.Table
    chunks: pa.Table


def build(config: Path, home: Path) -> None:
    """Build all sources of a configuration under a home of its own.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "build", "--config", str(config)]
    surroundings = {**os.environ, "CITELOCK_HOME": str(home)}
    subprocess.run(command, check=True, cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL)


def cut(name: str, pages: pa.Table, drops_boilerplate: bool = True) -> PassageCorpus:
    """Return pages as sections and indexed chunks, by the default settings."""
    sections, settings = build_sections(pages).sections, Ingestion()
    size = ChunkSize.about(settings.chunk_size_tokens, settings.chunk_stride_tokens)
    chunks = build_chunks(sections, pages, open_tokenizer(Embedding()), size)
    return PassageCorpus(name, sections, select_chunks(chunks, settings.drop_labels, drops_boilerplate).chunks)


def sample_pages() -> pa.Table:
    """Return the pages of the sample wiki, with their readers."""
    config = load_config(ROOT / "config" / "app.yaml")
    tables = []
    for key, source in config.sources.items():
        if (path := getattr(source, "path", None)) is None:  # an inbox: nobody has added anything
            continue
        settings = source.model_copy(update={"path": ROOT / str(path)})
        tables.append(open_source(key, settings, Path("unused")).sync(None, {}).pages.select(PAGES.columns.names))
    return pa.concat_tables(tables)


def wiki_pages(wiki: Path) -> pa.Table:
    """Return the pages of a folder of REST envelopes (`WIKI/*/*.json`), each open to everyone."""
    origin = Origin("wiki", "wiki")
    envelopes = [load_envelope(file.read_bytes()) for file in sorted(wiki.glob("*/*.json"))]
    return PAGES.table([row_of(envelope, origin) | {"readers": EVERYONE} for envelope in envelopes])


def file_pages(folder: Path, suffix: str) -> pa.Table:
    """Return the Markdown (`md`) or HTML files below a folder, without parts that pages include and tables of
    contents."""
    files = [path for path in sorted(folder.rglob(f"*.{suffix}")) if "generated" not in path.relative_to(folder).parts]
    return PAGES.table([_file_row(path, folder, suffix) for path in files if path.name not in _TABLE_OF_CONTENTS])


def _file_row(path: Path, folder: Path, suffix: str) -> dict[str, object]:
    body = path.read_text(encoding="utf-8")
    name = path.relative_to(folder).with_suffix("").as_posix()
    heading = _TITLE.search(body) if suffix == "md" else None
    return {
        "source": "files",
        "tenant": "bench",
        "page_id": name.replace("/", "."),
        "version": 1,
        "space": folder.parent.name,
        "title": heading[1].replace("`", "") if heading else path.stem.replace("-", " ").capitalize(),
        "url": f"https://files.example/{name}",
        "status": "current",
        "updated_at": datetime(2025, 1, 1, tzinfo=UTC),
        "labels": [],
        "ancestors": [],
        "ancestor_titles": [],
        "position": None,
        "readers": EVERYONE,
        "body": body,
        "body_format": "markdown" if suffix == "md" else "html",
        "anchor_flavor": "html",
        "content_hash": hashlib.sha256(body.encode()).hexdigest()[:32],
        "original": None,
    }


def passages(chunks: pa.Table) -> pa.Table:
    """Return rows of CHUNKS as rows of GENERATION_CHUNKS with their prefixes."""
    own = {"source": "bench", "kind": "page", "places": [], "vector_keys": [""], "shard": ""}
    own |= {"prefix": "", "lexical_prefix": ""}
    rows = chunks.drop_columns(["content_hash", "page_readers", "included_from"]).to_pylist()
    table = GENERATION_CHUNKS.table([row | own for row in rows])
    table = with_column(table, "prefix", metadata_prefixes(table))
    return with_column(table, "lexical_prefix", lexical_prefixes(table))
