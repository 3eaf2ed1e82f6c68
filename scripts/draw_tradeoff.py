"""Draw what answering more, or less, costs: the curve of `citelock evaluate FILE --calibrate --json` as a picture.

`citelock evaluate FILE --calibrate --json | python scripts/draw_tradeoff.py docs/images/answers-tradeoff.png`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

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

    curve = [point for point in found["curve"] if point["answered"] > 0.02]
    figure, axes = plt.subplots(figsize=(8, 5), dpi=120)
    for name, label in LINES.items():
        axes.plot([point["answered"] for point in curve], [point[name] for point in curve], label=label)
    measured = found["measured"]
    share = measured["answered"] / measured["questions"]
    axes.axvline(share, color="gray", linestyle=":", label=f"chosen: confidence ≥ {found['gates']['min_confidence']}")
    axes.set(xlabel="share of questions answered", ylabel="share", ylim=(0, 1.02), xlim=(0, 1))
    axes.set_title("The more is answered, the more is wrong")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


if __name__ == "__main__":
    main()
