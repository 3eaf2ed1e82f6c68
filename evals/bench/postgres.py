"""`python -m evals.bench.postgres`: generations in PostgreSQL beside those on disk: recall, latency, sizes, plans.

Belongs here: a generation of real sentences with restricted pages, published into a database, and asked there and on
disk by two clients at once. Does not belong here: what is right (`tests/postgres`), the other databases.

Sentences are embedded by the packaged model; where there are fewer than chunks they are used again, each with a vector
that another's was mixed into (`built`). Graphs on disk are not made: disk is searched exactly.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.bench.built import _choose, _spread, sentence_table
from evals.bench.plot import plot_readers
from evals.bench.real_text import read_sentences
from rag_assets.evaluation.bench import TENANT, with_column
from rag_assets.evaluation.cli.bench import Progress
from rag_assets.publishing.arrange import arranged, lexical_digest, with_shards
from rag_assets.publishing.build import build_lexical_index, commit_generation
from rag_assets.publishing.postgres_writer import publish_generation
from rag_assets.publishing.workspace import BuildWorkspace
from rag_assets.state.vector_cache import VectorCache
from rag_serving.access.principals import Principal
from rag_serving.artifacts.content_digests import values_digest
from rag_serving.artifacts.schema import ORIGINALS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.postgres.migrations.upgrade import migrate
from rag_serving.indexes.postgres.store import PostgresStore
from rag_serving.indexes.protocols import ReaderView
from rag_serving.indexes.remote.catalogs import Catalogs
from rag_serving.indexes.remote.generation import DatabaseGeneration
from rag_serving.models import open_embedder, open_tokenizer
from rag_serving.text.analyzer import analyze

READERS = (*["everyone"] * 10, *["group:staff"] * 6, *["group:board"] * 2, "group:ops&group:staff", "user:ann")
"""Reader classes of pages, by turns: of twenty, ten are everybody's."""
WHO = {
    "anybody": Principal(TENANT),
    "staff": Principal(TENANT, None, frozenset({"staff"})),
    "everything": Principal(TENANT, "ann", frozenset({"staff", "board", "ops"})),
    "ann alone": Principal(TENANT, "ann"),
}
K = 80
_QUESTIONS = 200
_CLIENTS = 2

Vectors = NDArray[np.float32]


def main(arguments: list[str] | None = None) -> int:
    """Build, publish, measure; prints JSON."""
    options = _options(arguments)
    config = config_of(options.home, options.server)
    if not Store(options.home).current(TENANT):
        build(config, options.chunks, options.sentences)
    found = measure(config)
    if options.plot:
        plot_readers(found, options.plot)
    print(json.dumps(found, indent=1))
    return 0


def config_of(home: Path, server: str) -> Config:
    """Return a configuration whose database is at `server`, such as 127.0.0.1:5432/postgres."""
    index = {
        "kind": "postgres",
        "url": f"postgresql://citelock_app@{server}",
        "writer_url": f"postgresql://citelock_writer@{server}",
        "owner_url": f"postgresql://postgres@{server}",
    }
    return parse_config({"home": str(home), "tenants": {TENANT: {}}, "index": index})


def build(config: Config, chunks: int, distinct: int) -> None:
    """Publish a generation on disk: `distinct` sentences, and as many chunks of them as are asked for; vectors of
    further sentences are left beside it for questions."""
    store, embedder = Store(config.home), open_embedder(config.embedding)
    chosen = _choose(read_sentences(), distinct + _QUESTIONS)
    cache, report = VectorCache(config.home / "bench-vectors.db", embedder.name), Progress()
    texts = [sentence.text for sentence in chosen]
    vectors = cache.embed(embedder, texts).vectors
    base, asked = chosen[:distinct], texts[distinct:]
    table, order = sentence_table(base, chunks, open_tokenizer(config.embedding), report)
    turns = dict(zip(dict.fromkeys(table["page_id"].to_pylist()), cycle(READERS), strict=False))
    table = with_column(table, "readers", [turns[page] for page in table["page_id"].to_pylist()])
    table, spread = arranged(table, _spread(vectors[:distinct], chunks)[order])
    table = with_shards(table, config.indexing.max_shard_chunks)
    dimension = spread.shape[1]
    facts = {
        "embedder": embedder.name,
        "dimension": dimension,
        "shards": [],
        "inputs_digest": values_digest(table),
        "lexical_digest": lexical_digest(table),
    }
    workspace = BuildWorkspace.of(store, TENANT)
    workspace.write_dense(table, spread, facts)
    workspace.write_originals(ORIGINALS.empty())
    build_lexical_index(store, TENANT, table)
    workspace.without_sentences()
    store.point_current(TENANT, commit_generation(store, TENANT, config).id)
    shutil.rmtree(store.candidate(TENANT))
    np.save(config.home / "questions.npy", vectors[distinct:], allow_pickle=False)
    (config.home / "questions.json").write_text(json.dumps(asked), encoding="utf-8")


