"""Results of benchmarks as plots: what a query takes, what the parts and the floors take; a database beside disk.

Belongs here: drawing. Does not belong here: measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BARS = {
    "total": "hybrid query",
    "without_embedding": "without the embedding",
    "stage_dense": "dense stage",
    "stage_lexical": "BM25 stage",
    "floor_model": "floor: model alone",
    "floor_exact": "floor: exact search alone",
    "floor_bm25s": "floor: bm25s alone",
}
TARGET_MS = 60


def plot(results: Mapping[str, Any], path: Path) -> None:
    """Write p50 as bars with p95 as whiskers, a panel for each size, under the name's format (.svg, .png)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = results["speed"]
    figure, axes = pyplot.subplots(1, len(runs), figsize=(5.2 * len(runs), 3.2), sharey=True, squeeze=False)
    for axis, run in zip(axes[0], runs, strict=True):
        figures = [run["latency_ms"][name] for name in _BARS]
        middles = [figure["p50"] for figure in figures]
        above = [figure["p95"] - figure["p50"] for figure in figures]
        colours = ["#3b6ea5"] * 2 + ["#8fb3d9"] * 2 + ["#b0b0b0"] * 3
        axis.barh(range(len(_BARS)), middles, xerr=[[0] * len(above), above], color=colours, ecolor="#555555")
        axis.set_yticks(range(len(_BARS)), labels=list(_BARS.values()))
        axis.set_title(f"{run['chunks']:,} chunks")
        axis.set_xlabel("ms: p50, whisker p95")
    axes[0][0].invert_yaxis()  # of all panels: they share it
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def plot_readers(found: Mapping[str, Any], path: Path) -> None:
    """Write what `evals.bench.postgres` found: p95 of each reader in the database beside that on disk."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    readers: Mapping[str, Any] = found["readers"]
    figure, axis = pyplot.subplots(figsize=(7, 3.2))
    for side, (name, label, colour) in enumerate(
        (("database_ms", "PostgreSQL", "#3b6ea5"), ("disk_ms", "disk", "#b0b0b0"))
    ):
        places = [number + 0.38 * side for number in range(len(readers))]
        bars = axis.barh(places, [each[name]["p95"] for each in readers.values()], 0.36, label=label, color=colour)
        axis.bar_label(bars, padding=3)
    axis.axvline(TARGET_MS, color="#555555", linestyle=":", label=f"{TARGET_MS} ms")
    names = [f"{name}\n{each['chunks']:,} chunks" for name, each in readers.items()]
    axis.set_yticks([number + 0.19 for number in range(len(readers))], labels=names)
    axis.invert_yaxis()
    axis.set_xlabel(f"ms: p95 of a question's reads, two clients at once, {found['chunks']:,} chunks")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
