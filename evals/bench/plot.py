"""The benchmark's results as one plot: what a query takes, and what the parts and the floors take.

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
