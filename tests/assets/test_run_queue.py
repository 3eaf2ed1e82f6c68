"""What waits for what, by the settings of the Dagster instance as they are committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG
from dagster._daemon.run_coordinator import QueuedRunCoordinatorDaemon
from support.envelopes import Wiki

from rag_assets.assets.run_queue import queue_tags
from rag_assets.build.runner import Runner
from rag_assets.definitions import build_defs
from rag_assets.partitions import register
from rag_assets.progress import Reporter
from rag_assets.runs import listed_under
from rag_serving.config.loading import load_config

ROOT = Path(__file__).parents[2]


class Queue:
    """The queue of a home with our `dagster.yaml`; nothing is launched."""

    def __init__(self, wiki: Wiki, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.defs = build_defs(wiki.config_path)
        self.workspace = cast(Any, SimpleNamespace(asset_graph=self.defs.resolve_asset_graph()))
        register(instance, load_config(wiki.config_path))

    def submit(self, job: str, partition: str, *assets: str, tags: dict[str, str] | None = None) -> str:
        """Submit a run of a job, or of some assets as a person selects them in the graph; its id."""
        definition = self.defs.resolve_job_def(job)
        with listed_under(self.instance, job):
            run = self.instance.create_run_for_job(
                definition,
                tags={"dagster/partition": partition, **(tags or {})},
                asset_selection=frozenset(map(dg.AssetKey, assets)) or None,
            )
        self.instance.run_coordinator.submit_run(dg.SubmitRunContext(run, self.workspace))
        return run.run_id

    def start(self, run_id: str) -> None:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        self.instance.handle_new_event(  # what a run that has started reports of itself
            dg.EventLogEntry(
                error_info=None,
                level="debug",
                user_message="",
                run_id=run_id,
                timestamp=1.0,
                dagster_event=dg.DagsterEvent("PIPELINE_START", run.job_name),
            )
        )

    def next(self) -> list[str]:
        """The runs that the daemon would launch now, in its order."""
        daemon = QueuedRunCoordinatorDaemon(interval_seconds=5)
        runs = daemon._get_runs_to_dequeue(self.instance, self.instance.get_concurrency_config(), None)
        return [run.run_id for run in runs]


@pytest.fixture
def queue(wiki: Wiki, tmp_path: Path) -> Iterator[Queue]:
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_bytes((ROOT / "dagster_home" / "dagster.yaml").read_bytes())
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield Queue(wiki, instance)


def test_publish_and_ingest_never_wait_for_reports(queue: Queue) -> None:
    queue.start(queue.submit("__ASSET_JOB", "demo", "ablation_report"))
    queue.start(queue.submit("report", "demo"))
    waiting = queue.submit("__ASSET_JOB", "demo", "ragas_report")
    builds = [queue.submit("publish", "demo"), queue.submit("ingest", "eng"), queue.submit("ingest", "ops")]
    builds.append(queue.submit("__ASSET_JOB", "other", "pages", "sections"))
    assert queue.next() == builds
    assert waiting not in queue.next()


def test_a_report_runs_beside_a_build_but_behind_it_in_the_queue(queue: Queue) -> None:
    report, build = queue.submit("__ASSET_JOB", "demo", "ablation_report"), queue.submit("publish", "demo")
    assert queue.next() == [build, report]
    urgent = queue.submit("__ASSET_JOB", "demo", "dedup_report", tags={"dagster/priority": "3"})
    assert queue.next() == [urgent, build, report]


def test_a_source_and_a_tenant_are_written_by_one_run_at_a_time(queue: Queue) -> None:
    queue.start(queue.submit("publish", "demo"))
    queue.start(queue.submit("__ASSET_JOB", "eng", "pages"))
    queue.submit("publish", "demo")
    queue.submit("__ASSET_JOB", "demo", "dedup_map", "contexts")
    queue.submit("ingest", "eng")
    assert queue.next() == []


def test_a_source_and_a_tenant_of_the_same_name_do_not_wait_for_each_other() -> None:
    assert queue_tags(frozenset({"ingest"}), "demo") != queue_tags(frozenset({"publish"}), "demo")
    assert queue_tags(frozenset(), "demo") == {}


def test_runs_of_the_build_command_are_listed_under_their_jobs_and_hold_the_place_of_one(
    queue: Queue, wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dg.DagsterInstance, "get", lambda: queue.instance)
    runner = Runner(load_config(wiki.config_path), wiki.config_path, Reporter(), "home", verbose=False)
    runner._exit.pop_all()  # the fixture closes the instance
    assert runner.run("ingest", "eng").error is None
    of_the_job = dg.RunsFilter(job_name="ingest", tags={REPOSITORY_LABEL_TAG: "__repository__@citelock"})
    (run,) = queue.instance.get_runs(of_the_job)  # what the UI's page of a job asks for
    assert run.remote_job_origin is not None  # what the timeline needs
    assert run.remote_job_origin.location_name == "citelock"
    assert run.tags["citelock/writes"] == "ingest.eng"
