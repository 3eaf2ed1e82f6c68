"""Builds by Celery workers: the same generation as in one process, whichever worker is killed.

Two workers over Debian's redis, with Dagster's storage in Postgres. CITELOCK_CLUSTER_KILLS is how often one is killed
while it has a step: once by default. With CITELOCK_CLUSTER_DATA pages of Confluence and a book take the place of the
tiny wiki, where they are.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.building import build
from support.celery_cluster import LOST_AFTER_S, WORKERS, started_cluster, told
from support.celery_processes import Cluster, Killer
from support.envelopes import Wiki
from support.postgres import Postgres
from support.s3_server import BUCKET, CREDENTIALS, s3_server
from support.waiting import wait_until

from citelock_scale.object_home.home import object_home
from rag_assets.state.planning import published_damage
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config

TENANT_STEPS = ("dedup_map", "contexts", "embeddings", "dense_index", "lexical_index", "generation")
KILLS = int(os.environ.get("CITELOCK_CLUSTER_KILLS", "1"))
TAKES_MINUTES = pytest.mark.skipif(
    not os.environ.get("CITELOCK_CLUSTER_KILLS"), reason="takes minutes: CITELOCK_CLUSTER_KILLS=1"
)
IS_REAL = os.environ.get("CITELOCK_CLUSTER_DATA") == "1"
DATA = Path(__file__).parents[3] / "shared" / "data"
CELERY: dict[str, Any] = {"executor": "celery", "options": {"celery": {"lost_after_s": LOST_AFTER_S}}}


def real_pages(folder: Path) -> dict[str, Any]:
    """Return the configuration of 300 pages of Confluence and a book."""
    if not (DATA / "cwiki").is_dir():
        pytest.skip("needs ../shared/data with cwiki and rust-book")
    usual = {"tenant": "bench", "readers": "everyone"}
    paths = {"kafka": "cwiki/KAFKA", "flink": "cwiki/FLINK"}
    sources = {
        key: {**usual, "kind": "confluence_dump", "path": str(DATA.resolve() / path)} for key, path in paths.items()
    }
    sources["book"] = {**usual, "kind": "markdown_book", "path": str(DATA.resolve() / "rust-book")}
    indexing = {"sentence_vectors": "never"}
    return {"home": str(folder / "home"), "tenants": {"bench": {}}, "sources": sources, "indexing": indexing}


def build_by_cluster(cluster: Cluster, tenant: str, sources: list[str]) -> None:
    """Ingest all sources of a tenant at once, then publish it, by the executor of the configuration."""
    cluster.call([sys.executable, "-m", "rag_assets.partitions"])
    for job, partitions in (("ingest", sources), ("publish", [tenant])):
        for process in [cluster.run(job, partition) for partition in partitions]:
            assert process.wait() == 0, told(cluster)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_workers_make_the_generation_of_one_process_though_they_are_killed(
    tmp_path: Path, postgres: Postgres
) -> None:
    wiki = Wiki(tmp_path / "wiki")
    content = real_pages(tmp_path) if IS_REAL else yaml.safe_load(wiki.config_path.read_text())
    tenant = next(iter(content["tenants"]))
    wiki.config_path.write_text(yaml.safe_dump({**content, "home": str(tmp_path / "alone")}))
    build(wiki)
    alone = (tmp_path / "alone" / "tenants" / tenant / "current").read_text()

    wiki.config_path.write_text(yaml.safe_dump({**content, "orchestration": CELERY}))
    with started_cluster(tmp_path, wiki.config_path, postgres.database("steps")) as cluster:
        with Killer(cluster, KILLS, pause_s=1) as killer:
            build_by_cluster(cluster, tenant, list(content["sources"]))
        assert killer.killed == KILLS
    assert (Path(content["home"]) / "tenants" / tenant / "current").read_text() == alone


def process_with(lock: Path) -> int | None:
    """Return the process that holds a lock file; None where nobody does."""
    if not lock.exists():
        return None
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return int(lock.read_text().partition(" ")[0] or 0) or None
    return None


def stopped(lock: Path) -> int:
    """Stop a process amid the step whose lock it holds; return its number."""
    until = time.monotonic() + 240
    while time.monotonic() < until:
        if process := process_with(lock):
            os.kill(process, signal.SIGSTOP)
            if process_with(lock) == process:
                return process
            os.kill(process, signal.SIGCONT)
        time.sleep(0.002)
    raise AssertionError("the step did not begin")


def parent_of(process: int) -> int:
    """Return field 4 of /proc/PID/stat, proc(5)."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@TAKES_MINUTES
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_worker_that_does_not_answer_but_goes_on_tears_nothing(tmp_path: Path, postgres: Postgres) -> None:
    """Two attempts of `dense_index` live at once: the first one's worker is stopped, its child is not."""
    wiki = Wiki(tmp_path / "wiki")
    build(wiki)
    tenant = wiki.home / "tenants" / "demo"
    alone = (tenant / "current").read_text()
    for name in ("generations", "candidate", "current", "published.json"):
        path = tenant / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    wiki.configure(orchestration=CELERY)
    with started_cluster(tmp_path, wiki.config_path, postgres.database("stopped")) as cluster:
        run = cluster.run("publish", "demo")
        child = stopped(tenant / ".lock.dense_index")
        worker = parent_of(child)
        os.kill(worker, signal.SIGSTOP)
        try:
            waits = f"waits until process {child}".encode()
            wait_until(lambda: any(waits in log.read_bytes() for log in cluster.folder.glob("*.log")), 240)
            assert b"the step is handed out again" in (cluster.folder / "publish-demo.log").read_bytes()
            os.kill(child, signal.SIGCONT)
            assert run.wait(240) == 0, told(cluster)
        finally:
            os.kill(worker, signal.SIGCONT)
    assert (tenant / "current").read_text() == alone
    assert published_damage(load_config(wiki.config_path), Store(wiki.home), "demo", "digests") == []


