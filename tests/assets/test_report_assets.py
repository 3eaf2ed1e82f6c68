"""The assets for analysts: what they tell, where their files lie, and that nothing waits for them."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from fastapi.testclient import TestClient
from support.building import BuiltAs
from support.envelopes import SECTION, Wiki, envelope
from support.project import QUIET, Project
from support.stand_in_chat import MODEL, StandInChat, served
from support.stand_in_ragas import answers_ragas

from evals.evaluation.compare import save_run
from evals.reports.report import forget_days, reports_folder
from rag_assets.definitions import build_defs
from rag_assets.sensors import report_when_published, report_yesterday
from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store, read_json, remove_folder, write_json
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.telemetry.telemetry import open_telemetry

TODAY = datetime.now(UTC).date().isoformat()
ROOT = Path(__file__).parents[2]
GOLD = {"gold": "gold"}
YESTERDAY = (datetime.now(UTC).date() - timedelta(days=1)).isoformat()


def told(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    """The metadata of an asset that a run materialized."""
    assert result.success
    (made,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in made.metadata.items()}


def ask(project: Project, question: str, verdict: Any = None, comment: str | None = None) -> None:
    config = load_config(project.wiki.config_path)
    pipeline = Pipeline.open(config, "demo", telemetry=open_telemetry(config, "demo"))
    answer = pipeline.ask(Principal("demo", "ann"), question)
    if verdict:
        assert pipeline.telemetry is not None
        assert answer.receipt_id is not None
        pipeline.telemetry.judged(Principal("demo", "ann"), answer.receipt_id, verdict, 1 if comment else None, comment)
    pipeline.close()


@pytest.fixture
def judged_project(built_as: BuiltAs) -> Iterator[Project]:
    """The project of a wiki that was built, evaluated by one question, and published."""
    wiki = built_as("judged_wiki", judge)
    wiki.configure(evaluation=GOLD)
    with dg.DagsterInstance.ephemeral() as instance:
        yield Project(wiki, instance)


def judge(wiki: Wiki) -> None:
    """Add a gold set of one question."""
    entry = {"id": "back", "question": "How do I roll back a release?", "answerable": True, "page": "101"}
    questions = [{**entry, "quote": "run the rollback pipeline"}]
    (wiki.folder / "gold").mkdir()
    (wiki.folder / "gold" / "demo.yaml").write_text(yaml.safe_dump({"tenant": "demo", "questions": questions}))
    wiki.configure(evaluation=GOLD)


def write_unasked(wiki: Wiki) -> None:
    """Add a page to which no question leads."""
    wiki.write("eng", envelope("103", "New", SECTION.format(heading="One", text="Nobody asks for this text.")))


def test_the_days_questions_are_told_with_the_answers_that_readers_complained_of(
    built_project: Project,
) -> None:
    built_project.wiki.configure(telemetry={"store_questions": True})
    ask(built_project, "How do I roll back a release?", "wrong_citation", "<b>that</b> is an old page")
    ask(built_project, "What is the capital of Mongolia?", "missing")
    ask(built_project, "When do backups start?", "helpful")
    found = told(built_project.run("report_day", TODAY), "telemetry_report")
    assert (found["questions"], found["complaints"]) == (3, 2)
    assert "| demo | 3 | 0 | 1 |" in found["tenants"]
    assert "data:image/png;base64," in found["report"]
    assert r"wrong citation \[1\]: How do I roll back a release?" in found["report"]
    assert "missing: What is the capital of Mongolia?" in found["report"]
    page = Path(found["html demo"]).read_text(encoding="utf-8")
    assert "&lt;b&gt;that&lt;/b&gt; is an old page" in page
    assert "How do I roll back a release?" in page
    assert "Questions without an answer" in page
    assert "| What is the capital of Mongolia? | 1 | 1 | not found |" in found["report"]
    assert found["open demo"] == f"http://127.0.0.1:8088/v1/reports/telemetry-{TODAY}?tenant=demo"


NAMED = re.compile(r"(?:127\.0\.0\.1|localhost):8088(/[\w/.-]*)|GET (/[\w/.-]*)(?=`)|(?<=, `)(/[\w/.-]+)(?=`)")
STREAMS = "/v1/events"


def named_pages() -> set[str]:
    """Return what README and docs tell people to open, without what has a placeholder in its address."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    return {"".join(found) for text in texts for found in NAMED.findall(text)} - {STREAMS}


