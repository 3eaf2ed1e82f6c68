"""`citelock build` where a database answers: migrated, published, asked without folders, rolled back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import dagster as dg
import pytest
from support.building import build, build_json
from support.command_line import run
from support.envelopes import SECTION, Wiki, envelope
from support.postgres_index import IndexServer, index_server
from support.project import Project

from citelock_stores.postgres.migrations.upgrade import HEAD
from rag_serving.artifacts.store import Store


@pytest.fixture(scope="module")
def server() -> Iterator[IndexServer]:
    with index_server() as started:
        yield started


def printed(*arguments: str) -> str:
    """What a command prints that ends well."""
    code, output, errors = run(*arguments)
    assert code == 0, errors
    return output


def assert_figures(wiki: Wiki) -> None:
    """Return the metadata in Dagster of a publication, and of another one of the same."""
    with dg.DagsterInstance.ephemeral() as instance:
        project = Project(wiki, instance)
        found = project.publish()["published_generation"]
        assert found["postgres_rows_of_document_chunks"] == found["dagster/row_count"]
        assert found["postgres_rows_copied"] > found["dagster/row_count"]
        assert found["postgres_seconds"] > 0
        assert project.publish()["published_generation"]["postgres_rows_copied"] == 0


def test_from_disk_into_a_database_and_back(built_wiki: Wiki, server: IndexServer) -> None:
    wiki, store = built_wiki, Store(built_wiki.home)
    first = store.current("demo")
    index = server.config(wiki.home, ("demo",), migrated=False).index
    wiki.configure(index=index.model_dump(exclude_defaults=True, mode="json"))
    config = ("--config", str(wiki.config_path))

    assert "citelock index migrate" in build(wiki, code=1).output
    assert store.current("demo") == first
    assert f"schema {HEAD}" in printed("index", "migrate", *config)
    assert "is up to date" in printed("index", "migrate", *config)

    assert_figures(wiki)  # no page changed: another database is empty
    assert not build_json(wiki)["tenants"].get("demo", {}).get("published")
    status = json.loads(printed("index", "status", "--json", *config))
    assert (status["current"], status["faults"]) == (store.current("demo"), [])
    wiki.write("ops", envelope("202", "Harbour guide", SECTION.format(heading="Berths", text="Berth nine is dredged.")))
    newer = build_json(wiki)["tenants"]["demo"]["generation"]

    listed = json.loads(printed("generations", "list", "--json", *config))
    assert [(info["id"], info["current"]) for info in listed] == [(newer, True), (status["current"], False)]
    assert listed[0]["published_at"] > listed[1]["published_at"]
    shutil.rmtree(store.generations("demo"))  # a machine that only serves has no folders
    question = ("ask", "--json", "When do backups of the database start?", *config)
    answer = json.loads(printed(*question))
    assert "two in the morning" in answer["answer"]
    assert answer["generation"] == newer
    assert "Berth nine" in json.loads(printed("ask", "--json", "Which berth is dredged?", *config))["answer"]
    lines = printed("generations", "list", *config).splitlines()
    assert next(line.split()[:2] for line in lines) == ["*", newer]
    assert lines[1].startswith(f"  {status['current']}")
    assert status["current"] in printed("generations", "rollback", *config)
    assert json.loads(printed(*question))["generation"] == status["current"]
