"""`citelock doctor` looks at what answers rest on beside: the reranker sidecar, and the telemetry database."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert
from support.command_line import run, write_config
from support.running import running
from support.stand_in_chat import MODEL, StandInChat, served
from support.waiting import wait_until
from support.word_counter import NAME, WordCounter

from rag_serving.artifacts.store import Store
from rag_serving.cli import doctor
from rag_serving.cli.printing import Finding
from rag_serving.config.models import RerankService
from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.api import create_app
from rag_serving.telemetry.events import RowBuilder
from rag_serving.telemetry.tables import LOSSES, METADATA, opened


def finding(home: Path, name: str, folder: Path, more: str = "") -> tuple[str, str, str]:
    """State, detail and how to mend it of one line."""
    out = run("doctor", "--config", write_config(folder, home, more), "--json")[1]
    found = {each["name"]: each for each in json.loads(out)}[name]
    return found["state"], found["detail"], found["mend"]


@contextmanager
def sidecar(open_model: Callable[[], Any], state: str) -> Iterator[str]:
    """A sidecar's address, once its model is in this state."""
    with running(create_app(RerankService(), NAME, None, open_model)) as url:
        wait_until(lambda: httpx.get(f"{url}/healthz").json()["status"] == state)
        yield f"{url}/rerank"


def reranker(url: str, model: str = NAME, more: str = "") -> str:
    return f"reranker: {{url: '{url}', model: {model}{more}}}\n"


def test_contexts_by_two_models_are_told_of_both(tmp_path: Path) -> None:
    with served(StandInChat()) as up:
        fallback = f"fallback: {{model: {MODEL}, base_url: '{up.url}/v1'}}"
        for url, state, mend in (
            (up.url, "ok", ""),
            ("http://127.0.0.1:1", "warn", "until then the fallback writes alone"),
        ):
            more = f"context: {{provider: ollama, model: {MODEL}, base_url: '{url}', {fallback}}}\n"
            found = finding(tmp_path / "home", "contexts", tmp_path, more)
            assert (found[0], found[2]) == (state, mend)
            assert f"the fallback: openai/{MODEL} at {up.url}/v1" in found[1]


def test_without_a_sidecar_that_is_said(wiki_home: Path, tmp_path: Path) -> None:
    assert finding(wiki_home, "reranker", tmp_path)[:2] == (
        "ok",
        "none is configured: the order of the search stays",
    )


def test_a_sidecar_that_is_ready_names_its_model(wiki_home: Path, tmp_path: Path) -> None:
    with sidecar(WordCounter, "ok") as url:
        assert finding(wiki_home, "reranker", tmp_path, reranker(url)) == ("ok", f"{NAME} at {url}", "")
        other = finding(wiki_home, "reranker", tmp_path, reranker(url, "large"))
    assert other[:2] == ("warn", f"{NAME} at {url} is not the configured model")
    assert other[2] == "start the sidecar with large, or set reranker.model"


def test_a_sidecar_that_still_loads_is_not_ready(wiki_home: Path, tmp_path: Path) -> None:
    loaded = threading.Event()

    def loading() -> WordCounter:
        loaded.wait(60)
        return WordCounter()

    with sidecar(loading, "loading") as url:
        found = finding(wiki_home, "reranker", tmp_path, reranker(url))
        loaded.set()
    assert found == ("warn", f"{NAME} at {url} is not ready: loading", "wait for it, or see its log")


def test_a_sidecar_whose_model_failed_is_named(wiki_home: Path, tmp_path: Path) -> None:
    def failing() -> WordCounter:
        raise ModelError("no such weights")

    with sidecar(failing, "failing") as url:
        state, detail, mend = finding(wiki_home, "reranker", tmp_path, reranker(url))
    assert (state, detail) == ("fail", f"the model {NAME} of the reranker at {url} is failing; see its log")
    assert "until then" in mend


