"""`python -m evals.bench.postgres`: generations in PostgreSQL beside those on disk: recall, latency, sizes, plans.

Belongs here: a generation of real sentences with restricted pages, published into a database, and queried there and on
disk by two clients at once. Does not belong here: correctness (`plugins/stores/tests/postgres`), the other databases.

Sentences are embedded by the packaged model; if there are fewer than chunks they are reused, each with a vector mixed
with another's (`built`). Graphs on disk are not made: disk is searched exactly.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from citelock_stores.postgres.migrations.upgrade import migrate
from citelock_stores.postgres.store import PostgresStore
from citelock_stores.publishing.postgres import publish_generation
from citelock_stores.remote.catalog import Catalogs
from citelock_stores.remote.generation import DatabaseGeneration
from citelock_stores.remote.protocol import RemoteGeneration
from citelock_stores.remote.seals import GenerationSeals, checked_texts
from evals.bench.built import _choose, _spread, sentence_table
from evals.bench.real_text import read_sentences
from evals.bench.report import plot_readers
from evals.evaluation.bench import TENANT, with_column
from evals.evaluation.cli.bench import BenchProgress
from rag_assets.publishing.build import build_generation
from rag_assets.state.content_cache import VectorCache
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.index import Index
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.protocols import Mask, ReaderView
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
    found = measure(config, options.questions, options.reader or tuple(WHO))
    if options.plot:
        plot_readers(found, options.plot)
    print(json.dumps(found, indent=1))
    return 0


def config_of(home: Path, server: str) -> Config:
    """Return a configuration with the database at `server`, such as 127.0.0.1:5432/postgres."""
    index = {
        "kind": "postgres",
        "url": f"postgresql://citelock_app@{server}",
        "writer_url": f"postgresql://citelock_writer@{server}",
        "owner_url": f"postgresql://postgres@{server}",
    }
    content = {"home": str(home), "tenants": {TENANT: {}}, "indexing": {"dense_search": "exact"}, "index": index}
    return parse_config(content)


def build(config: Config, chunks: int, distinct: int) -> None:
    """Publish a generation on disk: `distinct` sentences, repeated up to `chunks`; vectors of further sentences are
    left beside it for questions."""
    store, embedder = Store(config.home), open_embedder(config.embedding)
    chosen = _choose(read_sentences(), distinct + _QUESTIONS)
    cache, report = VectorCache(config.home / "bench-vectors.db", embedder.name), BenchProgress()
    texts = [sentence.text for sentence in chosen]
    vectors = cache.embed(embedder, texts).vectors
    base, asked = chosen[:distinct], texts[distinct:]
    table, order = sentence_table(base, chunks, open_tokenizer(config.embedding), report)
    turns = dict(zip(dict.fromkeys(table["page_id"].to_pylist()), cycle(READERS), strict=False))
    table = with_column(table, "readers", [turns[page] for page in table["page_id"].to_pylist()])
    spread = _spread(vectors[:distinct], chunks)[order]
    generation = build_generation(store, TENANT, table, spread, config, embedder.name)
    generation.close()
    store.point_current(TENANT, generation.id)
    shutil.rmtree(store.candidate(TENANT))
    np.save(config.home / "questions.npy", vectors[distinct:], allow_pickle=False)
    (config.home / "questions.json").write_text(json.dumps(asked), encoding="utf-8")


def measure(config: Config, questions: int = _QUESTIONS, who: Sequence[str] = tuple(WHO)) -> dict[str, Any]:
    """Return the cost of publishing, and for each reader recall and milliseconds, in the database and on disk."""
    store = Store(config.home)
    generation_id = store.current(TENANT) or ""
    migrate(config)
    started = time.perf_counter()
    publish_generation(store, TENANT, generation_id, config)
    seconds = time.perf_counter() - started
    remote, disk = PostgresStore(config), Generation.open(store, TENANT, generation_id, config)
    catalogs = Catalogs(config.index.cache_bytes)
    database = DatabaseGeneration(store.home, TENANT, generation_id, remote.open(TENANT, generation_id), catalogs)
    vectors = np.load(config.home / "questions.npy", allow_pickle=False)[:questions]
    texts = json.loads((config.home / "questions.json").read_text(encoding="utf-8"))[:questions]
    count = len(texts)
    try:
        readers = {}
        for name in who:
            principal = WHO[name]
            started = time.perf_counter()
            there = database.for_reader(principal)
            first_s = time.perf_counter() - started
            here = disk.for_reader(principal)
            readers[name] = {
                "chunks": len(here),
                "catalog_s": round(first_s, 2),
                "seals_s": round(seconds_of_seals(config, remote.open(TENANT, generation_id), principal), 2),
                "filters": filtered(there, here, vectors, len(disk)),
                "recall@80": recall(there, here, vectors),
                "nearest_ms": timed(partial(_nearest, there, vectors), count),
                "database_ms": timed(partial(_retrieved, there, vectors, texts), count),
                "disk_ms": timed(partial(_retrieved, here, vectors, texts), count),
                "text_reads_ms": timed(partial(_texts_read, there), count),
                "search_ms": searched(config, principal, texts),
                "disk_search_ms": searched(on_disk(config), principal, texts),
            }
        return {"chunks": len(disk), "publish_s": round(seconds, 1), "readers": readers}
    finally:
        remote.close()
        disk.close()


def on_disk(config: Config) -> Config:
    """Return the configuration with generations on disk."""
    return config.model_copy(update={"index": Index()})


def seconds_of_seals(config: Config, generation: RemoteGeneration, principal: Principal) -> float:
    """Return how long a reader's tables take to be compared with their seals, which is a part of fetching a catalog."""
    reader = generation.reader(principal)
    tables = reader.chunks(), reader.places(), reader.originals()
    stored, seals = reader.seals(), GenerationSeals(config.home, TENANT, Store(config.home).current(TENANT) or "")
    started = time.perf_counter()
    checked_texts(seals, stored, reader.classes(), tables)
    return time.perf_counter() - started


