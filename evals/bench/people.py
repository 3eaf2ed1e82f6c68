"""`python -m evals.bench.people`: the usefulness of answers to questions in people's own words.

Pages are cut and indexed by the product's own code with its default settings, each passage as it is; near-duplicates
are not joined. Questions of the held-out half are not printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

from evals.bench.corpora import ROOT, PassageCorpus, cut, file_pages, passages, sample_pages, wiki_pages
from evals.bench.real_text import DATA
from evals.evaluation.bench import TENANT
from evals.evaluation.cli.bench import BenchProgress
from evals.evaluation.gold import GoldSet, read_gold
from evals.evaluation.usefulness import JudgedUse, judge_use, use_payload, use_table
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages, embedding_through
from rag_assets.state.content_cache import VectorCache
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.embedding.weights import MODEL

PEOPLE = ROOT / "evals" / "gold" / "people"
CORPORA = ("sample", "cwiki", "rust-book")
HALVES = ("build", "measured")


def main(arguments: list[str] | None = None) -> int:
    """Run one half of the questions, of each available corpus, and print the results."""
    options = _options(arguments)
    judged: dict[str, list[JudgedUse]] = {}
    found: dict[str, dict[int, float]] = {}
    for name in options.corpora or CORPORA:
        pages = read_pages(name, options.data)
        if pages is None:
            print(f"bench: {options.data} has no pages of {name}", file=sys.stderr)
            continue
        home = options.cache / name / Path(options.embedding).name
        with published(cut(name, pages), home, options.embedding) as pipeline:
            gold = read_gold(options.gold or questions_of(name, options.half))
            judged[name] = ask(pipeline, gold)
            found[name] = pages_found(pipeline, gold)
    together = [each for those in judged.values() for each in those]
    everything = judged if len(judged) == 1 else {**judged, "all": together}
    if options.json:
        print(json.dumps({name: use_payload(those) for name, those in everything.items()}, indent=2))
    else:
        print("\n\n".join(f"**{name}**\n\n{use_table(those)}" for name, those in everything.items()))
        for name, shares in found.items():
            told = ", ".join(f"{k}: {share:.0%}" for k, share in shares.items())
            print(f"\n{name}: a right page among the first {told}")
    if options.details and options.half != "measured":
        print("\n".join(f"{each.outcome}: {each.gold.id}: {each.gold.question}" for each in together))
    return 0


def questions_of(corpus: str, half: str) -> Path:
    """Return the gold set of half of a corpus' questions."""
    return PEOPLE / f"{corpus.replace('-', '_')}_{half}.yaml"


def read_pages(corpus: str, data: Path) -> pa.Table | None:
    """Return rows of PAGES; None if the real data are not there."""
    if corpus == "sample":
        return sample_pages()
    if corpus == "cwiki":
        return wiki_pages(data / "cwiki") if (data / "cwiki").is_dir() else None
    return file_pages(data / "rust-book" / "src", "md") if (data / "rust-book" / "src").is_dir() else None


@contextmanager
def published(corpus: PassageCorpus, home: Path, model: str = MODEL) -> Iterator[Pipeline]:
    """Yield the pipeline over the indexed and published pages; vectors are stored in the folder."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, "embedding": {"model": model}})
    store, embedder, table = Store(home), open_embedder(config.embedding), passages(corpus.chunks)
    cache = VectorCache(store.cache(TENANT), embedder.name)
    embedded = embed_passages(cache, embedder, table, open_input_limit(config.embedding))
    embed = embedding_through(cache, embedder, partial(BenchProgress(), "sentences embedded"))
    generation = build_generation(store, TENANT, embedded.chunks, embedded.vectors, config, embedder.name, embed=embed)
    generation.close()
    store.point_current(TENANT, generation.id)
    pipeline = Pipeline.open(config, TENANT, embedder)
    try:
        yield pipeline
    finally:
        pipeline.close()


def ask(pipeline: Pipeline, gold: GoldSet) -> list[JudgedUse]:
    """Return the value of the answer to each question for a caller with everyone's access."""
    report = BenchProgress()
    judged = []
    for done, question in enumerate(gold.questions, start=1):
        judged.append(judge_use(question, pipeline.ask(question.asker(TENANT), question.question)))
        report("questions asked", done, len(gold.questions))
    return judged


def pages_found(pipeline: Pipeline, gold: GoldSet) -> dict[int, float]:
    """Return the share of answerable questions of which a right page is among the first k pages that search finds."""
    ranks = []
    for question in (each for each in gold.questions if each.answerable):
        results = pipeline.search(question.asker(TENANT), question.question, 50).results
        pages = list(dict.fromkeys(result.chunk.page_id for result in results))
        right = {place.page for place in question.places}
        ranks.append(next((rank for rank, page in enumerate(pages, start=1) if page in right), 99))
    return {k: sum(rank <= k for rank in ranks) / max(1, len(ranks)) for k in (1, 3, 10)}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.people", description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, help="all that are there by default")
    parser.add_argument("--half", choices=HALVES, default="build")
    parser.add_argument("--gold", type=Path, help="questions of one corpus in place of a half")
    parser.add_argument("--embedding", default=MODEL, help="local embedding model: a name or a folder")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench-people"), help="where indexes are kept")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown tables")
    parser.add_argument("--details", action="store_true", help="print each outcome, not of the measured half")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
