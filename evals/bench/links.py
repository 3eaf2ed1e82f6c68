"""Links of a wiki as a test collection: the words around a link ask for the page that it points to.

`python -m evals.bench.links WIKI OUT` reads REST envelopes (`WIKI/*/*.json`) and `WIKI/link_known_item.jsonl` (rows of
target_id, target_title, anchor, context), and writes OUT in BEIR layout: the pages' passages as they are indexed, and
judgements of pages. Markup, the link's own words and the title of its target are masked, or the task were trivial.
`citelock bench OUT` measures it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.bench.corpora import cut, wiki_pages

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


if __name__ == "__main__":
    write_collection(Path(sys.argv[1]), Path(sys.argv[2]))
