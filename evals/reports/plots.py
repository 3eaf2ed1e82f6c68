"""Plots: PNG as base64, for an asset's page and for HTML reports."""

from __future__ import annotations

import base64
import io
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#4f7cac", "#c8802f", "#7a9e7e", "#b56576")
MOST_BARS = 20
_KEPT = 64

Drawn = ParamSpec("Drawn")


def _once(draw: Callable[Drawn, str]) -> Callable[Drawn, str]:
    """Keep the last pictures of a process: a small edit changes few numbers, and drawing takes a third of a second."""
    kept: OrderedDict[str, str] = OrderedDict()

    @wraps(draw)
    def drawn(*arguments: Drawn.args, **named: Drawn.kwargs) -> str:
        key = repr((arguments, named))
        if key not in kept:
            kept[key] = draw(*arguments, **named)
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return kept[key]

    return drawn


@_once
def histogram(values: Sequence[float], title: str, xlabel: str) -> str:
    """Return how often which values are there."""
    figure, axes = _axes(2.6)
    axes.hist(values, bins=min(40, max(len(set(values)), 1)), color=COLORS[0])
    axes.set(title=title, xlabel=xlabel, ylabel="count")
    return _png(figure)


@_once
def stacked_bars(values: Mapping[str, Sequence[float]], parts: Sequence[str], title: str, xlabel: str) -> str:
    """Return a bar for each name, stacked of its parts; the longest bars of many."""
    names = sorted(sorted(values, key=lambda name: sum(values[name]))[-MOST_BARS:], reverse=True)
    figure, axes = _axes(1.2 + 0.28 * len(names))
    left = [0.0] * len(names)
    for place, (part, color) in enumerate(zip(parts, COLORS, strict=False)):
        widths = [values[name][place] for name in names]
        axes.barh(names, widths, left=left, label=part.replace("_", " "), color=color)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set(title=title, xlabel=xlabel)
    _legend(figure, len(parts))
    return _png(figure)


@_once
def bars(values: Mapping[str, Sequence[float]], parts: Sequence[str], title: str, xlabel: str) -> str:
    """Draw for each name a bar for each of its parts, side by side, in the given order; each bar has its number."""
    names = list(values)[:MOST_BARS]
    thickness = 0.8 / max(len(parts), 1)
    figure, axes = _axes(1.2 + (0.16 + 0.18 * len(parts)) * len(names))
    for place, (part, color) in enumerate(zip(parts, COLORS, strict=False)):
        places = [row + thickness * (place - (len(parts) - 1) / 2) for row in range(len(names))]
        drawn = axes.barh(
            places, [values[name][place] for name in names], height=thickness * 0.9, label=part, color=color
        )
        axes.bar_label(drawn, fmt="{:,.4g}", padding=3, fontsize="small")
    axes.set(title=title, xlabel=xlabel)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.18, y=0.02)  # room for the numbers on both sides
    if all(float(value).is_integer() for name in names for value in values[name]):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if len(parts) > 1:
        _legend(figure, len(parts))
    return _png(figure)


@_once
def lines(values: Mapping[str, Sequence[float | None]], places: Sequence[str], title: str, ylabel: str) -> str:
    """Return a line for each name through its values at the places, the oldest first; None leaves a gap."""
    figure, axes = _axes(3.2)
    for name, color in zip(values, COLORS, strict=False):
        drawn = [float("nan") if value is None else value for value in values[name]]
        axes.plot(range(len(places)), drawn, marker="o", markersize=4, color=color, label=name)
    axes.set(title=title, ylabel=ylabel)
    axes.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize="small")
    axes.grid(axis="y", alpha=0.3)
    _legend(figure, len(values))
    return _png(figure)


def _axes(height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, height), dpi=110)
    figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.12)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Figure, columns: int) -> None:
    """Outside of the axes: inside it would lie on a bar."""
    figure.legend(fontsize="small", frameon=False, loc="outside lower right", ncols=columns)


def _png(figure: Figure) -> str:
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return base64.b64encode(picture.getvalue()).decode()
