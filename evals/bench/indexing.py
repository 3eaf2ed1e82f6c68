"""`python -m evals.bench.indexing`: what indexing and publishing take, vectors given, in a process of its own.

The child process gets its chunks and vectors as mapped files, as a build does, so that its memory is that of indexing
alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from evals.bench.clients import memory_mb
from evals.bench.corpora import Sentence, read_sentences
from evals.bench.report import load, machine, write_indexing
from evals.evaluation.beir import BeirDocument
from evals.evaluation.bench import TENANT, Report, chunk_table, with_column
from rag_assets.publishing.arrange import arranged
from rag_assets.state.content_cache import VectorCache
from rag_serving.artifacts.columns import rows_in
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store, map_table, write_mapped
from rag_serving.config.loading import Config, parse_config
from rag_serving.models import Tokenizer, open_embedder, open_tokenizer

INPUTS = "inputs"  # under the home: chunks and vectors, kept for a second build
_NOISE = 0.35  # length of what is mixed into a vector that is used again


@dataclass(frozen=True)
class Built:
    """A published generation of the bench's tenant, and how long its parts took."""

    config: Config
    chunks: int
    texts: list[str]
    vectors: NDArray[np.float32]
    seconds: dict[str, float]
    indexing: dict[str, float]  # what `indexing.index` measured


def build(home: Path, size: int, cache: Path, report: Report, sentences: Sequence[Sentence] = ()) -> Built:
    """Index and publish `size` chunks under `home`; vectors are stored in `cache`. The sentences are those of the data.

    If there are fewer distinct sentences they are reused: each time with a vector to which another sentence's, `_NOISE`
    long, was added, which preserves the distribution and makes no two equal. The configuration stores no vectors of
    questions: repeated questions are embedded again.
    """
    config = bench_config(home)
    chosen = _choose(sentences or read_sentences(), size)
    embedder = open_embedder(config.embedding)
    started = time.perf_counter()
    texts = [sentence.text for sentence in chosen]
    vectors = VectorCache(cache, embedder.name).embed(embedder, texts, partial(report, "sentences embedded")).vectors
    embedded = time.perf_counter()
    table, order = sentence_table(chosen, size, open_tokenizer(config.embedding), report)
    count = len(vectors)
    spread = np.resize(vectors, (size, vectors.shape[1]))
    shifts = np.random.default_rng(_SEED).permutation(np.arange(1, count))
    for number, start in enumerate(range(count, size, count)):
        part = spread[start : start + count]
        part += np.float32(_NOISE) * np.roll(vectors, shifts[number], axis=0)[: len(part)]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    table, vectors = arranged(table, spread[order])  # row by row those of the generation
    write_inputs(home / INPUTS, table, vectors)
    indexed = index(home, home / INPUTS, embedder.name)
    seconds = {"embed": embedded - started, "index_and_publish": indexed["seconds"]}
    return Built(config, size, table["text"].to_pylist(), vectors, seconds, indexed)


def _choose(sentences: Sequence[Sentence], size: int) -> list[Sentence]:
    """As many as are needed, in an order of chance."""
    return [sentences[number] for number in np.random.default_rng(_SEED).permutation(len(sentences))[:size]]


def sentence_table(
    sentences: Sequence[Sentence], size: int, tokenizer: Tokenizer, report: Report
) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the chunks, and each one's number: pass by pass over the sentences, because a pass takes a gigabyte to
    make."""
    tables, numbers = [], []
    for start in range(0, size, len(sentences)):
        table, ids = chunk_table(_documents(sentences[: size - start], start), tokenizer)
        order = [int(ids[chunk_id]) for chunk_id in table["chunk_id"].to_pylist()]
        tables.append(with_column(table, "vector_keys", [[f"bench:{number}"] for number in order]))
        numbers += order
        report("chunks made", len(numbers), size)
    return pa.concat_tables(tables), np.array(numbers)


def _documents(sentences: Sequence[Sentence], start: int) -> list[BeirDocument]:
    """Return one chunk per sentence; pages are the sentences' documents, in later passes copies of them."""
    documents = []
    for number, sentence in enumerate(sentences, start):
        page = f"{sentence.document}.{start}" if start else sentence.document
        title = sentence.document.rpartition(".")[2]
        documents.append(BeirDocument(str(number), title, sentence.passage, page, sentence.number))
    return documents


_SEED, _BLOCK, _BATCH = 20, 65_536, 1_000_000
_CHUNKS, _VECTORS = "chunks.arrow", "vectors.npy"
_SENTENCES, _PASS = "sentences.arrow", 100_000
CHANCE = "chance"


