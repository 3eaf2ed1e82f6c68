"""A running server follows its configuration file: switches at once, everything else a few seconds later."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from support.command_line import write_config
from support.waiting import wait_until

from rag_serving.api.app import create_app
from rag_serving.api.reload import NOT_USED, ConfigFile, Reload
from rag_serving.config.loading import ConfigError, load_config

HEURISTIC = "features: {FEATURE_HEURISTIC_RERANKER: true}\n"


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000))


class Served:
    """An app over a configuration file that a test edits."""

    def __init__(self, folder: Path, home: Path, more: str = "") -> None:
        self._folder, self._home = folder, home
        self.path = Path(write_config(folder, home, more))
        config = load_config(self.path)
        self.file = ConfigFile(self.path, config.serving)
        self.app = create_app(config, file=self.file)
        self.reload: Reload = self.app.state.reload

    def edit(self, more: str) -> None:
        write_config(self._folder, self._home, more)

    def ranks_by_words(self) -> bool:
        found = client_of(self.app).post("/v1/search", json={"query": "restart a broker"}).json()
        return bool(found["reranker"] == "heuristic")

    def look_twice(self) -> None:
        self.reload.look()
        self.reload.look()


@pytest.fixture
def served(tmp_path: Path, wiki_home: Path) -> Iterator[Served]:
    opened = Served(tmp_path, wiki_home)
    yield opened
    opened.reload.close()
    opened.app.state.service.close()


def test_a_running_server_takes_over_a_changed_switch_by_itself(served: Served) -> None:
    with client_of(served.app) as client:
        search = {"query": "restart a broker"}
        assert client.post("/v1/search", json=search).json()["reranker"] == "none"
        served.edit(HEURISTIC)
        wait_until(lambda: client.post("/v1/search", json=search).json()["reranker"] == "heuristic")
        served.edit("")
        wait_until(lambda: client.post("/v1/search", json=search).json()["reranker"] == "none")


def test_a_bad_edit_is_told_once_and_changes_nothing(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.edit(HEURISTIC)
    served.look_twice()
    assert served.ranks_by_words()
    for bad in ("features: {FEATURE_RM3: perhaps}\n", "features: {FEATURE_RM4: true}\n", "features: [\n"):
        caplog.clear()
        served.edit(bad)
        for _ in range(3):
            served.look_twice()
        (record,) = caplog.records
        assert record.getMessage().startswith("the configuration that was changed is not used: ")
        assert "\n" not in record.getMessage()
        assert served.ranks_by_words()
    for gone in (lambda: served.path.write_text(""), served.path.unlink):  # half written, or moved away
        caplog.clear()
        gone()
        served.look_twice()
        served.look_twice()
        assert len(caplog.records) == 1
        assert served.ranks_by_words()
    served.edit("")
    served.look_twice()
    assert not served.ranks_by_words()


def test_a_file_that_is_still_being_written_is_left_alone(served: Served) -> None:
    served.look_twice()
    for size in range(3):
        served.edit(HEURISTIC + "#" * size)
        served.reload.look()
        assert not served.ranks_by_words()
    served.reload.look()
    assert served.ranks_by_words()


def test_the_sidecar_can_be_switched_off_and_on(tmp_path: Path, wiki_home: Path) -> None:
    sidecar = "reranker: {url: 'http://127.0.0.1:9/rerank'}\n"
    served = Served(tmp_path, wiki_home, sidecar + "features: {FEATURE_RERANKER: false}\n")
    pipeline = served.app.state.service.pipelines["acme"]
    assert pipeline.reranker is None
    served.edit(sidecar)
    served.look_twice()
    assert pipeline.reranker.url == "http://127.0.0.1:9/rerank"
    served.edit(sidecar + "features: {FEATURE_RERANKER: false}\n")
    served.look_twice()
    assert pipeline.reranker is None
    served.app.state.service.close()


def test_a_running_server_follows_the_whole_file(served: Served) -> None:
    with client_of(served.app) as client:
        assert client.get("/v1/documents").json()["sources"] == []
        old = served.app.state.service
        served.edit("sources: {uploads: {kind: files, tenant: acme, readers: everyone}}\n")
        wait_until(lambda: client.get("/v1/documents").json()["sources"] == ["uploads"])
        assert client.get("/v1/session").json()["features"]["documents"]
        first = served.app.state.service
        assert first is not old
        served.path.touch()  # another time, and the same content
        time.sleep(1.5)
        assert served.app.state.service is first
        served.edit("")
        wait_until(lambda: client.get("/v1/documents").json()["sources"] == [])


def test_a_file_that_cannot_be_used_is_told_where_people_look_until_it_is_mended(served: Served) -> None:
    with client_of(served.app) as client:
        for bad in ("retrieval: {dense_k: 0}\n", "serving: {auth: tokens, tokens_env: NO_SUCH}\n", "sources: [\n"):
            served.edit(bad)
            wait_until(lambda: NOT_USED in client.get("/v1/status").json()["degraded"])
            ready = client.get("/readyz")
            assert ready.status_code == 200
            assert ready.json()["configuration"] == served.reload.problem
            served.edit("")
            wait_until(lambda: NOT_USED not in client.get("/v1/status").json()["degraded"])
            assert "configuration" not in client.get("/readyz").json()


def test_what_needs_a_restart_is_named_until_it_is_taken_back(served: Served) -> None:
    with client_of(served.app) as client:
        wait_until(lambda: served.reload._at_start is not None)
        served.edit("serving: {port: 1}\ntracing: {text: true}\n")
        needed = [f"restart the server for {key} of the configuration file" for key in ("serving.port", "tracing")]
        wait_until(lambda: client.get("/v1/status").json()["degraded"] == needed)
        served.edit("")
        wait_until(lambda: client.get("/v1/status").json()["degraded"] == [])


def test_a_changed_schedule_says_what_dagster_needs(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.look_twice()
    served.edit("sources: {uploads: {kind: files, tenant: acme, readers: everyone, schedule: '0 3 * * *'}}\n")
    served.look_twice()
    wait_until(lambda: any("Reload definitions" in line for line in caplog.messages))


def test_a_reload_takes_over_everything_but_where_the_server_listens(served: Served) -> None:
    old = served.app.state.service
    served.edit("retrieval: {final_passages: 2, enabled: false}\nserving: {port: 1}\ntelemetry: {enabled: false}\n")
    served.look_twice()
    wait_until(lambda: served.app.state.service is not old)
    new = served.app.state.service
    assert (new.config.retrieval.final_passages, new.config.serving.port) == (2, old.config.serving.port)
    assert new.embedder is old.embedder
    refused = client_of(served.app).post("/v1/ask", json={"question": "How is a release rolled back?"})
    assert refused.json()["flags"] == ["retrieval_disabled"]
    assert not old.pipelines["acme"].published._closed  # what was asked of it is still answered
    served.reload.close()
    assert old.pipelines["acme"].published._closed


@pytest.mark.parametrize("bad", ["retrieval: {dense_k: 0}\n", "serving: {auth: tokens, tokens_env: NO_SUCH}\n"])
def test_a_reload_of_what_cannot_be_used_leaves_everything_as_it_is(
    served: Served, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    old = served.app.state.service
    served.edit(bad)
    served.reload.now()
    assert served.app.state.service is old
    assert [record.getMessage().startswith("the configuration is not used: ") for record in caplog.records] == [True]


def test_no_reload_drops_authentication_where_others_can_reach_the_server(tmp_path: Path, wiki_home: Path) -> None:
    path = Path(write_config(tmp_path, wiki_home))
    listening = load_config(path).serving.model_copy(update={"host": "0.0.0.0"})
    with pytest.raises(ConfigError, match=r"serving.auth 'loopback' .* not on 0\.0\.0\.0"):
        ConfigFile(path, listening).load()


WAITER = """
import os, signal
from rag_serving.api.server import on_hangup
on_hangup(lambda: os.write(1, b"reload\\n"))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


