"""`python -m evals.training.train_answers`: learn the weights of a unit's signs, and the confidence in the best.

It learns from questions of `../shared/data/reader`: the pages of each handbook are written as Markdown, cut, indexed
and queried by the product's own code. Near misses are unanswerable questions; an answerable question is seen again
without the pages that answer it. Forms of questions are weighted. The confidence also learns from half
of SQuAD's articles and the development half of people's questions (`evals/gold/people`). Examples from handbooks are
stored under `--index`. `--dry-run` prints the results on each handbook of weights learnt from the others, and writes
nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import rag_serving.answering.selection
from evals.bench.corpora import cut, file_pages
from evals.bench.people import CORPORA, judge_use, published, questions_of, read_pages
from evals.evaluation.bench import TENANT
from evals.evaluation.calibrate import Matrix, fit, halves, open_gates
from evals.evaluation.gold import read_gold
from evals.evaluation.gold_collections import published as published_collection
from evals.evaluation.gold_collections import read_gold_collection
from rag_serving.access.principals import Principal
from rag_serving.answering.answerer import Answerer, Answering, Question
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.selection.selector import FAR_AHEAD, MODEL, Ranked, best_of_passages, evidence_of, rank
from rag_serving.answering.selection.signs import (
    AGAINST,
    OF_CONFIDENCE,
    OF_VECTORS,
    QuestionFeatures,
    SignWeights,
    learnt,
)
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, parse_config
from rag_serving.models import open_embedder
from rag_serving.records.claims import Draft
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace


@dataclass(frozen=True)
class Text:
    """A passage: its heading path and its units."""

    corpus: str
    headings: str
    units: tuple[str, ...]


@dataclass(frozen=True)
class ReaderExample:
    """A question, its passage, and the units that answer it (none: a near miss)."""

    question: str
    passage: Text
    answer: tuple[int, ...]
    weight: float = 1.0

    @property
    def corpus(self) -> str:
        return self.passage.corpus


def handbooks(folder: Path) -> list[ReaderExample]:
    """Return the questions of `../shared/data/reader`."""
    texts = {}
    for line in (folder / "passages.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts[row["id"]] = Text(row["repository"], " → ".join(row["heading_path"]), tuple(row["units"]))
    rows = map(json.loads, (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        ReaderExample(row["question"], texts[row["passage"]], tuple(row["answer"]))
        for row in rows
        if row["passage"] in texts
    ]


def weighted(asked: Sequence[ReaderExample]) -> list[ReaderExample]:
    """Return the questions weighted by how little their form says of their label: 0.3 to 3, 1 in the mean."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    shares = Counter(bool(each.answer) for each in asked)
    for each in asked:
        counts[_form(each.question)][bool(each.answer)] += 1

    def weight(each: ReaderExample) -> float:
        own, label = counts[_form(each.question)], bool(each.answer)
        prior = shares[label] / len(asked)
        likely = (own[label] + 4 * prior) / (own.total() + 4)
        return min(max(prior / likely, 0.3), 3.0)

    return [replace(each, weight=weight(each)) for each in asked]


def _form(question: str) -> str:
    words = question.lower().split()
    return f"{' '.join(words[:1])}|{min(len(words) // 5, 3)}|{question.rstrip().endswith('?')}"


DATA = Path("../shared/data/reader")
RIDGE = 3.0
HANDBOOK_WEIGHT, OWN_WEIGHT = 0.3, 10.0
"""Weights of a question of a handbook, and of people's, for the confidence, beside 1 of SQuAD."""
OF_ORDER_ALONE = ("behind", "first", "nearby", "defines", "procedure", "similarity")
"""Signs that the confidence leaves out: of people's questions they tell no answer from a near miss."""
Judged = tuple[Mapping[str, float], bool, float]
"""The signs of the best unit, whether it was right, and how often it counts."""
_WORDS = re.compile(r"\w+")
_LINE = re.compile(r"\s*(?:[*+|-]|\d+[.)])")


@dataclass(frozen=True)
class UnitExample:
    """One unit of a question's lock: its signs, its passage, whether it answers."""

    signs: Mapping[str, float]
    passage: int
    page: str
    terms: frozenset[str]
    answers: bool


class Watching(Answering):
    """Answering that keeps the units that the selection had to choose from, and writes nothing."""

    seen: tuple[Lock, list[Ranked]] | None = None

    def answer(
        self, trace: StageTrace, asked: Question, lock: Lock, generation: str = "", explain: bool = False
    ) -> AnswerTrace:
        return _Watched(self, trace, asked, lock, generation, explain).answer()