def measure(config: Config) -> dict[str, Any]:
    """Return what publishing takes, and for each reader recall and milliseconds, in the database and on disk."""
    store = Store(config.home)
    generation_id = store.current(TENANT) or ""
    migrate(config)
    started = time.perf_counter()
    publish_generation(store, TENANT, generation_id, config)
    seconds = time.perf_counter() - started
    remote, disk = PostgresStore(config), Generation.open(store, TENANT, generation_id, config)
    catalogs = Catalogs(config.index.cache_bytes)
    database = DatabaseGeneration(store.home, TENANT, generation_id, remote.open(TENANT, generation_id), catalogs)
    vectors = np.load(config.home / "questions.npy", allow_pickle=False)
    texts = json.loads((config.home / "questions.json").read_text(encoding="utf-8"))
    try:
        readers = {}
        for name, principal in WHO.items():
            started = time.perf_counter()
            here, there = disk.for_reader(principal), database.for_reader(principal)
            first_s = time.perf_counter() - started
            readers[name] = {
                "chunks": len(here),
                "catalog_s": round(first_s, 2),
                "recall@80": recall(there, here, vectors),
                "nearest_ms": timed(lambda number, view=there: view.dense(vectors[number], K)),
                "database_ms": timed(lambda number, view=there: retrieve(view, vectors[number], texts[number])),
                "disk_ms": timed(lambda number, view=here: retrieve(view, vectors[number], texts[number])),
            }
        return {"chunks": len(disk), "publish_s": round(seconds, 1), "readers": readers}
    finally:
        remote.close()
        disk.close()


def recall(view: ReaderView, exact: ReaderView, vectors: Vectors) -> float:
    """Return the share of the K truly nearest chunks that a view finds, over all questions."""
    found = total = 0
    for vector in vectors:
        true = {*exact.chunk_ids([hit.row for hit in exact.dense(vector, K)])}
        found += len(true & {*view.chunk_ids([hit.row for hit in view.dense(vector, K)])})
        total += len(true)
    return round(found / max(total, 1), 4)


def timed(ask: Callable[[int], object], count: int = _QUESTIONS) -> dict[str, float]:
    """Return p50 and p95 in milliseconds of what two clients at once ask."""
    numbers = [*islice(cycle(range(_QUESTIONS)), count + 20)]

    def one(number: int) -> float:
        started = time.perf_counter()
        ask(number)
        return 1000 * (time.perf_counter() - started)

    with ThreadPoolExecutor(_CLIENTS) as pool:
        milliseconds = [*pool.map(one, numbers)][20:]
    return {name: round(float(np.percentile(milliseconds, share)), 1) for name, share in (("p50", 50), ("p95", 95))}


def retrieve(view: ReaderView, vector: Vectors, text: str) -> None:
    """Ask for what one question reads: the nearest, the best by words, the scores of both, vectors, texts."""
    near, worded = view.dense(vector, K), view.lexical(analyze(text), K)
    rows = np.unique([hit.row for hit in (*near, *worded)]).astype(np.int64)
    view.similarities(vector, rows)
    scores = view.lexical_scores(analyze(text))
    view.page_means(scores, rows)
    view.chunks(rows[np.argsort(-scores[rows])][:20].tolist())


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.postgres", description=__doc__)
    parser.add_argument("--server", required=True, help="a database to fill, such as 127.0.0.1:5432/postgres")
    parser.add_argument("--home", type=Path, required=True, help="where the generation is built, and kept")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--sentences", type=int, default=8_000, help="different ones to embed")
    parser.add_argument("--plot", type=Path, help="a picture of p95 beside that of disk (.svg, .png)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
