"""`python -m evals.bench.ablation`: every stage of retrieval on and off, as CSV and in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from evals.bench.corpora import DATA, judged_sets
from evals.bench.report import empty_page, markdown, with_tables
from evals.evaluation.ablation import VARIANTS, ablate
from evals.evaluation.bench import Bench
from rag_serving.artifacts.store import write_text
from rag_serving.config.loading import parse_config

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = {
    "contextual-retrieval": (("CR @5", "recall", "5"), ("CR @10", "recall", "10"), ("CR @20", "recall", "20")),
    "scifact": (("SciFact nDCG@10", "ndcg", "10"), ("SciFact R@100", "recall", "100")),
    "cwiki-links": (("Links @5", "recall", "5"), ("Links @10", "recall", "10")),
    "squad2-dev-8-articles": (("SQuAD nDCG@10", "ndcg", "10"), ("SQuAD @5", "recall", "5")),
}
TIMED = "scifact"  # the largest
MS = "ms"
ON_THE_PAGE = ("CR @10", "Links @10", "SciFact nDCG@10", "SQuAD nDCG@10", MS)


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
    write(rows, arguments.docs)


def figures(name: str, bench: Bench) -> dict[str, float]:
    """Return the columns of a set, by their heads."""
    columns = COLUMNS.get(name, ((f"{name} nDCG@10", "ndcg", "10"), (f"{name} @10", "recall", "10")))
    found: dict[str, float] = {head: getattr(bench, metric)[cutoff] for head, metric, cutoff in columns}
    return found | ({MS: round(median(bench.run.search_ms), 1)} if name == TIMED else {})


def write(rows: dict[str, dict[str, float]], docs: Path) -> None:
    """Write the table as CSV, and some of its columns into benchmarks.md."""
    page, heads = docs / "benchmarks.md", list(next(iter(rows.values())))
    text = page.read_text(encoding="utf-8") if page.exists() else empty_page()
    write_text(page, with_tables(text, {"ablation": markdown(_table(rows))}))
    with (docs / "ablation.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([["variant", *heads], *([name, *(row[head] for head in heads)] for name, row in rows.items())])


def _table(rows: Mapping[str, Mapping[str, float | None]]) -> Iterator[Sequence[str]]:
    yield ("", *ON_THE_PAGE)
    for name, values in rows.items():
        figures = {head: values.get(head) for head in ON_THE_PAGE}
        yield (
            name,
            *("" if value is None else f"{value:.{1 if head == MS else 3}f}" for head, value in figures.items()),
        )


if __name__ == "__main__":
    main()
