"""`citelock gold suggest`: drafts by template or by a model, and what becomes of those that a person accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from support.building import BuiltAs
from support.envelopes import PAGER, Wiki, envelope
from support.project import Project
from support.stand_in_chat import MODEL, StandInChat, served
from typer.testing import CliRunner

from rag_serving.cli.main import app
from rag_serving.config.models import AnswerGeneration

SECRET = "<h2>Pay</h2><p>To raise a salary, write to the payroll team before Friday.</p>"
ROLLBACK = "To roll back a release, run the rollback pipeline."


def run(project: Project, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [*arguments, "--config", str(project.wiki.config_path)], prog_name="citelock")
    return result.exit_code, result.stdout, result.stderr


def drafts(project: Project, *options: str) -> dict[str, Any]:
    code, out, err = run(project, "gold", "suggest", *options)
    assert (code, err) == (0, "")
    return dict(yaml.safe_load(out))


def sources(wiki: Wiki) -> dict[str, Any]:
    """The second source is read by one group only."""
    return {"eng": wiki.source("eng"), "ops": wiki.source("ops", readers=["group:staff"])}


@pytest.fixture
def built(built_as: BuiltAs) -> Iterator[Project]:
    wiki = built_as("wiki_with_salaries", add_salaries)
    wiki.configure(sources=sources(wiki))
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(wiki, instance)


def add_salaries(wiki: Wiki) -> None:
    wiki.write("ops", envelope("201", "Pager guide", PAGER + SECRET))
    wiki.configure(sources=sources(wiki))


def accepted(built: Project, content: dict[str, Any]) -> Path:
    """The drafts as a person leaves them in the tenant's gold set, each with an id of its own."""
    folder = built.wiki.folder / "gold"
    folder.mkdir()
    questions = [{**entry, "id": f"{entry['page']}-{entry['anchor']}"} for entry in content["questions"]]
    (folder / "demo.yaml").write_text(yaml.safe_dump({**content, "questions": questions}), encoding="utf-8")
    built.wiki.configure(sources=sources(built.wiki), evaluation={"gold": str(folder)})
    return folder


def test_templates_draft_from_what_everyone_may_read(built: Project) -> None:
    content = drafts(built)
    assert content["tenant"] == "demo"
    (entry,) = [entry for entry in content["questions"] if entry["quote"] == ROLLBACK]
    assert entry == {
        "id": entry["id"],
        "question": "How do I roll back a release?",
        "answerable": True,
        "page": "101",
        "anchor": "Deployguide-Rollingback",
        "quote": ROLLBACK,
        "tags": ["draft"],
    }
    assert "salary" not in json.dumps(content)
    assert len(drafts(built, "-n", "1")["questions"]) == 1


def test_accepted_drafts_stand_and_are_asked(built: Project) -> None:
    content = drafts(built)
    folder = accepted(built, content)
    count = len(content["questions"])
    assert run(built, "gold", "check")[:2] == (0, f"{count} of {count} entries stand\n")
    told = json.loads(run(built, "evaluate", str(folder / "demo.yaml"), "--json")[1])
    assert (told["questions"], told["answerability"]["accuracy"]) == (count, 1.0)


def test_an_accepted_draft_whose_quote_changes_later_is_named_with_what_stands_there_now(built: Project) -> None:
    accepted(built, drafts(built))
    page = json.loads((built.wiki.folder / "eng" / "101.json").read_text(encoding="utf-8"))
    page["version"]["number"] += 1
    body = page["body"]["storage"]
    body["value"] = body["value"].replace("run the rollback pipeline", "start the rollback pipeline twice")
    built.wiki.write("eng", page)
    assert built.run("ingest", "eng").success
    code, out, _ = run(built, "gold", "check")
    assert code == 1
    assert "101-Deployguide-Rollingback" in out
    assert "start the rollback pipeline" in out


def model_of_questions(messages: Sequence[dict[str, str]]) -> list[str]:
    """Asks for the last sentence of the passage; of the nightly backup it makes a sentence up."""
    between_marks = "\n".join(messages[-1]["content"].split("\n")[1:-1])
    heading, _, passage = between_marks.partition("\n\n")
    quote = passage.strip().split("\n")[-1].split(". ")[-1]
    if "Nightly backup" in heading:
        quote = "Backups are never made."
    return [json.dumps({"question": f"What is said under {heading}?", "quote": quote})]


@pytest.mark.parametrize(("provider", "path"), [("openai", "/v1/chat/completions"), ("ollama", "/api/chat")])
def test_a_model_drafts_and_what_it_makes_up_is_left_out(built: Project, provider: str, path: str) -> None:
    with served(StandInChat(model_of_questions)) as server:
        base = f"{server.url}/v1" if provider == "openai" else server.url
        generation = {"provider": provider, "model": MODEL, "base_url": base}
        built.wiki.configure(sources=sources(built.wiki), generation=generation)
        content = drafts(built)
        asked = {body["messages"][-1]["content"] for body in server.bodies}
        assert {path} == {each for each, _, _ in server.requests}
    assert not any("salary" in text for text in asked)
    assert ROLLBACK in {entry["quote"] for entry in content["questions"]}
    assert not any("never" in entry["quote"] for entry in content["questions"])
    assert len(content["questions"]) == len(asked) - 1


def test_a_model_that_is_away_is_one_line(built: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnswerGeneration, "max_retries", 0)
    away = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    built.wiki.configure(sources=sources(built.wiki), generation=away)
    code, out, err = run(built, "gold", "suggest")
    assert (code, out) == (1, "")
    assert err.startswith("citelock: no chat server answers at http://127.0.0.1:9/v1")
    assert err.count("\n") == 1


def test_nothing_published_is_said_with_what_to_run(project: Project) -> None:
    code, out, err = run(project, "gold", "suggest")
    assert (code, out) == (1, "")
    assert "run `citelock build`" in err