def test_a_hangup_reloads_unless_the_terminal_was_closed() -> None:
    master, slave = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    for prepare, expected in ((None, b"reload\n"), (take_terminal, b"reload\n")):
        process = subprocess.Popen(
            [sys.executable, "-c", WAITER], stdout=subprocess.PIPE, start_new_session=True, preexec_fn=prepare
        )
        assert process.stdout
        with process:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGHUP)
            assert process.stdout.readline() == expected
            if prepare is None:
                process.kill()
            else:
                os.close(slave)
                os.close(master)
                assert process.wait(20) == -signal.SIGTERM


def test_a_running_server_follows_phases_and_the_kill_switch(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    question = {"question": "May I restart a broker while partitions are under-replicated?"}
    client, phases = client_of(served.app), served.app.state.service.pipelines["acme"].phases
    assert client.post("/v1/ask", json=question).json()["phase"] == 3
    caplog.clear()
    served.edit("retrieval: {phase: 2}\n")
    served.look_twice()
    assert client.post("/v1/ask", json=question).json()["phase"] == 2
    assert "retrieval of acme: phase 3 → 2" in caplog.messages
    served.edit("retrieval: {phase: 4}\n")
    served.look_twice()
    assert phases.settings.phase == 2
    served.edit("retrieval: {enabled: false, phase: 2}\n")
    served.look_twice()
    answer = client.post("/v1/ask", json=question)
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    assert "switched off" in answer.json()["answer"]
    found = client.post("/v1/search", json={"query": "broker"})
    assert (found.status_code, found.json()["code"]) == (503, "RETRIEVAL_DISABLED")
    served.edit("retrieval: {phase: 1}\n")
    served.look_twice()
    assert client.post("/v1/ask", json=question).json()["phase"] == 1
    metrics = client.get("/metrics").text
    assert 'citelock_retrieval_phase{phase="1",tenant="acme"} 1.0' in metrics
    assert 'citelock_phase_changes_total{direction="configured",phase="2",tenant="acme"} 1.0' in metrics


def test_a_tenant_s_own_phase_is_followed_apart(tmp_path: Path, wiki_home: Path) -> None:
    served = Served(tmp_path, wiki_home)
    phases = served.app.state.service.pipelines["acme"].phases
    text = served.path.read_text("utf-8")
    assert "tenants: {acme: {}}" in text
    served.path.write_text(
        text.replace("acme: {}", "acme: {retrieval: {phase: 1, enabled: true}}") + "retrieval: {enabled: false}\n"
    )
    served.look_twice()
    assert (phases.settings.enabled, phases.settings.phase) == (True, 1)
    served.app.state.service.close()
