"""What merging short sections brings: every question asked of an index of merged passages and of one without.

Belongs here: one rule measured with one set of questions, values by question, paired differences.
Does not belong here: the rule (`merged`), the questions (`questions`), the page (`__main__`).

A section counts as found where its passage is; a passage with several sections is longer, so it is also asked whether
the right section stands within the first thousand tokens. An answer quotes one section: a locked passage is taken
apart again, each section with its own heading and link.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate, islice
from pathlib import Path
from statistics import fmean, median

from evals.bench.passages.merged import Merged, Row, Rule, merge
from evals.bench.passages.questions import Questions
from evals.evaluation.ablation import Remembering
from evals.evaluation.bench import TENANT
from evals.evaluation.evaluate import evaluate
from evals.evaluation.gold import GoldSet
from evals.evaluation.measures import of_answers
from evals.evaluation.metrics import bootstrap_interval, paired_p_value
from rag_assets.publishing.build import build_generation
from rag_assets.publishing.passage_vectors import embed_passages
from rag_assets.state.vector_cache import VectorCache
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.view import GenerationView
from rag_serving.models import open_input_limit
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
    """One rule: how many passages it makes, how long they are, and every measure's values."""

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
        """The questions asked of passages made by a rule; of those to be answered every n-th."""
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
    def _indexed(self, merged: Merged) -> Iterator[Generation]:
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

    def _rankings(self, questions: Questions, merged: Merged, generation: Generation) -> Iterator[tuple[str, Ranking]]:
        """For each question the passages found, without the one that it was taken from."""
        view = GenerationView(generation, generation.known_classes)
        tokens = dict(zip(*(merged.table[name].to_pylist() for name in ("chunk_id", "token_count")), strict=True))
        options = SearchOptions(self.config.retrieval, k=_DEPTH, is_word=Words(self.config.embedding))
        for done, (name, text) in enumerate(questions.texts.items(), start=1):
            found = search_candidates(view, self._embedder, text, options)
            groups = [merged.members[chunk_id] for chunk_id in view.chunk_ids(found.ranking.rows.tolist())]
            left = [group for group in groups if questions.taken_from.get(name) not in _ids(group, "section_id")]
            units = [_ids(group, "page_id" if questions.of_pages else "section_id") for group in left]
            lengths = [tokens[group[0]["chunk_id"]] for group in left]
            yield name, Ranking(units, lengths, questions.right[name], questions.of_pages)
            self._report("questions asked", done, len(questions.texts))

    def _answers(self, merged: Merged, gold: GoldSet) -> Values:
        with self.answering(merged) as pipeline:
            judged = evaluate(pipeline, gold, self._report).judged
        return {name: values for name, values in of_answers(judged).items() if name in OF_ANSWERS}

    @contextmanager
    def answering(self, merged: Merged) -> Iterator[Pipeline]:
        """Yield the passages that were measured last, ready to be asked."""
        retrieval = self.config.retrieval.model_copy(update={"final_passages": _MOST_SECTIONS})
        config = self.config.model_copy(update={"retrieval": retrieval})
        pipeline = SectionsApart.open(config, TENANT, self._embedder)
        pipeline.members = merged.members
        try:
            yield pipeline
        finally:
            pipeline.close()


@dataclass(frozen=True)
class Ranking:
    """Of each passage, best first: the sections in it, or its page, and its tokens; and the right ones."""

    units: Sequence[frozenset[str]]
    tokens: Sequence[int]
    right: frozenset[str]
    of_pages: bool = False

    @cached_property
    def place(self) -> float:
        """Where the first right passage stands, from 1; of pages, each counts once; infinity where there is none."""
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


def _of_rankings(rankings: Mapping[str, Ranking]) -> Values:
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
