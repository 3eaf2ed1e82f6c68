"""Draw what answering more, or less, costs: the curve of `citelock evaluate FILE --calibrate --json` as a picture.

`citelock evaluate FILE --calibrate --json | python scripts/draw_tradeoff.py docs/images/answers-tradeoff.png`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PERCENT = "{x:.0%}"
_FEWEST = 0.02  # below this share of questions answered the curve is noise
_BESIDE = {"answerability": (-0.012, -0.05)}  # where another line crosses
LINES = {
    "citation_precision": "citation of the right page, of those answered",
    "sentence_precision": "answer in the cited sentence, of those answered that have one",
    "answerability": "answered or declined rightly, of all",
    "not_found_recall": "declined, of those without an answer",
}


def main() -> None:
    target = Path(sys.argv[1])
    draw(json.load(sys.stdin), target)
    print(target)


def draw(found: dict[str, Any], target: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    measured, gates = found["measured"], found["gates"]
    share = measured["answered"] / measured["questions"]
    curve = [point for point in found["curve"] if point["answered"] > _FEWEST]
    chosen = min(curve, key=lambda point: abs(point["answered"] - share))
    figure, axes = plt.subplots(figsize=(8, 5.6), dpi=120, facecolor="white")
    for name, label in LINES.items():
        line = axes.plot([point["answered"] for point in curve], [point[name] for point in curve], label=label)[0]
        axes.plot(chosen["answered"], chosen[name], "o", color=line.get_color())
        right, up = _BESIDE.get(name, (0.012, 0.015))
        place = (chosen["answered"] + right, chosen[name] + up)
        side = "left" if right > 0 else "right"
        axes.annotate(f"{chosen[name]:.0%}", place, color=line.get_color(), fontsize=9, ha=side)
    chosen_line = f"chosen on other articles: confidence ≥ {gates['min_confidence']:.2f}"
    axes.axvline(chosen["answered"], color="gray", linestyle=":", label=chosen_line)
    axes.set(xlabel="share of questions answered", ylabel="share", ylim=(0, 1.04), xlim=(0, 1))
    axes.xaxis.set_major_formatter(PERCENT)
    axes.yaxis.set_major_formatter(PERCENT)
    axes.set_title(f"The more is answered, the more is wrong ({measured['questions']} questions)")
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=2, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    figure.savefig(target)
    plt.close(figure)


if __name__ == "__main__":
    main()
