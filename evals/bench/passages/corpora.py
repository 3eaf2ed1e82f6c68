"""Real pages of four kinds as the passages that a build indexes: what lengths and merging are measured on.

Belongs here: reading the folders, sections and chunks as `ingest` makes them, near-duplicates included; short
neighbouring sections as one passage, which the product does not do.
Does not belong here: questions about them (`questions`), what merging brings (`__main__`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.evaluation.bench import with_column
from rag_assets.sources.envelope import Origin, load_envelope, row_of
from rag_assets.sources.registry import open_source
from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.chunks.select import select_chunks
from rag_assets.steps.contexts.contextualize import lexical_prefixes, metadata_prefix, metadata_prefixes
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import GENERATION_CHUNKS, PAGES
from rag_serving.config.loading import load_config
from rag_serving.config.models import Embedding
from rag_serving.config.sections import Ingestion
from rag_serving.models import open_tokenizer

ROOT = Path(__file__).parents[3]
_TITLE = re.compile(r"^#+\s+(.+)$", re.MULTILINE)
_TABLE_OF_CONTENTS = {"SUMMARY.md", "toc.html"}


@dataclass(frozen=True)
class PassageCorpus:
    """Pages cut as they are indexed: rows of SECTIONS, and those rows of CHUNKS that are selected."""

    name: str
    sections: pa.Table
    chunks: pa.Table


def read_corpora(data: Path) -> Iterator[PassageCorpus]:
    """Yield the sample wiki, and of the real data those folders that are there."""
    yield cut("sample", sample_pages())
    if (data / "cwiki").is_dir():
        yield cut("cwiki", wiki_pages(data / "cwiki"))
    if (data / "kafka-docs" / "39").is_dir():
        yield cut("kafka-docs", file_pages(data / "kafka-docs" / "39", "html"))
    if (data / "rust-book" / "src").is_dir():
        yield cut("rust-book", file_pages(data / "rust-book" / "src", "md"))


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


Row = Mapping[str, Any]
Count = Callable[[str], int]  # tokens of a text

_SAME = ("page_id", "readers", "page_readers", "included_from", "is_boilerplate")
_ONLY_IN_CHUNKS = ("content_hash", "page_readers", "included_from")


@dataclass(frozen=True)
class Rule:
    """Say which sections become one passage, and where their headings are.

    limit: tokens of a passage at most; 0 leaves every section alone.
    headings: `inline` in the text, each above its section, or `above` all of it, in the prefix.
    parent: whether the text above the first subheading belongs to the sections below.
    """

    name: str
    limit: int = 0
    headings: str = "inline"
    parent: bool = False


@dataclass(frozen=True)
class MergedPassages:
    """Rows of GENERATION_CHUNKS, and the chunks in each by its chunk id."""

    table: pa.Table
    members: Mapping[str, tuple[Row, ...]]


def merge(chunks: pa.Table, rule: Rule, count: Count) -> MergedPassages:
    """Return rows of CHUNKS as passages to index: whole sections joined while they are neighbours and fit the rule."""
    groups = _groups(chunks.to_pylist(), rule, count)
    rows = [_passage(group, rule, count) for group in groups]
    table = GENERATION_CHUNKS.table(rows)
    if not rule.limit:
        table = with_column(table, "prefix", metadata_prefixes(table))
    table = with_column(table, "lexical_prefix", lexical_prefixes(table))
    members = {str(row["chunk_id"]): tuple(group) for row, group in zip(rows, groups, strict=True)}
    return MergedPassages(table, members)


def _groups(rows: Sequence[Row], rule: Rule, count: Count) -> list[list[Row]]:
    chunks_of = Counter(row["section_id"] for row in rows)
    groups: list[list[Row]] = []
    tokens = 0
    for row in rows:
        cost = row["token_count"] + count(row["heading_path"][-1])
        first = groups[-1][0] if groups else None
        whole = first is not None and chunks_of[row["section_id"]] == chunks_of[first["section_id"]] == 1
        if first is not None and whole and tokens + cost <= rule.limit and _belong(first, row, rule):
            groups[-1].append(row)
            tokens += cost
        else:
            groups.append([row])
            tokens = cost
    return groups


def _belong(first: Row, row: Row, rule: Rule) -> bool:
    """Return whether two sections of a page have one parent and the same readers."""
    above = row["heading_path"][:-1]
    related = above == first["heading_path"][:-1] or (rule.parent and above == first["heading_path"])
    return related and all(first[name] == row[name] for name in _SAME)


def _passage(group: Sequence[Row], rule: Rule, count: Count) -> dict[str, Any]:
    first = {name: value for name, value in group[0].items() if name not in _ONLY_IN_CHUNKS}
    shared = _shared([row["heading_path"] for row in group])
    headings = [*shared, *(row["heading_path"][-1] for row in group if row["heading_path"] != shared)]
    inline = rule.headings == "inline" and len(group) > 1
    text = "\n\n".join(_with_heading(group, shared) if inline else (row["text"] for row in group))
    return first | {
        "text": text,
        "end": first["start"] + len(text),
        "heading_path": headings,
        "token_count": count(text) if len(group) > 1 else first["token_count"],
        "source": "bench",
        "kind": "page",
        "places": [],
        "prefix": metadata_prefix(first["title"], shared if inline else headings),
        "lexical_prefix": "",
        "vector_keys": [""],
        "shard": "",
    }


def _with_heading(group: Sequence[Row], shared: Sequence[str]) -> Iterable[str]:
    for row in group:
        path = row["heading_path"]
        yield row["text"] if path == shared else f"## {path[-1]}\n\n{row['text']}"


def _shared(paths: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the headings that all paths begin with."""
    same = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return [names[0] for names in same]
