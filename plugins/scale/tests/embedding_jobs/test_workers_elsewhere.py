"""Workers on other machines than the build: a home in an object store, a cache folder on each machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.constants import configured
from support.counting_embedder import Counting
from support.job_queues import MODEL, Installation
from support.postgres import Postgres
from support.s3_server import BUCKET, CREDENTIALS, faulty, s3_server
from support.waiting import wait_until

from citelock_scale.embedding_jobs import job_files, waiting
from citelock_scale.embedding_jobs import worker as worker_module
from citelock_scale.embedding_jobs.queue import JobQueue
from citelock_scale.object_home.home import ObjectHome, object_home
from rag_assets.embedding_usage import DeadTextsError, build_vectors
from rag_assets.state.content_cache import EmbeddedTexts
from rag_assets.state.locks import locked
from rag_serving.artifacts.secret import SECRET_ENV
from rag_serving.config.loading import ConfigError

TEXTS = [f"text {number:03}" for number in range(100)]
JOBS = {"texts_per_job": 10, "without_workers_s": 300, "attempts": 3, "backoff_s": 0, "lease_s": 5}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


class Site:
    """Machines with a cache of their own, the store and the database in common."""

    def __init__(self, folder: Path, endpoint: str, database: str) -> None:
        self.folder, self.endpoint, self.database = folder, endpoint, database
        self.opened: list[Installation] = []

    def machine(self, name: str, endpoint: str | None = None) -> Installation:
        store = {"cache": str(self.folder / name), "endpoint": endpoint or self.endpoint, "retry_s": 0, "timeout_s": 5}
        home = f"s3://{BUCKET}/{self.folder.name}"
        installation = Installation(home, self.database, JOBS, {"object_store": store})
        installation.queue.database.close()
        installation.queue = JobQueue.of(installation.config)
        self.opened.append(installation)
        return installation

    def objects(self, machine: Installation) -> list[str]:
        return [name for name, _, _ in store_of(machine).objects.names("tenants/large/jobs/")]


def store_of(machine: Installation) -> ObjectHome:
    home = object_home(machine.config)
    assert home is not None
    return home


@pytest.fixture
def site(tmp_path: Path, s3: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name, value in {**CREDENTIALS, SECRET_ENV: "a secret of sixteen characters"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(waiting, "LOOK_S", 0.02)
    monkeypatch.setattr(worker_module, "AWAY_S", 0.1)
    made = Site(tmp_path, s3, postgres.database(f"jobs_{tmp_path.name.replace('-', '_')}"))
    yield made
    for machine in made.opened:
        machine.queue.database.close()


class Observer:
    """Nobody looks."""

    def expect(self, pages: object) -> None: ...
    def count(self, computed: object) -> None: ...
    def flush(self) -> None: ...


class Refused(Counting):
    """The model of a build that must embed nothing itself."""

    def embed_documents(self, texts: object, progress: object = None) -> np.ndarray:
        raise AssertionError(f"the build embeds itself: {texts} {progress}")


def embed(machine: Installation, lines: list[str] | None = None, embedder: Counting | None = None) -> EmbeddedTexts:
    """Embed as a build does, under the tenant's lock."""
    tell, model = (lines if lines is not None else []).append, embedder or Refused()
    with (
        locked(machine.config, machine.store.tenant("large")),
        build_vectors(machine.config, "large", model, Observer(), tell) as build,
    ):
        return build.vectors.embed(model, TEXTS, None, TEXTS)


class Working:
    """Workers of some machines, in threads, while the block goes on."""

    def __init__(self, *machines: Installation) -> None:
        self.stop, self.embedders = threading.Event(), [Counting() for _ in machines]
        self.workers = [one.worker(embedder) for one, embedder in zip(machines, self.embedders, strict=True)]
        self.threads = [threading.Thread(target=worker.run, args=[self.stop]) for worker in self.workers]

    def __enter__(self) -> Working:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_workers_with_caches_of_their_own_do_the_work_of_a_build_once(site: Site, tmp_path: Path) -> None:
    build, others = site.machine("build"), [site.machine("one"), site.machine("two")]
    with Working(*others) as working:
        embedded = embed(build)
    assert sum(len(embedder.asked) for embedder in working.embedders) == len(TEXTS)
    assert min(len(embedder.asked) for embedder in working.embedders) > 0
    alone = Installation(tmp_path / "alone", None, {"embedding": "in_process"})
    with build_vectors(alone.config, "large", Counting(), Observer(), print) as own:
        expected = own.vectors.embed(Counting(), TEXTS, None, TEXTS)
    assert embedded.keys == expected.keys
    np.testing.assert_allclose(embedded.vectors, expected.vectors, atol=1e-6)
    for machine in others:
        assert not list(machine.store.home.rglob("vectors.sqlite")), "the cache is the build's alone"
    assert embed(site.machine("another")).computed == 0, "what the store has is not asked for again"