class _Watched(Answerer):
    by: Watching

    def _selected(self) -> Draft:
        similarity = self.by.similarity(self.asked.vector, self.asked.stored)
        features = QuestionFeatures.of(self.asked.text, self.asked.weights, analyze)
        self.by.seen = self.lock, rank(features, self.lock, analyze, similarity, learnt().with_vectors)
        return Draft((), MODEL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--squad", type=Path, default=DATA.parent / "squad2" / "dev-8-articles.json")
    parser.add_argument("--index", type=Path, default=Path(".citelock/training-answers"))
    parser.add_argument("--most", type=int, default=300, help="questions of each handbook")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    asked = weighted(handbooks(options.data))
    by_corpus: dict[str, list[ReaderExample]] = defaultdict(list)
    for each in asked:
        by_corpus[each.corpus].append(each)
    dice = random.Random(0)
    chosen = {name: dice.sample(own, min(options.most, len(own))) for name, own in sorted(by_corpus.items())}
    examples = {name: _examples(name, own, by_corpus[name], options.index) for name, own in chosen.items()}
    if options.dry_run:
        for name in examples:
            others = [each for other, own in examples.items() if other != name for each in own]
            print(name, measure(examples[name], table(others, ())), flush=True)
        return
    everything = [each for own in examples.values() for each in own]
    taught = [*_of_squad(options.squad, options.index), *_of_people(options.index)]
    tables = {"with_vectors": table(everything, (), taught), "words_alone": table(everything, OF_VECTORS, taught)}
    target = Path(rag_serving.answering.selection.__file__).parent / "weights.json"
    target.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")
    print(f"{target}: learnt from {len(everything)} questions")


@dataclass(frozen=True)
class Example:
    """A question with the units of its lock."""

    answerable: bool
    weight: float
    units: tuple[UnitExample, ...]

    def without_answer(self) -> Example:
        """Return the same question where the pages that answer it do not exist."""
        pages = {unit.page for unit in self.units if unit.answers}
        return Example(False, self.weight, tuple(unit for unit in self.units if unit.page not in pages))


def _examples(name: str, asked: Sequence[ReaderExample], every: Sequence[ReaderExample], folder: Path) -> list[Example]:
    """Return the questions of a handbook as they were seen, from the file where they are kept; its pages are those of
    every question."""
    slug = name.replace("/", "+")
    kept = folder / f"{slug}.jsonl"
    if not kept.is_file():
        print(f"asking {len(asked)} questions of {name} ...", file=sys.stderr, flush=True)
        rows = _watched(slug, asked, every, folder / slug)
        kept.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    lines = kept.read_text(encoding="utf-8").splitlines()
    examples = []
    for each, line in zip(asked, lines, strict=True):
        units = (
            UnitExample(signs, passage, page, frozenset(terms), answers)
            for signs, passage, page, terms, answers in json.loads(line)
        )
        examples.append(Example(bool(each.answer), each.weight, tuple(units)))
    return examples


def _watched(
    slug: str, asked: Sequence[ReaderExample], every: Sequence[ReaderExample], folder: Path
) -> list[list[Any]]:
    pages = write_pages(every, folder / "pages")
    reader = Principal(TENANT)
    with published(cut(slug, file_pages(folder / "pages", "md")), folder / "home") as pipeline:
        watching = _watch(pipeline, folder / "home")
        rows = []
        for each in asked:
            watching.seen = None
            pipeline.ask(reader, each.question)
            rows.append(_row(each, pages[each.passage], watching.seen))
    return rows


def _watch(pipeline: Pipeline, home: Path) -> Watching:
    config = _open_gates(home)
    pipeline.answering = watching = Watching(config, open_embedder(config.embedding))
    return watching


def _open_gates(home: Path) -> Config:
    return open_gates(parse_config({"home": str(home), "tenants": {TENANT: {}}}))


def _row(asked: ReaderExample, page: str, seen: tuple[Lock, list[Ranked]] | None) -> list[Any]:
    if seen is None:
        return []
    lock, ranked = seen
    answers = [_plain(asked.passage.units[number]) for number in asked.answer]
    row = []
    for each in ranked:
        statement = each.statement
        chunk = lock.passages[statement.index - 1].chunk
        said = _plain(statement.said)
        is_right = page in chunk.title and bool(said) and any(answer in said or said in answer for answer in answers)
        signs = {name: round(value, 4) for name, value in each.signs.items()}
        row.append([signs, statement.index, chunk.page_id, sorted(statement.terms), is_right])
    return row


def _plain(text: str) -> str:
    return " ".join(_WORDS.findall(text.lower()))


def write_pages(asked: Sequence[ReaderExample], folder: Path) -> dict[Text, str]:
    """Write the passages of a handbook as Markdown, a page for each first heading, and return their pages' titles."""
    folder.mkdir(parents=True, exist_ok=True)
    sections: dict[str, list[Text]] = defaultdict(list)
    titles = {}
    for text in dict.fromkeys(each.passage for each in asked):
        title = text.headings.split(" → ")[0].strip() or "Page"
        sections[title].append(text)
        titles[text] = title
    for number, (title, texts) in enumerate(sections.items()):
        lines = [f"# {title}", ""]
        for text in texts:
            path = text.headings.split(" → ")
            lines += [f"{'#' * min(len(path), 6)} {path[-1]}", ""] if len(path) > 1 else []
            parts = [*text.units[:1]]
            for before, unit in pairwise(text.units):
                is_line, was_line = _LINE.match(unit), _LINE.match(before)
                parts += ["\n" if is_line and was_line else "\n\n" if is_line or was_line else " ", unit]
            lines += ["".join(parts), ""]
        (folder / f"page-{number}.md").write_text("\n".join(lines), encoding="utf-8")
    return titles


def _of_squad(file: Path, folder: Path) -> list[Judged]:
    """Return the best units for questions of every other article of SQuAD, and whether their passages answer."""
    collection = read_gold_collection(file)
    chosen = random.Random(3).sample(halves(collection.gold)[0].questions, 450)
    some = replace(collection, gold=replace(collection.gold, questions=tuple(chosen)))
    found = list[Judged]()
    with published_collection(some, folder / "squad", _open_gates(folder / "squad")) as pipeline:
        watching = _watch(pipeline, folder / "squad")
        for gold in chosen:
            watching.seen = None
            pipeline.ask(gold.asker(pipeline.tenant), gold.question)
            if watching.seen and watching.seen[1]:
                lock, ranked = watching.seen
                best = best_of_passages(ranked)
                page = lock.passages[best[0].statement.index - 1].chunk.page_id
                found.append((evidence_of(lock, best), gold.answerable and page in gold.pages, 1.0))
    return found


def _of_people(folder: Path) -> list[Judged]:
    """Return the same for the development half of the questions in people's own words, by whether it is useful."""
    found = list[Judged]()
    for name in CORPORA:
        if (pages := read_pages(name, DATA.parent)) is None:
            continue
        home = folder / "people" / name
        with published(cut(name, pages), home) as pipeline:
            pipeline.answering = Answering(_open_gates(home), pipeline.embedder)
            for gold in read_gold(questions_of(name, "build")).questions:
                answer = pipeline.ask(gold.asker(TENANT), gold.question)
                if answer.features:
                    found.append((answer.features, judge_use(gold, answer).outcome == "useful", OWN_WEIGHT))
    return found


def table(examples: Sequence[Example], without: Sequence[str], others: Sequence[Judged] = ()) -> dict[str, Any]:
    """Return the weights of one table of the file; `others` teach the confidence alone."""
    first = next(unit.signs for each in examples for unit in each.units)
    names = [name for name in first if name not in without]
    order = _order(examples, names)
    weights = SignWeights(dict(zip(names, order.tolist(), strict=True)), {}, 0.0)
    asked = [*examples, *(each.without_answer() for each in examples if each.answerable)]
    rows = [(each, *best) for each in asked if (best := _best(each, weights))]
    kept = [name for name in (*names, "score", *OF_CONFIDENCE) if name not in OF_ORDER_ALONE]
    judged = [(evidence, answers, each.weight * HANDBOOK_WEIGHT) for each, evidence, answers in rows]
    judged += [
        ({**evidence, "score": weights.score(evidence)}, answers, weight) for evidence, answers, weight in others
    ]
    x = np.array([[*(evidence.get(name, 0.0) for name in kept), 1.0] for evidence, _, _ in judged])
    y = np.array([float(answers) for _, answers, _ in judged])
    confidence = _signed(x, y, kept, np.array([weight for _, _, weight in judged]))
    columns = {"order": zip(names, order, strict=True), "confidence": zip(kept, confidence[:-1], strict=True)}
    rounded = {key: {name: round(float(weight), 4) + 0.0 for name, weight in found} for key, found in columns.items()}
    return {**rounded, "bias": round(float(confidence[-1]), 4)}


def _best(example: Example, weights: SignWeights) -> tuple[dict[str, float], bool] | None:
    """Return the features of the confidence in the best unit, and whether that unit's passage answers."""
    if not example.units:
        return None
    scored = sorted(example.units, key=lambda unit: -weights.score(unit.signs))
    best: dict[int, UnitExample] = {}
    for unit in scored:
        best.setdefault(unit.passage, unit)
    first = scored[0]
    answers = any(unit.answers for unit in scored if unit.passage == first.passage)
    return _evidence([*best.values()], weights), answers


def _evidence(best: Sequence[UnitExample], weights: SignWeights) -> dict[str, float]:
    """Return the signs of the best unit among the others, as `selector.evidence_of` does."""
    first, others = best[0], best[1:]
    alike = [len(first.terms & other.terms) / (len(first.terms | other.terms) or 1) for other in others]
    score = weights.score(first.signs)
    rivals = [
        weights.score(other.signs)
        for other, likeness in zip(others, alike, strict=True)
        if likeness < 0.4 and other.page != first.page
    ]
    ahead = min(score - max(rivals), FAR_AHEAD) if rivals else FAR_AHEAD
    return {**first.signs, "score": score, "ahead": ahead}


def _order(examples: Sequence[Example], names: Sequence[str]) -> Matrix:
    """Pairwise logistic regression: each unit that answers against each other one of the question."""
    differences = []
    for each in examples:
        right, wrong = (
            [np.array([unit.signs.get(name, 0.0) for name in names]) for unit in each.units if unit.answers is answers]
            for answers in (True, False)
        )
        differences += [a - b for a in right[:3] for b in wrong[:12]]
    x = np.array(differences)
    return _signed(x, np.ones(len(x)), names)


def _signed(x: Matrix, y: Matrix, names: Sequence[str], counts: Matrix | None = None) -> Matrix:
    """Return logistic regression without the signs whose weight would be of the wrong direction; a column more is the
    bias.

    Each row counts `counts` times, to the nearest tenth.
    """
    if counts is not None:
        times = np.maximum(np.rint(counts * 10).astype(int), 1)
        x, y = np.repeat(x, times, axis=0), np.repeat(y, times)
    kept = list(range(x.shape[1]))
    while True:
        found = fit(x[:, kept], y, np.full(len(kept), RIDGE), np.zeros(len(kept)))
        wrong = [
            place
            for place, weight in zip(kept, found, strict=True)
            if place < len(names) and weight * (-1 if names[place] in AGAINST else 1) < 0
        ]
        if not wrong:
            break
        kept = [place for place in kept if place not in wrong]
    weights = np.zeros(x.shape[1])
    weights[kept] = found
    return weights


def measure(examples: Sequence[Example], weights: Mapping[str, Any]) -> dict[str, float]:
    """Return how well a handbook is answered: right passage first, among three, AUC against near misses."""
    signs = SignWeights(weights["order"], weights["confidence"], weights["bias"])
    first = among = 0
    answerable = [each for each in examples if each.answerable]
    confidences: dict[bool, list[float]] = {True: [], False: []}
    for each in examples:
        if not (best := _best(each, signs)):
            continue
        if not each.answerable or best[1]:
            confidences[each.answerable].append(signs.told(best[0]))
        if each.answerable:
            passages = list(
                dict.fromkeys(unit.passage for unit in sorted(each.units, key=lambda unit: -signs.score(unit.signs)))
            )
            right = {unit.passage for unit in each.units if unit.answers}
            first += bool(passages) and passages[0] in right
            among += bool(right & set(passages[:3]))
    positive, negative = (np.array(confidences[label]) for label in (True, False))
    auc = (positive[:, None] > negative).mean() if len(positive) and len(negative) else float("nan")
    count = max(1, len(answerable))
    search = sum(any(unit.answers for unit in each.units if unit.passage == 1) for each in answerable)
    shares = {"search_first": search / count, "first": first / count, "among_three": among / count, "auc": float(auc)}
    return {"questions": len(examples), **{name: round(share, 3) for name, share in shares.items()}}


if __name__ == "__main__":
    main()
