"""`python -m evals.bench.passages`: the length of passages, and the gain from merging short sections.

Belongs here: one rule measured with one set of questions, paired differences, passages.json and its tables of
benchmarks.md. Does not belong here: the rules (`corpora`), the questions (`questions`).

A section counts as found if its passage is; a passage with several sections is longer, so a second measure is whether
the right section is within the first thousand tokens. An answer quotes one section: a locked passage is split again,
each section with its own heading and link.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from evals.bench.machine import machine
from evals.bench.passages.corpora import MergedPassages, PassageCorpus, Row, Rule, merge, read_corpora
from evals.bench.passages.questions import Questions, of_gold, of_heading_links, of_page_links, of_squad
from evals.bench.real_text import DATA
from evals.bench.report import markdown, with_tables
from evals.evaluation.ablation import Remembering
from evals.evaluation.bench import TENANT
from evals.evaluation.cli.bench import BenchProgress
from evals.evaluation.evaluate import evaluate
from evals.evaluation.gold import GoldSet
from evals.evaluation.measures import of_answers
from evals.evaluation.metrics import bootstrap_interval, paired_p_value
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages
from rag_assets.state.content_cache import VectorCache
from rag_serving.artifacts.store import Store, write_json, write_text
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.config.models import Embedding
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.view import GenerationView
from rag_serving.models import open_embedder, open_input_limit, open_tokenizer
from rag_serving.models.embedding.vocabulary import Words
from rag_serving.models.protocols import Tokenizer
from rag_serving.records.passages import Candidate
from rag_serving.retrieval.search import Search, search_candidates
from rag_serving.retrieval.stages import SearchOptions

Values = dict[str, dict[str, float]]  # by measure and question id
Report = Callable[[str, int, int], None]

READ = 8  # passages that an answer reads: `retrieval.final_passages`
TOKENS = (1000, 2000)
_DEPTH = 100
_MOST_SECTIONS = 50
OF_SEARCH = ("first 5", "first 10", "MRR@10", *(f"within {tokens:,} tokens" for tokens in TOKENS))
OF_ANSWERS = ("citation_precision", "citation_recall", "sentence_precision", "answerability")


@dataclass(frozen=True)
class Measured:
    """One rule: the number and length of its passages, and every measure's values."""

    rule: Rule
    passages: int
    merged: int
    median_tokens: float
    tokens_read: float  # of the first passages, on average
    values: Values


class PassageBench:
    """A folder with vectors and indexes, and the model that texts are embedded with, each once."""

    def __init__(self, home: Path, embedder: Remembering, tokenizer: Tokenizer, report: Report) -> None:
        self.config = parse_config({"home": str(home), "tenants": {TENANT: {}}, "retrieval": {"final_passages": READ}})
        self._store, self._embedder, self._tokenizer, self._report = Store(home), embedder, tokenizer, report

    def measure(self, questions: Questions, rule: Rule, every: int = 1) -> Measured:
        """Return the results of the questions on passages made by a rule; of the answerable ones every n-th."""
        merged = merge(questions.corpus.chunks, rule, lambda text: len(self._tokenizer.offsets([text])[0]))
        with self._indexed(merged) as generation:
            rankings = dict(self._rankings(questions, merged, generation))
        values = _of_rankings(rankings)
        if questions.gold:
            values |= self._answers(merged, GoldSet(questions.gold.questions[::every]))
        return Measured(
            rule,
            len(merged.table),
            sum(len(chunks) > 1 for chunks in merged.members.values()),
            median(merged.table["token_count"].to_pylist()),
            fmean(sum(islice(ranking.tokens, READ)) for ranking in rankings.values()),
            values,
        )

    @contextmanager
    def _indexed(self, merged: MergedPassages) -> Iterator[Generation]:
        """Yield the passages indexed and published with the product's code."""
        cache = VectorCache(self._store.cache(TENANT), self._embedder.name)
        limit = open_input_limit(self.config.embedding)
        report = partial(self._progress, "passages embedded")
        embedded = embed_passages(cache, self._embedder, merged.table, limit, report)
        made = build_generation(
            self._store, TENANT, embedded.chunks, embedded.vectors, self.config, self._embedder.name
        )
        try:
            yield made
        finally:
            made.close()
            self._store.point_current(TENANT, made.id)

    def _progress(self, what: str, done: int, total: int, *_: float) -> None:
        self._report(what, done, total)

    def _rankings(
        self, questions: Questions, merged: MergedPassages, generation: Generation
    ) -> Iterator[tuple[str, PassageRanking]]:
        """Yield for each question the ranked passages, without its own origin."""
        view = GenerationView(generation, generation.known_classes)
        tokens = dict(zip(*(merged.table[name].to_pylist() for name in ("chunk_id", "token_count")), strict=True))
        options = SearchOptions(self.config.retrieval, k=_DEPTH, is_word=Words(self.config.embedding))
        for done, (name, text) in enumerate(questions.texts.items(), start=1):
            found = search_candidates(view, self._embedder, text, options)
            groups = [merged.members[chunk_id] for chunk_id in view.chunk_ids(found.ranking.rows.tolist())]
            left = [group for group in groups if questions.taken_from.get(name) not in _ids(group, "section_id")]
            units = [_ids(group, "page_id" if questions.of_pages else "section_id") for group in left]
            lengths = [tokens[group[0]["chunk_id"]] for group in left]
            yield name, PassageRanking(units, lengths, questions.right[name], questions.of_pages)
            self._report("questions asked", done, len(questions.texts))

    def _answers(self, merged: MergedPassages, gold: GoldSet) -> Values:
        with self.answering(merged) as pipeline:
            judged = evaluate(pipeline, gold, self._report).judged
        return {name: values for name, values in of_answers(judged).items() if name in OF_ANSWERS}

    @contextmanager
    def answering(self, merged: MergedPassages) -> Iterator[Pipeline]:
        """Yield the pipeline over the passages measured last."""
        retrieval = self.config.retrieval.model_copy(update={"final_passages": _MOST_SECTIONS})
        config = self.config.model_copy(update={"retrieval": retrieval})
        pipeline = SectionsApart.open(config, TENANT, self._embedder)
        pipeline.members = merged.members
        try:
            yield pipeline
        finally:
            pipeline.close()


