"""Sentences of real text by the hundred thousand, for measuring speed and recall.

A vector of each sentence is made by the product's own model, so vectors are distributed as those of real text. A
chunk's text is the sentence with its context, so that postings are as long as those of real chunks.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
