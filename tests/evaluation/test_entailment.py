"""ALCE's citation recall and precision, with a judge that knows which passages say what."""

from __future__ import annotations

import pytest

from evals.evaluation.measures import CitedStatement, entailed_precision, entailed_recall, statements
from rag_serving.records.answers import Answer, Citation


def entails(premise: str, hypothesis: str) -> bool:
    """A premise entails what is made of its words."""
    return set(hypothesis.split()) <= set(premise.split())


@pytest.mark.parametrize(
    ("found", "recall", "precision"),
    [
        ([], None, None),
        ([CitedStatement("a", ("a",))], 1.0, 1.0),
        ([CitedStatement("a", ("b",))], 0.0, 0.0),
        ([CitedStatement("a b", ("a", "b"))], 1.0, 1.0),  # neither alone, both together
        ([CitedStatement("a", ("a", "b"))], 1.0, 0.5),  # the second adds nothing
        ([CitedStatement("a", ("a", "a"))], 1.0, 1.0),  # each alone is enough
        ([CitedStatement("a", ())], 0.0, None),
        ([CitedStatement("a", ("a",)), CitedStatement("b", ("c", "d"))], 0.5, 1 / 3),
    ],
)
def test_recall_and_precision_are_those_of_the_paper(
    found: list[CitedStatement], recall: float | None, precision: float | None
) -> None:
    assert entailed_recall(found, entails) == recall
    assert entailed_precision(found, entails) == (None if precision is None else pytest.approx(precision))


def cited(index: int, chunk_id: str) -> Citation:
    url = "https://wiki.example/1#Top"
    return Citation(index, chunk_id, "T", ("T",), url, url, "quote", "ENG", 1, "exact", 0, 5)


def test_statements_are_the_paragraphs_with_what_they_cite() -> None:
    passages = [{"index": 1, "chunk_id": "1:1:0", "text": "one"}, {"index": 2, "chunk_id": "2:1:0", "text": "two"}]
    answer = Answer(
        "answered",
        "Logs [of brokers] are kept. [1][2]\n\nThey are rotated. [2]\n\nNobody says so.",
        (cited(1, "1:1:0"), cited(2, "2:1:0")),
        passages=passages,
    )
    assert statements(answer) == [
        CitedStatement("Logs [of brokers] are kept.", ("one", "two")),
        CitedStatement("They are rotated.", ("two",)),
        CitedStatement("Nobody says so.", ()),
    ]
