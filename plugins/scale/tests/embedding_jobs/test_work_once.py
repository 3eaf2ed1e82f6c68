"""Two worker processes at one model server: no text is embedded twice, but for the job of a worker that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from support.envelopes import SECTION, Wiki, envelope
from support.project import Project
from support.stand_in_embeddings import StandIn
from support.waiting import wait_until

from citelock_scale.embedding_jobs.queue import JobQueue
from rag_assets.runs import metadata_of
from rag_serving.config.loading import load_config
from rag_serving.config.sections import Jobs
from rag_serving.models import open_embedder

SOON = "from rag_serving.config.sections import Jobs; Jobs.lease_s = 4; "
COMMAND = [sys.executable, "-c", f"{SOON}from rag_serving.cli.main import main; main()", "worker"]
TEXTS_A_JOB = 8


def many_pages(wiki: Wiki, model: str) -> None:
    """Configure a wiki of some hundred passages, embedded by workers at a model server."""
    for number in range(12):
        body = "".join(
            SECTION.format(
                heading=f"Part {part}", text=f"Valve {number} of pump {part} closes at {7 * number + part} bar."
            )
            for part in range(8)
        )
        wiki.write("eng", envelope(str(500 + number), f"Pump {number}", body))
    wiki.configure(
        embedding={"provider": "openai", "model": "bge-m3", "base_url": f"{model}/v1"},
        jobs={"embedding": "workers"},
        indexing={"sentence_vectors": "never"},
    )


def texts_of(server: StandIn) -> Counter[str]:
    """Return the number of requests for each text; a model's name and dimension are probed with a text of their own."""
    bodies = [body["input"] for path, body, _ in list(server.requests) if path == "/v1/embeddings"]
    return Counter(text for texts in bodies for text in texts if "Valve" in text)


@pytest.fixture
def server() -> Any:
    model = StandIn()
    model.spoil = _slowly
    thread = Thread(target=model.serve_forever, daemon=True)
    thread.start()
    yield model
    model.shutdown()
    model.server_close()


def _slowly(vectors: list[Any]) -> list[Any]:
    time.sleep(0.3)
    return vectors


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_the_texts_of_its_job_and_no_other_is_asked_for_twice(
    tmp_path: Path, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Jobs, "lease_s", 4)
    monkeypatch.setattr(Jobs, "without_workers_s", 300)
    monkeypatch.setattr(Jobs, "texts_per_job", TEXTS_A_JOB)
    wiki = Wiki(tmp_path)
    many_pages(wiki, server.url)
    config = load_config(wiki.config_path)
    workers = [subprocess.Popen([*COMMAND, "--config", str(wiki.config_path)]) for _ in range(2)]
    model = open_embedder(config.embedding).name
    queue = JobQueue.of(config)
    figures: dict[str, Any] = {}

    def build() -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            project = Project(wiki, instance)
            assert all(project.run("ingest", key).success for key in ("eng", "ops"))
            made = project.materialize("dedup_map", "contexts", "embeddings")  # checks embed some texts again
            figures.update(metadata_of(made)["embeddings"])

    builder = Thread(target=build)
    builder.start()
    try:
        wait_until(lambda: len(texts_of(server)) > 2 * TEXTS_A_JOB)
        wait_until(lambda: queue.state("demo", model).running > 1)
        os.kill(workers[0].pid, signal.SIGKILL)
        builder.join(120)
        assert not builder.is_alive()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        queue.database.close()
    asked = texts_of(server)
    again = [text for text, count in asked.items() if count > 1]
    assert len(asked) == figures["texts_embedded"] - 4  # the passages of the other pages
    assert max(asked.values()) <= 2
    assert len(again) <= TEXTS_A_JOB  # none if the worker had claimed its job, but made no request yet
    assert figures["queue_own_jobs"] == 0
