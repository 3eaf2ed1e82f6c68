"""`citelock build`, as people and programs run it."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr
from pathlib import Path

import dagster as dg
import pytest
from support.building import build, build_json, start
from support.envelopes import DEPLOY, Wiki, envelope
from support.forked import forked
from support.held_locks import held_by_another_process
from support.project import Project
from support.waiting import wait_until

from rag_assets.build.command import command
from rag_assets.steps.contexts import contextualize
from rag_serving.artifacts.schema import CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_table
from rag_serving.config.loading import load_config
from rag_serving.indexes.catalog import rollback
from rag_serving.indexes.generation import Generation

KILLS = int(os.environ.get("CITELOCK_KILLS", "1"))


def answers(wiki: Wiki) -> bool:
    """Whether the published generation opens and finds the deploy guide."""
    store, config = Store(wiki.home), load_config(wiki.config_path)
    generation = Generation.open(store, "demo", store.current("demo") or "", config)
    hits = generation.lexical("roll back a release", 3, frozenset({"everyone"}))
    found = generation.chunk(hits[0].row).page_id == "101"
    generation.close()
    return found


def test_the_first_build_tells_what_it_did_in_the_documented_shape(wiki: Wiki) -> None:
    summary = build_json(wiki)
    assert summary["sources"]["eng"] == {
        "pages_seen": 2,
        "pages_changed": 2,
        "pages_deleted": 0,
        "pages_failed": 0,
        "chunks": 3,
        "chunks_new": 3,
        "macros_lost": 0,
        "chunks_for_everyone": 3,
        "chunks_for_nobody": 0,
        "pages_searched": 2,
    }
    tenant = summary["tenants"]["demo"]
    assert all(tenant.pop("gates").values())
    assert tenant == {
        "chunks": 4,
        "duplicates_dropped": 0,
        "contexts_generated": 0,
        "contexts_failed": 0,
        "texts_embedded": 4,
        "sentences_embedded": 8,
        "shards_built": 1,
        "shards_reused": 0,
        "generation": Store(wiki.home).current("demo"),
        "published": True,
    }
    assert set(summary) == {"sources", "tenants", "seconds", "step_seconds"}
    assert list(summary["step_seconds"]["eng"]) == ["pages", "sections", "chunks"]
    assert answers(wiki)


def test_building_again_with_nothing_changed_starts_no_run_and_publishes_nothing(built_wiki: Wiki) -> None:
    generation = Store(built_wiki.home).current("demo")
    second = build_json(built_wiki)
    tenant = second["tenants"]["demo"]
    assert "step_seconds" not in second, "nothing was run"
    assert (tenant["published"], tenant["texts_embedded"], tenant["shards_built"]) == (False, 0, 0)
    assert tenant["generation"] == generation
    assert second["sources"]["eng"]["pages_changed"] == 0
    assert second["sources"]["eng"]["chunks"] == 3


def test_passages_of_one_window_are_not_embedded_again_when_windows_are_cut_another_way(
    built_wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contextualize, "WINDOWS_VERSION", contextualize.WINDOWS_VERSION + 1)
    tenant = build_json(built_wiki)["tenants"]["demo"]
    assert (tenant["published"], tenant["texts_embedded"], tenant["shards_built"]) == (True, 0, 0)


def test_finding_nothing_to_do_loads_no_dagster(built_wiki: Wiki) -> None:
    script = (
        "import sys, typer; from rag_assets.build.command import command\n"
        "try:\n    typer.run(command)\nfinally:\n    assert 'dagster' not in sys.modules"
    )
    arguments = [sys.executable, "-c", script, "--config", str(built_wiki.config_path)]
    assert subprocess.run(arguments, capture_output=True, timeout=60).returncode == 0


def test_a_changed_page_is_the_only_one_that_costs_anything(built_wiki: Wiki) -> None:
    built_wiki.write("eng", envelope("101", "Deploy guide", DEPLOY.replace("ten minutes", "an hour"), version=2))
    summary = build_json(built_wiki)
    assert summary["sources"]["eng"]["pages_changed"] == 1
    assert summary["sources"]["eng"]["chunks_new"] == 1
    assert summary["sources"]["ops"]["pages_changed"] == 0
    tenant = summary["tenants"]["demo"]
    assert (tenant["texts_embedded"], tenant["sentences_embedded"]) == (1, 1)
    assert list(summary["step_seconds"]) == ["eng", "demo"]


def test_narrower_readers_in_the_configuration_reach_the_published_generation(built_wiki: Wiki) -> None:
    built_wiki.configure(
        sources={"eng": built_wiki.source("eng", readers=["group:staff"]), "ops": built_wiki.source("ops")}
    )
    build(built_wiki)
    store = Store(built_wiki.home)
    generation = Generation.open(store, "demo", store.current("demo") or "", load_config(built_wiki.config_path))
    assert generation.lexical("roll back a release", 3, frozenset({"everyone"})) == []
    generation.close()


def test_a_source_that_was_removed_from_the_configuration_leaves_the_generation(built_wiki: Wiki) -> None:
    built_wiki.configure(sources={"eng": built_wiki.source("eng")})
    assert build_json(built_wiki)["tenants"]["demo"]["chunks"] == 3


def test_a_full_build_makes_everything_again_and_comes_to_the_same(built_wiki: Wiki) -> None:
    first = Store(built_wiki.home).current("demo")
    tenant = build_json(built_wiki, "--full")["tenants"]["demo"]
    assert (tenant["published"], tenant["generation"]) == (True, first)
    assert (tenant["texts_embedded"], tenant["sentences_embedded"]) == (0, 0), "of the same texts"
    assert (tenant["shards_built"], tenant["shards_reused"]) == (0, 1)


def test_one_failing_source_does_not_stop_the_others_and_is_told_in_one_line(wiki: Wiki) -> None:
    wiki.configure(sources={"eng": wiki.source("eng"), "gone": wiki.source("gone")})
    result = build(wiki, "--json", code=1)
    summary = json.loads(result.stdout)
    assert summary["tenants"]["demo"]["published"]
    assert list(summary["errors"]) == ["gone"]
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("gone: ")


def test_a_source_that_fails_later_keeps_its_last_good_tables(built_wiki: Wiki) -> None:
    for page in (built_wiki.folder / "ops").iterdir():
        page.unlink()
    (built_wiki.folder / "ops").rmdir()
    summary = build_json(built_wiki, code=1)
    assert summary["tenants"]["demo"]["chunks"] == 4


def test_two_sources_with_the_same_page_are_refused_and_told_how_to_mend_it(wiki: Wiki) -> None:
    wiki.write("ops", envelope("101", "Another deploy guide", "<p>Elsewhere.</p>"))
    result = build(wiki, code=1)
    assert "set `sources.ops.id_prefix`" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_source_names_the_nearest_one(wiki: Wiki) -> None:
    assert "did you mean 'eng'?" in build(wiki, "emg", code=2).stderr


def test_a_broken_configuration_is_one_line_and_exit_code_2(wiki: Wiki) -> None:
    wiki.configure(ingestoin={})
    stderr = build(wiki, code=2).stderr
    assert "did you mean 'ingestion'" in stderr
    assert len(stderr.strip().splitlines()) == 1


def test_only_the_named_source_is_built(wiki: Wiki) -> None:
    summary = build_json(wiki, "ops")
    assert list(summary["sources"]) == ["ops"]
    assert summary["tenants"]["demo"]["chunks"] == 1


def test_the_instance_of_dagster_home_gets_the_runs_and_the_partitions(
    wiki: Wiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "dagster_home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    build(wiki)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_dynamic_partitions("sources") == ["eng", "ops"]
        assert {run.job_name for run in instance.get_runs()} == {"ingest", "publish"}


def test_a_tenant_that_was_rolled_back_stays_rolled_back_until_something_changes(built_wiki: Wiki) -> None:
    first = Store(built_wiki.home).current("demo")
    built_wiki.delete("eng", "102")
    build(built_wiki)
    rollback(Store(built_wiki.home), "demo", load_config(built_wiki.config_path))
    assert build_json(built_wiki)["tenants"]["demo"]["generation"] == first
    built_wiki.write("ops", envelope("202", "Second guide", "<p>Another page.</p>"))
    assert build_json(built_wiki)["tenants"]["demo"]["generation"] != first


def test_a_damaged_generation_is_made_again_though_nothing_changed(built_wiki: Wiki) -> None:
    store = Store(built_wiki.home)
    first = store.current("demo") or ""
    vectors = store.generation("demo", first) / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:200])
    with pytest.raises(StoreError, match=r"vectors\.npy has 200 bytes instead of"):
        Generation.open(store, "demo", first, load_config(built_wiki.config_path))
    result = build(built_wiki, "--json")
    tenant = json.loads(result.stdout)["tenants"]["demo"]
    assert f"demo: the published generation is damaged (generations/{first}/vectors.npy has 200 bytes" in result.stderr
    assert (tenant["generation"], tenant["published"], tenant["texts_embedded"]) == (first, True, 0)
    assert answers(built_wiki)
    assert not build_json(built_wiki)["tenants"]["demo"]["published"]


def test_a_second_build_is_refused_in_a_line_that_names_the_first(built_wiki: Wiki) -> None:
    source = Store(built_wiki.home).source("eng")
    built_wiki.delete("eng", "102")
    with held_by_another_process(source) as process:
        refusal = build(built_wiki, code=1).stderr
    assert refusal.count("\n") == 1
    assert f"another build (process {process.pid})" in refusal


def test_ctrl_c_amid_a_step_ends_a_build_quietly(built_wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_assets.making.tables.write_sync", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    built_wiki.delete("eng", "102")
    stderr = build(built_wiki, code=130).stderr
    assert "Traceback" not in stderr
    assert stderr.strip().splitlines()[-1].startswith("citelock: interrupted")
    assert answers(built_wiki)


def test_a_second_build_is_refused_and_ctrl_c_ends_the_first_quietly(wiki: Wiki) -> None:
    process = start(wiki, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while "sections" not in process.stderr.readline():
        pass
    os.kill(process.pid, signal.SIGSTOP)
    try:
        refusal = build(wiki, code=1).stderr
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    # It may have been stopped between taking the lock and writing its number into the file.
    assert re.search(rf"another build \(process ({process.pid}|unknown)\)", refusal)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert stderr.strip().splitlines()[-1].startswith("citelock: interrupted")


def test_a_build_killed_at_any_moment_leaves_the_published_generation_answering(
    built_wiki: Wiki, tmp_path: Path
) -> None:
    draw = random.Random(20)
    for number in range(KILLS):
        built_wiki.write("eng", envelope("110", "Changing page", f"<p>Revision {number} of a page that changes.</p>"))
        killed_build(built_wiki.config_path, tmp_path / f"log{number}", draw.randrange(9), draw.uniform(0, 0.2))
        assert answers(built_wiki)
    assert build_json(built_wiki)["sources"]["eng"]["pages_seen"] == 3
    assert answers(built_wiki)


def killed_build(config: Path, log: Path, lines: int, after_s: float) -> None:
    """A build that is killed so long after so many lines of its progress."""
    process = forked(build_into, config, log)
    wait_until(lambda: not process.is_alive() or (log.exists() and len(log.read_text().splitlines()) >= lines))
    time.sleep(after_s)
    process.kill()
    process.join()


def build_into(config: Path, log: Path) -> None:
    """Build, and write its progress into a file."""
    with log.open("w", buffering=1, encoding="utf-8") as file, redirect_stderr(file):
        command(config=config)


@pytest.mark.parametrize("table", ["pages", "sections", "chunks"])
def test_a_damaged_table_is_made_again(built_project: Project, table: str) -> None:
    folder = built_project.store.source("eng")
    path, chunks = folder / f"{table}.parquet", read_table(folder / "chunks.parquet", CHUNKS)
    path.write_bytes(path.read_bytes()[:100])
    assert built_project.run("ingest", "eng", full="true").success
    assert read_table(folder / "chunks.parquet", CHUNKS) == chunks
    path.unlink()
    assert built_project.run("ingest", "eng").success
    assert read_table(folder / "chunks.parquet", CHUNKS) == chunks


def test_gates_are_not_overridden_without_a_reason(wiki: Wiki) -> None:
    result = build(wiki, "--override-gates", " ", code=2)
    assert "needs a reason" in result.output
    assert not wiki.home.exists()
