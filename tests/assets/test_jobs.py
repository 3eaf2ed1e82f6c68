"""Both jobs on an ephemeral instance, and the sensor between them."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg
import pyarrow.compute as pc
import pytest
from support.envelopes import DEPLOY, SECTION, Wiki, envelope
from support.project import Project
from support.remembered import remembered_events

from evals.reports.report import page_url, report_url
from rag_assets.partitions import register
from rag_assets.resources import Installation
from rag_assets.runs import failure_of
from rag_assets.sensors import read_cursor, register_partitions, write_cursor
from rag_assets.state.planning import UNSEEN_SECONDS
from rag_assets.steps.chunks.chunking import DEFAULT
from rag_assets.steps.incremental import update_chunks, update_sections
from rag_serving.artifacts.schema import CHUNKS, GENERATION_CHUNKS, MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.artifacts.store import read_table
from rag_serving.config.loading import load_config
from rag_serving.config.serving import Serving
from rag_serving.indexes.catalog import rollback
from rag_serving.indexes.generation import Generation
from rag_serving.models import open_tokenizer
from rag_serving.models.language_detector import page_language


def test_both_jobs_say_what_they_made_and_publish_a_generation_that_finds_what_was_written(project: Project) -> None:
    made = project.build()
    assert made["pages"]["pages_seen"] == 1
    assert made["chunks"]["dagster/row_count"] == 1
    assert "data:image/png;base64," in made["chunks"]["tokens"]
    assert "| chunk_id |" in made["chunks"]["sample"]
    assert made["embeddings"]["texts_embedded"] == 4
    assert made["generation"]["pages"] == {"eng": 2, "ops": 1}
    assert made["published_generation"]["ask"] == "http://127.0.0.1:8088/"
    config = load_config(project.wiki.config_path)
    current = project.store.current("demo")
    assert current is not None
    generation = Generation.open(project.store, "demo", current, config)
    hits = generation.lexical("nightly backup", 3, frozenset({"everyone"}))
    assert generation.chunk(hits[0].row).page_id == "102"
    assert generation.chunk(hits[0].row).url.endswith("#" + generation.chunk(hits[0].row).anchor)
    generation.close()


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/"), ("wiki", "http://wiki:80/")]
)
def test_the_link_to_the_page_that_asks_is_one_that_a_browser_opens(host: str, address: str) -> None:
    assert page_url(Serving(host=host, port=80)) == address


def test_where_people_reach_the_api_stands_over_where_it_listens() -> None:
    serving = Serving(host="0.0.0.0", public_url="https://wiki.acme.example/ask")
    assert page_url(serving) == "https://wiki.acme.example/ask/"
    assert report_url(serving, "acme", "a/../b") == "https://wiki.acme.example/ask/v1/reports/a%2F..%2Fb?tenant=acme"


def test_tables_brought_up_to_date_equal_tables_made_anew(built_project: Project) -> None:
    built_project.wiki.write(
        "eng", envelope("102", "Backup guide", SECTION.format(heading="Weekly", text="On Sundays."), 5)
    )
    built_project.wiki.write("eng", envelope("103", "Third guide", "<p>New.</p>", labels=["howto"]))
    assert built_project.run("ingest", "eng").success
    folder = built_project.store.source("eng")
    pages = read_table(folder / "pages.parquet", PAGES)
    sections = update_sections(pages, SECTIONS.empty(), MACRO_LEDGER.empty(), 5_000_000).sections
    tokenizer = open_tokenizer(load_config(built_project.wiki.config_path).embedding)
    chunks = update_chunks(sections, pages, CHUNKS.empty(), tokenizer, DEFAULT, page_language).chunks
    assert read_table(folder / "sections.parquet", SECTIONS).to_pylist() == sections.to_pylist()
    assert read_table(folder / "chunks.parquet", CHUNKS).to_pylist() == chunks.to_pylist()


def test_a_page_that_only_got_new_labels_is_not_read_again_but_its_chunks_have_them(built_project: Project) -> None:
    built_project.wiki.write("eng", envelope("101", "Deploy guide", DEPLOY, version=2, labels=["howto"]))
    assert built_project.run("ingest", "eng").success
    embedded = built_project.materialize("dedup_map", "contexts", "embeddings")
    chunks = read_table(built_project.store.source("eng") / "chunks.parquet", CHUNKS)
    assert chunks.filter(pc.equal(chunks["page_id"], "101"))["labels"].to_pylist() == [["howto"], ["howto"]]
    (made,) = embedded.asset_materializations_for_node("embeddings")
    assert made.metadata["texts_embedded"].value == 0


def test_a_page_under_a_dropped_label_is_left_out_and_explained(built_project: Project) -> None:
    built_project.wiki.write(
        "eng", envelope("102", "Backup guide", SECTION.format(heading="Old", text="Gone."), 2, ["archive"])
    )
    assert built_project.run("ingest", "eng").success
    (made,) = built_project.materialize("dedup_map").asset_materializations_for_node("dedup_map")
    assert made.metadata["why_left_out"].value == {"label 'archive'": 1}
    assert made.metadata["sources"].value == {"eng": 2, "ops": 1}
    assert made.metadata["chunks_kept"].value == 3


def test_a_page_that_cannot_be_read_stops_nothing_and_is_named(project: Project) -> None:
    (project.wiki.folder / "eng" / "104.json").write_text("{not json", encoding="utf-8")
    result = project.run("ingest", "eng")
    assert result.success
    checks = result.get_asset_check_evaluations()
    account = next(check for check in checks if check.check_name == "pages_accounted_for")
    assert account.passed
    assert account.metadata["failed"].value == 1
    assert "104" in str(account.metadata["why_failed"].value)


def test_a_lost_macro_is_a_warning_not_a_failure(project: Project) -> None:
    body = '<p>See:</p><ac:structured-macro ac:name="jira-roadmap-widget"></ac:structured-macro>'
    project.wiki.write("ops", envelope("202", "Roadmap", body))
    result = project.run("ingest", "ops")
    check = next(check for check in result.get_asset_check_evaluations() if check.check_name == "macros_lost")
    assert result.success
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    again = project.run("ingest", "ops").get_asset_check_evaluations()
    assert next(check for check in again if check.check_name == "macros_lost").passed  # no more than before


def test_a_failed_check_of_the_candidate_keeps_the_published_generation(built_project: Project) -> None:
    before = built_project.store.current("demo")
    built_project.wiki.write("eng", envelope("105", "Fifth guide", "<p>Something new.</p>"))
    built_project.run("ingest", "eng")
    assert built_project.materialize("dedup_map", "contexts", "embeddings", "dense_index", "lexical_index").success
    inputs = built_project.store.candidate("demo") / "inputs.json"
    inputs.write_text(inputs.read_text(encoding="utf-8").replace('"105"', '"999"'), encoding="utf-8")
    result = built_project.materialize("generation", "published_generation")
    assert [check.check_name for check in result.get_asset_check_evaluations() if not check.passed] == ["coverage"]
    assert not result.success
    assert built_project.store.current("demo") == before


def test_partitions_are_registered_by_the_sensor(wiki: Wiki) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        installation = Installation(config_path=str(wiki.config_path))
        result = register_partitions(dg.build_sensor_context(instance=instance), installation=installation)
        assert isinstance(result, dg.SensorResult)
        requests = result.dynamic_partitions_requests or ()
        added = {request.partitions_def_name: request.partition_keys for request in requests}
        assert added == {"sources": ["eng", "ops"], "tenants": ["demo"]}
        register(instance, load_config(wiki.config_path))
        again = register_partitions(dg.build_sensor_context(instance=instance), installation=installation)
        assert isinstance(again, dg.SkipReason)


def test_a_tenant_without_chunks_is_not_started(project: Project) -> None:
    assert not project.tick().run_requests


def test_the_sensor_starts_publish_after_an_ingest_and_only_once(project: Project) -> None:
    project.run("ingest", "eng")
    first = project.tick()
    assert [request.partition_key for request in first.run_requests or ()] == ["demo"]
    assert not project.tick(first.cursor).run_requests


def test_the_sensor_rests_once_the_tenant_is_published(built_project: Project) -> None:
    result = built_project.tick()
    assert not result.run_requests
    assert result.skip_reason is not None
    assert result.skip_reason.skip_message == "demo: nothing changed"
    vectors = built_project.store.generation("demo", built_project.store.current("demo") or "") / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:200])
    assert built_project.tick(result.cursor).run_requests, (
        "a damaged generation is published again though nothing changed"
    )


def test_the_sensor_publishes_again_when_a_page_went_back_to_what_it_was(project: Project) -> None:
    keys = []
    cursor = None
    for text in ("One.", "Two.", "One."):
        if keys:
            project.run("publish", "demo")
        project.wiki.write("ops", envelope("202", "Note", f"<p>{text}</p>"))
        project.run("ingest", "ops")
        result = project.tick(cursor)
        keys += [request.run_key for request in result.run_requests or ()]
        cursor = result.cursor
    assert len(set(keys)) == 3


def test_a_publish_whose_run_is_not_there_is_asked_for_again(project: Project) -> None:
    project.run("ingest", "eng")
    first = project.tick()
    (request,) = first.run_requests or ()
    attempt = read_cursor(first.cursor)["demo"]
    long_ago = replace(attempt, started_at=attempt.started_at - UNSEEN_SECONDS)
    (again,) = project.tick(write_cursor({"demo": long_ago})).run_requests or ()
    assert again.run_key != request.run_key
    tags = {"dagster/run_key": long_ago.run_key("demo"), "dagster/partition": "demo"}
    project.instance.add_run(dg.DagsterRun(job_name="publish", status=dg.DagsterRunStatus.FAILURE, tags=tags))
    failed = project.tick(write_cursor({"demo": long_ago}))
    assert not failed.run_requests
    assert "did not get through" in str(failed.skip_reason)


def test_a_deleted_page_is_not_published_and_a_tenant_that_was_rolled_back_stays_so(built_project: Project) -> None:
    store, config = built_project.store, load_config(built_project.wiki.config_path)

    def pages() -> set[str]:
        folder = store.generation("demo", store.current("demo") or "")
        return set(read_table(folder / "chunks.parquet", GENERATION_CHUNKS)["page_id"].to_pylist())

    built_project.wiki.delete("eng", "102")
    assert built_project.run("ingest", "eng").success
    built_project.publish()
    assert pages() == {"101", "201"}
    rollback(store, "demo", config)
    assert pages() == {"101", "102", "201"}
    assert not built_project.tick().run_requests


def test_a_damaged_cursor_is_forgotten(project: Project) -> None:
    project.run("ingest", "eng")
    assert project.tick("not json").run_requests


@pytest.mark.parametrize(("job", "kind"), [("ingest", "source"), ("publish", "tenant")])
def test_a_partition_that_the_configuration_lacks_fails_at_once_and_says_why(
    project: Project, job: str, kind: str
) -> None:
    project.instance.add_dynamic_partitions(f"{kind}s", ["gone"])
    result = project.run(job, "gone")
    assert not result.filter_events(lambda event: event.is_step_up_for_retry)
    assert failure_of(result).endswith(
        f"{kind} 'gone' is not in the configuration, which has {'eng, ops' if kind == 'source' else 'demo'}; add it "
        f"under `{kind}s:`, or let the sensor `register_partitions` delete its partition"
    )
    assert not list(project.wiki.home.glob("*/gone"))


def test_a_configuration_that_became_faulty_fails_a_step_at_once(project: Project) -> None:
    project.wiki.configure(retreival={})
    result = project.run("ingest", "eng")
    assert not result.filter_events(lambda event: event.is_step_up_for_retry)
    assert "unknown key 'retreival'" in failure_of(result)


def test_each_source_has_a_history_of_its_checks(project: Project) -> None:
    with remembered_events():
        for key in ("eng", "ops", "eng"):
            assert project.run("ingest", key).success
    check = dg.AssetCheckKey(dg.AssetKey("pages"), "sync_complete")
    history = project.instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
    assert [record.partition for record in history] == ["eng", "ops", "eng"]
    evaluation = history[0].evaluation
    assert evaluation is not None
    assert {name: value.value for name, value in evaluation.metadata.items()} == {
        "unaccounted": 0,
        "enumerated": 2,
        "indexed": 2,
        "excluded": 0,
        "failed": 0,
        "hidden": 0,
    }