def test_every_page_that_readme_and_docs_name_opens_after_the_automatic_runs(judged_project: Project) -> None:
    for job, partition in (("report", "demo"), ("report_day", TODAY)):
        assert judged_project.run(job, partition).success
    pages = named_pages()
    assert {"/", "/documents", "/status", "/v1/reports", "/v1/status", "/v1/filters", "/healthz", "/metrics"} <= pages
    app = create_app(load_config(judged_project.wiki.config_path))
    with TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 5000), raise_server_exceptions=False) as client:
        browser = {"Accept": "text/html"}
        opened = {page: client.get(page, headers=browser).status_code for page in sorted(pages)}
        assert {page: status for page, status in opened.items() if status == 500} == {}
        assert {opened[page] for page in ("/", "/documents", "/status", "/v1/reports", "/v1/status")} == {200}
        names = [each["name"] for each in client.get("/v1/reports").json()["reports"]]
        assert {"quality", "retrieval", "dedup", f"telemetry-{TODAY}"} < set(names)
        assert [client.get(f"/v1/reports/{name}").status_code for name in names] == [200] * len(names)


def test_a_day_without_questions_is_told_as_such(project: Project) -> None:
    found = told(project.run("report_day", YESTERDAY), "telemetry_report")
    assert (found["questions"], found["dagster/row_count"]) == (0, 0)
    assert f"0 questions and 0 searches, {YESTERDAY}" in found["report"]


def test_days_are_those_whose_rows_may_still_be_there_and_all_of_them_are_one_run(wiki: Wiki) -> None:
    def days(**telemetry: Any) -> list[str]:
        wiki.configure(telemetry=telemetry)
        specs = build_defs(wiki.config_path).resolve_all_asset_specs()
        (spec,) = [spec for spec in specs if spec.key.to_user_string() == "telemetry_report"]
        assert spec.partitions_def is not None
        return list(spec.partitions_def.get_partition_keys())

    assert len(days()) == 91  # today is one of them
    assert days(retention_days=1) == [YESTERDAY, TODAY]
    wiki.configure(telemetry={"retention_days": 1})
    tags = {"dagster/asset_partition_range_start": YESTERDAY, "dagster/asset_partition_range_end": TODAY}
    with dg.DagsterInstance.ephemeral() as instance:
        job = build_defs(wiki.config_path).resolve_job_def("report_day")
        result = job.execute_in_process(instance=instance, tags=tags, run_config=QUIET)
        events = result.asset_materializations_for_node("telemetry_report")
        made = {one.partition or "": str(one.metadata["report"].value) for one in events}
    assert sorted(made) == [YESTERDAY, TODAY]
    assert all(f"0 questions and 0 searches, {day}" in report for day, report in made.items())


def test_a_telemetry_database_that_is_away_fails_the_report_in_one_line(project: Project) -> None:
    project.wiki.configure(telemetry={"url": "postgresql://nobody@127.0.0.1:1/none"})
    result = project.run("report_day", TODAY)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "the telemetry database cannot be written" in str(failure.event_specific_data)


def test_duplicates_are_told_with_their_places_and_those_of_pages_that_are_gone_by_their_ids(twins: Wiki) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        duplicates_are_told(Project(twins, instance))


def duplicates_are_told(project: Project) -> None:
    found = told(project.materialize("dedup_report"), "dedup_report")
    assert (found["duplicates_dropped"], found["chunks"]) == (1, 6)
    assert "OPS: Failover › Promote a replica (v2) | ENG: Failover › Promote a replica (v5) | 1.000" in found["report"]
    page = Path(found["html"]).read_text(encoding="utf-8")
    assert "https://wiki.example/display/ENG/301#" in page
    assert "the old primary is fenced" in page
    project.wiki.delete("ops", "301")
    assert project.run("ingest", "ops").success
    found = told(project.materialize("dedup_report"), "dedup_report")
    assert "| 301:2:0 | ENG: Failover › Promote a replica (v5) |" in found["report"]


