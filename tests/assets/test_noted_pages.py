"""Pages that a wiki told of are published at once, those who may read less by it first; a sync of the whole repairs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sources.stand_in_confluence import StandIn
from sources.stand_in_site import page
from sources.syncs import enumerates
from support.building import build
from support.envelopes import Wiki

from rag_assets.build.inboxes import InboxWatch
from rag_assets.partitions import register
from rag_assets.resources import Installation
from rag_assets.runs import ProjectJobs, RunOptions, RunOutcome
from rag_assets.sensors import ingest_uploads
from rag_assets.state.records import last_sync
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.documents.noted import EVERYTHING, NotedPages

ANYBODY = Principal("demo")
OFFICER = Principal("demo", "ann", frozenset({"hr"}))


@pytest.fixture
def site() -> Iterator[StandIn]:
    with StandIn("datacenter") as stand_in:
        stand_in.site.put(*(page(number, body=f"<p>Crane {number} lifts {number} tons.</p>") for number in range(1, 9)))
        yield stand_in


@pytest.fixture
def unbuilt(tmp_path: Path, site: StandIn, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Wiki:
    """A wiki with these further settings of its source, if a test gives any."""
    monkeypatch.setenv("HOOK_OF_ENG", "secret")
    wiki = Wiki(tmp_path)
    configure(wiki, site, **getattr(request, "param", {}))
    return wiki


@pytest.fixture
def wiki(unbuilt: Wiki, site: StandIn) -> Wiki:
    build(unbuilt)
    site.requests.clear()
    return unbuilt


def configure(wiki: Wiki, site: StandIn, **more: Any) -> None:
    eng = {"kind": "confluence", "tenant": "demo", "base_url": site.url, "space": "ENG", "readers": "everyone", **more}
    eng = {**eng, "max_requests_per_s": 1000, "webhook": {"secret_env": "HOOK_OF_ENG"}}
    wiki.configure(sources={"eng": eng})


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def watch(wiki: Wiki, instance: dg.DagsterInstance) -> InboxWatch:
    return InboxWatch(wiki.config_path, instance)


def notes(wiki: Wiki) -> NotedPages:
    return NotedPages(Store(wiki.home).source("eng"))


def texts(wiki: Wiki, who: Principal = ANYBODY) -> str:
    """Everything that somebody finds."""
    with closing(Pipeline.open(load_config(wiki.config_path), "demo")) as pipeline:
        return "\n".join(one.chunk.text for one in pipeline.search(who, "crane tons", 50).results)


def test_a_noted_page_is_published_by_a_run_of_its_own_and_the_sync_of_the_whole_is_as_due_as_before(
    wiki: Wiki, site: StandIn, watch: InboxWatch, instance: dg.DagsterInstance
) -> None:
    assert watch.look() == []
    before = last_sync(Store(wiki.home), "eng")
    site.site.edit("3", body="<p>Crane 3 lifts 33 tons.</p>")
    site.site.edit("4", body="<p>Crane 4 lifts 44 tons.</p>")
    notes(wiki).note({"3"})
    assert watch.look() == ["eng"]
    assert "33 tons" in texts(wiki)
    assert "44 tons" not in texts(wiki)
    assert watch.look() == []
    assert notes(wiki).mark() is None
    assert last_sync(Store(wiki.home), "eng") == before
    (run,) = instance.get_runs(dg.RunsFilter(job_name="ingest"))
    assert run.tags["citelock/noted"].startswith("1 pages noted ")
    assert not any(map(enumerates, site.requests))
    build(wiki)
    assert "44 tons" in texts(wiki)
    assert last_sync(Store(wiki.home), "eng") != before


def test_a_restriction_is_in_force_though_the_rest_is_not_published_and_is_taken_up_again(
    wiki: Wiki, site: StandIn, watch: InboxWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ProjectJobs.run

    def fails(
        jobs: ProjectJobs, job: str, partition: str, instance: dg.DagsterInstance, options: RunOptions | None = None
    ) -> RunOutcome:
        return RunOutcome("no model") if job == "publish" else run(jobs, job, partition, instance, options)

    site.site.restrict("5", groups=["hr"])
    site.site.edit("6", body="<p>Crane 6 lifts 66 tons.</p>")
    notes(wiki).note({"5", "6"})
    with monkeypatch.context() as patch:
        patch.setattr(ProjectJobs, "run", fails)
        assert watch.look() == ["eng"]
        assert watch.look() == []  # not tried again as it is
    assert "Crane 5" not in texts(wiki)
    assert "Crane 5" in texts(wiki, OFFICER)
    assert "66 tons" not in texts(wiki, OFFICER)
    with dg.DagsterInstance.ephemeral() as instance:  # as a process that is started anew
        assert InboxWatch(wiki.config_path, instance).look() == ["eng"]
    assert "66 tons" in texts(wiki)
    assert "Crane 5" not in texts(wiki)
    assert notes(wiki).mark() is None


@pytest.mark.parametrize("unbuilt", [{"listing_every_s": it} for it in (0, 3600)], indirect=True, ids=["0", "3600"])
def test_a_storm_and_a_sync_of_the_whole_list_the_space_and_leave_no_note(
    wiki: Wiki, site: StandIn, watch: InboxWatch
) -> None:
    for how in ("storm", "sync"):
        site.requests.clear()
        site.site.restrict("2" if how == "storm" else "7", groups=["hr"])
        notes(wiki).note({EVERYTHING} if how == "storm" else {"7"})
        assert watch.look() == ["eng"] if how == "storm" else build(wiki)
        assert any(map(enumerates, site.requests))
        assert notes(wiki).mark() is None
    assert {f"Crane {one}" in texts(wiki) for one in (2, 7)} == {False}


def test_a_source_that_was_just_connected_is_synced_and_shows_how_far_it_is_or_why_it_failed(
    unbuilt: Wiki, site: StandIn, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = unbuilt
    eng = {"kind": "confluence", "tenant": "demo", "base_url": site.url, "space": "HQ", "max_requests_per_s": 1000}
    gone_folder = {"kind": "docs_folder", "tenant": "demo", "path": "/nowhere"}
    wiki.configure(sources={"hq": {**eng, "readers": "everyone"}, "gone": gone_folder})
    site.site.put(page(90, body="<p>Crane 90 lifts 99 tons.</p>", space="HQ"))
    shown, show = list[str](), NotedPages.show
    steps = lambda notes, step, **more: (shown.append(step), show(notes, step, **more))  # noqa: E731
    monkeypatch.setattr(NotedPages, "show", steps)
    watch = InboxWatch(wiki.config_path, instance)
    hq, gone = (NotedPages(Store(wiki.home).source(key)) for key in ("hq", "gone"))
    assert (hq.progress(), watch.look()) == (None, [])
    hq.note({EVERYTHING})
    assert hq.progress() == {"step": "waiting"}
    result = ingest_uploads(
        dg.build_sensor_context(instance=instance), installation=Installation(config_path=str(wiki.config_path))
    )
    assert isinstance(result, dg.SensorResult)  # it waits neither for the schedule nor for another sensor
    assert [one.partition_keys for one in result.dynamic_partitions_requests or ()] == [["hq"]]
    monkeypatch.setattr("rag_assets.build.inboxes.LOOK_CLOSELY_EVERY_S", 0.0)
    assert watch.look() == ["hq"]
    assert "99 tons" in texts(wiki)
    assert (hq.progress(), hq.mark()) == (None, None)
    order = [step for place, step in enumerate(shown) if step not in shown[:place]]
    assert order[:3] == ["pages", "sections", "chunks"]
    assert order[-1] == "publish"
    assert {"embeddings", "generation"} <= set(order)
    gone.note({EVERYTHING})
    assert watch.look() == ["gone"]
    assert (gone.progress() or {})["step"] == "failed"
    assert "/nowhere" in (gone.progress() or {})["error"]
    assert {run.tags.get("citelock/shown") for run in instance.get_runs()} == {"hq", "gone"}


def test_the_sensor_starts_a_run_for_each_time_that_pages_are_noted(
    unbuilt: Wiki, instance: dg.DagsterInstance
) -> None:
    wiki = unbuilt
    installation = Installation(config_path=str(wiki.config_path))
    register(instance, load_config(wiki.config_path))
    context = dg.build_sensor_context(instance=instance)

    def keys() -> list[str]:
        result = ingest_uploads(context, installation=installation)
        assert isinstance(result, dg.SensorResult)
        for request in result.run_requests or ():
            assert request.tags["dagster/partition"] == "eng"
        return [str(request.run_key) for request in result.run_requests or ()]

    assert keys() == []
    notes(wiki).note({"3"})
    first = keys()
    assert len(first) == 1
    assert keys() == first  # which Dagster starts once
    notes(wiki).take()
    assert keys() == first
    notes(wiki).forget()
    assert keys() == []
    notes(wiki).note({"3"})
    assert keys() not in ([], first)
