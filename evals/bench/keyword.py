"""Measure the speed of the keyword tier, and the size of its index: `python -m evals.bench.keyword`.

Real text as 5,183 chunks (as many as SciFact has documents) and as 100,000; claims of SciFact, questions of SQuAD and
names of pages are queried by documents and by chunks, without vectors, lexical index or model.

Belongs here: timing the search from text to ranked rows with a decision. Does not belong here: answers, other indexes
(`speed`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from evals.bench.built import _choose, sentence_table
from evals.bench.keyword_generation import Absent, write_generation
from evals.bench.machine import load, machine
from evals.bench.real_text import DATA, read_sentences
from evals.bench.speed import queries
from evals.evaluation.bench import TENANT
from rag_assets.publishing.arrange import ORDER, with_shards
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.config.loading import parse_config
from rag_serving.config.models import Embedding
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.keyword_index import FILES
from rag_serving.models import Embedder, open_tokenizer
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.retrieval.hybrid import Mode
from rag_serving.retrieval.search import search_candidates
from rag_serving.retrieval.stages import SearchOptions

SIZES = (5183, 100_000)
MODES: tuple[Mode, ...] = ("keyword_documents", "keyword_chunks")
_ROUNDS = 3


def measure(size: int, folder: Path) -> dict[str, Any]:
    """Return sizes and times of an index of so many chunks."""
    table = _table(size)
    started = time.perf_counter()
    generation = write_generation(folder, table, TENANT)
    built = time.perf_counter() - started
    titles = sorted({title for title in table["title"].to_pylist() if title.isalpha()})[:50]
    asked = [*queries(), *(f"what is {title}" for title in titles), *titles]
    return {
        "chunks": len(table),
        "pages": len(set(table["page_id"].to_pylist())),
        "index_seconds": round(built, 2),
        "index_bytes": sum((folder / name).stat().st_size for name in FILES),
        "questions": len(asked),
        "latency_ms": {mode: _latency(generation, mode, asked) for mode in MODES},
        "load": load(),
    }


def _latency(generation: Generation, mode: Mode, asked: list[str]) -> dict[str, float]:
    """Return p50, p95 and the longest, of the first question, and p50 and p95 of the processor's time alone, in
    milliseconds: other load counts in the first, not in the last."""
    view = generation.for_reader(Principal(TENANT))
    config = parse_config({"tenants": {TENANT: {}}})
    options = SearchOptions(config.retrieval, mode, is_word=Words(Embedding()), keyword=config.keyword)
    times, worked = [], []
    for text in asked * _ROUNDS:
        started, began = time.perf_counter(), time.thread_time()
        search_candidates(view, cast(Embedder, Absent()), text, options)
        worked.append(1000 * (time.thread_time() - began))
        times.append(1000 * (time.perf_counter() - started))
    p50, p95, most = np.percentile(times[len(asked) :], [50, 95, 100]).round(2).tolist()
    cpu_p50, cpu_p95 = np.percentile(worked[len(asked) :], [50, 95]).round(2).tolist()
    return {"first": round(times[0], 1), "p50": p50, "p95": p95, "max": most, "cpu_p50": cpu_p50, "cpu_p95": cpu_p95}


def _table(size: int) -> pa.Table:
    """Return GENERATION_CHUNKS of real text."""
    chosen = _choose(read_sentences(), size)
    table, _ = sentence_table(chosen, size, open_tokenizer(Embedding()), lambda *_: None)
    return with_shards(table.sort_by(ORDER), size).cast(GENERATION_CHUNKS.arrow)


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.keyword", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="chunks")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"{DATA} has no real text", file=sys.stderr)
        return 1
    found = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory(prefix="citelock-keyword-") as folder:
            found.append(measure(size, Path(folder)))
    print(json.dumps({"machine": machine(), "sizes": found}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
