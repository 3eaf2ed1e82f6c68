"""docs/ablation.md, and the same as CSV and JSON: every stage of retrieval on and off, on three sets.

`python scripts/ablation.py --data ../shared/data --index FOLDER` reads contextual-retrieval, scifact and cwiki there.
FOLDER keeps indexes and vectors for the next time.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from pathlib import Path

from link_collection import main as write_links

from rag_serving.config import parse_config
from rag_serving.evaluation.ablation import VARIANTS, ablate
from rag_serving.evaluation.beir import Collection, read_collection
from rag_serving.evaluation.bench import Bench

DOCS = Path(__file__).parents[1] / "docs"
INTRODUCTION = """\
# Ablation

<!-- Made by scripts/ablation.py; do not edit. -->

What each stage of retrieval brings. Every row changes one thing of the defaults, or leaves only what it names; one set
of defaults for all three sets, with the embedded model and neither a cross-encoder nor a language model.

- **CR**: contextual-retrieval, 248 questions to 737 passages of 90 files of code; share of the right passages among the
  first 5, 10 and 20.
- **SciFact**: 300 test claims to 5,183 abstracts; nDCG among the first 10. Settings were chosen on the 809 training
  claims, CR and the links; the test claims were only measured.
- **Links**: 125 links of a real wiki, their own words and their target's title masked; share of the targets among the
  first 5 and 10 of 289 pages, a page standing where its best passage does.

One question of CR is worth 0.004, one of the links 0.008: smaller differences say nothing.

"""
CLOSING = """
What follows from it:

- Scores fused beat ranks fused on every set: ranks cannot tell that one index is certain and the other is not.
- The place of a passage is worth most as a field of its own for BM25 together with a prefix for the embedding model;
  enclosing definitions help where there is code and change nothing elsewhere.
- The best passage and the mean of a page help where a page is cut into many passages; SciFact has one passage a page.
  Each page's passages come closer together by it, which a list of passages shows. The page above helps in a wiki,
  whose pages stand in a tree, and changes nothing where there is none.
- MMR at 0.5 costs on every set: near-duplicates are dropped when the index is built, and what is like the best passage
  is more often right than wrong. Off.
- RM3 and neighbours win on one set what they lose on another, and RM3 doubles the lexical work: off.
- The keyword gate stands only before answers, not before searches: it costs where a question and its passage share few
  words, and `retrieval.min_keyword_overlap: 0` opens it.
- The cosine floor moves no figure here: it is for questions that nothing answers.
"""
COLUMNS = ("CR @5", "CR @10", "CR @20", "SciFact nDCG@10", "SciFact R@100", "Links @5", "Links @10")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=DOCS / "ablation.md")
    arguments = parser.parse_args()
    rows: dict[str, dict[str, float]] = {variant.name: {} for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        write_links(arguments.data / "cwiki", Path(folder))
        for name, path in (
            ("CR", arguments.data / "contextual-retrieval"),
            ("Links", Path(folder)),
            ("SciFact", arguments.data / "scifact"),
        ):
            measure(name, read_collection(path), arguments.index / name, rows)
    write(rows, arguments.out)


def measure(name: str, collection: Collection, home: Path, rows: dict[str, dict[str, float]]) -> None:
    """Fill in a set's columns, a line on standard output for each variant."""
    for variant, bench in ablate(collection, home, parse_config({})):
        rows[variant.name].update(figures(name, bench))
        print(name, variant.name, figures(name, bench), flush=True)


def figures(name: str, bench: Bench) -> dict[str, float]:
    """The columns of a set."""
    if name == "SciFact":
        return {"SciFact nDCG@10": bench.ndcg["10"], "SciFact R@100": bench.recall["100"]}
    cutoffs = ("5", "10", "20") if name == "CR" else ("5", "10")
    return {f"{name} @{k}": bench.recall[k] for k in cutoffs}


def write(rows: dict[str, dict[str, float]], path: Path) -> None:
    """The table as Markdown, CSV and JSON."""
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for name, values in rows.items():
        cells = [f"{values[column]:.3f}" for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    path.write_text(INTRODUCTION + "\n".join(lines) + "\n" + CLOSING, encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([["variant", *COLUMNS], *([name, *(row[c] for c in COLUMNS)] for name, row in rows.items())])


if __name__ == "__main__":
    main()
