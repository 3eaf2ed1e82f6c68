"""The first questions to a folder: each sentence that answers is in its file once; what an answer is counted as."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from evals.bench.corpora import DATA, ROOT
from evals.bench.first_questions import judged, plain


@pytest.mark.parametrize(
    ("corpus", "gold", "answerable"), [("rust-book", "rust_book", 14), ("kafka-docs", "kafka", 16)]
)
def test_each_sentence_that_answers_begins_so_once_in_its_file(corpus: str, gold: str, answerable: int) -> None:
    if not (DATA / corpus).is_dir():
        pytest.skip("../shared/data is not there")
    folder = yaml.safe_load((ROOT / "evals" / "gold" / "folder" / f"{gold}.yaml").read_text(encoding="utf-8"))
    answered = [question for question in folder["questions"] if "page" in question]
    assert (len(folder["questions"]), len(answered)) == (20, answerable)
    for question in answered:
        source = (DATA / folder["folder"] / question["page"]).read_text(encoding="utf-8")
        assert plain(source).count(question["starts"]) == 1, question


@pytest.mark.parametrize(
    ("outcome", "text", "verdict"),
    [
        ("told", "It is _kept_ for\n35 days. [1]", "told"),
        ("told", "It is deleted. [1]", "told by other words"),
        ("closest", "It is kept for 35 days. [1] Other. [2]", "first of the closest"),
        ("closest", "Other. [1] It is kept for 35 days. [2]", "among those shown"),
        ("none", "Not found in docs.", "not shown"),
    ],
)
def test_an_answer_counts_by_where_the_sentence_is(outcome: str, text: str, verdict: str) -> None:
    answer: dict[str, Any] = {"outcome": outcome, "answer": text}
    assert judged({"page": "a.md", "starts": "It is kept for 35 days."}, answer) == verdict
    assert judged({}, answer) == {"told": "told wrongly", "none": "not found"}.get(
        outcome, "closest passages, not told"
    )
