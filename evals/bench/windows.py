"""`python -m evals.bench.windows`: the gain from a vector for each window of a long passage, over the average of
windows.

Belongs here: passages of the profile `book`, indexed by the product's own code either way, and questions with a known
passage, run on the vectors alone and on the whole search. Does not belong here: the best length of passages
(`passages`), other stages of retrieval (`ablation`).

Passages of SQuAD, SciFact and contextual-retrieval are neighbouring paragraphs, abstracts, or parts of a file of code,
joined up to the same length. Joined abstracts share no subject: this case favours a vector for each window the most.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import yaml

from evals.bench.machine import machine
from evals.evaluation.ablation import Remembering
from evals.evaluation.beir import BeirDocument, read_collection
from evals.evaluation.bench import TENANT, chunk_table
from evals.evaluation.metrics import bootstrap_interval, paired_p_value
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages, embedding_through
from rag_assets.sources.registry import open_source
from rag_assets.state.content_cache import VectorCache
from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.chunks.document_fields import with_book_places
from rag_assets.steps.chunks.select import join_sources
from rag_assets.steps.contexts.contextualize import build_contexts, contextualized
from rag_assets.steps.dedup import without_duplicates
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import DEDUP_MAP
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.config.profiles import Profiles
from rag_serving.config.sections import Ingestion
from rag_serving.config.sources import MarkdownBook
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.view import GenerationView
from rag_serving.models import Embedder, InputLimit, Tokenizer, open_embedder, open_input_limit, open_tokenizer
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.retrieval.search import search_candidates
from rag_serving.retrieval.stages import SearchOptions

ROOT = Path(__file__).parents[2]
DEPTH = 10
AVERAGE, WINDOWS = "average", "best_window"
VECTORS, SEARCH = "vectors", "search"


@dataclass(frozen=True)
class WindowCorpus:
    """Rows of GENERATION_CHUNKS, and questions with the ids of the passages that answer them."""

    chunks: pa.Table
    questions: Sequence[tuple[str, frozenset[str]]]


@dataclass(frozen=True)
class WindowPart:
    """A text that is joined with its neighbours of the same page, and the questions that it answers."""

    page: str
    title: str
    text: str
    questions: Sequence[str]


def rust_book(data: Path, tokenizer: Tokenizer, names_chapters: bool) -> WindowCorpus:
    """Return the book as the product cuts it, and the questions of `evals/gold/people` with a quote in one passage."""
    settings = MarkdownBook(kind="markdown_book", tenant=TENANT, path=data / "rust-book", readers="everyone")
    pages = open_source("book", settings, data).sync(None, {}).pages
    size = ChunkSize.of(Profiles().book, Ingestion())
    cut = build_chunks(build_sections(pages).sections, pages, tokenizer, size)
    placed = join_sources({"book": with_book_places(cut, pages, is_book=names_chapters)})
    chunks = without_duplicates(placed, DEDUP_MAP.empty())
    rows = chunks.select(["chunk_id", "page_id", "text"]).to_pylist()
    files = dict(zip(pages["page_id"].to_pylist(), pages["source_file"].to_pylist(), strict=True))
    questions = []
    for half in ("build", "measured"):
        gold = yaml.safe_load((ROOT / f"evals/gold/people/rust_book_{half}.yaml").read_text(encoding="utf-8"))
        for item in gold["questions"]:
            if not item["answerable"]:
                continue
            quotes = item["quote"] if isinstance(item["quote"], list) else [item["quote"]]
            right = frozenset(
                row["chunk_id"]
                for row in rows
                if item["page"] in files[row["page_id"]] and any(quote in row["text"] for quote in quotes)
            )
            questions += [(item["question"], right)] if right else []
    return WindowCorpus(contextualized(chunks, build_contexts(chunks, "metadata")), questions)


def squad(data: Path) -> Iterator[WindowPart]:
    """Yield the paragraphs of articles in their order."""
    for article in json.loads((data / "squad2" / "dev-8-articles.json").read_text(encoding="utf-8"))["data"]:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            asked = [qa["question"] for qa in paragraph["qas"] if not qa["is_impossible"]]
            yield WindowPart(title, title, paragraph["context"], asked)


def scifact(data: Path) -> Iterator[WindowPart]:
    """Yield abstracts in the order of the file, as if they were one page."""
    collection, asked = read_collection(data / "scifact"), defaultdict[str, list[str]](list)
    for query, grades in collection.judgements.items():
        for document, grade in grades.items():
            asked[document] += [collection.queries[query]] if grade > 0 else []
    for one in collection.documents:
        yield WindowPart("abstracts", "", f"{one.title}\n{one.text}", asked[one.id])


def code(data: Path) -> Iterator[WindowPart]:
    """Yield the parts of files of code in their order."""
    collection, asked = read_collection(data / "contextual-retrieval"), defaultdict[str, list[str]](list)
    for query, grades in collection.judgements.items():
        for document, grade in grades.items():
            asked[document] += [collection.queries[query]] if grade > 0 else []
    for one in sorted(collection.documents, key=lambda one: (one.page, one.position)):
        yield WindowPart(one.page, one.title, one.text, asked[one.id])


def joined(parts: Iterator[WindowPart], tokenizer: Tokenizer, aim: int) -> WindowCorpus:
    """Return neighbours of a page as passages of as many tokens as are aimed at."""
    documents, right = list[BeirDocument](), defaultdict[str, set[str]](set)
    for number, group in enumerate(_groups(list(parts), tokenizer, aim)):
        text = "\n\n".join(part.text for part in group)
        documents.append(BeirDocument(f"{number}", group[0].title, text, group[0].page, number))
        for question in (question for part in group for question in part.questions):
            right[question].add(f"{number}")
    chunks, ids = chunk_table(documents, tokenizer)
    chunk_ids = {document: chunk_id for chunk_id, document in ids.items()}
    return WindowCorpus(chunks, [(asked, frozenset(chunk_ids[one] for one in found)) for asked, found in right.items()])


def _groups(parts: Sequence[WindowPart], tokenizer: Tokenizer, aim: int) -> Iterator[list[WindowPart]]:
    group, tokens = list[WindowPart](), 0
    for part, offsets in zip(parts, tokenizer.offsets([part.text for part in parts]), strict=True):
        if group and (tokens >= aim or part.page != group[0].page):
            yield group
            group, tokens = [], 0
        group.append(part)
        tokens += len(offsets)
    if group:
        yield group


def measure(corpus: WindowCorpus, home: Path, embedder: Embedder, limit: InputLimit | None) -> dict[str, Any]:
    """Return MRR@10 of the questions, by the vectors alone and by the whole search, with the average of windows and
    with the best of them, and the gain of the best."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}})
    values: dict[tuple[str, str], list[float]] = {}
    stored: dict[str, int] = {}
    for way, read_at_once in ((AVERAGE, None), (WINDOWS, limit)):
        generation = _indexed(corpus, config, embedder, read_at_once)
        for what, search in _searches(generation, embedder, config).items():
            values[way, what] = [_reciprocal_rank(search(question), right) for question, right in corpus.questions]
        stored[way] = generation.manifest.vector_count
        generation.close()
    return {
        "passages": len(corpus.chunks),
        "questions": len(corpus.questions),
        "vectors": stored,
        "mrr_at_10": {f"{what}, {way}": round(fmean(found), 3) for (way, what), found in values.items()},
        "best_window_adds": {what: gain(values[AVERAGE, what], values[WINDOWS, what]) for what in (VECTORS, SEARCH)},
    }


