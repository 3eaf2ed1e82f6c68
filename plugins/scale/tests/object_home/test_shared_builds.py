"""Builds and servers of several machines over one S3 home: what one publishes the others answer from."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support import command_line
from support.command_line import CITELOCK
from support.forked import run
from support.s3_server import BUCKET, faulty

from citelock_scale.object_home.follower import StoreFollower
from citelock_scale.object_home.home import object_home
from rag_assets.state.locks import refresh_decisions
from rag_assets.state.planning import published_damage, published_inputs, wanted_inputs
from rag_serving.access.principals import Principal
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.index import ObjectStore
from rag_serving.config.loading import Config, load_config
from rag_serving.indexes.catalog import list_generations
from rag_serving.models import open_embedder

KILLS = int(os.environ.get("CITELOCK_OBJECT_KILLS", "1"))
SOON = "from rag_serving.config.index import ObjectStore as S; S.lease_s, S.retry_s = 2, 2; "
PUBLISHERS = int(os.environ.get("CITELOCK_OBJECT_PUBLISHERS", "1"))
"""Rounds in which two builds publish at once."""
QUESTION = "How do I roll back a release?"
_SAMPLE = Path(__file__).parents[4] / "sample" / "OPS"
_NOBODY = Principal("demo")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A few pages that the test may change."""
    folder = tmp_path / "pages"
    folder.mkdir()
    for file in sorted(_SAMPLE.glob("*.json"))[:6]:
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def config(s3: str, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the configuration file of a machine of that name."""
    monkeypatch.setattr(ObjectStore, "retry_s", 2)
    monkeypatch.setattr(ObjectStore, "lease_s", 2)

    def of(name: str, endpoint: str = s3, pages: Path = pages) -> Path:
        settings = {
            "home": f"s3://{BUCKET}/{tmp_path.name}",
            "object_store": {"cache": str(tmp_path / name), "endpoint": endpoint},
            "tenants": {"demo": {}},
            "sources": {
                "ops": {"kind": "confluence_dump", "tenant": "demo", "path": str(pages), "readers": "everyone"}
            },
        }
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(settings))
        return path

    return of


def change(pages: Path, text: str) -> None:
    """Say something new on one page."""
    file = sorted(pages.glob("*.json"))[2]
    page = json.loads(file.read_text())
    page["body"]["storage"]["value"] = f"<p>{text}</p>"
    page["version"]["number"] += 1
    file.write_text(json.dumps(page))


def build(config: Path) -> dict[str, Any]:
    code, out, errors = run("build", "--json", "--override-gates", "a test", "--config", str(config))
    assert code == 0, errors
    found: dict[str, Any] = json.loads(out)
    return found


def follower_of(config: Config) -> StoreFollower:
    home = object_home(config)
    assert home
    return home.follower(config, ["demo"])


def test_what_one_machine_publishes_another_answers_from(s3: str, config: Any, pages: Path) -> None:
    first = build(config("a"))["tenants"]["demo"]
    again = build(config("b"))["tenants"]["demo"]
    assert first["generation"] == again["generation"]
    assert not again["published"] or again["texts_embedded"] == 0, "another machine does no work twice"

    with faulty(s3) as proxy:
        reading = load_config(config("reader", proxy.url))
        follower = follower_of(reading)
        follower.fetch()
        assert follower.problem is None
        pipeline = Pipeline.open(reading, "demo")
        assert pipeline.search(_NOBODY, QUESTION, 5).payload()["generation"] == first["generation"]
        assert not list(reading.home.rglob("vectors.sqlite")), "what only builds need is not fetched"

        change(pages, "The harbour crane is greased with walnut oil on the ninth of May.")
        second = build(config("a"))["tenants"]["demo"]["generation"]
        assert second != first["generation"]
        for fault in ("500", "flip", "cut"):
            proxy.fault = lambda _method, _path, fault=fault: fault  # type: ignore[misc]
            follower.fetch()
            assert follower.problem
            pipeline.published.refresh()
            assert pipeline.search(_NOBODY, QUESTION, 5).payload()["generation"] == first["generation"]
        proxy.fault = lambda _method, _path: ""
        follower.fetch()
        assert follower.problem is None
        pipeline.published.refresh()
        found = pipeline.search(_NOBODY, "What is the harbour crane greased with?", 5).payload()
        pipeline.close()
    assert found["generation"] == second
    assert any("walnut" in one["text"] for one in found["results"])
    store = Store(reading.home)
    assert {info.id for info in list_generations(store, "demo")} == {first["generation"], second}

    code, _, errors = run("generations", "rollback", "--config", str(config("b")))
    assert code == 0, errors
    follower = follower_of(load_config(config("reader")))
    follower.fetch()
    assert store.current("demo") == first["generation"]


@pytest.mark.timeout(120 + 30 * KILLS)
def test_builds_that_are_killed_leave_what_is_published_whole(config: Any, pages: Path) -> None:
    """Killed at random moments on two machines in turn; a third one always finds a generation that is whole."""
    dice = random.Random(11)
    build(config("a"))
    for number in range(KILLS):
        change(pages, f"Berth {number} is dredged every {number + 2} days by the noisy team.")
        command = [*CITELOCK[:2], SOON + CITELOCK[2], "build", "--override-gates", "a test"]
        command += ["--config", str(config("ab"[number % 2]))]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(2 + dice.random() * 8)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reading = load_config(config(f"reader{number}"))
        follower = follower_of(reading)
        follower.fetch()
        assert follower.problem is None
        pipeline = Pipeline.open(reading, "demo")
        assert pipeline.search(_NOBODY, QUESTION, 5).payload()["results"]
        pipeline.close()
    last = build(config("a"))["tenants"]["demo"]["generation"]
    assert build(config("c"))["tenants"]["demo"]["generation"] == last


@pytest.mark.timeout(180 + 120 * PUBLISHERS)
def test_of_two_builds_that_publish_at_once_one_is_in_force_and_whole(config: Any, pages: Path, tmp_path: Path) -> None:
    """Each machine has pages of its own: what is in force is the whole of one build, never some of both."""
    folders = {name: Path(shutil.copytree(pages, tmp_path / f"pages-{name}")) for name in "ab"}
    build(config("a", pages=folders["a"]))
    for number in range(PUBLISHERS):
        for name, folder in folders.items():
            change(folder, f"Crane {name}{number} is greased with oil {name}{number} at the noisy berth.")
        commands = {
            name: [
                *CITELOCK,
                "build",
                "--json",
                "--override-gates",
                "a test",
                "--config",
                str(config(name, pages=folder)),
            ]
            for name, folder in folders.items()
        }
        builds = {
            name: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for name, command in commands.items()
        }
        told = {name: process.communicate() for name, process in builds.items()}
        won = {name for name, process in builds.items() if process.returncode == 0}
        assert won, told
        reading = load_config(config(f"racing{number}"))
        follower = follower_of(reading)
        follower.fetch()
        assert follower.problem is None
        pipeline = Pipeline.open(reading, "demo")
        found = pipeline.search(_NOBODY, "What is the crane greased with at the noisy berth?", 5).payload()
        pipeline.close()
        published = {name: json.loads(told[name][0])["tenants"]["demo"]["generation"] for name in won}
        text = " ".join(each["text"] for each in found["results"])
        winners = [name for name in "ab" if f"oil {name}{number}" in text]
        assert len(winners) == 1, text
        assert found["generation"] in published.values() or winners[0] not in won, (published, told)
        assert not object_home(reading).repair("tenants/demo", dry_run=True).lost  # type: ignore[union-attr]


def test_a_machine_that_only_decides_fetches_small_files_and_sees_what_is_due(config: Any, pages: Path) -> None:
    """As Dagster's daemon, whose runs are started elsewhere."""
    build(config("a"))
    settings = load_config(config("daemon"))
    store, embedder = Store(settings.home), open_embedder(settings.embedding)
    assert refresh_decisions(settings) is None
    wanted = wanted_inputs(settings, store, embedder, ["demo"])
    assert wanted == {"demo": published_inputs(store, "demo")}
    assert not published_damage(settings, store, "demo", "sizes")
    assert sum(path.stat().st_size for path in settings.home.rglob("*") if path.is_file()) < 300_000
    assert not list(settings.home.rglob("*.parquet"))

    change(pages, "The harbour crane is greased with walnut oil on the ninth of May.")
    newer = build(config("a"))["tenants"]["demo"]["generation"]
    time.sleep(settings.object_store.poll_s)
    assert refresh_decisions(settings) is None
    assert store.current("demo") == newer
    now = wanted_inputs(settings, store, embedder, ["demo"])
    assert now == {"demo": published_inputs(store, "demo")} != wanted


def test_the_home_is_listed_and_swept(config: Any, pages: Path) -> None:
    build(config("a"))
    change(pages, "The harbour crane is greased with walnut oil on the ninth of May.")
    build(config("a"))

    def told(*command: str) -> list[dict[str, Any]]:
        code, out, errors = command_line.run("home", *command, "--json", "--config", str(config("b")))
        assert code == 0, errors
        found: list[dict[str, Any]] = json.loads(out)
        return found

    before = told("list")
    assert [each["folder"] for each in before] == ["sources/ops", "tenants/demo"]
    assert all(each["old_bytes"] > 0 for each in before)
    assert told("sweep", "--dry-run")[1]["old_objects"] == before[1]["old_objects"]
    assert told("list") == before
    told("sweep")
    after = told("list")
    assert [each["old_objects"] for each in after] == [0, 0]
    assert after[1]["objects"] == before[1]["objects"] - before[1]["old_objects"]
    reading = load_config(config("reader"))
    follower = follower_of(reading)
    follower.fetch()
    pipeline = Pipeline.open(reading, "demo")
    assert pipeline.search(_NOBODY, QUESTION, 5).payload()["results"]
    pipeline.close()
