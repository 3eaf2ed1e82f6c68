"""`citelock bench`: arguments and printing."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rag_serving.cli.options import AsJson, ConfigPath
from rag_serving.config.loading import ConfigError, load_or_default
from rag_serving.privacy import complain
from rag_serving.retrieval.hybrid import Mode

if TYPE_CHECKING:
    from evals.evaluation.bench import Bench

_SECONDS_BETWEEN_LINES = 5.0
Layout = Literal["beir", "enterpriserag"]


def command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder in BEIR layout, or in that of --layout.")],
    config: ConfigPath = None,
    mode: Annotated[Mode, typer.Option("--mode", help="Which indexes answer.")] = "hybrid",
    split: Annotated[str, typer.Option("--split", help="Judgements of qrels/SPLIT.tsv.")] = "test",
    index: Annotated[
        Path | None, typer.Option("--index", help="Keep the index in this folder, and use again what it has.")
    ] = None,
    run_file: Annotated[
        Path | None, typer.Option("--run-file", help="Write the rankings as a TREC run; of enterpriserag the answers.")
    ] = None,
    layout: Annotated[
        Layout, typer.Option("--layout", help="What the folder is; enterpriserag is asked, too.")
    ] = "beir",
    as_json: AsJson = False,
) -> None:
    """Measure retrieval on any folder in BEIR layout, or answers on EnterpriseRAG-Bench, with the code that answers."""
    from evals.evaluation.beir import check_run_path, read_collection, write_run
    from evals.evaluation.bench import run_bench

    with _errors(), kept(index) as home:
        settings = load_or_default(config)
        if run_file:
            check_run_path(run_file)
        if layout == "enterpriserag":
            from evals.evaluation.enterpriserag import run_enterprise

            figures = run_enterprise(directory, home, settings, BenchProgress(), run_file)
            typer.echo(json.dumps(figures) if as_json else _by_kind(figures))
            return
        bench = run_bench(read_collection(directory, split), home, settings, mode, BenchProgress())
        if run_file:
            write_run(run_file, bench.run.rankings)
    typer.echo(json.dumps(bench.payload()) if as_json else _table(bench))


def _by_kind(figures: Mapping[str, Mapping[str, float | None]]) -> str:
    heads = ("kind", *next(iter(figures.values())))
    rows = [heads, ("---", *["---:"] * (len(heads) - 1))]
    rows += [
        (kind, *("" if value is None else f"{value:g}" for value in row.values())) for kind, row in figures.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


class BenchProgress:
    """Lines on standard error, at most one in five seconds for each kind of work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what = ""
        self._started = self._told = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """`done` of `total` pieces of the work `what` are finished."""
        now = self._clock()
        if what != self._what:
            self._what, self._started, self._told = what, now, now
        if now - self._told < _SECONDS_BETWEEN_LINES:
            return
        self._told = now
        left = (now - self._started) / done * (total - done) if done else 0
        print(f"citelock: {done} of {total} {what}, about {left:.0f} s left", file=sys.stderr, flush=True)


def _table(bench: Bench) -> str:
    figures = bench.payload()
    lines = [f"{figures['queries']} queries, {figures['documents']} documents, {figures['mode']}"]
    for name, values in (("recall", figures["recall"]), ("nDCG", figures["ndcg"]), ("MRR", figures["mrr"])):
        lines += [f"{f'{name}@{k}':<12}{value:.4f}" for k, value in values.items()]
    for name, key in (("latency", "latency_ms"), ("  without embedding", "latency_without_embedding_ms")):
        lines.append(f"{name:<20}p50 {figures[key]['p50']:.1f} ms, p95 {figures[key]['p95']:.1f} ms")
    lines.append(f"indexed in {figures['index_seconds']:.1f} s")
    lines.append(f"embedded {figures['texts_embedded']} texts in {figures['embed_seconds']:.1f} s")
    return "\n".join(lines)


@contextmanager
def kept(index: Path | None) -> Iterator[Path]:
    """Yield the folder, or a temporary one."""
    if index is not None:
        yield index
        return
    with tempfile.TemporaryDirectory(prefix="citelock-bench-") as folder:
        yield Path(folder)


@contextmanager
def _errors() -> Iterator[None]:
    """Known errors in one line on standard error: 2 for the configuration, 1 for the rest."""
    from evals.evaluation.beir import BeirError
    from evals.evaluation.bench import BenchError
    from rag_assets.publishing.arrange import BuildError
    from rag_serving.artifacts.store import StoreError
    from rag_serving.indexes.chroma import DenseError
    from rag_serving.models import ModelError
    from rag_serving.retrieval.hybrid import RetrievalError

    try:
        yield
    except (
        BeirError,
        BenchError,
        BuildError,
        ConfigError,
        DenseError,
        ModelError,
        RetrievalError,
        StoreError,
    ) as error:
        complain(str(error))
        raise typer.Exit(2 if isinstance(error, ConfigError) else 1) from None
