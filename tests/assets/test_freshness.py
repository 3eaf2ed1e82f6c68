"""When a source is overdue, and who is told of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.constants import section_of
from support.envelopes import Wiki
from support.remembered import remembered_events
from support.running import served

from rag_assets.definitions import build_defs
from rag_assets.monitoring.alerts import is_nth_alert, send
from rag_assets.partitions import register
from rag_assets.resources import Installation
from rag_assets.sensors import alert_when_a_build_fails, failures_in_a_row, watch_sources
from rag_assets.state.records import last_sync, note_unchanged, read_state, update_state
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from rag_serving.config.sections import Monitoring
from rag_serving.config.sources import ConfluenceDump, judge

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday
QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
EVENT = {"event": "run_failed", "text": "ingest of eng failed: no route to host"}
SAVE = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + chr(10))"


def source(schedule: str | None = None, stale_after_hours: float | None = None) -> ConfluenceDump:
    return ConfluenceDump(
        kind="confluence_dump", tenant="t", path=Path("x"), schedule=schedule, stale_after_hours=stale_after_hours
    )


def is_overdue(of: ConfluenceDump, age: timedelta, now: datetime = NOON, **given: Any) -> bool:
    monitoring = section_of(Monitoring, **given.pop("monitoring", {}))
    return judge(of, monitoring, now, last_sync=now - age, known_since=now, **given).overdue


@pytest.mark.parametrize(
    ("schedule", "now", "late", "in_time"),
    [
        ("*/15 * * * *", NOON + timedelta(minutes=9), timedelta(minutes=25), timedelta(minutes=23)),
        ("0 3 * * *", NOON, timedelta(hours=33, minutes=1), timedelta(hours=32, minutes=59)),
        # Over the weekend nobody syncs, and nobody is late.
        ("0 9-17 * * 1-5", NOON - timedelta(hours=2, minutes=30), timedelta(hours=65), timedelta(hours=64)),
    ],
)
def test_a_source_is_overdue_after_two_ticks_of_its_schedule(
    schedule: str, now: datetime, late: timedelta, in_time: timedelta
) -> None:
    assert is_overdue(source(schedule), late, now)
    assert not is_overdue(source(schedule), in_time, now)


def test_a_tick_counts_as_missed_only_after_its_sync_had_time() -> None:
    age = timedelta(minutes=29)
    assert not is_overdue(source("*/15 * * * *"), age, NOON + timedelta(minutes=5))
    assert is_overdue(source("*/15 * * * *"), age, NOON + timedelta(minutes=8))
    assert not is_overdue(source("*/15 * * * *"), age, NOON + timedelta(minutes=8), syncing=True)


def test_without_a_schedule_the_limit_of_the_configuration_holds_and_the_sources_own_over_both() -> None:
    assert not is_overdue(source(), timedelta(days=6))
    assert is_overdue(source(), timedelta(days=8))
    assert is_overdue(source(), timedelta(hours=3), monitoring={"stale_after_hours": 2})
    assert not is_overdue(source("* * * * *", stale_after_hours=4), timedelta(hours=3))
    assert is_overdue(source("0 0 1 1 *", stale_after_hours=4), timedelta(hours=5))


def test_a_source_that_was_never_synced_is_overdue_when_it_was_known_for_that_long() -> None:
    new, old = NOON - timedelta(minutes=1), NOON - timedelta(hours=3)
    hourly = source("0 * * * *")
    assert not judge(hourly, Monitoring(), NOON, last_sync=None, known_since=new).overdue
    verdict = judge(hourly, Monitoring(), NOON, last_sync=None, known_since=old)
    assert verdict.overdue
    assert verdict.detail.startswith("there was no complete sync yet; by its schedule '0 * * * *'")


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(["*/7 * * * *", "0 3 * * 0", "@daily"]))
def test_an_older_sync_is_never_fresher(age: int, more: int, schedule: str) -> None:
    of = source(schedule)
    if is_overdue(of, timedelta(seconds=age)):
        assert is_overdue(of, timedelta(seconds=age + more))


def test_of_failures_in_a_row_the_first_is_told_and_then_ever_fewer() -> None:
    assert [number for number in range(70) if is_nth_alert(number)] == [1, 2, 4, 8, 16, 32, 64]


def test_a_command_gets_the_event_on_its_standard_input(tmp_path: Path) -> None:
    heard = tmp_path / "heard.json"
    assert send(EVENT, Monitoring(alert_command=[sys.executable, "-c", SAVE, str(heard)])) == [
        f"command {sys.executable}: taken"
    ]
    assert json.loads(heard.read_text(encoding="utf-8")) == EVENT
    assert send(EVENT, Monitoring()) == []


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (["/nowhere/notify"], "could not be started"),
        (["sh", "-c", "exit 3"], "failed with status 3"),
        (["sh", "-c", "sleep 60 & sleep 60"], "took longer than 0.3 s and was ended"),
    ],
)
def test_a_command_that_fails_or_hangs_is_told_and_breaks_nothing(command: list[str], result: str) -> None:
    started = time.monotonic()
    (told,) = send(EVENT, section_of(Monitoring, alert_command=command, alert_timeout_s=0.3))
    assert result in told
    assert time.monotonic() - started < 30


class Hook(BaseHTTPRequestHandler):
    """A webhook that notes what it gets; at /slow it answers a byte at a time."""

    bodies: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if self.path == "/slow":
            for _ in range(30):
                self.wfile.write(b"x")
                time.sleep(0.05)
        self.send_response(500 if self.path == "/broken" else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    bodies: list[dict[str, Any]] = []
    with served(HTTPServer(("127.0.0.1", 0), type("Noting", (Hook,), {"bodies": bodies}))) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("", "taken"),
        ("/broken", "answered 500"),
        ("/slow", "did not answer within 0.5 s"),
        (None, "could not be reached"),
        ("empty", "the variable is empty"),
    ],
)
def test_a_webhook_gets_the_event_and_its_address_is_told_to_nobody(
    hook: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, path: str | None, result: str
) -> None:
    address, bodies = hook
    url = {"empty": "", None: "http://127.0.0.1:9/secret"}.get(path, f"{address}{path}")
    monkeypatch.setenv("ALERT_URL", url)
    limit = 0.5 if path == "/slow" else 10
    (told,) = send(EVENT, section_of(Monitoring, alert_url_env="ALERT_URL", alert_timeout_s=limit))
    assert told.startswith(f"webhook of ALERT_URL: {result}")
    assert "127.0.0.1" not in told
    if path in {"", "/broken", "/slow"}:
        assert bodies == [EVENT]


class Watch:
    """The sensors over a tiny wiki, with a command that notes each alert."""

    def __init__(self, wiki: Wiki, instance: dg.DagsterInstance) -> None:
        self.wiki, self.instance, self.heard = wiki, instance, wiki.folder / "heard"
        command = [sys.executable, "-c", SAVE, str(self.heard)]
        wiki.configure(
            sources={key: wiki.source(key, schedule="*/15 * * * *") for key in ("eng", "ops")},
            monitoring={"alert_command": command},
        )
        self.store, self.defs = Store(wiki.home), build_defs(wiki.config_path)
        self.installation = Installation(config_path=str(wiki.config_path))
        self.cursor: str | None = None
        register(instance, load_config(wiki.config_path))

    def look(self) -> list[str]:
        """One tick of the sensor, and the runs that it asks for; the sources that were judged."""
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        result = watch_sources(context, installation=self.installation)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        job = self.defs.resolve_job_def("freshness")
        for request in result.run_requests or ():
            assert job.execute_in_process(instance=self.instance, tags=request.tags, run_config=QUIET).success
        return [request.tags["dagster/partition"] for request in result.run_requests or ()]

    def ingest(self, key: str) -> dg.ExecuteInProcessResult:
        job = self.defs.resolve_job_def("ingest")
        return job.execute_in_process(instance=self.instance, partition_key=key, raise_on_error=False, run_config=QUIET)

    def history(self, key: str) -> list[bool]:
        """What the check said of a source, the latest first."""
        check = dg.AssetCheckKey(dg.AssetKey("pages"), "synced_on_time")
        records = self.instance.event_log_storage.get_asset_check_execution_history(check, limit=9)
        return [one.evaluation.passed for one in records if one.partition == key and one.evaluation]

    def synced(self, key: str, ago: timedelta) -> None:
        pages = read_state(self.store, key).pages
        assert pages is not None
        update_state(self.store, key, pages=pages.model_copy(update={"synced_at": datetime.now(UTC) - ago}))

    def alerts(self) -> list[dict[str, Any]]:
        lines = self.heard.read_text(encoding="utf-8").splitlines() if self.heard.exists() else []
        return [json.loads(line) for line in lines]


@pytest.fixture
def watch(wiki: Wiki) -> Iterator[Watch]:
    with remembered_events(), dg.DagsterInstance.ephemeral() as instance:
        yield Watch(wiki, instance)


def test_a_dead_source_shows_in_its_partition_and_is_told_once_until_it_is_back(watch: Watch) -> None:
    assert watch.ingest("eng").success
    assert watch.ingest("ops").success
    assert watch.look() == []
    watch.synced("eng", timedelta(hours=1))
    assert watch.look() == ["eng"]
    assert watch.look() == []
    watch.synced("eng", timedelta(0))
    assert watch.look() == ["eng"]
    assert watch.history("eng") == [True, False, True]
    assert watch.history("ops") == [True]
    assert [(alert["event"], [each["source"] for each in alert["sources"]]) for alert in watch.alerts()] == [
        ("sources_overdue", ["eng"]),
        ("sources_synced_again", ["eng"]),
    ]


def test_a_source_that_stays_overdue_is_told_again_after_a_day(watch: Watch) -> None:
    yesterday = datetime.now(UTC) - timedelta(hours=25)
    known = {"known_since": yesterday.isoformat(), "overdue": True, "alerted_at": yesterday.isoformat()}
    watch.cursor = json.dumps({"eng": known})
    assert watch.look() == []
    assert [alert["event"] for alert in watch.alerts()] == ["sources_overdue"]
    watch.look()
    assert len(watch.alerts()) == 1


def test_many_sources_that_fall_behind_together_are_one_alert(watch: Watch) -> None:
    hour_ago = {"known_since": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    watch.cursor = json.dumps({"eng": hour_ago, "ops": hour_ago})
    assert watch.look() == ["eng", "ops"]
    assert [alert["text"] for alert in watch.alerts()] == ["2 sources are overdue: eng, ops"]


def test_a_damaged_cursor_of_the_watch_is_forgotten(watch: Watch) -> None:
    watch.cursor = '{"eng": {"known_since": "never"}}'
    assert watch.look() == []


def test_failed_syncs_are_told_and_shown_beside_the_partition(watch: Watch) -> None:
    (watch.wiki.folder / "ops").rename(watch.wiki.folder / "gone")
    for _ in range(3):
        result = watch.ingest("ops")
        failure = dg.build_run_status_sensor_context(
            "alert_when_a_build_fails", result.get_run_failure_event(), watch.instance, result.dagster_run
        ).for_run_failure()
        alert_when_a_build_fails(failure, installation=watch.installation)
    assert failures_in_a_row(watch.instance, result.dagster_run) == 3
    assert [alert["failures_in_a_row"] for alert in watch.alerts()] == [1, 2]
    assert watch.alerts()[1]["text"].startswith("ingest of ops failed, 2 times in a row: pages: ")
    observations = watch.instance.fetch_observations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey("pages"), asset_partitions=["ops"]), limit=9
    ).records
    shown = [record.asset_observation for record in observations]
    assert [one.metadata["failures_in_a_row"].value for one in shown if one] == [3, 2, 1]
    assert [one.metadata["alert"].value for one in shown if one][1].endswith(": taken")
    (watch.wiki.folder / "gone").rename(watch.wiki.folder / "ops")
    assert watch.ingest("ops").success
    (watch.wiki.folder / "ops").rename(watch.wiki.folder / "gone")
    assert failures_in_a_row(watch.instance, watch.ingest("ops").dagster_run) == 1


def test_a_build_that_finds_nothing_new_counts_as_a_sync(watch: Watch) -> None:
    assert last_sync(watch.store, "eng") is None
    note_unchanged(watch.store, "eng", NOON)
    assert last_sync(watch.store, "eng") is None  # it was never synced
    assert watch.ingest("eng").success
    note_unchanged(watch.store, "eng", NOON)
    assert last_sync(watch.store, "eng") == NOON
