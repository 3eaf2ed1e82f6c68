"""Traces of builds: from the build, or the run, over assets to batches."""

from __future__ import annotations

import time
from collections.abc import Iterator

import dagster as dg
import pytest
import yaml
from support.building import build
from support.envelopes import Wiki
from support.project import Project
from support.stand_in_collector import Sent, StandInCollector, collector

from rag_assets.progress import Reporter
from rag_assets.traced import TracedReporter, asset_span
from rag_serving.config.sections import Tracing
from rag_serving.tracing.exporting import close_tracing, open_tracing
from rag_serving.tracing.spans import span


@pytest.fixture
def collected() -> Iterator[StandInCollector]:
    with collector() as opened:
        yield opened
        close_tracing()


def traced_to(wiki: Wiki, collected: StandInCollector) -> None:
    content = yaml.safe_load(wiki.config_path.read_text(encoding="utf-8"))
    wiki.config_path.write_text(yaml.safe_dump({**content, "tracing": {"endpoint": collected.url}}), encoding="utf-8")


def test_a_build_is_one_trace_of_assets_and_batches(wiki: Wiki, collected: StandInCollector) -> None:
    traced_to(wiki, collected)
    build(wiki)
    sent = collected.spans()
    names = {each.id: each for each in sent}
    (root,) = [each for each in sent if not each.parent]
    assert root.name == "build"
    assert {each.trace for each in sent} == {root.trace}
    assets = [each for each in sent if each.name.startswith("asset ")]
    assert {each.parent for each in assets} == {root.id}
    made = {(each.attributes["citelock.asset"], each.attributes["citelock.partition"]) for each in assets}
    assert {("pages", "eng"), ("pages", "ops"), ("embeddings", "demo"), ("published_generation", "demo")} <= made
    pages = [each for each in sent if each.name == "batch pages"]
    assert {names[each.parent].name for each in pages} == {"asset pages"}
    counted = {(each.attributes["citelock.batch.first"], each.attributes["citelock.batch.last"]) for each in pages}
    assert all(1 <= first <= last for first, last in counted)
    assert not [each for each in sent if each.failed]
    assert b"roll back" not in collected.bodies, "no text of a page"


def test_steps_of_one_run_are_one_trace_wherever_they_run(wiki: Wiki, collected: StandInCollector) -> None:
    traced_to(wiki, collected)
    with dg.DagsterInstance.ephemeral() as instance:
        project = Project(wiki, instance)
        assert project.run("ingest", "eng").success
        close_tracing()  # as another process would have
        assert project.run("ingest", "ops").success
    close_tracing()
    assets = [each for each in collected.spans() if each.name.startswith("asset ")]
    by_run: dict[str, set[str]] = {}
    for each in assets:
        by_run.setdefault(each.attributes["dagster.run_id"], set()).add(each.trace)
    assert len(by_run) == 2
    assert all(len(traces) == 1 for traces in by_run.values())
    assert len({trace for traces in by_run.values() for trace in traces}) == 2


def test_a_step_that_fails_is_marked(collected: StandInCollector) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    with pytest.raises(dg.Failure), asset_span("pages", "eng", "run"):
        raise dg.Failure("the text of a page")
    close_tracing()
    (sent,) = collected.spans()
    assert sent.failed
    assert sent.attributes["error.type"] == "Failure"
    assert b"text of a page" not in collected.bodies


def test_batches_are_counted_without_gap_and_are_few(
    collected: StandInCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    monkeypatch.setattr("rag_assets.traced.BATCH_S", 0.05)
    with span("asset chunks"):
        advance = TracedReporter(Reporter()).track("pages", print)
        for done in range(1, 1001):
            advance(done, 1000)
            time.sleep(0.0005)
        advance(1000, 1000)
    close_tracing()
    batches: list[Sent] = [each for each in collected.spans() if each.name == "batch pages"]
    assert 2 <= len(batches) <= 40
    ends = [0, *(each.attributes["citelock.batch.last"] for each in batches)]
    assert [each.attributes["citelock.batch.first"] for each in batches] == [end + 1 for end in ends[:-1]]
    assert ends[-1] == 1000