def bench_config(home: Path, graphs: bool = True) -> Config:
    """Return the configuration of every bench of speed: vectors of questions are not kept."""
    settings: dict[str, Any] = {"home": str(home), "tenants": {TENANT: {}}, "embedding": {"query_cache": 0}}
    return parse_config(settings if graphs else {**settings, "indexing": {"dense_search": "exact"}})


def index(home: Path, inputs: Path, embedder: str, graphs: bool = True) -> dict[str, float]:
    """Index and publish the result of `write_inputs`, in a new process; return its figures.

    Without `graphs` Chroma's are not built at any size.
    """
    command = [sys.executable, "-m", "evals.bench.indexing", "--child", str(home), str(inputs), embedder]
    command += [] if graphs else ["--no-graphs"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout)
    return found


def write_inputs(folder: Path, table: pa.Table, vectors: NDArray[np.float32]) -> None:
    """Leave chunks and their vectors for `index`."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_chunks(folder / _CHUNKS, _batches(table))
    np.save(folder / _VECTORS, vectors)


def main(arguments: list[str] | None = None) -> int:
    """Build once, then again with some pages changed; print both as JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.indexing", description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--changed", type=float, default=0.01, help="share of the pages that the second build has new")
    parser.add_argument("--folder", type=Path, help="where inputs and generations are put meanwhile")
    parser.add_argument("--no-graphs", action="store_true", help="build no graphs of Chroma at any size")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench"), help="where sentences are kept")
    parser.add_argument("--docs", type=Path, help="write benchmarks-indexing.json and the table of scale.md there")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        home, inputs, embedder = options.child
        print(json.dumps(_indexed(Path(home), Path(inputs), embedder, not options.no_graphs)))
        return 0
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="citelock-indexing-", dir=options.folder) as temporary:
        home, inputs = Path(temporary) / "home", Path(temporary) / "inputs"
        _made(inputs, options.chunks, options.dimension, options.cache)
        facts = machine()
        report: dict[str, Any] = {"first": index(home, inputs, CHANCE, not options.no_graphs)}
        change_pages(inputs, options.changed)
        report["changed"] = index(home, inputs, CHANCE, not options.no_graphs)
    report["machine"] = {**facts, "load_after": load()}
    if options.docs:
        write_indexing(options.chunks, report, options.docs)
    print(json.dumps(report, indent=1))
    return 0


def _indexed(home: Path, inputs: Path, embedder: str, graphs: bool) -> dict[str, float]:
    from rag_assets.publishing.build import build_dense, build_lexical_index, commit_generation
    from rag_assets.publishing.checks import Coverage, check_generation
    from rag_assets.publishing.publish import publish

    config, store = bench_config(home, graphs), Store(home)
    peak = _Peak()
    started, processor = time.perf_counter(), time.process_time()
    table = pa.ipc.open_file(pa.memory_map(str(inputs / _CHUNKS))).read_all()
    vectors = np.load(inputs / _VECTORS, mmap_mode="r")
    build_dense(store, TENANT, table, vectors, config, embedder)
    build_lexical_index(store, TENANT, table)
    name = commit_generation(store, TENANT, config).id
    gc.collect()
    built, building = time.perf_counter(), memory_mb("self", "VmHWM")
    coverage, chunks = Coverage({TENANT: frozenset(table["page_id"].unique().to_pylist())}, {}), len(table)
    del table, vectors  # inputs that are mapped count as resident while somebody has them
    results = check_generation(store, TENANT, name, config, coverage, embedder)
    checked = time.perf_counter()
    publish(store, TENANT, name, config)
    folder = store.generation(TENANT, name)
    return {
        "chunks": chunks,
        "seconds": round(time.perf_counter() - started, 1),
        "build_s": round(built - started, 1),
        "check_s": round(checked - built, 1),
        "processor_s": round(time.process_time() - processor, 1),
        "resident_mb": round(
            memory_mb("self", "VmHWM")
        ),  # `ru_maxrss` would have the memory of the parent process in it
        "resident_before_checks_mb": round(building),
        "without_files_mb": round(peak.stop()),
        "disk_mb": round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6),
        **{check.name: check.metadata["recall_at_10"] for check in results if check.name == "ann_recall"},
    }


