"""The process that waits for uploads: it publishes them at once, and what it leaves when it is killed is taken up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from support.envelopes import Wiki

from rag_assets.build.inboxes import InboxWatch
from rag_assets.partitions import partitions_in_flight, register
from rag_assets.resources import Installation
from rag_assets.runs import PROCESS, end_orphans, has_ended, keep_engines, own_mark
from rag_assets.sensors import ingest_uploads
from rag_assets.state.locks import exclusive
from rag_assets.state.planning import LEFT_SECONDS, uploads_to_take, watching_folder
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import load_config
from rag_serving.documents.inbox import Inbox, Upload, inboxes_of

ROOT = Path(__file__).parents[2]
ANN = Principal("demo", "ann", frozenset(), frozenset({"editor"}))
KETTLE = b"# Kettle\n\nThe kettle is descaled every four weeks.\n"


@pytest.fixture
def wiki(tmp_path: Path) -> Wiki:
    wiki = Wiki(tmp_path)
    wiki.configure(sources={"uploads": {"kind": "files", "tenant": "demo"}})
    return wiki


def inbox_of(wiki: Wiki) -> Inbox:
    (inbox,) = inboxes_of(load_config(wiki.config_path), "demo")
    return inbox


def put(wiki: Wiki, content: bytes, name: str = "Kettle.md", document_id: str | None = None) -> str:
    inbox = inbox_of(wiki)
    spool = inbox.files.spool()
    spool.write(content)
    return inbox.receive(ANN, Upload(spool, name, "everyone", document_id=document_id), 10).document.document_id


def status(wiki: Wiki, document_id: str) -> str:
    return inbox_of(wiki).entries()[document_id].status


def test_what_is_uploaded_is_published_and_seen_in_dagster_and_a_look_at_nothing_new_does_nothing(wiki: Wiki) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        watch = InboxWatch(wiki.config_path, instance)
        watch.warm_up()
        assert watch.look() == []
        kettle = put(wiki, KETTLE)
        assert watch.look() == ["uploads"]
        assert status(wiki, kettle) == "published"
        assert watch.look() == []
        runs = {run.job_name: run for run in instance.get_runs()}
        assert {name: run.status for name, run in runs.items()} == {
            "ingest": dg.DagsterRunStatus.SUCCESS,
            "publish": dg.DagsterRunStatus.SUCCESS,
        }
        assert {run.tags["citelock/started_by"] for run in runs.values()} == {"inboxes"}
        inbox_of(wiki).delete(ANN, kettle)
        assert watch.look() == ["uploads"]
        assert kettle not in inbox_of(wiki).entries()


def test_a_build_that_fails_is_not_tried_again_until_there_is_something_else(
    wiki: Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    with dg.DagsterInstance.ephemeral() as instance:
        watch = InboxWatch(wiki.config_path, instance)
        kettle = put(wiki, KETTLE)
        with monkeypatch.context() as patch:
            patch.setattr("rag_assets.making.tables.write_sync", fails)
            assert watch.look() == ["uploads"]
            assert watch.look() == []
        assert status(wiki, kettle) in {"extracting", "chunking"}
        put(wiki, KETTLE + b"More.", document_id=kettle)
        assert watch.look() == ["uploads"]
        assert status(wiki, kettle) == "published"


def test_the_sensor_leaves_uploads_to_the_process_that_waits_for_them_but_not_for_long() -> None:
    first, seen = uploads_to_take({"a": "1"}, {}, is_watched=True, now=100.0)
    assert (first, seen) == ([], {"a": ("1", 100.0)})
    assert uploads_to_take({"a": "1"}, seen, True, 99.0 + LEFT_SECONDS)[0] == []
    assert uploads_to_take({"a": "1"}, seen, True, 100.0 + LEFT_SECONDS)[0] == ["a"]
    assert uploads_to_take({"a": "2"}, seen, True, 100.0 + LEFT_SECONDS) == ([], {"a": ("2", 100.0 + LEFT_SECONDS)})
    assert uploads_to_take({"a": "1"}, {}, is_watched=False, now=100.0)[0] == ["a"]
    assert uploads_to_take({}, seen, True, 200.0) == ([], {})


def test_what_a_tenant_uploads_while_another_ones_is_built_is_not_left_to_the_process_that_builds_it(
    wiki: Wiki,
) -> None:
    assert uploads_to_take({"a": "1", "b": "1"}, {}, is_watched=True, now=100.0, delayed=["b"])[0] == ["b"]
    inboxes = {tenant: {"kind": "files", "tenant": tenant} for tenant in ("demo", "other")}
    wiki.configure(tenants={"demo": {}, "other": {}}, sources=inboxes)
    config = load_config(wiki.config_path)
    for tenant in config.tenants:
        (inbox,) = inboxes_of(config, tenant)
        spool = inbox.files.spool()
        spool.write(KETTLE)
        inbox.receive(None, Upload(spool, "Kettle.md", "everyone"), 10)
    with dg.DagsterInstance.ephemeral() as instance, exclusive(watching_folder(Store(wiki.home))):
        register(instance, config)
        sensor = dg.build_sensor_context(instance=instance)
        installation = Installation(config_path=str(wiki.config_path))

        def started() -> list[str]:
            result = ingest_uploads(sensor, installation=installation)
            assert isinstance(result, dg.SensorResult)
            return [str(request.run_key).split(":")[0] for request in result.run_requests or ()]

        assert started() == []
        tags = {"citelock/started_by": "inboxes", "dagster/partition": "demo", PROCESS: own_mark()}
        instance.add_run(dg.DagsterRun(job_name="publish", status=dg.DagsterRunStatus.STARTED, tags=tags))
        assert started() == ["other"]


def test_dagsters_storages_open_a_file_by_one_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    for module in (sqlite_event_log, sqlite_run_storage):
        make = module.create_engine  # type: ignore[attr-defined]
        counted = partial(lambda make, url, **options: made.append(url) or make(url, **options), make)
        monkeypatch.setattr(module, "create_engine", counted)
    keep_engines()

    @dg.asset
    def page() -> None: ...

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert all(dg.materialize([page], instance=instance).success for _ in range(2))
        assert len(instance.fetch_materializations(page.key, limit=9).records) == 2
    assert len(made) < 9, "a few files, and more than 100 statements"


def test_a_process_that_is_there_or_cannot_be_told_has_not_ended() -> None:
    for mark in ("", "x", "a:b:c", ":::", f"elsewhere:{os.getpid()}:1", own_mark()):
        assert not has_ended(mark), mark


def test_a_process_has_ended_when_its_number_is_another_ones_or_nobodys() -> None:
    host, number, started = own_mark().rsplit(":", 2)
    assert has_ended(f"{host}:{number}:{int(started) + 1}")
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert has_ended(f"{host}:{child.pid}:{started}")


@contextmanager
def persistent_instance(folder: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that another process can share."""
    home = folder / "dagster_home"
    home.mkdir()
    shutil.copy(ROOT / "dagster_home" / "dagster.yaml", home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield instance


def test_a_killed_run_is_noted_as_failed_and_its_document_is_taken_up(wiki: Wiki, tmp_path: Path) -> None:
    manual = b"# Manual\n\n" + b"\n\n".join(b"## Part %d\n\nTurn the screw %d times." % (n, n) for n in range(400))
    with persistent_instance(tmp_path) as instance:
        register(instance, load_config(wiki.config_path))
        manual_id = put(wiki, manual, "Manual.md")
        environment = {**os.environ, "DAGSTER_HOME": instance.root_directory, "CITELOCK_CONFIG": str(wiki.config_path)}
        process = subprocess.Popen([sys.executable, "-m", "rag_assets.build.inboxes"], cwd=ROOT, env=environment)
        until = time.monotonic() + 120
        while status(wiki, manual_id) != "embedding" and time.monotonic() < until:
            time.sleep(0.02)
        assert status(wiki, manual_id) == "embedding"
        sensor = dg.build_sensor_context(instance=instance)
        installation = Installation(config_path=str(wiki.config_path))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert partitions_in_flight(instance, "publish") == {"demo"}
        (orphan,) = end_orphans(instance)
        assert end_orphans(instance) == []
        run = instance.get_run_by_id(orphan)
        assert run is not None
        assert (run.status, run.job_name) == (dg.DagsterRunStatus.FAILURE, "publish")
        assert has_ended(run.tags[PROCESS])
        with exclusive(watching_folder(Store(wiki.home))):  # the killed process holds nothing any more
            pass
        put(wiki, KETTLE)
        result = ingest_uploads(sensor, installation=installation)
        assert isinstance(result, dg.SensorResult)
        assert [str(request.run_key).split(":")[0] for request in result.run_requests or ()] == ["uploads"]
        assert InboxWatch(wiki.config_path, instance).look() == ["uploads"]
        assert {status(wiki, name) for name in inbox_of(wiki).entries()} == {"published"}
