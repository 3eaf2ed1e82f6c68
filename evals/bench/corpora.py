"""Real pages as the passages that a build indexes, the judged sets, and sentences of real text by the hundred thousand.

A vector of each sentence is made by the product's own model, so vectors are distributed as those of real text. A
chunk's text is the sentence with its context, so that postings are as long as those of real chunks.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.evaluation.beir import BeirCollection, read_collection
from evals.evaluation.bench import with_column
from evals.evaluation.gold_collections import read_gold_collection
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

DATA = Path(__file__).parents[3] / "shared" / "data"
PASSAGE_WORDS = 150
_SHORTEST = 25  # characters of a sentence
_TAG = re.compile(r"<[^>]+>")
_BLOCK_END = re.compile(r"</(?:p|li|h\d|tr|pre)>")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n{2,}")


class DataError(Exception):
    """The real data are not there or too few; the message says which."""


@dataclass(frozen=True)
class Sentence:
    """A sentence, the passage around it, its document and its number there."""

    document: str
    number: int
    text: str
    passage: str


def read_sentences(data: Path = DATA) -> list[Sentence]:
    """Return every distinct sentence below `data`, in the order of documents.

    Raises:
        DataError: there is no data.
    """
    if not (data / "scifact").is_dir():
        raise DataError(f"{data} has no real text; speed is measured on it alone")
    seen: set[str] = set()
    return [sentence for name, text in _documents(data) for sentence in _new_sentences(name, text, seen)]


def _new_sentences(name: str, text: str, seen: set[str]) -> Iterator[Sentence]:
    sentences = [" ".join(part.split()) for part in _SENTENCE_END.split(text)]
    sentences = [sentence for sentence in sentences if len(sentence) >= _SHORTEST]
    for number, sentence in enumerate(sentences):
        if sentence not in seen:
            seen.add(sentence)
            yield Sentence(name, number, sentence, passage(sentences, number))


def passage(sentences: list[str], number: int) -> str:
    """Return the sentence of that number with its followers, then its predecessors, up to `PASSAGE_WORDS` words."""
    first, last = number, number + 1
    words = len(sentences[number].split())
    while words < PASSAGE_WORDS and (last < len(sentences) or first > 0):
        if last < len(sentences):
            words += len(sentences[last].split())
            last += 1
        else:
            first -= 1
            words += len(sentences[first].split())
    return " ".join(" ".join(sentences[first:last]).split()[: 2 * PASSAGE_WORDS])


def _documents(data: Path) -> Iterator[tuple[str, str]]:
    for row in _lines(data / "scifact" / "corpus.jsonl"):
        yield f"scifact.{row['_id']}", f"{row['title']}. {row['text']}"
    for number, row in enumerate(_lines(data / "contextual-retrieval" / "documents.jsonl")):
        yield f"code.{number}", row["text"]
    for path in sorted((data / "cwiki").rglob("*.json")):
        yield f"cwiki.{path.stem}", _plain(json.loads(path.read_text("utf-8"))["body"]["storage"]["value"])
    for path in sorted((data / "kafka-docs").rglob("*.html")):
        yield f"kafka.{path.relative_to(data / 'kafka-docs').as_posix()}", _plain(path.read_text("utf-8"))
    for path in sorted((data / "rust-book").rglob("*.md")):
        yield f"rust.{path.stem}", path.read_text("utf-8")
    articles = json.loads((data / "squad2" / "dev-8-articles.json").read_text("utf-8"))["data"]
    for article in articles:
        yield f"squad.{article['title']}", "\n\n".join(part["context"] for part in article["paragraphs"])


def _plain(markup: str) -> str:
    return html.unescape(_TAG.sub(" ", _BLOCK_END.sub("\n\n", markup)))


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


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


JUDGEMENTS = "link_known_item.jsonl"
_MARKUP = re.compile(r"<!\[CDATA\[|\]\]>?|<[^<>]*>?|^[^<>]*>")


def write_collection(wiki: Path, out: Path) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels/test.tsv."""
    chunks = cut("wiki", wiki_pages(wiki)).chunks  # near-duplicates too
    pages = set(chunks["page_id"].to_pylist())
    links = [json.loads(line) for line in (wiki / JUDGEMENTS).read_text(encoding="utf-8").splitlines()]
    asked = [(f"l{number}", link) for number, link in enumerate(links) if link["target_id"] in pages]
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    _write(out / "corpus.jsonl", (json.dumps(row, ensure_ascii=False) for row in documents(chunks)))
    _write(out / "queries.jsonl", (json.dumps({"_id": name, "text": masked(link)}) for name, link in asked))
    judged = (f"{name}\t{link['target_id']}\t1" for name, link in asked)
    _write(out / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])


def documents(chunks: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield a row of corpus.jsonl for each chunk."""
    for chunk in chunks.to_pylist():
        place = {"doc_id": chunk["page_id"], "position": chunk["chunk_idx"], "parent": chunk["parent_id"]}
        headings = [heading for heading in chunk["heading_path"] if heading != chunk["title"]]
        metadata = {**place, "headings": headings}
        yield {"_id": chunk["chunk_id"], "title": chunk["title"], "text": chunk["text"], "metadata": metadata}


def masked(link: Mapping[str, str]) -> str:
    """Return the words around a link, without markup, the link's own words and its target's title."""
    text = _MARKUP.sub(" ", link["context"])
    for words in (link["anchor"], link["target_title"]):
        if words.strip():
            text = re.sub(re.escape(words), " ", text, flags=re.IGNORECASE)
    return " ".join(text.split())


def _write(path: Path, lines: Any) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass(frozen=True)
class JudgedSet:
    """A set's name and how it is read."""

    name: str
    read: Callable[[], BeirCollection]


def judged_sets(data: Path = DATA) -> list[JudgedSet]:
    """Return every folder in BEIR layout (its test split), wiki with known links, and SQuAD file; by name.

    Raises:
        DataError: there is none.
    """
    found = sorted(_found(data), key=lambda judged: judged.name)
    if not found:
        raise DataError(f"{data} has no judged set")
    return found


def _found(data: Path) -> Iterator[JudgedSet]:
    for path in data.glob("*/qrels/test.tsv"):
        yield JudgedSet(path.parents[1].name, partial(read_collection, path.parents[1]))
    for path in data.glob(f"*/{JUDGEMENTS}"):
        yield JudgedSet(f"{path.parent.name}-links", partial(read_links, path.parent))
    for path in data.glob("*/*.json"):
        if _is_squad(path):
            yield JudgedSet(f"{path.parent.name}-{path.stem}", partial(read_squad, path))


def read_links(wiki: Path) -> BeirCollection:
    """Return the words around a wiki's links, and the pages they point to: anchor text and target's title are
    masked."""
    with tempfile.TemporaryDirectory(prefix="citelock-links-") as folder:
        write_collection(wiki, Path(folder))
        return read_collection(Path(folder))


def read_squad(path: Path) -> BeirCollection:
    """Return the answerable questions of a SQuAD file, and their paragraphs, each a page."""
    collection = read_gold_collection(path)
    asked = [question for question in collection.gold.questions if question.answerable]
    return BeirCollection(
        collection.documents,
        {question.id: question.question for question in asked},
        {question.id: dict.fromkeys(sorted(question.pages), 1) for question in asked},
    )


def _is_squad(path: Path) -> bool:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))["data"]
        return "paragraphs" in data[0]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return False
