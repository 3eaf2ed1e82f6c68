"""`python -m evals.bench.windows`: how a passage longer than the embedder's window is best turned into vectors.

Belongs here: passages of the profile `book`, and questions whose passage is known, ranked by the vector of the first
window, by the average of all windows (what the product does), and by the best of the windows' own vectors.
Does not belong here: how long passages should be (`passages`), other stages of retrieval (`ablation`).

Passages of SQuAD and SciFact are neighbouring paragraphs, or abstracts, joined up to the same length. Abstracts that
are joined share no subject: that is the case which favours a vector for each window the most.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import yaml
from numpy.typing import NDArray

from evals.bench.machine import machine
from rag_assets.evaluation.significance import bootstrap_interval, paired_p_value
from rag_assets.sources.registry import open_source
from rag_assets.steps.chunks.book_places import with_book_places
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.chunks.sizes import ChunkSize
from rag_assets.steps.contexts.context_prefix import metadata_prefix
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.profiles import Profiles
from rag_serving.config.sections import Embedding, Ingestion
from rag_serving.config.sources import MarkdownBook
from rag_serving.models import open_embedder, open_tokenizer
from rag_serving.models.embedding.local import MAX_WINDOWS, spread
from rag_serving.models.protocols import Embedder, Tokenizer
from rag_serving.text.stemming import terms_in

ROOT = Path(__file__).parents[2]
WINDOW = 254  # tokens that the local model reads at once, without the two of its own
DEPTH = 10
Vectors = NDArray[np.float32]


@dataclass
class Corpus:
    """Passages with the prefix of each, and questions with the numbers of the passages that answer them."""

    name: str
    prefixes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    questions: list[tuple[str, set[int]]] = field(default_factory=list)


def rust_book(data: Path, tokenizer: Tokenizer, names_chapters: bool) -> Corpus:
    """Return the book as the product cuts it, and the questions of `evals/gold/people` whose quote one passage has."""
    settings = MarkdownBook(kind="markdown_book", tenant="t", path=data / "rust-book", readers="everyone")
    pages = open_source("book", settings, data).sync(None, {}).pages
    size = ChunkSize.of(Profiles().book, Ingestion())
    chunks = build_chunks(build_sections(pages).sections, pages, tokenizer, size)
    rows = with_book_places(chunks, pages, is_book=names_chapters).to_pylist()
    files = dict(zip(pages["page_id"].to_pylist(), pages["source_file"].to_pylist(), strict=True))
    places = [(row["title"], row["heading_path"] or (), row["chapter"] if names_chapters else None) for row in rows]
    corpus = Corpus("rust-book", [metadata_prefix(*place) for place in places])
    corpus.texts = [row["text"] for row in rows]
    for half in ("build", "measured"):
        gold = yaml.safe_load((ROOT / f"evals/gold/people/rust_book_{half}.yaml").read_text(encoding="utf-8"))
        for item in gold["questions"]:
            if not item["answerable"]:
                continue
            quotes = item["quote"] if isinstance(item["quote"], list) else [item["quote"]]
            right = {
                number
                for number, row in enumerate(rows)
                if item["page"] in files[row["page_id"]] and any(quote in row["text"] for quote in quotes)
            }
            corpus.questions += [(item["question"], right)] if right else []
    return corpus


def squad(data: Path, tokenizer: Tokenizer, aim: int) -> Corpus:
    """Return the paragraphs of articles joined in their order, and the questions that they answer."""
    corpus = Corpus("squad2")
    for article in json.loads((data / "squad2" / "dev-8-articles.json").read_text(encoding="utf-8"))["data"]:
        for paragraphs in _joined(
            article["paragraphs"], [one["context"] for one in article["paragraphs"]], tokenizer, aim
        ):
            number = len(corpus.texts)
            corpus.prefixes.append(article["title"].replace("_", " "))
            corpus.texts.append("\n\n".join(one["context"] for one in paragraphs))
            asked = [qa for one in paragraphs for qa in one["qas"] if not qa["is_impossible"]]
            corpus.questions += [(qa["question"], {number}) for qa in asked]
    return corpus


def scifact(data: Path, tokenizer: Tokenizer, aim: int) -> Corpus:
    """Return abstracts joined in the order of the file, and the claims that they are evidence for."""
    lines = (data / "scifact" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    documents = [json.loads(line) for line in lines]
    corpus, place = Corpus("scifact"), dict[str, int]()
    texts = [f"{one['title']}\n{one['text']}" for one in documents]
    for group in _joined(list(zip(documents, texts, strict=True)), texts, tokenizer, aim):
        place |= {document["_id"]: len(corpus.texts) for document, _ in group}
        corpus.prefixes.append("")
        corpus.texts.append("\n\n".join(text for _, text in group))
    claims = {
        one["_id"]: one["text"]
        for one in map(json.loads, (data / "scifact" / "queries.jsonl").read_text(encoding="utf-8").splitlines())
    }
    right: defaultdict[str, set[int]] = defaultdict(set)
    for line in (data / "scifact" / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        claim, document, grade = line.split("\t")
        if int(grade) > 0:
            right[claim].add(place[document])
    corpus.questions = [(claims[claim], passages) for claim, passages in right.items()]
    return corpus


def _joined(items: Sequence[Any], texts: Sequence[str], tokenizer: Tokenizer, aim: int) -> Iterator[list[Any]]:
    """Yield neighbours together, until they have as many tokens as is aimed at."""
    group, tokens = list[Any](), 0
    for item, offsets in zip(items, tokenizer.offsets(list(texts)), strict=True):
        group.append(item)
        tokens += len(offsets)
        if tokens >= aim:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def windows_of(prefix: str, text: str, tokenizer: Tokenizer) -> list[str]:
    """Return a passage's windows as the local embedder cuts them, each under the passage's prefix."""
    above = len(tokenizer.offsets([prefix])[0]) if prefix else 0
    offsets = tokenizer.offsets([text])[0]
    ids = spread(list(range(len(offsets))), WINDOW - above, MAX_WINDOWS)
    parts = [text[offsets[part[0]][0] : offsets[part[-1]][1]] for part in ids if part] or [text]
    return [f"{prefix}\n{part}" if prefix else part for part in parts]


def measure(corpus: Corpus, embedder: Embedder, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return MRR@10 of the questions whose passages are longer than a window, by each way, and what best-of-windows
    adds to the average."""
    whole = [f"{p}\n{t}" if p else t for p, t in zip(corpus.prefixes, corpus.texts, strict=True)]
    windows = [windows_of(p, t, tokenizer) for p, t in zip(corpus.prefixes, corpus.texts, strict=True)]
    owner = np.array([number for number, parts in enumerate(windows) for _ in parts])
    every = embedder.embed_documents([part for parts in windows for part in parts])
    first = every[np.searchsorted(owner, np.arange(len(windows)))]
    average = embedder.embed_documents(whole)
    asked = np.stack([embedder.embed_query(question) for question, _ in corpus.questions])
    best = np.full((len(asked), len(windows)), -1.0, np.float32)
    np.maximum.at(best.T, owner, (asked @ every.T).T)
    scores = {"first_window": asked @ first.T, "average": asked @ average.T, "best_window": best}
    scores["best_and_average"] = (scores["best_window"] + scores["average"]) / 2
    lexical = lexical_scores(whole, [question for question, _ in corpus.questions])
    for name in ("average", "best_window"):
        scores[f"{name}_and_bm25"] = (standardized(scores[name]) + standardized(lexical)) / 2
    values = {name: _reciprocal_ranks(found, corpus) for name, found in scores.items()}
    return {
        "passages": len(windows),
        "longer_than_a_window": sum(len(parts) > 1 for parts in windows),
        "windows": len(owner),
        "questions": len(asked),
        "mrr_at_10": {name: round(float(np.mean(found)), 3) for name, found in values.items()},
        "best_window_adds": gain(values["average"], values["best_window"]),
        "best_window_adds_beside_bm25": gain(values["average_and_bm25"], values["best_window_and_bm25"]),
    }


