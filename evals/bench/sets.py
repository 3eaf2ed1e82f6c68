"""The judged sets: everything in the real data that says which documents answer which queries."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.bench.corpora import cut, wiki_pages
from evals.bench.real_text import DATA, DataError
from evals.evaluation.beir import BeirCollection, read_collection
from evals.evaluation.gold_collections import read_gold_collection

JUDGEMENTS = "link_known_item.jsonl"
_MARKUP = re.compile(r"<!\[CDATA\[|\]\]>?|<[^<>]*>?|^[^<>]*>")


def write_collection(wiki: Path, out: Path) -> None:
    """Write corpus.jsonl, queries.jsonl and qrels/test.tsv."""
    chunks = passages(wiki)
    pages = set(chunks["page_id"].to_pylist())
    links = [json.loads(line) for line in (wiki / JUDGEMENTS).read_text(encoding="utf-8").splitlines()]
    asked = [(f"l{number}", link) for number, link in enumerate(links) if link["target_id"] in pages]
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    _write(out / "corpus.jsonl", (json.dumps(row, ensure_ascii=False) for row in documents(chunks)))
    _write(out / "queries.jsonl", (json.dumps({"_id": name, "text": masked(link)}) for name, link in asked))
    judged = (f"{name}\t{link['target_id']}\t1" for name, link in asked)
    _write(out / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])


def passages(wiki: Path) -> pa.Table:
    """Return the chunks of all pages that are indexed, everyone's; near-duplicates too."""
    return cut("wiki", wiki_pages(wiki)).chunks


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
