"""How good answers are on real data: parts of SQuAD 2.0 and SciFact, and the sample wiki, with the embedded defaults.

Bounds are a little looser than what was measured on all of the data (docs/answers.md). Fewer questions are asked
here; `CITELOCK_QUALITY=80` asks as many of SQuAD, and half as many of SciFact.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from evals.evaluation.evaluate import evaluate, says
from evals.evaluation.gold import GoldSet
from evals.evaluation.gold_collections import Collection, published, read_gold_collection
from rag_serving.answering.citations import claims_of
from rag_serving.config.loading import parse_config

DATA = Path(__file__).parents[3] / "shared" / "data"
QUESTIONS = int(os.environ.get("CITELOCK_QUALITY", "32"))
SQUAD, SCIFACT = DATA / "squad2" / "dev-8-articles.json", DATA / "scifact"


def part_of(collection: Collection, questions: int, others: int) -> Collection:
    """Every n-th question with its page, and some pages that no question is about."""
    asked = collection.gold.questions[:: max(1, len(collection.gold.questions) // questions)]
    needed = {page for question in asked for page in question.pages}
    kept = [document for document in collection.documents if document.page in needed]
    rest = [document for document in collection.documents if document.page not in needed]
    return replace(collection, documents=(*kept, *rest[:others]), gold=GoldSet(tuple(asked)))


@pytest.mark.slow
@pytest.mark.skipif(not SQUAD.exists(), reason=f"{SQUAD} is not here")
def test_answers_to_squad_cite_the_right_paragraph_and_sentence(tmp_path: Path) -> None:
    collection = part_of(read_gold_collection(SQUAD), QUESTIONS, 0)
    # By the thresholds that are shipped: one learnt from half of so few questions may be anywhere.
    with published(collection, tmp_path, parse_config({})) as pipeline:
        found = evaluate(pipeline, collection.gold)
    assert found.citation_precision is not None
    assert found.citation_precision >= 0.85
    assert found.sentence_precision is not None
    assert found.sentence_precision >= 0.75
    assert found.answerability["accuracy"] is not None
    assert found.answerability["accuracy"] >= 0.4, "half of the questions were written to look answerable"
    assert found.anchor_validity == 1.0


@pytest.mark.slow
@pytest.mark.skipif(not SCIFACT.exists(), reason=f"{SCIFACT} is not here")
def test_the_evidence_for_claims_of_scifact_is_shown(tmp_path: Path) -> None:
    collection = part_of(read_gold_collection(SCIFACT), QUESTIONS // 2, QUESTIONS // 2)
    with published(collection, tmp_path, parse_config({})) as pipeline:
        found = evaluate(pipeline, collection.gold)
    shown = [any(says(claim, each.gold.quotes) for claim in claims_of(each.answer)) for each in found.judged]
    assert sum(shown) / len(shown) >= 0.6, "be it as what the pages come closest with"