def filters(chunk_ids: Sequence[str]) -> dict[str, Mask]:
    """Return filters of a question that leave many rows: pages here and there, as a label does, and pages that belong
    together, as a space does."""
    pages = np.array([zlib.crc32(chunk_id.rsplit(":", 2)[0].encode()) for chunk_id in chunk_ids])
    spaces = np.array([chunk_id.partition(".")[0] for chunk_id in chunk_ids])
    names, counts = np.unique(spaces, return_counts=True)
    return {
        "half of the pages": pages % 2 == 0,
        "a third of the pages": pages % 3 == 0,
        "one space": spaces == names[counts.argmax()],
    }


def filtered(there: ReaderView, here: ReaderView, vectors: Vectors, chunks: int) -> dict[str, Any]:
    """Return recall and milliseconds of the nearest chunks within some filters. `chunks`: of all readers."""
    ids = there.chunk_ids(range(len(there)))
    rows = np.array([here.row_of(chunk_id) for chunk_id in ids])
    measured = {}
    for name, mask in filters(ids).items():
        same = np.zeros(chunks, np.bool_)
        same[rows[mask]] = True
        measured[name] = {
            "rows": int(mask.sum()),
            "recall@80": recall(there, here, vectors, mask, same),
            "nearest_ms": timed(partial(_nearest, there, vectors, among=mask), len(vectors)),
        }
    return measured


def some_rows(number: int, rows: int) -> list[int]:
    """Return a few rows that no question before had: their texts are read, and compared with their digests."""
    return [(number * 1009 + 97 * place) % rows for place in range(8)]


def searched(config: Config, principal: Principal, texts: Sequence[str]) -> dict[str, float]:
    """Return milliseconds of whole searches: words to results, by the model, both indexes and the lexical reranker."""
    pipeline = Pipeline.open(config, TENANT)
    try:
        return timed(lambda number: pipeline.search(principal, texts[number]), len(texts))
    finally:
        pipeline.close()


def recall(
    view: ReaderView, exact: ReaderView, vectors: Vectors, mask: Mask | None = None, same: Mask | None = None
) -> float:
    """Return the share of the K truly nearest chunks that a view finds, over all questions; within `mask`, which is
    `same` in the rows of the other view."""
    found = total = 0
    for vector in vectors:
        true = {*exact.chunk_ids([hit.row for hit in exact.dense(vector, K, same)])}
        found += len(true & {*view.chunk_ids([hit.row for hit in view.dense(vector, K, mask)])})
        total += len(true)
    return round(found / max(total, 1), 4)


def timed(ask: Callable[[int], object], count: int) -> dict[str, float]:
    """Return p50 and p95 in milliseconds of so many questions by two clients at once."""
    numbers = [*islice(cycle(range(count)), count + 20)]

    def one(number: int) -> float:
        started = time.perf_counter()
        ask(number)
        return 1000 * (time.perf_counter() - started)

    with ThreadPoolExecutor(_CLIENTS) as pool:
        milliseconds = [*pool.map(one, numbers)][20:]
    return {name: round(float(np.percentile(milliseconds, share)), 1) for name, share in (("p50", 50), ("p95", 95))}


def _nearest(view: ReaderView, vectors: Vectors, number: int, among: Mask | None = None) -> None:
    view.dense(vectors[number], K, among)


def _retrieved(view: ReaderView, vectors: Vectors, texts: Sequence[str], number: int) -> None:
    retrieve(view, vectors[number], texts[number])


def _texts_read(view: ReaderView, number: int) -> None:
    view.chunks(some_rows(number, len(view)))


def retrieve(view: ReaderView, vector: Vectors, text: str) -> None:
    """Read the data of one question: the nearest, the best by words, the scores of both, vectors, texts."""
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
    parser.add_argument("--questions", type=int, default=_QUESTIONS, help="how many are asked of each kind")
    parser.add_argument("--reader", action="append", choices=tuple(WHO), help="who asks; may be repeated (all)")
    parser.add_argument("--plot", type=Path, help="a picture of p95 beside that of disk (.svg, .png)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
