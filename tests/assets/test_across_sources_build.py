"""A page that shows a page of another source: both jobs together keep its text and its readers up to date."""

from __future__ import annotations

from typing import Any

from support.envelopes import SECTION, envelope
from support.project import Project

from rag_serving.config.loading import load_config
from rag_serving.indexes.generation import Generation

LINK = '<ac:link><ri:page ri:space-key="OPS" ri:content-title="Steps"/></ac:link>'
SHOWS = (
    '<p>What to do:</p><ac:structured-macro ac:name="{}"><ac:parameter ac:name="">' + LINK + "</ac:parameter>"
    "</ac:structured-macro>"
)
HIDDEN = (
    '<ac:structured-macro ac:name="excerpt"><ac:parameter ac:name="hidden">true</ac:parameter><ac:rich-text-body>'
    "<p>{}</p></ac:rich-text-body></ac:structured-macro>"
)


def write_steps(project: Project, body: str, version: int, group: str | None = None) -> None:
    page = envelope("301", "Steps", body, version=version)
    page["space"] = {"key": "OPS", "name": "Operations"}
    if group:
        names = {"results": [{"type": "group", "name": group}]}
        page["restrictions"] = {"read": {"restrictions": {"user": {"results": []}, "group": names}}}
    project.wiki.write("ops", page)


def published(project: Project) -> dict[str, str]:
    """Text and readers of the chunks of the page that shows the other one."""
    current = project.store.current("demo")
    assert current is not None
    generation = Generation.open(project.store, "demo", current, load_config(project.wiki.config_path))
    rows: list[dict[str, Any]] = generation.table.select(["page_id", "text", "readers"]).to_pylist()
    generation.close()
    return {row["text"]: row["readers"] for row in rows if row["page_id"] == "300"}


def test_text_shown_from_another_source_follows_that_page(project: Project) -> None:
    project.wiki.configure(ingestion={"dedup_enabled": False})
    project.wiki.write("eng", envelope("300", "Runbook", SHOWS.format("include")))
    write_steps(project, SECTION.format(heading="Now", text="Stop the scheduler."), 1)
    made = project.build()
    assert made["dedup_map"]["includes_across_sources"] == 1
    assert published(project) == {"What to do:": "everyone", "Stop the scheduler.": "everyone"}
    write_steps(project, SECTION.format(heading="Now", text="Fence the primary."), 2, group="staff")
    assert project.run("ingest", "ops").success
    project.publish()
    assert published(project) == {"What to do:": "everyone", "Fence the primary.": "group:staff"}
    (project.wiki.folder / "ops" / "301.json").unlink()
    assert project.run("ingest", "ops").success
    project.publish()
    assert published(project) == {"What to do:": "everyone"}


def test_an_excerpt_that_is_hidden_on_its_own_page_is_followed_too(project: Project) -> None:
    only = SHOWS.format("excerpt-include").partition("</p>")[2]
    project.wiki.write("eng", envelope("300", "Runbook", only))
    for version, text in enumerate(("Stop the scheduler.", "Fence the primary."), start=1):
        write_steps(project, HIDDEN.format(text), version)
        project.run("ingest", "eng")
        project.run("ingest", "ops")
        assert project.tick().run_requests, "the chunks of neither source tell that the hidden text changed"
        made = project.publish()
        assert not project.tick().run_requests
        assert set(published(project)) == {text}
        assert "301" in made["dedup_map"]["why_explained"]
        assert "300" not in made["dedup_map"]["why_explained"]
