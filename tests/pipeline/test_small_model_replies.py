"""What SmolLM2-135M made of passages of the sample, each sentence beside a true quote: nothing false of it is shown.

`data/small_model_replies.jsonl` was written by the model of `test_small_model.py`, asked plainly about one passage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.overheard import MadeToCite, Overheard, beside_true_quotes
from support.passages import candidate_of
from support.shown_truth import sentence_faults
from support.small_model import NAME

from rag_serving.config.models import AnswerGeneration
from rag_serving.records.claims import EXTRACTIVE, Draft
from rag_serving.records.passages import Lock

REPLIES = Path(__file__).parent / "data" / "small_model_replies.jsonl"
ROWS = [json.loads(line) for line in REPLIES.read_text("utf-8").splitlines()]
MODEL = AnswerGeneration(provider="openai", style="prose", model=NAME)


def test_nothing_false_of_what_a_small_model_wrote_is_shown() -> None:
    shown_in_all, faults = 0, list[str]()
    for row in ROWS:
        for shown in shown_of(row):
            shown_in_all += 1
            faults += [f"{row['question']}: {fault}" for fault in sentence_faults(shown)]
    assert not faults, "\n".join(faults)
    assert shown_in_all > len(ROWS)


def shown_of(row: Mapping[str, Any]) -> list[Any]:
    """What readers see of each sentence of a reply."""
    path = tuple(row["heading_path"])
    lock = Lock((candidate_of(row["text"], title=path[0], heading_path=path),))
    overheard = Overheard(MODEL, lambda settings: MadeToCite(settings, lambda _: row["reply"]))  # type: ignore[arg-type, return-value]
    draft = overheard.write(row["question"], lock, lambda: Draft((), EXTRACTIVE))
    assert draft.model == f"openai/{NAME}"
    return list(beside_true_quotes(draft, lock, row["question"]))