def test_a_sidecar_that_is_away_or_is_none_is_named(
    wiki_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = "http://127.0.0.1:9/rerank"
    state, detail, _ = finding(wiki_home, "reranker", tmp_path, reranker(away))
    assert (state, f"no reranker answers at {away}" in detail) == ("fail", True)
    with served(StandInChat()) as other:
        state, detail, _ = finding(wiki_home, "reranker", tmp_path, reranker(f"{other.url}/rerank"))
    assert (state, "is no reranker; set reranker.url" in detail) == ("fail", True)
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    state, detail, _ = finding(wiki_home, "reranker", tmp_path, reranker(away, more=", token_env: NO_SUCH_TOKEN"))
    assert (state, "NO_SUCH_TOKEN" in detail) == ("fail", True)


def test_a_database_of_telemetry_is_there_or_will_be(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert finding(home, "telemetry", tmp_path)[1].endswith("serving.db, made by the first question")
    assert not home.exists()
    file = Store(home).serving_db()
    file.parent.mkdir(parents=True)
    with opened(None, file) as engine:
        METADATA.create_all(engine)
    state, detail, mend = finding(home, "telemetry", tmp_path)
    assert (state, mend) == ("ok", "")
    assert detail.endswith("serving.db, 0 rows dropped in 7 days")
    assert "switched off" in finding(home, "telemetry", tmp_path, "telemetry: {enabled: false}\n")[1]


def test_dropped_rows_are_counted(tmp_path: Path) -> None:
    file = Store(tmp_path).serving_db()
    old = {**RowBuilder("acme", b"key").of_loss(9), "day": "2020-01-01"}
    with opened(None, file) as engine:
        METADATA.create_all(engine)
        with engine.begin() as connection:
            connection.execute(insert(LOSSES), [RowBuilder("acme", b"key").of_loss(rows) for rows in (5, 1200)] + [old])
    state, detail, mend = finding(tmp_path, "telemetry", tmp_path)
    assert (state, "1,205 rows dropped in 7 days" in detail) == ("warn", True)
    assert "log" in mend


def test_a_database_of_another_version_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(Store(tmp_path).serving_db())) as connection:
        connection.execute("CREATE TABLE questions (id TEXT, at REAL)")
        connection.commit()
    state, detail, mend = finding(tmp_path, "telemetry", tmp_path)
    assert (state, "table questions lacks day, tenant, kind" in detail) == ("fail", True)
    assert "a new one is made" in mend


def test_a_database_that_is_away_is_one_line_without_its_password(tmp_path: Path) -> None:
    more = "telemetry: {url: 'postgresql://nobody:secret@127.0.0.1:1/none'}\n"
    state, detail, mend = finding(tmp_path, "telemetry", tmp_path, more)
    assert (state, "cannot be read" in detail) == ("fail", True)
    assert "secret" not in detail + mend
    assert "\n" not in detail


def test_what_other_packages_look_at_joins_by_entry_points(
    wiki_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Entry:
        def __init__(self, name: str, check: Callable[[Any], Any] | None) -> None:
            self.name, self._check = name, check

        def load(self) -> Callable[[Any], Any]:
            if self._check is None:
                raise ImportError("No module named 'atlassian'")
            return self._check

    def looks(config: Any) -> Iterator[Finding]:
        yield Finding("wikis", "warn", f"{len(config.tenants)} tenant", "look again")
        raise RuntimeError("it\nbroke")

    monkeypatch.setattr(doctor, "loaded", lambda _: {"a": Entry("a", None), "b": Entry("b", looks)})
    code, out, _ = run("doctor", "--config", write_config(tmp_path, wiki_home), "--json")
    found = {each["name"]: each for each in json.loads(out)}
    assert code == 1
    assert (found["wikis"]["detail"], found["wikis"]["mend"]) == ("1 tenant", "look again")
    assert (found["a"]["state"], "No module named 'atlassian'" in found["a"]["detail"]) == ("warn", True)
    assert (found["b"]["state"], "unexpected RuntimeError: it broke" in found["b"]["detail"]) == ("fail", True)
    assert found["serving"]["state"] == "ok", "what comes after is still looked at"


def test_a_generation_says_how_much_everyone_may_read(wiki_home: Path, tmp_path: Path) -> None:
    assert "6 chunks (5 of them readable for everyone)" in finding(wiki_home, "tenant acme", tmp_path)[1]