def test_the_phases_of_retrieval_are_told_with_what_asks_for_another(built_project: Project) -> None:
    ask(built_project, "How do I roll back a release?")
    ask(built_project, "What is the capital of Mongolia?")
    found = told(built_project.materialize("retrieval_report"), "retrieval_report")
    assert found["dagster/row_count"] == 2
    assert found["match_rate"] > 0
    assert "What asks for another phase" in found["report"]
    page = Path(found["html"]).read_text(encoding="utf-8")
    assert "Answers to be reviewed by a person" in page


def test_a_report_without_a_dedup_map_says_what_to_run(project: Project) -> None:
    result = project.run("report", "demo")
    (failure, *_) = [event for event in result.all_events if event.is_step_failure]
    assert "run `citelock build`" in str(failure.event_specific_data)


def test_reports_are_started_once_for_each_publication(built_project: Project) -> None:
    context, current = built_project.sensor_context(), built_project.store.current("demo")
    published = report_when_published(context, installation=built_project.installation)
    assert isinstance(published, dg.SensorResult)
    (request,) = published.run_requests or []
    number = built_project.store.publication("demo").number
    assert (request.partition_key, request.run_key) == ("demo", f"demo:{current}:{number}")
    built_project.store.point_current("demo", str(current))  # published once more, as after settings to and fro
    again = report_when_published(context, installation=built_project.installation)
    assert isinstance(again, dg.SensorResult)
    assert [one.run_key for one in again.run_requests or []] != [request.run_key]
    (built_project.store.tenant("demo") / "current").unlink()
    nothing = report_when_published(context, installation=built_project.installation)
    assert isinstance(nothing, dg.SensorResult)
    assert not nothing.run_requests


def test_the_day_that_has_ended_is_reported_in_the_night() -> None:
    context = dg.build_schedule_context(scheduled_execution_time=datetime(2026, 3, 1, 0, 15, tzinfo=UTC))
    request = report_yesterday(context)
    assert isinstance(request, dg.RunRequest)
    assert request.partition_key == "2026-02-28"


@pytest.mark.parametrize(("keep", "left"), [(1, 2), (90, 3)])
def test_reports_of_days_that_are_too_old_are_deleted(tmp_path: Path, keep: int, left: int) -> None:
    store, today = Store(tmp_path), datetime.now(UTC).date()
    folder = reports_folder(store, "demo")
    folder.mkdir(parents=True)
    for name in ("dedup", *(f"telemetry-{today - timedelta(days=back)}" for back in (0, 5, 100))):
        (folder / f"{name}.html").touch()
    forget_days(store, "demo", keep, today)
    assert len(list(folder.iterdir())) == left
    assert (folder / "dedup.html").exists()


def test_a_report_that_names_questions_is_not_kept_longer_than_they_are(tmp_path: Path) -> None:
    store, today = Store(tmp_path), datetime.now(UTC).date()
    path = reports_folder(store, "demo") / "quality.html"
    path.parent.mkdir(parents=True)
    path.touch()
    assert forget_days(store, "demo", 7, today) == 0
    old = (datetime.now(UTC) - timedelta(days=9)).timestamp()
    os.utime(path, (old, old))
    assert forget_days(store, "demo", 7, today) == 1
    assert not path.exists()


def test_an_evaluation_is_told_beside_the_published_generation(judged_project: Project) -> None:
    first = judged_project.store.current("demo") or ""
    write_unasked(judged_project.wiki)
    second = judged_project.build()["eval_report"]
    assert "| back | How do I roll back a release? | answered |" in second["report"]
    page = Path(second["html"]).read_text(encoding="utf-8")
    assert "judged before" in page
    assert "data:image/png;base64," in page
    assert Path(second["html"]).parent != judged_project.store.generation("demo", first)