@dataclass(frozen=True)
class PassageRanking:
    """Of each passage, best first: its sections, or its page, and its tokens; and the right ones."""

    units: Sequence[frozenset[str]]
    tokens: Sequence[int]
    right: frozenset[str]
    of_pages: bool = False

    @cached_property
    def place(self) -> float:
        """The position of the first right passage, from 1; of pages, each counts once; infinity without one."""
        units = dict.fromkeys(self.units) if self.of_pages else self.units
        return next((number for number, unit in enumerate(units, start=1) if unit & self.right), math.inf)

    def is_within(self, tokens: int) -> bool:
        """Return whether a right passage ends within the first so many tokens."""
        ends = accumulate(self.tokens)
        return any(unit & self.right for unit, end in zip(self.units, ends, strict=True) if end <= tokens)


class SectionsApart(Pipeline):
    """A pipeline that locks the sections of the best passages, each as a passage of its own."""

    members: Mapping[str, tuple[Row, ...]]

    def passages(self, search: Search) -> Iterable[Candidate]:
        return [part for candidate in islice(super().passages(search), READ) for part in self._parts(candidate)]

    def _parts(self, candidate: Candidate) -> Iterable[Candidate]:
        rows = self.members[candidate.chunk.chunk_id]
        return [candidate] if len(rows) == 1 else [_part(candidate, row) for row in rows]


def _part(candidate: Candidate, row: Row) -> Candidate:
    names = ("chunk_id", "chunk_idx", "anchor", "url", "text", "start", "end", "content_type", "structure")
    own = {name: row[name] for name in names}
    return replace(candidate, chunk=replace(candidate.chunk, heading_path=tuple(row["heading_path"]), **own))


def _ids(group: Sequence[Row], column: str) -> frozenset[str]:
    return frozenset(row[column] for row in group)


def _of_rankings(rankings: Mapping[str, PassageRanking]) -> Values:
    values: Values = {f"first {k}": {name: float(r.place <= k) for name, r in rankings.items()} for k in (5, 10)}
    values["MRR@10"] = {name: 1 / r.place if r.place <= 10 else 0.0 for name, r in rankings.items()}
    for tokens in TOKENS:
        values[f"within {tokens:,} tokens"] = {name: float(r.is_within(tokens)) for name, r in rankings.items()}
    return values


def differences(before: Values, after: Values) -> dict[str, dict[str, float]]:
    """Mean difference of every measure over the questions that both have, its 95 % interval and p-value."""
    found = {}
    for name, values in after.items():
        asked = [question for question in values if question in before.get(name, {})]
        if asked:
            one, two = [before[name][question] for question in asked], [values[question] for question in asked]
            interval = bootstrap_interval([b - a for a, b in zip(one, two, strict=True)])
            rounded = {key: round(value, 4) for key, value in vars(interval).items()}
            found[name] = {**rounded, "p": round(paired_p_value(one, two), 4), "questions": len(asked)}
    return found


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
    """Measure and write; earlier results of sets that are not requested stay."""
    options = _options(arguments)
    path = options.docs / "passages.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    corpora = {corpus.name: corpus for corpus in read_corpora(options.data)}
    results["lengths"] = {name: lengths(corpus) for name, corpus in corpora.items()}
    _write(results, options.docs)
    tokenizer, embedder = open_tokenizer(Embedding()), Remembering(open_embedder(Embedding()))
    for questions in _questions(corpora, options.data):
        if questions.name in (options.sets or [questions.name]):
            bench = PassageBench(options.cache / questions.name, embedder, tokenizer, BenchProgress())
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


def lengths(corpus: PassageCorpus) -> dict[str, Any]:
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


def _questions(corpora: Mapping[str, PassageCorpus], data: Path) -> Iterator[Questions]:
    yield of_gold(corpora["sample"])
    if "cwiki" in corpora:
        yield of_page_links(corpora["cwiki"], data / "cwiki")
    for name in ("kafka-docs", "rust-book"):
        if name in corpora:
            yield of_heading_links(corpora[name])
    if (data / _SQUAD).is_file():
        yield of_squad(data / _SQUAD, open_tokenizer(Embedding()))


def _rules(questions: Questions) -> Iterator[Rule]:
    """Yield the rules that differ: without headings, their placement does not matter."""
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
    """Yield a row for each set and rule: means of the first rule, differences for the others."""
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
