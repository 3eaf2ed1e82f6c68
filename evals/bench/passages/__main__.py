"""`python -m evals.bench.passages`: how long passages are, and what merging short sections would bring.

Belongs here: arguments, which rules and questions, passages.json and its tables of benchmarks.md.
Does not belong here: measuring (`measure`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evals.bench.machine import machine
from evals.bench.passages.corpora import Corpus, read_corpora
from evals.bench.passages.measure import OF_ANSWERS, OF_SEARCH, Measured, PassageBench, differences
from evals.bench.passages.merged import Rule
from evals.bench.passages.questions import Questions, of_gold, of_heading_links, of_page_links, of_squad
from evals.bench.real_text import DATA
from evals.bench.report import markdown, with_tables
from evals.evaluation.ablation import Remembering
from evals.evaluation.cli.bench import Progress
from rag_serving.artifacts.store import write_json, write_text
from rag_serving.config.models import Embedding
from rag_serving.models import open_embedder, open_tokenizer

RULES = (
    Rule("apart"),
    Rule("up to 100 tokens", 100),
    Rule("up to 175 tokens", 175),
    Rule("up to 250 tokens", 250),
    Rule("up to 250, headings in the prefix", 250, headings="above"),
    Rule("up to 250, with the parent's own text", 250, parent=True),
)
ON_THE_PAGE = ("apart", "up to 250 tokens")  # the others are in passages.json alone
PERCENTILES = (10, 25, 50, 75, 90)
ANSWERED = {"squad2": 4}  # every n-th question is answered; of other sets every one
SETS = ("sample", "cwiki", "kafka-docs", "rust-book", "squad2")  # in the order of the tables
_SQUAD = Path("squad2") / "dev-8-articles.json"


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; sets that were measured before and are not asked for stay as they were."""
    options = _options(arguments)
    path = options.docs / "passages.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    corpora = {corpus.name: corpus for corpus in read_corpora(options.data)}
    results["lengths"] = {name: lengths(corpus) for name, corpus in corpora.items()}
    _write(results, options.docs)
    tokenizer, embedder = open_tokenizer(Embedding()), Remembering(open_embedder(Embedding()))
    for questions in _questions(corpora, options.data):
        if questions.name in (options.sets or [questions.name]):
            bench = PassageBench(options.cache / questions.name, embedder, tokenizer, Progress())
            every = ANSWERED.get(questions.name, 1)
            measured = [bench.measure(questions, rule, every) for rule in _rules(questions)]
            results.setdefault("merging", {})[questions.name] = {
                "machine": machine(),
                "questions": len(questions.texts),
                "judged": "pages" if questions.of_pages else "sections",
                "rules": [_payload(each, measured[0]) for each in measured],
            }
            _write(results, options.docs)
            print(f"bench: {questions.name} measured", file=sys.stderr, flush=True)
    return 0


def lengths(corpus: Corpus) -> dict[str, Any]:
    """Return how many tokens the passages of a corpus have."""
    tokens = np.array(corpus.chunks["token_count"].to_pylist())
    return {
        "sections": len(set(corpus.chunks["section_id"].to_pylist())),
        "passages": len(tokens),
        "percentiles": {str(part): int(np.percentile(tokens, part)) for part in PERCENTILES},
        "below_120": round(float((tokens < 120).mean()), 3),
        "from_200_to_300": round(float(((tokens >= 200) & (tokens <= 300)).mean()), 3),
        "above_320": round(float((tokens > 320).mean()), 3),
    }


def _questions(corpora: Mapping[str, Corpus], data: Path) -> Iterator[Questions]:
    yield of_gold(corpora["sample"])
    if "cwiki" in corpora:
        yield of_page_links(corpora["cwiki"], data / "cwiki")
    for name in ("kafka-docs", "rust-book"):
        if name in corpora:
            yield of_heading_links(corpora[name])
    if (data / _SQUAD).is_file():
        yield of_squad(data / _SQUAD, open_tokenizer(Embedding()))


def _rules(questions: Questions) -> Iterator[Rule]:
    """Yield the rules that differ: where there are no headings, it does not matter where they stand."""
    for rule in RULES:
        if len(questions.corpus.sections) or (rule.headings == "inline" and not rule.parent):
            yield rule


def _payload(measured: Measured, apart: Measured) -> dict[str, Any]:
    means = {name: round(fmean(values.values()), 4) for name, values in measured.values.items() if values}
    return {
        "rule": measured.rule.name,
        "passages": measured.passages,
        "merged": measured.merged,
        "median_tokens": measured.median_tokens,
        "tokens_read": round(measured.tokens_read),
        "means": means,
        "differences": {} if measured is apart else differences(apart.values, measured.values),
    }


def _write(results: Mapping[str, Any], docs: Path) -> None:
    write_json(docs / "passages.json", results)
    page, made = docs / "benchmarks.md", tables(results)
    empty = "".join(f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in made)
    write_text(page, with_tables(page.read_text(encoding="utf-8") if page.exists() else empty, made))


def tables(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of passages by name."""
    sets = results.get("merging", {})
    return {
        "lengths": markdown(_lengths(results["lengths"])),
        "search": markdown(_rows(sets, answers=False)),
        "answers": markdown(_rows(sets, answers=True)),
    }


def _lengths(corpora: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    heads = ("median" if part == 50 else f"{part} %" for part in PERCENTILES)
    yield ("pages", "passages", "sections", *heads, "below 120", "200 to 300", "above 320")
    for name, found in _in_order(corpora):
        shares = (f"{found[key]:.0%}" for key in ("below_120", "from_200_to_300", "above_320"))
        counts = (f"{found[key]:,}" for key in ("passages", "sections"))
        yield (name, *counts, *map(str, found["percentiles"].values()), *shares)


def _rows(sets: Mapping[str, Any], *, answers: bool) -> Iterator[Sequence[str]]:
    """Yield a row for each set and rule: means of the first rule, of the others what differs from it."""
    names = OF_ANSWERS if answers else OF_SEARCH
    heads = [name.replace("_", " ") for name in names]
    yield ("questions", "sections", *(() if answers else ("passages", "median", "read")), *heads)
    for name, found in _in_order(sets):
        about = f"{name}, {found['questions']:,} of {found['judged']}" if not answers else name
        for rule in (rule for rule in found["rules"] if rule["rule"] in ON_THE_PAGE):
            if not answers or any(measure in rule["means"] for measure in names):
                sizes = (f"{rule['passages']:,}", f"{rule['median_tokens']:.0f}", f"{rule['tokens_read']:,}")
                yield (about, rule["rule"], *(() if answers else sizes), *_cells(rule, names))
                about = ""


def _in_order(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, found[name]) for name in SETS if name in found)


def _cells(rule: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        change = rule["differences"].get(name)
        mean = rule["means"].get(name)
        if change and change["mean"]:
            yield f"{change['mean']:+.3f} [{change['low']:+.3f}, {change['high']:+.3f}]"
        else:
            yield "" if mean is None else "same" if change else f"{mean:.3f}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.passages", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="where the real pages and judged sets are")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench-passages"), help="where vectors are kept")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of benchmarks.md and passages.json")
    parser.add_argument(
        "--sets", nargs="*", help="questions to ask; default: all. `--sets none` measures lengths alone"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
