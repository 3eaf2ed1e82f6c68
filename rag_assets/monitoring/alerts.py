"""Overdue sources, sources that are back and failing builds, and alerts of them by a command or a webhook.

Belongs here: comparing with what was known, the events, and delivery, bounded in time; what fails is said in one line
and fails nothing else. Does not belong here: Dagster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rag_assets.state.records import last_sync
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.sections import Monitoring
from rag_serving.config.sources import Freshness, judge
from rag_serving.escaping.redaction import redacted_values

REMIND = timedelta(hours=24)
"""How often somebody is told again of a source that stays overdue."""
ERROR_CHARS, NAMED = 500, 20


class WatchedSource(BaseModel):
    """The memory of a source between two checks."""

    model_config = ConfigDict(frozen=True)

    known_since: datetime
    overdue: bool = False
    alerted_at: datetime | None = None


class SourceVerdict(BaseModel):
    """A source as it is now, and what of that is new."""

    model_config = ConfigDict(frozen=True)

    source: str
    freshness: Freshness
    changed: bool  # since the last look
    alert: bool


_MEMORY = TypeAdapter(dict[str, WatchedSource])


def read_memory(cursor: str | None) -> dict[str, WatchedSource]:
    """Return the memory of the last check; empty if unreadable."""
    try:
        return _MEMORY.validate_json(cursor or "{}")
    except ValidationError:
        return {}


def write_memory(memory: Mapping[str, WatchedSource]) -> str:
    return _MEMORY.dump_json(dict(memory), exclude_none=True).decode()


def look(
    config: Config, store: Store, syncing: Collection[str], memory: Mapping[str, WatchedSource], now: datetime
) -> tuple[list[SourceVerdict], dict[str, WatchedSource]]:
    """Judge every source, and return the verdicts with the new memory."""
    verdicts, remembered = [], {}
    for key, source in sorted(config.sources.items()):
        before = memory.get(key, WatchedSource(known_since=now))
        freshness = judge(
            source,
            config.monitoring,
            now,
            last_sync=last_sync(store, key),
            known_since=before.known_since,
            syncing=key in syncing,
        )
        alert = _is_worth_telling(before, freshness, now)
        verdicts.append(
            SourceVerdict(source=key, freshness=freshness, changed=freshness.overdue != before.overdue, alert=alert)
        )
        alerted_at = now if alert else before.alerted_at if freshness.overdue else None
        remembered[key] = WatchedSource(
            known_since=before.known_since, overdue=freshness.overdue, alerted_at=alerted_at
        )
    return verdicts, remembered


def _is_worth_telling(before: WatchedSource, freshness: Freshness, now: datetime) -> bool:
    if not freshness.overdue:
        return before.overdue
    return before.alerted_at is None or now - before.alerted_at >= REMIND


def is_nth_alert(failures: int) -> bool:
    """Return whether the n-th failure in a row raises an alert: the first, the second, the fourth, the eighth …"""
    return failures > 0 and failures & (failures - 1) == 0


def freshness_events(config: Config, verdicts: Sequence[SourceVerdict], now: datetime) -> list[dict[str, Any]]:
    """Return one event for all sources that became or stay overdue, and one for all that are back."""
    alerts = [verdict for verdict in verdicts if verdict.alert]
    groups = {
        "sources_overdue": [verdict for verdict in alerts if verdict.freshness.overdue],
        "sources_synced_again": [verdict for verdict in alerts if not verdict.freshness.overdue],
    }
    return [_freshness_event(name, config, group, now) for name, group in groups.items() if group]


def _freshness_event(name: str, config: Config, verdicts: Sequence[SourceVerdict], now: datetime) -> dict[str, Any]:
    state = "overdue" if name == "sources_overdue" else "synced again"
    first, count = verdicts[0], len(verdicts)
    keys = ", ".join(verdict.source for verdict in verdicts[:NAMED]) + (" …" if count > NAMED else "")
    about = f"source {first.source} is" if count == 1 else f"{count} sources are"
    return {
        "event": name,
        "text": f"{about} {state}: {first.freshness.detail if count == 1 else keys}",
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "sources": [
            {
                "source": verdict.source,
                "tenant": config.sources[verdict.source].tenant,
                "last_sync": _moment(verdict.freshness.last_sync),
                "detail": verdict.freshness.detail,
            }
            for verdict in verdicts
        ],
    }


def _moment(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds") if moment else None


def failure_event(job: str, partition: str, run_id: str, error: str, failures: int, now: datetime) -> dict[str, Any]:
    """Return the event of a run that failed; `failures`: how many in a row, this one included."""
    error = error if len(error) <= ERROR_CHARS else f"{error[: ERROR_CHARS - 1]}…"
    times = f", {failures} times in a row" if failures > 1 else ""
    return {
        "event": "run_failed",
        "text": f"{job} of {partition} failed{times}: {error}",
        "time": now.astimezone(UTC).isoformat(timespec="seconds"),
        "job": job,
        "partition": partition,
        "run_id": run_id,
        "error": error,
        "failures_in_a_row": failures,
    }


Event = Mapping[str, Any]
"""`event`, `text` (a line for people), `time`, and what it is about."""


def send(event: Event, monitoring: Monitoring) -> list[str]:
    """Hand an event to each configured hook and return the outcome; nothing is raised."""
    body, limit = json.dumps(redacted_values(event), ensure_ascii=False), monitoring.alert_timeout_s
    results = []
    if monitoring.alert_command:
        results.append(f"command {monitoring.alert_command[0]}: {_run(monitoring.alert_command, body, limit)}")
    if monitoring.alert_url_env:
        results.append(f"webhook of {monitoring.alert_url_env}: {post(monitoring.alert_url_env, body, limit)}")
    return results


def _run(command: list[str], body: str, limit: float) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"could not be started ({error})"
    with process:
        try:
            process.communicate(body.encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"took longer than {limit:g} s and was ended"
    return "taken" if process.returncode == 0 else f"failed with status {process.returncode}"


def post(variable: str, body: str, limit: float, headers: Mapping[str, str] | None = None) -> str:
    """Post JSON to the address in a variable and return the result; the address is a secret, and kept out of it."""
    url = os.environ.get(variable, "").strip()
    if not url:
        return "the variable is empty"
    results: list[str] = []
    # A server that answers one byte a second stays below every limit of the client.
    thread = threading.Thread(target=lambda: results.append(_posted(url, body, limit, headers or {})), daemon=True)
    thread.start()
    thread.join(limit)
    return results[0] if results else f"did not answer within {limit:g} s"


def _posted(url: str, body: str, limit: float, more: Mapping[str, str]) -> str:
    import httpx

    headers = {"content-type": "application/json", **more}
    try:
        with httpx.Client(timeout=limit) as client, client.stream("POST", url, content=body, headers=headers) as reply:
            return "taken" if reply.is_success else f"answered {reply.status_code}"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return f"could not be reached ({type(error).__name__})"
