"""Where a text stands as well is told to who may read the place, and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.wiki import PASSAGES, configuration, embedder, publish
from typer.testing import CliRunner

from rag_serving.access.principals import Principal
from rag_serving.answering.markdown import markdown
from rag_serving.ask import Pipeline
from rag_serving.cli.main import app
from rag_serving.records.passages import Location
from rag_serving.records.queries import Filters

QUESTION = "How long does each broker keep logs?"
ANYBODY, HR = Principal("acme"), Principal("acme", groups=frozenset({"hr"}))
PUBLIC = Location("Kafka operations → Log retention", "https://wiki.example/pages/71#Log-retention", "ARCHIVE")
SECRET = "https://wiki.example/pages/72#Log-retention"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wiki, where the text on log retention stands on two more pages, one of which only group:hr may read."""
    folder = tmp_path_factory.mktemp("places")
    twin = replace(PASSAGES[1], places=(("71", "ARCHIVE", "everyone"), ("72", "PEOPLE", "group:hr")))
    publish(folder, [PASSAGES[0], twin, *PASSAGES[2:]])
    return folder


@pytest.fixture
def asked(home: Path) -> Iterator[Pipeline]:
    opened = Pipeline.open(configuration(home), "acme", embedder())
    yield opened
    opened.close()


def test_a_citation_names_the_other_places_that_the_asker_may_read(asked: Pipeline) -> None:
    citation = asked.ask(HR, QUESTION).payload()["citations"][0]
    told = [(place["url"], place["space"]) for place in citation["also_at"]]
    assert told == [(PUBLIC.url, "ARCHIVE"), (SECRET, "PEOPLE")]
    assert set(citation["also_at"][0]) == {"title", "url", "space"}


def test_a_place_the_asker_may_not_read_is_told_nowhere(asked: Pipeline) -> None:
    answer = asked.ask(ANYBODY, QUESTION, explain=True)
    found = asked.search(ANYBODY, QUESTION)
    assert answer.citations[0].also_at == (PUBLIC,)
    for shown in (json.dumps(answer.payload()), markdown(answer), json.dumps(found.payload())):
        assert PUBLIC.url in shown
        assert "pages/72" not in shown


def test_a_receipt_keeps_no_other_places(asked: Pipeline) -> None:
    answer = asked.ask(HR, QUESTION)
    assert answer.receipt_id is not None
    assert "pages/7" not in json.dumps(asked.receipts.get(answer.receipt_id, "acme"))
    assert asked.proof(answer.receipt_id).faults == ()


def test_a_filter_finds_a_text_by_a_place_of_it(asked: Pipeline) -> None:
    by_space = asked.search(ANYBODY, QUESTION, filters=Filters(space=("ARCHIVE",)))
    by_label = asked.search(ANYBODY, QUESTION, filters=Filters(labels=("copy",)))
    assert [c.chunk.page_id for c in by_space.results] == [c.chunk.page_id for c in by_label.results] == ["12"]


def test_a_filter_does_not_tell_of_a_place_the_asker_may_not_read(asked: Pipeline) -> None:
    filters = Filters(space=("PEOPLE",))
    assert [c.chunk.page_id for c in asked.search(HR, QUESTION, filters=filters).results] == ["12"]
    assert not asked.search(ANYBODY, QUESTION, filters=filters).results


def test_the_terminal_shows_the_other_places(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_text(yaml.safe_dump({"home": str(home), "tenants": {"acme": {}}}), encoding="utf-8")
    for command in (["ask", QUESTION], ["search", QUESTION]):
        shown = CliRunner().invoke(app, [*command, "--config", str(path)]).output
        assert f"also at Kafka operations → Log retention  ARCHIVE  {PUBLIC.url}" in shown
        assert "pages/72" not in shown
