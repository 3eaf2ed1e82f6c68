"""`citelock rerank-service` as a process: it serves, ends when told to, and refuses to start where it must."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
from support.tiny_reranker import save_xlm_roberta
from support.waiting import status_of, wait_until

COMMAND = [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "rerank-service"]


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command in an empty folder: there is no configuration file."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("CITELOCK_")}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**given, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_serves_a_model_from_a_folder_and_ends_cleanly_when_told_to(tmp_path: Path) -> None:
    port = free_port()
    model = str(save_xlm_roberta(tmp_path / "model"))
    process = start(tmp_path, "--model", model, "--port", str(port), "--device", "cpu")
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: process.poll() is None and status_of(f"{url}/readyz") == 200, 120)
    body = {"query": "expense", "candidates": [{"id": "a", "text": "travel"}, {"id": "b", "text": "policy"}]}
    assert {result["id"] for result in httpx.post(f"{url}/rerank", json=body).json()["results"]} == {"a", "b"}
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "model": model}
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)
    assert "Traceback" not in told


def test_a_model_that_cannot_be_loaded_ends_it_with_one_line(tmp_path: Path) -> None:
    process = start(tmp_path, "--model", str(tmp_path), "--port", "0", "--device", "cpu")
    _, told = process.communicate(timeout=90)
    assert process.returncode == 1
    assert "cannot be loaded" in told.splitlines()[-1]
    assert "Traceback" not in told


def test_it_does_not_listen_to_other_machines_without_a_token(tmp_path: Path) -> None:
    process = start(tmp_path, "--host", "0.0.0.0", "--port", "0")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "reranker.token_env" in told


def test_a_token_that_is_named_must_be_there(tmp_path: Path) -> None:
    process = start(tmp_path, "--host", "0.0.0.0", CITELOCK_RERANKER__TOKEN_ENV="NO_SUCH_TOKEN")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "NO_SUCH_TOKEN" in told


def test_the_help_shows_how_to_ask_it(tmp_path: Path) -> None:
    shown = subprocess.run([*COMMAND, "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60).stdout
    assert "curl -s localhost:8000/rerank" in shown
    assert "pip install 'citelock[rerank]'" in shown
