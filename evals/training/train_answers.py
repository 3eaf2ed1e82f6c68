"""Learn the weights by which the extractive generator orders sentences and says how confident it is.

`python -m evals.training.train_answers` writes the extraction's answer_weights.json. It learns from half of SQuAD's
articles, the training claims of SciFact (order alone) and the gold sets in evals/gold, whose tenants it builds first;
`citelock evaluate FILE --calibrate` measures on the other articles.

Questions that annotators wrote to look answerable are one kind of unanswerable ones; people rather ask for what no page
tells. Each answerable question is therefore seen a second time, without the pages that answer it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import rag_serving.answering.extraction
from rag_assets.evaluation.calibrate import halves, open_gates
from rag_assets.evaluation.evaluate import says
from rag_assets.evaluation.gold import GoldQuestion, GoldSet, find_gold
from rag_assets.evaluation.gold_collections import Collection, published, read_gold_collection
from rag_assets.evaluation.logistic import Matrix, fit
from rag_serving.answering.answerer import Answering, Question
from rag_serving.answering.extraction.extractor import MODEL, rank
from rag_serving.answering.extraction.features import FOR, RANK_ONLY, QuestionFeatures, RankedStatement
from rag_serving.answering.extraction.ranker import WEIGHTS, learnt
from rag_serving.config.loading import Config, load_config, parse_config
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.models.protocols import Embedder
from rag_serving.pipeline.pipeline import Pipeline, Services
from rag_serving.records.claims import Draft
from rag_serving.records.passages import Lock
from rag_serving.text.analyzer import analyze
from rag_serving.tracing import StageTrace

DATA = Path("../shared/data")
GOLD = Path("evals/gold")
OF_VECTORS = ("similarity", "passage_similarity")
RIDGE = 3.0
# How often the questions of our own gold sets count: they are few, and the most like what people ask.
OWN_IN_RANK, OWN_IN_CONFIDENCE = 3, 10


@dataclass(frozen=True)
class Sentence:
    """A sentence of the front with what is known of it."""

    evidence: Mapping[str, float]
    page: str
    answers: bool


@dataclass(frozen=True)
class Seen:
    """A question with the sentences that the generator had to choose from."""

    gold: GoldQuestion
    sentences: tuple[Sentence, ...]

    def without_answer(self) -> Seen:
        """Return the same question where the pages that answer it do not exist."""
        kept = [sentence for sentence in self.sentences if sentence.page not in self.gold.pages]
        ranks = sorted({sentence.evidence["passage_rank"] for sentence in kept}, reverse=True)
        moved = {old: 1 / place for place, old in enumerate(ranks, start=1)}
        sentences = [
            replace(each, evidence={**each.evidence, "passage_rank": moved[each.evidence["passage_rank"]]})
            for each in kept
        ]
        return Seen(self.gold, tuple(sentences))


class Watching(Answering):
    """Answering that keeps the sentences that the extractive generator had to choose from, and writes nothing."""

    front: tuple[Lock, list[RankedStatement]] | None = None

    def __init__(self, config: Config, embedder: Embedder) -> None:
        super().__init__(config, embedder)
        self._vectors: dict[str, Matrix] = {}  # a sentence is in front of many questions

    def _extracted(self, _: StageTrace, asked: Question, lock: Lock) -> Draft:
        vector = asked.vector
        if vector is None:
            raise SystemExit("the embedding model gives no vectors; see `citelock doctor`")

        def similarity(texts: Sequence[str]) -> Sequence[float]:
            new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
            if new:
                self._vectors.update(zip(new, self._embedder.embed_documents(new), strict=True))
            return [float(self._vectors[text] @ vector) for text in texts]

        evidence = QuestionFeatures.of(asked.text, asked.weights, analyze)
        self.front = lock, rank(evidence, lock, analyze, similarity, learnt().with_vectors)
        return Draft((), MODEL)


class Watched(Pipeline):
    """A pipeline whose sentences are kept."""

    def __init__(self, config: Config, tenant: str, published: CurrentGeneration, services: Services) -> None:
        super().__init__(config, tenant, published, services)
        self._answering = self.watching = Watching(config, services.embedder)

    def see(self, gold: GoldQuestion) -> Seen:
        self.watching.front = None
        self.ask(gold.asker(self.tenant), gold.question)
        if self.watching.front is None:
            return Seen(gold, ())
        lock, ranked = self.watching.front
        return Seen(gold, tuple(_sentence(gold, lock, each) for each in ranked))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--squad", type=Path, default=DATA / "squad2" / "dev-8-articles.json")
    arguments.add_argument("--scifact", type=Path, default=DATA / "scifact")
    arguments.add_argument("--index", type=Path, default=Path(".citelock/training"), help="folder of the indexes")
    arguments.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that ask")
    given = arguments.parse_args()
    subprocess.run([Path(sys.executable).with_name("citelock"), "build"], check=True)
    config, workers = open_gates(load_config()), given.workers
    own = [seen for name in config.tenants for seen in _see(config, name, find_gold(GOLD, name), workers)]
    squad = read_gold_collection(given.squad)
    adversarial = _asked(replace(squad, gold=halves(squad.gold)[0]), given.index / "squad", workers)
    stated = _asked(read_gold_collection(given.scifact), given.index / "scifact", workers)
    target = Path(rag_serving.answering.extraction.__file__).parent / WEIGHTS
    tables = json.loads(target.read_text(encoding="utf-8"))  # the weights of sections stay: `train_sections`
    tables["with_vectors"] |= table(adversarial, stated, own, ())
    tables["words_alone"] |= table(adversarial, stated, own, OF_VECTORS)
    target.write_text(json.dumps(tables, indent=2) + "\n", encoding="utf-8")
    print(f"{target}: learnt from {len(adversarial) + len(stated) + len(own)} questions")


def _asked(collection: Collection, home: Path, workers: int) -> list[Seen]:
    with published(collection, home, open_gates(parse_config({}))) as pipeline:
        return _see(pipeline.config, pipeline.tenant, collection.gold, workers)


def _see(config: Config, tenant: str, gold: GoldSet, workers: int) -> list[Seen]:
    """Return the questions that a sentence was found for, asked in several processes."""
    parts = [GoldSet(gold.questions[number::workers], gold.tenant) for number in range(workers)]
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        found = pool.map(_seen, repeat(config), repeat(tenant), parts)
        return [each for part in found for each in part if each.sentences]


def _seen(config: Config, tenant: str, gold: GoldSet) -> list[Seen]:
    pipeline = Watched.open(config, tenant)
    try:
        return [pipeline.see(question) for question in gold.questions]
    finally:
        pipeline.close()


def _sentence(gold: GoldQuestion, lock: Lock, ranked: RankedStatement) -> Sentence:
    page = lock.passages[ranked.statement.index - 1].chunk.page_id
    answers = gold.answerable and page in gold.pages and says(ranked.statement.said, gold.quotes)
    return Sentence(ranked.evidence, page, answers)


def table(
    adversarial: Sequence[Seen], stated: Sequence[Seen], own: Sequence[Seen], without: Sequence[str]
) -> dict[str, Any]:
    """Return the weights of one table of the file."""
    names = [name for name in adversarial[0].sentences[0].evidence if name not in without]
    order = _rank_weights([*adversarial, *stated, *(list(own) * OWN_IN_RANK)], names)
    asked = [*adversarial, *(list(own) * OWN_IN_CONFIDENCE)]
    asked += [lacking for each in asked if each.gold.answerable and (lacking := each.without_answer()).sentences]
    best = [max(each.sentences, key=lambda one: _score(one, names, order)) for each in asked]
    kept = [name for name in names if name not in RANK_ONLY]
    x = np.array([[*_vector(one, kept), _score(one, names, order), 1.0] for one in best])
    weights = _signed(x, np.array([one.answers for one in best], float), [*kept, "score"])
    return {
        "rank": _rounded(names, order),
        "confidence": _rounded([*kept, "score"], weights[:-1]),
        "bias": round(float(weights[-1]), 4),
    }


def _rank_weights(seen: Iterable[Seen], names: Sequence[str]) -> Matrix:
    """Pairwise logistic regression: each sentence that answers against each other one of the question."""
    differences = []
    for each in seen:
        right = [_vector(one, names) for one in each.sentences if one.answers]
        wrong = [_vector(one, names) for one in each.sentences if not one.answers]
        differences += [a - b for a in right for b in wrong]
    x = np.array(differences)
    return _signed(x, np.ones(len(x)), names)


def _signed(x: Matrix, y: Matrix, names: Sequence[str]) -> Matrix:
    """Logistic regression without the features whose weight would be of the wrong sign; a column more is the bias."""
    kept = list(range(x.shape[1]))
    while True:
        found = fit(x[:, kept], y, np.full(len(kept), RIDGE), np.zeros(len(kept)))
        wrong = [k for k, w in zip(kept, found, strict=True) if k < len(names) and w * _sign(names[k]) < 0]
        if not wrong:
            break
        kept = [k for k in kept if k not in wrong]
    weights = np.zeros(x.shape[1])
    weights[kept] = found
    return weights


def _sign(name: str) -> int:
    """Return what a feature may count for: 1 for, -1 against, 0 either."""
    return 0 if name in RANK_ONLY else 1 if name in FOR else -1


def _vector(one: Sentence, names: Sequence[str]) -> Matrix:
    return np.array([one.evidence[name] for name in names])


def _score(one: Sentence, names: Sequence[str], order: Matrix) -> float:
    return float(_vector(one, names) @ order)


def _rounded(names: Sequence[str], weights: Matrix) -> dict[str, float]:
    return {name: round(float(weight), 4) + 0.0 for name, weight in zip(names, weights, strict=True)}


if __name__ == "__main__":
    main()
