"""A real language model that makes things up: nothing false that it writes reaches a reader as the pages' own.

`CITELOCK_MODEL_QUESTIONS=300` asks so many questions, over the sample wiki and the real pages that are there: some 6 s
of one core each. The usual run replays what the model wrote about the sample (`test_small_model_replies.py`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from support.asked_corpora import Asked, asked_corpora
from support.overheard import Overheard, beside_true_quotes
from support.shown_truth import quote_faults, sentence_faults, shown_of
from support.small_model import NAME, missing, served_small_model

from evals.bench.people import TENANT
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder
from rag_serving.pipeline import Pipeline
from rag_serving.records import EXTRACTIVE, Draft, Lock

QUESTIONS = int(os.environ.get("CITELOCK_MODEL_QUESTIONS", "0"))
SMALL = {"context_tokens": 1024, "max_output_tokens": 64, "first_token_timeout_s": 600, "timeout_s": 900}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if not QUESTIONS:
        pytest.skip("CITELOCK_MODEL_QUESTIONS is not set")
    if fault := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(fault)
    with served_small_model() as address:
        yield address


@pytest.mark.timeout(36_000)
def test_nothing_false_is_shown_of_what_the_model_writes(
    address: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for asked in asked_corpora(QUESTIONS, tmp_path_factory.mktemp("corpora")):
        faults += answered(asked, address, counts)
    print(dict(counts))
    assert not faults, "\n".join(faults)
    assert counts["asked"] >= min(QUESTIONS, 100)
    assert counts["written by the model"] > counts["asked"] / 2, "not extraction in its place"
    assert counts["sentences dropped"] > counts["asked"] / 10, "it does make things up"


def answered(asked: Asked, address: str, counts: Counter[str]) -> list[str]:
    """Ask all questions of a corpus; return what is false in what is shown, and count what became of it."""
    generation = {"provider": "openai", "model": NAME, "base_url": address, **SMALL}
    config = parse_config({"home": str(asked.home), "tenants": {TENANT: {}}, "generation": generation})
    pages = {(row["page_id"], row["version"]): "" for row in asked.corpus.sections.to_pylist()}
    for row in asked.corpus.sections.to_pylist():
        pages[row["page_id"], row["version"]] += f"\n{row['heading']}\n{row['text']}"
    pipeline, faults = Pipeline.open(config, TENANT, open_embedder(config.embedding)), list[str]()
    pipeline._answering._generator = overheard = Overheard(config.generation)
    for question in asked.questions:
        overheard.draft, overheard.lock = Draft((), EXTRACTIVE), Lock(())
        answer = pipeline.ask(question.asker(TENANT), question.question)
        chunks = {candidate.chunk.chunk_id: candidate.chunk for candidate in overheard.lock.passages}
        receipt = pipeline.receipts.get(answer.receipt_id or "", TENANT)
        shown = shown_of(answer, receipt, chunks)
        counts += Counter(asked=1, citations=len(answer.citations), **{f"outcome {answer.outcome}": 1})
        counts += Counter(f"sentence {verdict['support']}" for verdict in receipt["verdicts"])
        if overheard.draft.model != EXTRACTIVE:
            counts["written by the model"] += 1
            counts["sentences written"] += len({claim.text for claim in overheard.draft.claims})
            beside = list(beside_true_quotes(overheard.draft, overheard.lock, question.question))
            counts["sentences beside true quotes"] += len(beside)
            shown += beside
        found = [*quote_faults(answer, pages), *(fault for part in shown for fault in sentence_faults(part))]
        found += pipeline.proof(answer.receipt_id or "").faults
        faults += [f"{question.question}: {fault}" for fault in found]
    pipeline.close()
    return faults
