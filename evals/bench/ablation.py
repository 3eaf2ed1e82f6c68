"""`python -m evals.bench.ablation`: docs/ablation.md (and as CSV and JSON): every stage of retrieval on and off.

Belongs here: columns, words, the files. Does not belong here: the sets (`sets`), the variants
(`rag_assets.evaluation.ablation`).
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from statistics import median

from evals.bench.real_text import DATA
from evals.bench.sets import judged_sets
from rag_assets.evaluation.ablation import VARIANTS, ablate
from rag_assets.evaluation.bench import Bench
from rag_serving.config.loading import parse_config

DOCS = Path(__file__).parents[2] / "docs"
INTRODUCTION = """\
# Ablation

<!-- Made by `make ablation`; do not edit. -->

The contribution of each stage of retrieval. Each row changes one thing in the defaults, or uses only what it names. All
sets use the same defaults, with the embedded model and neither a cross-encoder nor a language model.

- **CR**: contextual-retrieval, 248 questions to 737 passages of 90 files of code; share of the right passages among the
  first 5, 10 and 20.
- **SciFact**: 300 test claims to 5,183 abstracts; nDCG among the first 10. Settings were chosen on the 809 training
  claims, CR and the links; the test claims were only measured.
- **Links**: 125 links of a real wiki, their own words and their target's title masked; share of the targets among the
  first 5 and 10 of 289 pages, where a page has the rank of its best passage.
- **SQuAD**: 1,278 answerable questions to 294 paragraphs of 8 articles; nDCG among the first 10, share of the right
  paragraphs among the first 5.
- **ms**: median time of a query on SciFact without its embedding, measured one variant after the other.

One question of CR is worth 0.004, one of the links 0.008, one of SQuAD 0.001: smaller differences mean nothing.

"""
CLOSING = """
What follows from it:

- Fusing scores is better than fusing ranks on every set: ranks do not show that one index is certain and the other is
  not.
- The place of a passage helps most as a separate field for BM25 together with a prefix for the embedding model.
  Enclosing definitions help with code and change nothing elsewhere.
- The best passage and the mean of a page help if pages are cut into many passages; SciFact has one passage per page.
  They also bring the passages of a page closer together in the list of results. The page above helps in a wiki, whose
  pages form a tree, and changes nothing without a tree.
- MMR at 0.5 makes every set worse: near-duplicates are already dropped when the index is built, and a passage that is
  similar to the best one is more often right than wrong. It is off.
- RM3 and neighbours gain on one set what they lose on another, and RM3 doubles the lexical work. Both are off.
- The heuristic reranker improves SciFact, SQuAD and the first five of CR a little, loses one question of the links, and
  makes a query take half as long again. It is off, unless it replaces a sidecar that fails.
- Its gain on CR and SQuAD comes from proximity, that is, how close the query's words are to each other: without it CR
  @5 falls from .880 to .875 and SQuAD from .921 to .918. On SciFact (.756 to .755) the gain comes from which words
  occur.
- The keyword gate applies only to answers, not to searches. It loses passages that share few words with the question;
  `retrieval.min_keyword_overlap: 0` turns it off.
- The cosine floor hardly changes a figure here: it is for questions without an answer.
- Questions in float32 give no better results than in bytes, which take 0.7 of the model's time (the milliseconds above
  do not include the model).
"""
COLUMNS = {
    "contextual-retrieval": (("CR @5", "recall", "5"), ("CR @10", "recall", "10"), ("CR @20", "recall", "20")),
    "scifact": (("SciFact nDCG@10", "ndcg", "10"), ("SciFact R@100", "recall", "100")),
    "cwiki-links": (("Links @5", "recall", "5"), ("Links @10", "recall", "10")),
    "squad2-dev-8-articles": (("SQuAD nDCG@10", "ndcg", "10"), ("SQuAD @5", "recall", "5")),
}
TIMED = "scifact"  # the largest
MS = "ms"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.ablation", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--index", type=Path, required=True, help="where indexes and vectors are kept")
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args()
    rows: dict[str, dict[str, float]] = {variant.name: {} for variant in VARIANTS}
    for judged in judged_sets(arguments.data):
        for variant, bench in ablate(judged.read(), arguments.index / judged.name, parse_config({})):
            rows[variant.name] |= figures(judged.name, bench)
            print(judged.name, variant.name, figures(judged.name, bench), flush=True)
    write(rows, arguments.docs / "ablation.md")


def figures(name: str, bench: Bench) -> dict[str, float]:
    """Return the columns of a set, by their heads."""
    columns = COLUMNS.get(name, ((f"{name} nDCG@10", "ndcg", "10"), (f"{name} @10", "recall", "10")))
    found: dict[str, float] = {head: getattr(bench, metric)[cutoff] for head, metric, cutoff in columns}
    return found | ({MS: round(median(bench.run.search_ms), 1)} if name == TIMED else {})


def write(rows: dict[str, dict[str, float]], path: Path) -> None:
    """The table as Markdown, CSV and JSON."""
    heads = list(next(iter(rows.values())))
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    for name, values in rows.items():
        cells = [f"{values[head]:.1f}" if head == MS else f"{values[head]:.3f}" for head in heads]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    path.write_text(INTRODUCTION + "\n".join(lines) + "\n" + CLOSING, encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    with path.with_suffix(".csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([["variant", *heads], *([name, *(row[head] for head in heads)] for name, row in rows.items())])


if __name__ == "__main__":
    main()
