"""compose.yaml as a whole, without Docker: its commands, variables and health checks as processes of this machine.

With CITELOCK_COMPOSE=1 (nightly, minutes): runs go through the daemon's queue to a Celery worker, over Postgres with
pgvector and redis, and the server answers from what they published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest
from support.celery_cluster import started_redis
from support.compose_processes import FOLDER, Stack
from support.postgres import started_pgvector
from support.waiting import wait_until

TOKEN = "a-token-of-the-test-of-compose"
EXPORTED = {
    "POSTGRES_PASSWORD": "not-a-password",
    "CITELOCK_SECRET": "0123456789abcdef" * 4,
    "CITELOCK_TOKENS": json.dumps({TOKEN: {"tenant": "demo", "user": "ann"}}),
    "RERANK_TOKEN": "not-a-token",
}
QUESTION = {"question": "How long can a release be rolled back?"}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Postgres as its image makes it, redis, and no service yet."""
    with started_pgvector() as postgres, started_redis(tmp_path) as redis:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE citelock LOGIN SUPERUSER")
            connection.execute("CREATE DATABASE citelock OWNER citelock")
        run_script(postgres.port, (FOLDER / "databases.sql").read_text())
        running = Stack(tmp_path / "stack", postgres.port, redis, EXPORTED)
        try:
            yield running
        finally:
            running.close()


def run_script(port: int, script: str) -> None:
    """Run the script of the Postgres image: its `\\connect` begins a new connection."""
    database = "citelock"
    for statement in filter(None, (line.strip().rstrip(";") for line in script.splitlines())):
        if statement.startswith("\\connect"):
            database = statement.split()[1]
        elif not statement.startswith("--"):
            with psycopg.connect(f"postgresql://citelock@127.0.0.1:{port}/{database}", autocommit=True) as connection:
                connection.execute(statement.encode())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not os.environ.get("CITELOCK_COMPOSE", ""), reason="takes minutes: CITELOCK_COMPOSE=1 runs it")
def test_the_services_build_the_sample_by_celery_and_answer_a_question(stack: Stack) -> None:
    for name in ("code", "serving"):
        stack.start(name)
    stack.wait_for("code", "serving")
    for name in ("webserver", "daemon", "worker", "inboxes"):  # inboxes has no health check
        stack.start(name)
    stack.wait_for("webserver", "daemon", "worker")

    workspace = str(stack.folder / "etc" / "workspace.yaml")
    assert stack.call("worker", "python", "-m", "rag_assets.partitions").returncode == 0
    for source in ("eng", "ops"):
        tags = json.dumps({"dagster/partition": source})
        launch = ["dagster", "job", "launch", "--workspace", workspace, "--job", "ingest", "--tags", tags]
        done = stack.call("worker", *launch)
        assert done.returncode == 0, done.stderr
    published = stack.folder / "home" / "tenants" / "demo" / "current"
    wait_until(published.exists, 600)  # the daemon's sensor starts `publish` once sources changed
    assert "ForkPoolWorker" in stack.log("worker")  # runs were tasks of Celery: its processes log their steps

    url, headers = f"http://127.0.0.1:{stack.ports['8088']}", {"Authorization": f"Bearer {TOKEN}"}
    wait_until(lambda: httpx.get(f"{url}/readyz").status_code == 200, 120)
    answer = httpx.post(f"{url}/v1/ask", json=QUESTION, headers=headers, timeout=120).json()
    assert answer["status"] == "answered"
    assert answer["citations"]
    assert httpx.post(f"{url}/v1/ask", json=QUESTION).status_code == 401
    assert stack.processes["inboxes"].poll() is None, stack.log("inboxes")
    assert stack.stop("inboxes") == 130
    assert stack.stop("serving") in (0, -15)