def test_what_workers_did_for_a_build_that_was_killed_is_collected_by_the_next(site: Site) -> None:
    first = site.machine("first")
    first.enqueue("large", TEXTS)
    with Working(site.machine("one")) as working:
        wait_until(lambda: first.states("large") == (0, 0))
    assert len(working.embedders[0].asked) == len(TEXTS)
    assert embed(site.machine("second")).computed == 0


def test_objects_of_jobs_are_deleted_once_the_shared_cache_has_their_vectors(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = site.machine("build")
    with Working(site.machine("one")):
        embed(build)
        assert len(site.objects(build)) == 10
        assert not any("/texts/" in name for name in site.objects(build))
        monkeypatch.setattr(job_files, "ABANDONED_S", -60.0)
        embed(build)
    assert site.objects(build) == []
    store_of(build).erase("tenants/large")


def test_texts_that_vanish_from_the_store_are_written_again(site: Site) -> None:
    build, lines = site.machine("build"), list[str]()
    build.enqueue("large", sorted(TEXTS)[:10])
    store_of(build).objects.delete([name for name in site.objects(build) if "/texts/" in name])
    with Working(site.machine("one")) as working:
        embedded = embed(build, lines)
    assert (embedded.computed, len(working.embedders[0].asked)) == (len(TEXTS), len(TEXTS))


def test_vectors_that_vanish_or_were_altered_are_made_again_and_never_believed(site: Site) -> None:
    build, lines = site.machine("build"), list[str]()
    build.enqueue("large", TEXTS)
    with Working(site.machine("one")):
        wait_until(lambda: build.states("large") == (0, 0))
    objects = store_of(build).objects
    gone, altered = sorted(name for name in site.objects(build) if "/vectors/" in name)[:2]
    stored = objects.read(altered)
    assert stored is not None
    objects.replace(altered, stored.content[:-1] + bytes([stored.content[-1] ^ 1]), stored.version)
    objects.delete([gone])
    with Working(site.machine("two")) as working:
        embedded = embed(build, lines)
    assert (embedded.computed, len(working.embedders[0].asked)) == (20, 20)
    np.testing.assert_allclose(embedded.vectors, Counting().embed_documents(TEXTS), atol=1e-6)


def test_a_store_that_fails_costs_a_worker_no_try_and_the_build_nothing(site: Site, s3: str) -> None:
    with faulty(s3) as proxy:
        build, worker = site.machine("build"), site.machine("one", proxy.url)
        proxy.fault = lambda method, path: "500" if method in ("GET", "PUT") and "/jobs/" in path else ""
        threading.Timer(1.0, lambda: setattr(proxy, "fault", lambda _method, _path: "")).start()
        with Working(worker) as working:
            assert embed(build).computed == len(TEXTS)
    assert working.workers[0].tally.failed == 0
    assert len(working.embedders[0].asked) >= len(TEXTS)


def test_a_worker_with_another_secret_never_finds_the_texts_and_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = site.machine("build")
    monkeypatch.setenv(SECRET_ENV, "another secret of more characters")
    with Working(site.machine("one")) as working:
        monkeypatch.setenv(SECRET_ENV, "a secret of sixteen characters")
        with pytest.raises(DeadTextsError, match="must share the home, and its secret"):
            embed(build)
    assert len(working.embedders[0].asked) == 0
    assert build.queue.state("large", MODEL).dead


def test_a_worker_that_lost_its_job_after_its_work_gives_the_vectors_to_the_next_one(site: Site) -> None:
    build = site.machine("build")
    build.queue.clock = time.time
    build.enqueue("large", TEXTS[:10])
    slow = site.machine("slow").worker()
    claim = build.queue.claim(slow.name, MODEL)
    assert claim is not None
    slow.results.keep(claim, claim.keys, list(Counting().embed_documents(TEXTS[:10])))
    build.queue.clock = lambda: time.time() + 5.5  # its lease has ended
    embedder = Counting()
    other = site.machine("other")
    other.queue.clock = build.queue.clock
    assert other.worker(embedder).step()
    assert len(embedder.asked) == 0
    with Working(site.machine("one")):
        assert embed(site.machine("second")).computed == 90


def test_a_queue_that_machines_cannot_share_is_refused(site: Site) -> None:
    content = {**site.machine("build").content, "telemetry": {}}
    with pytest.raises(ConfigError, match=r"set telemetry.url to a Postgres, or jobs.embedding to in_process"):
        configured(content)
