"""A real language model that makes things up: nothing false that it writes reaches a reader as the pages' own.

`CITELOCK_MODEL_QUESTIONS=300` asks so many questions, over the sample wiki and the real pages that are there: some
5 s of one core each. The usual run replays what the model wrote about the sample (`test_small_model_replies.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import httpx
import pytest
from support.asked_corpora import Asked, asked_corpora
from support.constants import configured
from support.overheard import MadeToCite, Overheard, beside_true_quotes
from support.shown_truth import quote_faults, sentence_faults, shown_of
from support.small_model import NAME, missing, served_small_model

from evals.bench.people import TENANT
from evals.evaluation.gold import GoldQuestion
from rag_serving.ask import Pipeline
from rag_serving.config.models import AnswerGeneration
from rag_serving.models import open_embedder
from rag_serving.records.claims import EXTRACTIVE, Draft
from rag_serving.records.passages import Lock

QUESTIONS = int(os.environ.get("CITELOCK_MODEL_QUESTIONS", "0"))
SHARE_PROMPTED = 5  # one question of so many is asked by the product's own prompt, of which the model makes little
# As prose, of which its own sentences are shown: by the usual style it chooses among the pages' lines.
SMALL = {"style": "prose", "context_tokens": 1024, "max_output_tokens": 64, "timeout_s": 1200}
PATIENT = {"breaker_failures": 10_000}  # it often says nothing
pytestmark = pytest.mark.timeout(36_000)
Open = Callable[[AnswerGeneration], Overheard]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not QUESTIONS:
        pytest.skip("CITELOCK_MODEL_QUESTIONS is not set")
    if fault := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(fault)
    with served_small_model() as address:
        yield address


@pytest.fixture(scope="module")
def corpora(address: str, tmp_path_factory: pytest.TempPathFactory) -> Sequence[Asked]:  # noqa: ARG001
    return list(asked_corpora(QUESTIONS, tmp_path_factory.mktemp("corpora")))


def test_nothing_false_is_shown_of_what_it_answers(address: str, corpora: Sequence[Asked]) -> None:
    counts = Counter[str]()
    faults = [f for asked in corpora for f in judged(asked, address, Overheard, counts, SHARE_PROMPTED)]
    print(dict(counts))
    assert not faults, "\n".join(faults)
    assert counts["written by the model"] >= counts["asked"] / 2, "not extraction in its place"


def test_nothing_false_is_shown_of_its_sentences_beside_true_quotes(address: str, corpora: Sequence[Asked]) -> None:
    def asked_plainly(prompt: str) -> str:
        body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 48, "temperature": 0}
        reply = httpx.post(f"{address}/chat/completions", json=body, timeout=900).raise_for_status().json()
        return str(reply["choices"][0]["message"]["content"])

    counts = Counter[str]()
    cites: Open = lambda settings: Overheard(settings, lambda each: MadeToCite(each, asked_plainly))  # type: ignore[arg-type, return-value] # noqa: E731
    faults = [f for asked in corpora for f in judged(asked, address, cites, counts)]
    print(dict(counts))
    assert not faults, "\n".join(faults)
    assert counts["asked"] >= min(QUESTIONS, 140), "the sample alone has so many"
    assert counts["quoted"] > counts["sentences written"] / 3, "most of it is not so: the pages' own words are shown"


def judged(asked: Asked, address: str, open_generator: Open, counts: Counter[str], every: int = 1) -> list[str]:
    """Ask every n-th question of a corpus; return what is false in what is shown, and count what became of it."""
    generation = {"provider": "openai", "model": NAME, "base_url": address, **SMALL, **PATIENT}
    config = configured({"home": str(asked.home), "tenants": {TENANT: {}}, "generation": generation})
    pages: dict[tuple[str, int], str] = {}
    for row in asked.corpus.sections.to_pylist():
        key = row["page_id"], row["version"]
        pages[key] = f"{pages.get(key, '')}\n{row['heading']}\n{row['text']}"
    pipeline = Pipeline.open(config, TENANT, open_embedder(config.embedding))
    pipeline.answering.generator = overheard = open_generator(config.generation)
    faults = []
    for question in asked.questions[::every]:
        found = faults_of(question, pipeline, overheard, counts, pages)
        faults += [f"{question.question}: {fault}" for fault in found]
    pipeline.close()
    return faults


def faults_of(
    question: GoldQuestion,
    pipeline: Pipeline,
    overheard: Overheard,
    counts: Counter[str],
    pages: dict[tuple[str, int], str],
) -> list[str]:
    """Ask a question; return what is false in the answer, and in the model's sentences beside true quotes."""
    overheard.draft, overheard.lock = Draft((), EXTRACTIVE), Lock(())
    answer = pipeline.ask(question.asker(TENANT), question.question)
    draft, lock = overheard.draft, overheard.lock
    receipt = pipeline.receipts.get(answer.receipt_id or "", TENANT)
    shown = shown_of(answer, {each.chunk.chunk_id: each.chunk for each in lock.passages})
    counts.update({"asked": 1, "citations": len(answer.citations), f"outcome {answer.outcome}": 1})
    if draft.model != EXTRACTIVE:
        verdicts = (*receipt["verdicts"], *receipt["withdrawn"])
        counts.update(verdict["support"] if verdict["outcome"] != "dropped" else "dropped" for verdict in verdicts)
        beside = list(beside_true_quotes(draft, lock, question.question))
        counts.update(
            {"written by the model": 1, "sentences written": len({claim.text for claim in draft.claims})}
            | {"shown beside true quotes": len(beside)}
        )
        shown += beside
    found = [*quote_faults(answer, pages), *(fault for each in shown for fault in sentence_faults(each))]
    return [*found, *pipeline.proof(answer.receipt_id or "").faults]