def test_quality_is_told_over_generations_with_those_that_are_gone(judged_project: Project) -> None:
    serving = {"public_url": "https://citelock.acme.example/wiki/"}
    judged_project.wiki.configure(evaluation=GOLD, serving=serving, telemetry={"store_questions": True})
    first = judged_project.store.current("demo") or ""
    ask(judged_project, "What is the capital of Mongolia?")
    found = told(judged_project.materialize("quality_report"), "quality_report")
    assert (found["generations"], found["side_by_side"], found["questions_without_answer"]) == (1, 0, 1)
    assert found["open"] == "https://citelock.acme.example/wiki/v1/reports/quality?tenant=demo"
    judged_project.wiki.write(
        "eng", envelope("103", "New", SECTION.format(heading="One", text="Nobody asks for this text."))
    )
    second = judged_project.build()["generation"]["generation"]
    save_run(
        judged_project.store,
        "demo",
        "by-hand",
        read_json(judged_project.store.generation("demo", second) / "eval_report.json"),
    )
    found = told(judged_project.materialize("quality_report"), "quality_report")
    assert (found["generations"], found["side_by_side"]) == (2, 3)
    assert "data:image/png;base64," in found["report"]
    page = Path(found["html"]).read_text(encoding="utf-8")
    assert f"{second} beside {first}" in page
    assert "run by-hand</option>" in page
    assert "What is the capital of Mongolia?" in page
    remove_folder(judged_project.store.generation("demo", first))
    found = told(judged_project.materialize("quality_report"), "quality_report")
    assert (found["generations"], found["side_by_side"]) == (2, 1)
    assert f"| {first} | was published |" in found["report"]


def test_quality_is_told_while_the_telemetry_database_is_away(built_project: Project) -> None:
    built_project.wiki.configure(telemetry={"url": "postgresql://nobody@127.0.0.1:1/none"})
    found = told(built_project.materialize("quality_report"), "quality_report")
    assert (found["questions_without_answer"], found["generations"]) == (0, 0)
    assert "no generation was evaluated" in found["report"]


def test_an_ablation_tells_what_each_stage_brings(judged_project: Project) -> None:
    result = judged_project.materialize("ablation_report")
    found = told(result, "ablation_report")
    assert found["dagster/row_count"] > 10
    assert "| lexical only |" in found["report"]
    assert "data:image/png;base64," in found["report"]
    assert Path(found["csv"]).read_text(encoding="utf-8").startswith("variant,")
    assert "Against the defaults" in Path(found["html"]).read_text(encoding="utf-8")


@pytest.mark.skipif(importlib.util.find_spec("ragas") is None, reason="needs the extra `ragas`")
def test_what_a_model_judges_is_told_beside_the_run_before_and_what_it_fails_is_named(
    judged_project: Project,
) -> None:
    def half_broken(messages: list[dict[str, str]]) -> list[str]:
        fails = '"ContextRecallClassifications"' in messages[-1]["content"]
        return ["I would rather not."] if fails else answers_ragas(messages)

    published = judged_project.store.current("demo")
    scores = {"non_llm_context_recall": {"back": 0.125}}
    earlier = {"generation": "another", "scores": scores, "faults": {}, "problem": None}
    write_json(reports_folder(judged_project.store, "demo") / "ragas.json", earlier)
    with served(StandInChat(half_broken)) as server:
        judged_project.wiki.configure(
            evaluation=GOLD,
            generation={"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{server.url}/v1"},
        )
        found = told(judged_project.materialize("ragas_report"), "ragas_report")
    assert found["problem"] == "none"
    assert "was 0.125" in found["report"]
    assert "| faithfulness | 1.000 |" in found["report"]
    assert "| answer relevancy | 0." in found["report"]
    assert "**Metrics that lack scores**" in found["report"]
    assert "| context recall | 1 of 1 questions: OutputParserException: " in found["report"]
    assert "OutputParserException" in Path(found["html"]).read_text(encoding="utf-8")
    assert judged_project.store.current("demo") == published