def lexical_scores(texts: Sequence[str], questions: Sequence[str]) -> Vectors:
    """Return BM25 scores [questions, passages] of the product's terms."""
    index = bm25s.BM25()
    index.index([list(terms_in(text, "en")) for text in texts], show_progress=False)
    known = index.vocab_dict
    return np.stack([index.get_scores([term for term in terms_in(one, "en") if term in known]) for one in questions])


def standardized(scores: Vectors) -> Vectors:
    """Return each question's scores with mean 0 and deviation 1, as the product fuses them."""
    deviation = scores.std(axis=1, keepdims=True)
    return (scores - scores.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1)


def gain(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """Return what the mean of `after` has more, the bounds of its 95 % interval, and a p-value."""
    interval = bootstrap_interval([b - a for a, b in zip(before, after, strict=True)])
    figures = {"mean": interval.mean, "low": interval.low, "high": interval.high, "p": paired_p_value(before, after)}
    return {name: round(figure, 4) for name, figure in figures.items()}


def _reciprocal_ranks(scores: Vectors, corpus: Corpus) -> list[float]:
    """Return 1 / rank of the best right passage among the first ten, else 0."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    ranks = (
        next((1 / place for place, number in enumerate(row, start=1) if int(number) in right), 0.0)
        for row, (_, right) in zip(order, corpus.questions, strict=True)
    )
    return list(ranks)


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.windows", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the corpora")
    parser.add_argument("--corpora", nargs="*", default=["rust-book", "squad2", "scifact"], help="which of them")
    parser.add_argument("--no-chapters", action="store_true", help="name no chapters above passages of the book")
    parser.add_argument("--tokens", type=int, default=750, help="length of joined passages")
    options = parser.parse_args(arguments)
    settings = Embedding()
    embedder, tokenizer = open_embedder(settings), open_tokenizer(settings)
    corpora = {
        "rust-book": lambda: rust_book(options.data, tokenizer, not options.no_chapters),
        "squad2": lambda: squad(options.data, tokenizer, options.tokens),
        "scifact": lambda: scifact(options.data, tokenizer, options.tokens),
    }
    wanted = [name for name in corpora if name in options.corpora and (options.data / name).is_dir()]
    found: Mapping[str, Any] = {name: measure(corpora[name](), embedder, tokenizer) for name in wanted}
    print(json.dumps({"machine": machine(), "corpora": found}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
