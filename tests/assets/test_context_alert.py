"""Who is told when the model of contexts fails."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.building import build_json
from support.envelopes import Wiki
from support.stand_in_chat import MODEL

from rag_assets.llm_contexts.tenant import LastRun, contexts_event, note_run
from rag_serving.artifacts.store import Store
from rag_serving.config.models import Context

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)


def test_of_runs_that_fail_in_a_row_ever_fewer_are_told_and_so_is_the_end(tmp_path: Path) -> None:
    store, before = Store(tmp_path), LastRun()
    told = []
    for number in range(1, 10):
        failures = {"1:1:0": "no chat server answers"} if number < 9 else {}
        after = note_run(store, "demo", failures)
        event = contexts_event("demo", failures, before, after, NOW)
        told += [(number, event["event"])] if event else []
        before = after
    failed = [(number, "contexts_failed") for number in (1, 2, 4, 8)]
    assert told == [*failed, (9, "contexts_written_again")]


def test_a_build_without_failures_tells_nothing() -> None:
    assert contexts_event("demo", {}, LastRun(), LastRun(), NOW) is None


def test_an_event_has_its_reasons_and_a_bounded_number_of_chunks() -> None:
    failures = {f"{number}:1:0": "it invents 1987" if number % 3 else "x" * 10_000 for number in range(10_000)}
    after = LastRun(failures=len(failures), reason="x" * 10_000, failed_runs=1)
    event = contexts_event("demo", failures, LastRun(), after, NOW)
    assert event is not None
    assert event["contexts_failed"] == 10_000
    assert list(event["reasons"].values()) == [6666, 3334]
    assert len(event["chunks"]) == 20
    assert len(json.dumps(event)) < 3_000


def test_the_command_gets_the_event_of_a_build_whose_model_is_away(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "max_retries", 0)
    heard = wiki.folder / "heard.json"
    command = [sys.executable, "-c", f"import sys; open({str(heard)!r}, 'w').write(sys.stdin.read())"]
    away = {"provider": "ollama", "model": MODEL, "base_url": "http://127.0.0.1:1"}
    wiki.configure(context=away, monitoring={"alert_command": command})
    assert build_json(wiki)["tenants"]["demo"]["published"]
    event = json.loads(heard.read_text())
    assert (event["event"], event["tenant"], event["contexts_failed"]) == ("contexts_failed", "demo", 4)
    assert "no chat server answers at http://127.0.0.1:1" in event["text"]