class _Peak:
    """The most memory that is not backed by files, looked at ten times a second."""

    def __init__(self) -> None:
        self._most, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return it in megabytes."""
        self._ended.set()
        self._thread.join()
        return self._most

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self._most = max(self._most, memory_mb("self", "RssAnon"))


def _made(inputs: Path, chunks: int, dimension: int, cache: Path) -> None:
    from rag_assets.publishing.arrange import in_order

    sentences = _sentences(cache)
    passes = range(-(-chunks // len(sentences)))
    table = in_order(pa.concat_tables([_copied(sentences, number) for number in passes]).slice(0, chunks))
    inputs.mkdir(parents=True, exist_ok=True)
    _write_chunks(inputs / _CHUNKS, _batches(table))
    random = np.random.default_rng(_SEED)
    vectors = np.lib.format.open_memmap(inputs / _VECTORS, "w+", np.float32, (chunks, dimension))
    for start in range(0, chunks, _BLOCK):
        part = random.standard_normal((min(_BLOCK, chunks - start), dimension), dtype=np.float32)
        vectors[start : start + _BLOCK] = part / np.linalg.norm(part, axis=1, keepdims=True)
    vectors.flush()


def _sentences(cache: Path) -> pa.Table:
    """Return the chunks of the first sentences, kept in `cache` because counting their tokens takes a minute."""

    from evals.evaluation.cli import BenchProgress

    path = cache / _SENTENCES
    if not path.exists():
        tokenizer = open_tokenizer(bench_config(cache).embedding)
        write_mapped(path, sentence_table(read_sentences(), _PASS, tokenizer, BenchProgress())[0], GENERATION_CHUNKS)
    return map_table(path, GENERATION_CHUNKS)


def _copied(table: pa.Table, number: int) -> pa.Table:
    """Return the chunks under ids and names of vectors that no other number gives."""
    if not number:
        return table
    page, version, index = (pc.cast(table[name], pa.string()) for name in ("page_id", "version", "chunk_idx"))
    page = pc.binary_join_element_wise(page, str(number), ".")
    keys = [[f"{key[0]}.{number}"] for key in table["vector_keys"].to_pylist()]
    columns = {
        "page_id": page,
        "chunk_id": pc.binary_join_element_wise(page, version, index, ":"),
        "vector_keys": pa.array(keys, pa.list_(pa.string())),
    }
    for name, column in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, table.schema.field(name), column)
    return table


def change_pages(inputs: Path, share: float) -> None:
    """Give a share of the pages, evenly spread, a sentence more in every chunk, and these chunks other vectors."""
    table = pa.ipc.open_file(pa.memory_map(str(inputs / _CHUNKS))).read_all()
    pages = table["page_id"].unique().to_pylist()
    changed = rows_in(table["page_id"], pages[:: max(round(1 / share), 1)] if share else ())
    rows = np.flatnonzero(changed)
    vectors, random = np.load(inputs / _VECTORS, mmap_mode="r+"), np.random.default_rng(_SEED)
    turned = vectors[rows] + np.float32(0.01) * random.standard_normal((len(rows), vectors.shape[1]), dtype=np.float32)
    vectors[rows] = turned / np.linalg.norm(turned, axis=1, keepdims=True)
    vectors.flush()
    (inputs / _CHUNKS).unlink()
    masks = (changed[start : start + _BATCH] for start in range(0, len(table), _BATCH))
    _write_chunks(inputs / _CHUNKS, map(_changed, _batches(table), masks))


def _batches(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in batches whose texts fit Arrow's offsets."""
    for start in range(0, len(table), _BATCH):
        yield table.slice(start, _BATCH)


def _write_chunks(path: Path, batches: Iterable[pa.Table]) -> None:
    with pa.ipc.new_file(str(path), GENERATION_CHUNKS.arrow) as file:
        for batch in batches:
            file.write_table(batch.cast(GENERATION_CHUNKS.arrow).combine_chunks())


def _changed(table: pa.Table, changed: NDArray[np.bool_]) -> pa.Table:
    """Return chunks, each with one vector, with other texts and names of vectors in some rows."""

    def with_end(texts: Any, end: str) -> Any:
        return pc.binary_join_element_wise(texts, pc.if_else(pa.array(changed), end, ""), "")

    keys = with_end(pc.list_flatten(table["vector_keys"]).combine_chunks(), ":changed")
    columns = {
        "text": with_end(table["text"], " It was changed."),
        "vector_keys": pa.ListArray.from_arrays(np.arange(len(table) + 1, dtype=np.int32), keys),
    }
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    return table


if __name__ == "__main__":
    sys.exit(main())
