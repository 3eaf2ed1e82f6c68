"""Other people's test collections as a wiki with a gold set: SQuAD 2.0 and SciFact.

SQuAD 2.0: Rajpurkar, Jia & Liang, "Know What You Don't Know", ACL 2018. SciFact: Wadden et al., "Fact or Fiction",
EMNLP 2020, in BEIR layout with `evidence_sentences.jsonl` beside it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from evals.evaluation.beir import BeirDocument, read_documents
from evals.evaluation.bench import TENANT, chunk_table, with_column
from evals.evaluation.gold import GoldError, GoldQuestion, GoldSet
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages, embedding_through
from rag_assets.state.content_cache import VectorCache
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.models import open_embedder, open_input_limit, open_tokenizer
from rag_serving.text.units import units

EVIDENCE = "evidence_sentences.jsonl"
_ANCHOR = "text"


@dataclass(frozen=True)
class Collection:
    """Documents, each a page of one passage, and questions about them."""

    documents: tuple[BeirDocument, ...]
    gold: GoldSet


def is_collection(path: Path) -> bool:
    """Return whether a path is one of these collections, not a gold set of our own."""
    return path.suffix == ".json" or (path / EVIDENCE).is_file()


def read_gold_collection(path: Path, split: str = "train") -> Collection:
    """Return a SQuAD 2.0 file, or a folder with SciFact.

    Raises:
        GoldError: it is neither, or cannot be read.
    """
    try:
        return _scifact(path, split) if path.is_dir() else _squad(path)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise GoldError(f"{path} is neither a SQuAD 2.0 file nor a SciFact folder ({error!r})") from error


@contextmanager
def published(collection: Collection, home: Path, config: Config) -> Iterator[Pipeline]:
    """Yield the pipeline over the documents indexed under `home` with the product's code; an existing index is
    reused."""
    indexing = config.indexing.model_copy(update={"chroma_url": None})
    config = config.model_copy(update={"home": home, "indexing": indexing})
    table, _ = chunk_table(collection.documents, open_tokenizer(config.embedding), config.context.provider != "none")
    urls = [f"https://collection.example/{page}#{_ANCHOR}" for page in table["page_id"].to_pylist()]
    table = with_column(with_column(table, "url", urls), "anchor", [_ANCHOR] * len(urls))
    with published_passages(table, config) as pipeline:
        yield pipeline


@contextmanager
def published_passages(
    table: pa.Table, config: Config, report: Callable[[int, int], None] = lambda *_: None
) -> Iterator[Pipeline]:
    """Yield the pipeline over rows of GENERATION_CHUNKS, embedded, indexed and published under the configured home."""
    store, embedder = Store(Path(config.home)), open_embedder(config.embedding)
    cache = VectorCache(store.cache(TENANT), embedder.name)
    embedded = embed_passages(cache, embedder, table, open_input_limit(config.embedding))
    embed = embedding_through(cache, embedder, report)
    generation = build_generation(store, TENANT, embedded.chunks, embedded.vectors, config, embedder.name, embed=embed)
    generation.close()
    store.point_current(TENANT, generation.id)
    pipeline = Pipeline.open(config, TENANT, embedder)
    try:
        yield pipeline
    finally:
        pipeline.close()


def _squad(path: Path) -> Collection:
    """Return each paragraph a page under its article's title; an unanswerable question has its paragraph as page
    too."""
    documents, questions = [], []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        title = article["title"].replace("_", " ")
        for number, paragraph in enumerate(article["paragraphs"]):
            page = f"{article['title']}-{number}"
            documents.append(BeirDocument(page, title, paragraph["context"], page, 0))
            questions += [
                GoldQuestion(
                    id=asked["id"],
                    question=asked["question"].strip(),
                    answerable=not asked["is_impossible"],
                    pages=frozenset({page}),
                    quotes=tuple(dict.fromkeys(answer["text"] for answer in asked["answers"])),
                    part=article["title"],
                )
                for asked in paragraph["qas"]
            ]
    return Collection(tuple(documents), GoldSet(tuple(questions)))


def _scifact(folder: Path, split: str) -> Collection:
    """Return each abstract as a page; a claim is answerable by the sentences of its rationales, whether they support it
    or not."""
    documents = tuple(read_documents(folder / "corpus.jsonl"))
    texts = {document.id: document.text for document in documents}
    claims = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
    pages: dict[str, set[str]] = {}
    quotes: dict[str, list[str]] = {}
    for row in _lines(folder / EVIDENCE):
        if row["split"] != split:
            continue
        text = texts[row["doc_id"]]
        sentences = [unit.of(text) for unit in units(text)]
        pages.setdefault(row["query_id"], set()).add(row["doc_id"])
        chosen = [number for group in row["sentence_sets"] for number in group if number < len(sentences)]
        quotes.setdefault(row["query_id"], []).extend(sentences[number] for number in chosen)
    questions = tuple(
        GoldQuestion(
            claim, claims[claim], True, frozenset(pages[claim]), tuple(dict.fromkeys(quotes[claim])), part=claim
        )
        for claim in pages
    )
    return Collection(documents, GoldSet(questions))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.strip())
