"""Gold sets are read and checked: what is wrong is named by file and question."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evals.evaluation.gold import GoldError, GoldPlace, GoldSet, find_gold, read_gold
from rag_serving.access.principals import Principal

ANSWERABLE = {"id": "a", "question": "How long?", "answerable": True, "page": 11, "quote": "for 168 hours"}
UNANSWERABLE = {"id": "b", "question": "Who won?", "answerable": False}


def written(folder: Path, *questions: object, name: str = "set", **more: object) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"questions": list(questions), **more}), encoding="utf-8")
    return path


def read(folder: Path, *questions: object) -> GoldSet:
    return read_gold(written(folder, *questions))


def test_questions_are_read_with_what_is_known_of_them(tmp_path: Path) -> None:
    also = {**ANSWERABLE, "also": [{"page": "12", "anchor": "x"}], "groups": ["ops"], "user": "ann", "tags": ["t"]}
    first, second = read(tmp_path, also, UNANSWERABLE).questions
    assert first.pages == {"11", "12"}
    assert first.quotes == ("for 168 hours",)
    assert first.asker("acme") == Principal("acme", "ann", frozenset({"ops"}))
    assert not second.answerable
    assert not second.pages


def test_what_usefulness_is_judged_by_is_read(tmp_path: Path) -> None:
    known = {"kind": "value", "heading": "Logs", "facts": ["168 hours", ["7 days", 7]], "also": [{"page": 12}]}
    first, second = read(tmp_path, {**ANSWERABLE, **known}, {**UNANSWERABLE, "near": 11, "why": "x"}).questions
    assert first.kind == "value"
    assert first.facts == (("168 hours",), ("7 days", "7"))
    assert first.places == (GoldPlace("11", heading="Logs"), GoldPlace("12"))
    assert second.part == first.part, "a near miss is of the part of the page beside it"
    assert not second.pages


def test_the_sample_gold_set_is_read() -> None:
    gold = read_gold(Path(__file__).parents[2] / "evals/gold/sample.yaml")
    assert gold.tenant == "demo"
    assert len(gold.questions) >= 40


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("text", "question 1 is no mapping"),
        ({**ANSWERABLE, "pages": []}, r"question 1 \(a\) has an unknown key 'pages'"),
        ({"question": "x", "answerable": False}, "has no 'id'"),
        ({"id": "a", "question": " ", "answerable": False}, "has no 'question'"),
        ({"id": "a", "question": "x", "answerable": "maybe"}, "must say `answerable: true`"),
        ({"id": "a", "question": "x", "answerable": True, "page": "1"}, "is answerable and has no 'quote'"),
        ({**ANSWERABLE, "also": ["12"]}, "'also' must be a list of places"),
        ({**ANSWERABLE, "groups": "ops"}, "'groups' must be a list"),
        ({**ANSWERABLE, "facts": "168 hours"}, "'facts' must be a list"),
    ],
)
def test_a_faulty_question_is_named(tmp_path: Path, entry: object, message: str) -> None:
    with pytest.raises(GoldError, match=message):
        read(tmp_path, entry)


def test_an_id_stands_once(tmp_path: Path) -> None:
    with pytest.raises(GoldError, match="'a' stands twice"):
        read(tmp_path, ANSWERABLE, ANSWERABLE)


@pytest.mark.parametrize("content", ["", "questions: []", "- a", "questions: {a: [", "\udcff"])
def test_a_file_that_is_no_gold_set_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "set.yaml"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(GoldError, match="gold set"):
        read_gold(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GoldError, match=r"none\.yaml cannot be read"):
        read_gold(tmp_path / "none.yaml")


def test_a_tenant_finds_its_own_sets(tmp_path: Path) -> None:
    written(tmp_path, ANSWERABLE, name="one", tenant="acme")
    written(tmp_path, UNANSWERABLE, name="two", tenant="other")
    assert [question.id for question in find_gold(tmp_path, "acme").questions] == ["a"]
    with pytest.raises(GoldError, match="no gold set of tenant 'third'"):
        find_gold(tmp_path, "third")
