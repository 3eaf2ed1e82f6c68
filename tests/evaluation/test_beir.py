"""Reading test collections and writing runs."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from evals.evaluation.beir import BeirError, read_collection, write_run


def write(folder: Path, name: str, content: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = [
        {"_id": "d1", "title": "Über", "text": "one", "metadata": {"doc_id": "file", "position": 3}},
        {"_id": "d2", "text": "two"},
    ]
    write(tmp_path, "corpus.jsonl", "".join(json.dumps(row) + "\n" for row in documents))
    queries = [{"_id": f"q{n}", "text": f"question {n}"} for n in range(4)]
    write(tmp_path, "queries.jsonl", "\n".join(json.dumps(row) for row in queries) + "\n\n")
    write(tmp_path, "qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td1\t1\nq0\td2\t2\nq1\td2\t1\nq2\td1\t0\n")
    write(tmp_path, "qrels/train.tsv", "q3\td1\t1\n")
    return tmp_path


def test_only_queries_with_something_to_find_are_kept(folder: Path) -> None:
    collection = read_collection(folder)
    assert dict(collection.queries) == {"q0": "question 0", "q1": "question 1"}
    assert collection.judgements["q0"] == {"d1": 1, "d2": 2}


def test_titles_and_places_are_optional(folder: Path) -> None:
    first, second = read_collection(folder).documents
    assert (first.title, first.page, first.position) == ("Über", "file", 3)
    assert (second.title, second.page, second.position) == ("", "d2", 0)


def test_headings_and_the_page_above_are_optional_too(folder: Path) -> None:
    place = {"doc_id": "p1", "headings": ["Setup", "Ports"], "parent": "p0"}
    write(folder, "corpus.jsonl", json.dumps({"_id": "d1", "text": "one", "metadata": place}) + "\n")
    write(folder, "qrels/test.tsv", "q0\td1\t1\n")
    (document,) = read_collection(folder).documents
    assert (document.headings, document.parent) == (("Setup", "Ports"), "p0")


def test_pages_may_be_judged_instead_of_their_parts(folder: Path) -> None:
    rows = [{"_id": f"d{n}", "text": "words", "metadata": {"doc_id": f"p{n // 2}"}} for n in range(4)]
    write(folder, "corpus.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(folder, "qrels/test.tsv", "q0\tp1\t1\n")
    assert read_collection(folder).of_pages
    write(folder, "qrels/test.tsv", "q0\td1\t1\n")
    assert not read_collection(folder).of_pages


def test_another_split_is_read_with_or_without_a_header(folder: Path) -> None:
    assert list(read_collection(folder, "train").queries) == ["q3"]


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BeirError, match=f"{name} does not exist"):
        read_collection(folder)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n{"_id": "d2", "te', r"corpus.jsonl:2: not valid JSON"),
        ("corpus.jsonl", '{"_id": "d1"}\n', r"corpus.jsonl:1: an object with `_id` and `text`"),
        ("corpus.jsonl", '{"_id": "d1", "text": ""}\n' * 2, r"corpus.jsonl:2: document 'd1' stands twice"),
        ("corpus.jsonl", "\n", r"corpus.jsonl has no document"),
        ("queries.jsonl", "[]\n", r"queries.jsonl:1: an object"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq0\td1\n", r"test.tsv:2: query-id, corpus-id"),
        ("qrels/test.tsv", "q0\tgone\t1\nq0\td1\t1\n", r"names 1 of 2 document ids .* 'gone'; remove"),
        ("qrels/test.tsv", "lost\td1\t1\n", r"names 1 of 1 query ids .* 'lost'"),
        ("qrels/test.tsv", "q0\td1\t0\n", r"judges no document relevant"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(folder: Path, name: str, content: str, said: str) -> None:
    write(folder, name, content)
    with pytest.raises(BeirError, match=said) as caught:
        read_collection(folder)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_text_are_told(folder: Path) -> None:
    (folder / "corpus.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BeirError, match=r"corpus\.jsonl cannot be read"):
        read_collection(folder)


def test_tied_scores_of_a_run_keep_their_order_in_single_precision(tmp_path: Path) -> None:
    write_run(tmp_path / "run", {"q": [("z", 0.5), ("a", 0.5), ("m", 0.5), ("b", 0.25)]})
    rows = [line.split() for line in (tmp_path / "run").read_text().splitlines()]
    assert [(row[0], row[1], row[2], row[3], row[5]) for row in rows] == [
        ("q", "Q0", name, str(rank), "citelock") for rank, name in enumerate("zamb", start=1)
    ]
    scores = [np.float32(row[4]) for row in rows]
    assert all(first > second for first, second in pairwise(scores))


def test_an_id_that_a_run_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(BeirError, match="'a b'"):
        write_run(tmp_path / "run", {"q": [("a b", 1.0)]})