@TAKES_MINUTES
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_of_two_machines_make_the_same_generation_over_an_object_store(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker, and the process of the run, has a cache folder of its own: only the store is shared."""
    for name, value in {**CREDENTIALS, SECRET_ENV: "a secret of sixteen characters"}.items():
        monkeypatch.setenv(name, value)
    wiki = Wiki(tmp_path / "wiki")
    wiki.configure(indexing={"dense_search": "exact"})  # as with an object store
    build(wiki)
    alone = (wiki.home / "tenants" / "demo" / "current").read_text()
    content = {**yaml.safe_load(wiki.config_path.read_text()), "home": f"s3://{BUCKET}/{tmp_path.name}"}
    content |= {"orchestration": CELERY}
    with s3_server() as endpoint:

        def machine(name: str) -> Path:
            path = tmp_path / f"{name}.yaml"
            store = {"cache": str(tmp_path / name), "endpoint": endpoint}
            path.write_text(yaml.safe_dump({**content, "object_store": store}))
            return path

        configs = {name: machine(name) for name in WORKERS}
        with started_cluster(tmp_path, machine("run"), postgres.database("machines"), configs) as cluster:
            for source in content["sources"]:
                assert cluster.run("ingest", source).wait(300) == 0, told(cluster)
            assert cluster.run("publish", "demo").wait(400) == 0, told(cluster)
            home = object_home(load_config(cluster.config))
            assert home is not None
            head = home.heads.read("tenants/demo")
            assert head is not None
            assert (home.folder("tenants/demo").content(head.head, "current") or b"").decode() == alone, told(cluster)
            assert not head.head.holder
            assert head.head.fencing >= len(TENANT_STEPS), "each step has taken the lease of the tenant"
    writers = {name for name in WORKERS if (tmp_path / name / "tenants" / "demo").is_dir()}
    assert writers == {*WORKERS}, "both machines have had steps of the tenant"
