"""Learn how much each sign of evidence counts for a passage as the one that answers.

`python -m evals.training.train_sections` writes the tables `section` of the extraction's answer_weights.json and prints
how often the right passage comes first on corpora that were not learnt from. It learns from the questions in people's
own words that are for building, the sample's gold set, half of SQuAD's articles, and questions that wikis bring
themselves (`wiki_pairs`). The sentences are ordered by the weights that `train_answers` learnt before.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

import rag_serving.answering.extraction
from evals.bench.passages.corpora import cut
from evals.bench.people import published as published_pages
from evals.bench.people import questions_of, read_pages
from evals.training.pairs import Pair
from evals.training.wiki_pairs import open_wiki, wiki_pairs
from rag_assets.evaluation.calibrate import halves, open_gates
from rag_assets.evaluation.gold import GoldQuestion, read_gold
from rag_assets.evaluation.gold_collections import published, read_gold_collection
from rag_assets.evaluation.logistic import Matrix, fit
from rag_assets.evaluation.usefulness import holds, is_right_place
from rag_serving.answering.answerer import Answering, Question
from rag_serving.answering.composing import AnswerTrace
from rag_serving.answering.extraction.extractor import rank, rank_sections
from rag_serving.answering.extraction.features import FOR_SECTIONS, QuestionFeatures
from rag_serving.answering.extraction.ranker import TABLES, WEIGHTS, learnt
from rag_serving.config.loading import parse_config
from rag_serving.pipeline.pipeline import Pipeline
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace

DATA = Path("../shared/data")
GOLD = Path("evals/gold/sample.yaml")
CORPORA = ("sample", "cwiki", "rust-book")
PAIR = "pair"  # the kind of a question that a wiki brought
NEUTRAL = ("section_opens_page", "section_short")
"""Name what may count either way."""
RIDGE = 10.0  # in standard deviations of each feature
PAIRS, SQUAD = 400, 600  # questions of each corpus
PEOPLE_WEIGHT, GOLD_WEIGHT, SQUAD_WEIGHT, PAIR_WEIGHT, HEADING_WEIGHT = 4.0, 3.0, 1.0, 0.4, 0.15
"""Say how often a question counts: those of people are few and the most like what is asked."""
SHARES = (0.1, 0.3, 1.0)  # of the questions, for the learning curve


@dataclass(frozen=True)
class Example:
    """The passages that a question had to choose from: what speaks for each, and whether it answers."""

    corpus: str
    origin: str  # people, gold, squad, or what a pair is made of
    weight: float
    evidence: Sequence[Mapping[str, float]]
    is_right: Sequence[bool]


class Watching(Answering):
    """Answering that keeps the lock of the last question, and writes nothing."""

    lock, asked = Lock(()), Question("", "", {})

    def answer(
        self, attempt: StageTrace, asked: Question, lock: Lock, generation: str = "", explain: bool = False
    ) -> AnswerTrace:
        self.lock, self.asked = lock, asked
        return super().answer(attempt, asked, lock, generation, explain)

    def seen(self, gold: GoldQuestion, has_vectors: bool) -> list[tuple[dict[str, float], bool]]:
        """Return what speaks for each passage of the last lock, and whether it answers."""
        if not len(self.lock):
            return []
        asked, vector = QuestionFeatures.of(self.asked.text, self.asked.weights, analyze), self.asked.vector

        def similarity(texts: Sequence[str]) -> Sequence[float]:
            return self._similarities(self.asked.stored, vector, texts) if vector is not None else [0.0] * len(texts)

        weights = learnt().of(has_vectors)
        ranked = rank(asked, self.lock, analyze, similarity if has_vectors else None, weights)
        return [
            (dict(section.evidence), answers(gold, self.lock.passages[section.index - 1].chunk))
            for section in rank_sections(asked, self.lock, ranked, weights)
        ]


def main(arguments: list[str] | None = None) -> int:
    """Collect, learn, measure by leaving corpora out, write."""
    parser = argparse.ArgumentParser(
        prog="python -m evals.training.train_sections", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--index", type=Path, default=Path(".citelock/training-sections"), help="folder of the indexes")
    parser.add_argument("--dry-run", action="store_true", help="measure, and write nothing")
    options = parser.parse_args(arguments)
    target = Path(rag_serving.answering.extraction.__file__).parent / WEIGHTS
    tables = json.loads(target.read_text(encoding="utf-8"))
    examples = {table: list[Example]() for table in TABLES}
    for corpus, pipeline, questions in _sets(options.data, options.index):
        for example in _examples(corpus, pipeline, questions):
            for table, each in zip(TABLES, example, strict=True):
                examples[table] += [each] if any(each.is_right) else []
    for table, those in examples.items():
        names = _learnt_names(those)
        tables[table]["section"] = dict(zip(names, (round(float(w), 4) for w in learn(those, names)), strict=True))
    print(report(examples[TABLES[0]]))
    if not options.dry_run:
        target.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")
        print(f"{target}: learnt from {len(examples[TABLES[0]])} questions", file=sys.stderr)
    return 0


def answers(gold: GoldQuestion, chunk: Chunk) -> bool:
    """Return whether a passage is of a right section and, of a section in several, has the facts."""
    if not gold.answerable:
        return False
    if not any(place.anchor or place.heading for place in gold.places):
        return chunk.page_id in gold.pages
    facts = () if gold.kind == PAIR else gold.facts
    return is_right_place(gold.places, chunk.page_id, chunk.url, chunk.heading_path) and all(
        any(holds(chunk.text, spelling) for spelling in fact) for fact in facts
    )


def learn(examples: Sequence[Example], names: Sequence[str]) -> Matrix:
    """Return the weight of each feature: pairwise logistic regression, each only in its own direction."""
    differences, counts = [], []
    for example in examples:
        values = np.array([[evidence[name] for name in names] for evidence in example.evidence])
        right = np.array(example.is_right)
        pairs = [a - b for a in values[right] for b in values[~right]]
        differences += pairs
        counts += [example.weight * 4 / max(len(pairs), 1)] * len(pairs)
    x = np.array(differences)
    deviation = x.std(axis=0) + 1e-9
    # A row that counts w times has its logit and its penalty scaled alike; whole repetitions keep `fit` simple.
    repeated = np.repeat(x / deviation, np.maximum(np.round(np.array(counts) * 10), 1).astype(int), axis=0)
    kept = list(range(len(names)))
    while True:
        ridge = np.full(len(kept), RIDGE * 10)
        weights = fit(repeated[:, kept], np.ones(len(repeated)), ridge, np.zeros(len(kept)))
        wrong = [k for k, w in zip(kept, weights, strict=True) if w < 0 and _counts_for(names[k])]
        if not wrong:
            break
        kept = [k for k in kept if k not in wrong]
    found = np.zeros(len(names))
    found[kept] = weights
    return np.asarray(found / deviation, np.float64)


def report(examples: Sequence[Example]) -> str:
    """Return, as a Markdown table, how often the right passage is first, and among two, on corpora not learnt from."""
    names = _learnt_names(examples)
    heads = ["corpus", "questions", "rank of retrieval", *(f"{share:.0%} of the questions" for share in SHARES)]
    lines = [f"| {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * (len(SHARES) + 1)}"]
    for corpus in sorted({example.corpus for example in examples}):
        others = [example for example in examples if example.corpus != corpus]
        own = [
            example
            for example in examples
            if example.corpus == corpus and example.origin in ("people", "gold", "squad")
        ]
        cells = [_placed(own, [-1.0 if name == "section_behind" else 0.0 for name in names], names, -1)]
        for share in SHARES:
            some = random.Random(0).sample(others, max(2, round(len(others) * share)))
            cells.append(_placed(own, learn(some, names), names, 1))
        lines.append(f"| {corpus} | {len(own)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _placed(examples: Sequence[Example], weights: Matrix | Sequence[float], names: Sequence[str], sign: int) -> str:
    """Return the shares of questions whose right passage is first, and among the first two."""
    places = []
    for example in examples:
        scores = [
            sign * sum(evidence[n] * w for n, w in zip(names, weights, strict=True)) for evidence in example.evidence
        ]
        order = np.argsort(-np.array(scores), kind="stable")
        places.append(int(np.flatnonzero(np.array(example.is_right)[order])[0]) + 1)
    return " / ".join(f"{np.mean([place <= most for place in places]):.0%}" for most in (1, 2))


def _learnt_names(examples: Sequence[Example]) -> list[str]:
    """Return the features that are learnt; few questions how to do something are here, so that is weighed by hand."""
    return [name for name in examples[0].evidence[0] if name != "section_procedure"]


def _counts_for(name: str) -> bool:
    return name not in NEUTRAL and name.removeprefix("section_") in FOR_SECTIONS


def _sets(data: Path, index: Path) -> Iterator[tuple[str, Pipeline, list[tuple[str, GoldQuestion]]]]:
    """Yield each corpus that is there, published, with its questions and what they come from."""
    for name in CORPORA:
        pages = read_pages(name, data)
        if pages is None:
            print(f"training: {data} has no pages of {name}", file=sys.stderr)
            continue
        questions = [("people", each) for each in read_gold(questions_of(name, "build")).questions]
        questions += [("gold", each) for each in read_gold(GOLD).questions if name == "sample"]
        with published_pages(cut(name, pages), index / name) as pipeline:
            yield name, pipeline, [*questions, *_of_pairs(wiki_pairs(open_wiki(name, pages)))]
    squad = data / "squad2" / "dev-8-articles.json"
    if squad.is_file():
        collection = read_gold_collection(squad)
        half = random.Random(0).sample(list(halves(collection.gold)[0].questions), SQUAD)
        with published(collection, index / "squad", open_gates(parse_config({}))) as pipeline:
            yield "squad", pipeline, [("squad", each) for each in half]


def _of_pairs(pairs: Iterable[Pair]) -> Iterator[tuple[str, GoldQuestion]]:
    """Yield some of the questions that can be answered and whose heading is not masked."""
    usable = [pair for pair in pairs if pair.answerable and not pair.masked]
    for pair in islice(random.Random(0).sample(usable, len(usable)), PAIRS):
        gold = pair.as_gold()
        yield pair.source, replace(gold, kind=PAIR, places=() if pair.whole_page else gold.places)


def _examples(
    corpus: str, pipeline: Pipeline, questions: Iterable[tuple[str, GoldQuestion]]
) -> Iterator[tuple[Example, Example]]:
    """Yield each question as an example for with and for without vectors."""
    pipeline._answering = watching = Watching(pipeline.config, pipeline._embedder)
    for origin, gold in questions:
        if gold.kind == "not_a_question" or not gold.answerable:
            continue
        watching.lock = Lock(())
        pipeline.ask(gold.asker(pipeline.tenant), gold.question)
        both = [watching.seen(gold, has_vectors) for has_vectors in (True, False)]
        if all(both):
            yield tuple(  # type: ignore[misc]
                Example(corpus, origin, _weight(origin), [e for e, _ in seen], [right for _, right in seen])
                for seen in both
            )


def _weight(origin: str) -> float:
    known = {"people": PEOPLE_WEIGHT, "gold": GOLD_WEIGHT, "squad": SQUAD_WEIGHT, "heading": HEADING_WEIGHT}
    return known.get(origin, PAIR_WEIGHT)


if __name__ == "__main__":
    sys.exit(main())
