"""What counts as a judged set, and how the links of a wiki become one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.bench.corpora import JUDGEMENTS, DataError, judged_sets, masked

STORAGE = "<p>The crane lifts the cargo from the vessel that lies at the berth in the north of the harbour.</p>"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A BEIR folder, a wiki with one known link, a SQuAD file, and files that are no judged set."""
    beir, wiki, squad = tmp_path / "harbour", tmp_path / "wiki", tmp_path / "squad"
    for folder in (beir / "qrels", wiki / "SPACE", squad):
        folder.mkdir(parents=True)
    (beir / "corpus.jsonl").write_text(json.dumps({"_id": "d", "text": "The crane lifts cargo."}))
    (beir / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "What lifts cargo?"}))
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    for page, title in (("1", "Crane guide"), ("2", "Berth plan")):
        (wiki / "SPACE" / f"{page}.json").write_text(json.dumps(envelope(page, title)))
    links = [
        {"target_id": "1", "target_title": "Crane guide", "anchor": "the guide", "context": "as the guide says, lift"},
        {"target_id": "9", "target_title": "Gone", "anchor": "gone", "context": "a page that is not there"},
    ]
    (wiki / JUDGEMENTS).write_text("".join(json.dumps(link) + "\n" for link in links))
    asked = [
        {
            "id": "a",
            "question": "What lifts?",
            "is_impossible": False,
            "answers": [{"text": "crane", "answer_start": 4}],
        },
        {"id": "b", "question": "Who sinks?", "is_impossible": True, "answers": []},
    ]
    paragraphs = [{"context": "The crane lifts.", "qas": asked}, {"context": "The berth is long.", "qas": []}]
    (squad / "dev.json").write_text(json.dumps({"data": [{"title": "Harbour", "paragraphs": paragraphs}]}))
    (squad / "notes.json").write_text('{"data": []}')
    (squad / "broken.json").write_text("{")
    return tmp_path


def envelope(page: str, title: str) -> dict[str, object]:
    return {
        "id": page,
        "type": "page",
        "status": "current",
        "title": title,
        "space": {"key": "SPACE"},
        "version": {"number": 1, "when": "2024-01-01T00:00:00.000Z"},
        "body": {"storage": {"value": STORAGE, "representation": "storage"}},
        "_links": {"base": "https://wiki.example", "webui": f"/pages/{page}"},
    }


def test_every_folder_that_judges_is_found_by_name(data: Path) -> None:
    assert [judged.name for judged in judged_sets(data)] == ["harbour", "squad-dev", "wiki-links"]


def test_without_a_judged_set_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no judged set"):
        judged_sets(tmp_path)


def test_only_answerable_questions_of_squad_ask_for_their_paragraph(data: Path) -> None:
    squad = judged_sets(data)[1].read()
    assert dict(squad.queries) == {"a": "What lifts?"}
    assert squad.judgements == {"a": {"Harbour-0": 1}}
    assert [document.id for document in squad.documents] == ["Harbour-0", "Harbour-1"]


def test_links_ask_for_pages_that_are_there_and_pages_are_judged(data: Path) -> None:
    links = judged_sets(data)[2].read()
    assert links.of_pages
    assert links.judgements == {"l0": {"1": 1}}
    assert dict(links.queries) == {"l0": "as says, lift"}
    assert {document.page for document in links.documents} == {"1", "2"}


def test_markup_anchor_and_title_are_masked_in_any_case() -> None:
    link = {
        "anchor": "this page",
        "target_title": "Crane Guide",
        "context": "href='x'>See <b>THIS page</b>: crane guide, now",
    }
    assert masked(link) == "See : , now"
