"""A source that asks for lists of pages: the option alone, or a new child, reaches pages that did not change."""

from __future__ import annotations

from support.envelopes import envelope
from support.project import Project

from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER
from rag_serving.artifacts.store import read_table

CHILDREN = '<p>Guides:</p><ac:structured-macro ac:name="children"/>'


def write_child(project: Project, page_id: str, title: str) -> None:
    child = envelope(page_id, title, "<p>Read me.</p>")
    child["ancestors"] = [{"id": "300", "title": "Handbook"}]
    project.wiki.write("eng", child)


def found(project: Project) -> tuple[list[str], list[tuple[str, str]]]:
    """The texts of the page with the list, and what became of its macros."""
    assert project.run("ingest", "eng").success
    folder = project.store.source("eng")
    chunks = read_table(folder / "chunks.parquet", CHUNKS).to_pylist()
    ledger = read_table(folder / "macro_ledger.parquet", MACRO_LEDGER).to_pylist()
    texts = [row["text"] for row in chunks if row["page_id"] == "300"]
    return texts, [(row["macro"], row["outcome"]) for row in ledger if row["page_id"] == "300"]


def test_a_list_is_made_when_it_is_asked_for_and_follows_the_pages(project: Project) -> None:
    project.wiki.write("eng", envelope("300", "Handbook", CHILDREN))
    write_child(project, "301", "Backups")
    assert found(project) == (["Guides:"], [("children", "navigation")])
    sources = {"eng": project.wiki.source("eng", resolve_lists=True), "ops": project.wiki.source("ops")}
    project.wiki.configure(sources=sources)
    assert found(project) == (["Guides:", "- Backups"], [("children", "resolved")])
    write_child(project, "302", "Alarms")
    assert found(project)[0] == ["Guides:", "- Alarms\n- Backups"]
    project.wiki.configure()
    assert found(project) == (["Guides:"], [("children", "navigation")])
