"""A wiki whose passages and sentences a worker process embeds: the generation that the build itself would have made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pytest
from numpy.typing import NDArray
from support.envelopes import Wiki
from support.project import Project
from support.remembered import remembered_events
from typer.testing import CliRunner

from citelock_scale.embedding_jobs.jobs_command import app
from rag_serving.artifacts.store import Store
from rag_serving.config.sections import Jobs
from rag_serving.models.embedding.local import LocalEmbedder
from rag_serving.models.protocols import ModelError, Progress

COMMAND = [sys.executable, "-c", "from rag_serving.cli.main import main; main()"]


@contextmanager
def worker(wiki: Wiki) -> Iterator[list[str]]:
    """Run `citelock worker` during the block, then end it; the list has its lines."""
    command = [*COMMAND, "worker", "--config", str(wiki.config_path)]
    lines: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            yield lines
        finally:
            child.terminate()
            lines += child.communicate(timeout=60)[1].splitlines()
        assert child.returncode == 0, lines


def jobs(wiki: Wiki, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--config", str(wiki.config_path)])
    assert result.exit_code == code, result.output
    is_json = code == 0 and ("--json" in arguments or arguments[0] == "show")
    return json.loads(result.stdout) if is_json else result.stdout


def build(wiki: Wiki) -> dict[str, Any]:
    with dg.DagsterInstance.ephemeral() as instance:
        return Project(wiki, instance).build()["embeddings"]


def vector_files(wiki: Wiki) -> dict[str, bytes]:
    """Return the files of vectors of the published generation."""
    store = Store(wiki.home)
    current = store.current("demo")
    assert current is not None
    folder = store.generation("demo", current)
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}


def test_a_worker_process_makes_the_same_generation_as_the_build_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Jobs, "without_workers_s", 120)
    own, queued = (Wiki(tmp_path / name) for name in ("own", "queued"))
    prices = {"prices": {"all-MiniLM-L6-v2": {"input": 1000.0}}}
    queued.configure(jobs={"embedding": "workers"}, embedding=prices)
    own_figures = build(own)
    with worker(queued) as lines:
        figures = build(queued)
    assert lines[0].startswith("worker: ")
    assert lines[-1].endswith(f"{figures['texts_embedded'] + figures['sentences_embedded']} texts embedded, 0 failed")
    files = vector_files(queued)
    assert len(files) > 2
    assert files == vector_files(own)
    for counted in ("texts_embedded", "sentences", "sentences_embedded", "vectors", "tokens"):
        assert figures[counted] == own_figures[counted], counted
    assert figures["cost"] == pytest.approx(figures["tokens"] * 0.001)
    assert figures["queue_jobs"] >= 2
    assert (figures["queue_own_jobs"], figures["queue_dead_letters"]) == (0, 0)
    assert own_figures["cost"] == 0
    assert "queue_jobs" not in own_figures
    usage = jobs(queued, "usage", "--json")
    assert usage["total"]["tokens"] == figures["tokens"] == sum(page["tokens"] for page in usage["pages"])
    listed = jobs(queued, "list", "--json")
    assert {job["state"] for job in listed} == {"done"}
    assert sum(job["texts"] for job in listed) == figures["texts_embedded"] + figures["sentences_embedded"]
    assert jobs(queued, "show", listed[0]["id"])["items"] == []
    assert jobs(queued, "workers") == ""
    assert not list((Store(queued.home).cache("demo") / "embedding_jobs").iterdir())
    assert "0 jobs wait again" in jobs(queued, "retry", "--all")
    jobs(queued, "show", "f" * 32, code=1)


def test_a_text_that_no_model_takes_is_told_of_in_dagster_and_the_step_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki = Wiki(tmp_path)
    wiki.configure(jobs={"embedding": "workers"})
    monkeypatch.setattr(Jobs, "without_workers_s", 0)
    monkeypatch.setattr(Jobs, "attempts", 1)
    embed = LocalEmbedder.embed_documents

    def refusing(self: LocalEmbedder, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        if any("canary" in text for text in texts):
            raise ModelError("the model does not take it")
        return embed(self, texts, progress)

    monkeypatch.setattr(LocalEmbedder, "embed_documents", refusing)
    with remembered_events(), dg.DagsterInstance.ephemeral() as instance:
        project = Project(wiki, instance)
        for source in ("eng", "ops"):
            assert project.run("ingest", source).success
        result = project.run("publish", "demo")
        assert not result.success
        failed = [event for event in result.all_events if event.is_step_failure]
        assert len(failed) == 1
        assert "could not be embedded: the model does not take it" in str(failed[0].step_failure_data.error)
        (seen,) = instance.fetch_observations(dg.AssetKey("embeddings"), limit=2).records
        observation = seen.asset_observation
        assert observation is not None
        assert observation.partition == "demo"
        assert int(str(observation.metadata["queue_dead_letters"].value)) > 0
    dead = jobs(wiki, "list", "--state", "dead", "--json")
    assert {job["reason"] for job in dead} == {"the model does not take it"}
    shown = jobs(wiki, "show", dead[0]["id"])
    assert "canary" in shown["items"][0]["text"]
    assert f"{len(dead)} jobs wait again" in jobs(wiki, "retry", "--all", "--tenant", "demo")
    assert Store(wiki.home).current("demo") is None
