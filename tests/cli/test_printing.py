"""What a terminal shows of an answer."""

from __future__ import annotations

from dataclasses import replace

from click import unstyle

from rag_serving.cli.printing import answer_lines
from rag_serving.records.answers import Answer, Citation

URL = "https://wiki.example/page#Leave"

CITED = Citation(
    index=1,
    chunk_id="7:3:0",
    title="Leave → Unpaid",
    heading_path=("Leave", "Unpaid"),
    url=URL,
    fragment_url=f"{URL}:~:text=first",
    quote="first words",
    space="HR",
    page_version=3,
    verification="exact",
    start=0,
    end=11,
)


def shown(*citations: Citation) -> list[str]:
    return [unstyle(line) for line in answer_lines(Answer("answered", "They say so.", citations))]


def test_a_citation_has_its_passage_its_quote_and_its_link() -> None:
    assert shown(CITED) == ["They say so.", "", "[1] Leave → Unpaid  HR, version 3", "    “first words”", f"    {URL}"]


def test_quotes_of_one_passage_stand_together() -> None:
    later = replace(CITED, quote="second\nwords", start=20, end=32)
    other = replace(CITED, index=2, title="Hours")
    lines = shown(CITED, other, later)
    assert lines.count("[1] Leave → Unpaid  HR, version 3") == 1
    assert lines[3:6] == ["    “first words”", "    “second words”", f"    {URL}"]
    assert lines[7] == "[2] Hours  HR, version 3"


def test_passages_that_were_read_have_their_place_and_the_number_they_are_cited_by() -> None:
    read = {"heading_path": ["Leave"], "why": "exact: verbatim", "scores": {"dense": 0.5}}
    passages = [{**read, "passage": 4, "index": 1}, {**read, "passage": 2, "index": None}]
    lines = [unstyle(line) for line in answer_lines(Answer("answered", "So.", (CITED,), passages=passages))]
    assert "passage 4, cited as [1]: Leave: exact: verbatim (dense 0.500)" in lines
    assert "passage 2: Leave: exact: verbatim (dense 0.500)" in lines
