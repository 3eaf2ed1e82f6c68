"""Measurements as documents: benchmarks.json, and the tables of benchmarks.md made from it."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rag_serving.artifacts.store import read_json, write_json, write_text
from rag_serving.deadline import cores

_LIBRARIES = ("bm25s", "chromadb", "numpy", "onnxruntime", "pyarrow", "tokenizers")


def machine() -> dict[str, Any]:
    """Return the facts, as JSON."""
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_before": load(),
        "python": platform.python_version(),
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def load() -> float:
    """Processes that wanted to run, over the last minute."""
    return round(os.getloadavg()[0], 2)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


Results = Mapping[str, Any]
RANKINGS = {
    "hybrid": "**Citelock**",
    "floor_fused": "floor: both below, ranks fused",
    "floor_dense": "floor: the model, exact search",
    "floor_bm25s": "floor: bm25s",
}
PLACES = ("machine", "quality", "speed", "ablation")
TIMES = {
    "total": "hybrid query",
    "without_embedding": "without the embedding",
    "stage_dense": "dense stage",
    "stage_lexical": "BM25 stage",
    "stage_fuse": "fusion, evidence, decoding",
    "floor_model": "floor: the model alone",
    "floor_exact": "floor: exact search by numpy alone",
    "floor_bm25s": "floor: bm25s alone",
}
SERVING = {
    "open_s": ("opening, fresh process", "s"),
    "open_again_s": ("opening again", "s"),
    "first_question_s": ("first question of a fresh process, model included", "s"),
    "rss_mb": ("resident memory after 220 questions", "MB"),
    "rss_without_files_mb": ("of it not backed by files", "MB"),
}


def write_report(results: Results, docs: Path) -> None:
    """Write benchmarks.json and the tables of benchmarks.md into a folder."""
    write_json(docs / "benchmarks.json", results)
    page = docs / "benchmarks.md"
    text = page.read_text(encoding="utf-8") if page.exists() else empty_page()
    write_text(page, with_tables(text, tables(results)))


def write_indexing(chunks: int, report: Results, docs: Path) -> None:
    """Add the cost of indexing so many chunks to benchmarks-indexing.json, and put the table of all sizes into
    scale.md."""
    path, page = docs / "benchmarks-indexing.json", docs / "scale.md"
    known = read_json(path) if path.exists() else {}
    write_json(path, {**known, str(chunks): report})
    table = markdown(_indexing({**known, str(chunks): report}))
    write_text(page, with_tables(page.read_text(encoding="utf-8"), {"indexing": table}))


def _indexing(reports: Mapping[str, Results]) -> Iterator[Sequence[str]]:
    sizes = sorted(reports, key=int)
    yield ("", *(f"{int(size):,} chunks, {kind}" for size in sizes for kind in ("all", "1 % of pages changed")))
    builds = [reports[size][kind] for size in sizes for kind in ("first", "changed")]
    yield ("wall", *(f"{found['seconds']:.1f} s" for found in builds))
    yield ("of it checks", *(f"{found['check_s']:.1f} s" for found in builds))
    yield ("processor time", *(f"{found['processor_s']:.1f} s" for found in builds))
    yield ("peak resident memory", *(f"{found['resident_mb']:,.0f} MB" for found in builds))
    yield ("peak memory that no file backs", *(f"{found['without_files_mb']:,.0f} MB" for found in builds))
    yield ("generation on disk", *(f"{found['disk_mb']:,.0f} MB" for found in builds))
    yield ("recall@10 against exact search", *(f"{found['ann_recall']:.4f}" for found in builds))
    loads = (
        f"{facts['load_before']:.1f} / {facts['load_after']:.1f}"
        for size in sizes
        for facts in 2 * [reports[size]["machine"]]
    )
    yield ("load before / after", *loads)


def empty_page() -> str:
    """Return a page with nothing but the places of the tables."""
    return "".join(f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in PLACES)


def with_tables(page: str, made: Mapping[str, str]) -> str:
    """Return the page with the parts between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced."""
    for name, table in made.items():
        place = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->\n)", re.DOTALL)
        page = place.sub(lambda found, table=table: f"{found[1]}{table}{found[2]}", page)  # type: ignore[misc]
    return page


def tables(results: Results) -> dict[str, str]:
    """Return the parts of the page by name."""
    return {
        "machine": _machine(results["machine"]),
        "quality": markdown(_quality(results["quality"])),
        "speed": markdown(_speed(results["speed"])),
    }


def _machine(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['when']}, {facts['cores']} cores of {facts['processor']}, {facts['memory_gib']} GiB; load "
        f"{facts['load_before']:.1f} before, {facts['load_after']:.1f} after {facts['seconds']} s. "
        f"{facts['system']}, Python {facts['python']}, {versions}.\n"
    )


def _quality(sets: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield ("set", "ranking", "R@5", "R@10", "R@20", "R@100", "nDCG@10", "MRR@10", "p50 ms", "without embedding")
    for name, found in sets.items():
        about = f"{name}: {found['queries']:,} queries, {found['documents']:,} passages"
        if found["judged"] == "pages":
            about += ", pages judged"
        for ranking, label in RANKINGS.items():
            figures = found["rankings"][ranking]
            yield (
                about,
                label,
                *(_share(figures["recall"][k]) for k in ("5", "10", "20", "100")),
                _share(figures["ndcg"]["10"]),
                _share(figures["mrr"]["10"]),
                f"{figures['latency_ms']['p50']:.1f}",
                f"{figures['latency_without_embedding_ms']['p50']:.1f}",
            )
            about = ""


def _speed(runs: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    yield ("", *(f"{run['chunks']:,} chunks" for run in runs))
    for name, label in TIMES.items():
        figures = [run["latency_ms"].get(name) for run in runs]
        yield (f"{label}, p50 / p95", *(f"{ms['p50']:.1f} / {ms['p95']:.1f} ms" if ms else "" for ms in figures))
    yield ("one caller in the process", *(_rate(run["throughput_per_s"]) for run in runs))
    yield ("eight callers in the process", *(_clients(run["throughput_per_s"]) for run in runs))
    for workers in runs[0].get("over_http_per_s", ()) if runs else ():
        found = [run["over_http_per_s"][workers] for run in runs]
        yield (f"`citelock serve --workers {workers}`, one client", *map(_rate, found))
        yield (f"`citelock serve --workers {workers}`, eight clients", *map(_clients, found))
    if all("recall_at_80" in run for run in runs):
        yield ("recall@80 of the dense stage", *(f"{run['recall_at_80']['serving']:.4f}" for run in runs))
        yield ("recall@80 of Chroma's graphs alone", *(_chroma(run["recall_at_80"]) for run in runs))
    for name, (label, unit) in SERVING.items():
        digits = 0 if unit == "MB" else 2
        yield (label, *(f"{run['serving'][name]:.{digits}f} {unit}" for run in runs))
    yield ("indexing and publishing, vectors given", *(f"{run['seconds']['index_and_publish']:.0f} s" for run in runs))
    indexed = [run.get("indexing", {}) for run in runs]
    if all(indexed):
        yield ("processor time of it", *(f"{found['processor_s']:.0f} s" for found in indexed))
        yield ("most resident memory of it", *(f"{found['resident_mb']:.0f} MB" for found in indexed))
        yield ("of it not backed by files", *(f"{found['without_files_mb']:.0f} MB" for found in indexed))
    yield ("on disk", *(f"{sum(run['bytes'].values()) / 1e6:.0f} MB" for run in runs))


def _rate(rates: Mapping[str, float]) -> str:
    return f"{rates['1_client']:.0f} queries/s"


def _clients(rates: Mapping[str, float]) -> str:
    return f"{rates['8_clients']:.0f} queries/s, {rates['ratio']:.2f} times"


def _chroma(shares: Mapping[str, Any]) -> str:
    found = shares["chroma"]
    return f"{found:.4f} in {shares['chroma_ms']:.1f} ms" if isinstance(found, float) else str(found)


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"


def markdown(rows: Iterator[Sequence[str]]) -> str:
    """Return a table; the first row is its head."""
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([lines[0], f"|{' --- |' * (lines[0].count(' | ') + 1)}\n", *lines[1:]])