def _reciprocal_rank(found: Sequence[str], right: frozenset[str]) -> float:
    """Return 1 / rank of the first right passage among the first ten, else 0."""
    return next((1 / place for place, one in enumerate(found[:DEPTH], start=1) if one in right), 0.0)


def _indexed(corpus: WindowCorpus, config: Config, embedder: Embedder, limit: InputLimit | None) -> Generation:
    store = Store(Path(config.home))
    cache = VectorCache(store.cache(TENANT), embedder.name)
    chunks, vectors, *_ = embed_passages(cache, embedder, corpus.chunks, limit)
    embed = embedding_through(cache, embedder, lambda *_: None)
    return build_generation(store, TENANT, chunks, vectors, config, embedder.name, embed=embed)


def _searches(generation: Generation, embedder: Embedder, config: Config) -> dict[str, Callable[[str], list[str]]]:
    """Return searches that give the ids of the first passages for a question."""
    view: GenerationView = generation.for_reader(Principal(TENANT))
    options = SearchOptions(config.retrieval, k=DEPTH, is_word=Words(config.embedding))

    def by_vectors(question: str) -> list[str]:
        return view.chunk_ids([hit.row for hit in view.dense(embedder.embed_query(question), DEPTH)])

    def by_search(question: str) -> list[str]:
        return view.chunk_ids(search_candidates(view, embedder, question, options).ranking.rows.tolist())

    return {VECTORS: by_vectors, SEARCH: by_search}


def gain(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """Return the gain in the mean of `after`, the bounds of its 95 % interval, and a p-value."""
    interval = bootstrap_interval([b - a for a, b in zip(before, after, strict=True)])
    figures = {"mean": interval.mean, "low": interval.low, "high": interval.high, "p": paired_p_value(before, after)}
    return {name: round(figure, 4) for name, figure in figures.items()}


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.windows", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the corpora")
    names = ["rust-book", "squad2", "contextual-retrieval", "scifact"]
    parser.add_argument("--corpora", nargs="*", default=names[:3], help="which of them")
    parser.add_argument("--no-chapters", action="store_true", help="name no chapters above passages of the book")
    parser.add_argument("--tokens", type=int, default=750, help="length of joined passages")
    options = parser.parse_args(arguments)
    settings = parse_config({"home": ".", "tenants": {TENANT: {}}}).embedding
    embedder, tokenizer, limit = (
        Remembering(open_embedder(settings)),
        open_tokenizer(settings),
        open_input_limit(settings),
    )
    corpora: Mapping[str, Callable[[], WindowCorpus]] = {
        "rust-book": lambda: rust_book(options.data, tokenizer, not options.no_chapters),
        "squad2": lambda: joined(squad(options.data), tokenizer, options.tokens),
        "contextual-retrieval": lambda: joined(code(options.data), tokenizer, options.tokens),
        "scifact": lambda: joined(scifact(options.data), tokenizer, options.tokens),
    }
    found = dict[str, Any]()
    for name in corpora:
        if name in options.corpora and (options.data / name).is_dir():
            with tempfile.TemporaryDirectory(prefix="citelock-windows-") as home:
                found[name] = measure(corpora[name](), Path(home), embedder, limit)
    print(json.dumps({"machine": machine(), "corpora": found}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
