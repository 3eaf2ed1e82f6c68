"""An installation with a queue of embedding jobs, a clock that is moved by hand, and an embedder without a model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from citelock_scale.embedding_jobs.queue import EmbeddingText, JobClaim, JobQueue
from citelock_scale.embedding_jobs.waiting import Pending, open_payloads, open_worker
from citelock_scale.embedding_jobs.worker import Worker
from rag_assets.state.content_cache import SEAL_PURPOSE, VectorCache, vector_key
from rag_serving.artifacts.secret import Seal
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.models.protocols import ModelError, Progress
from support.constants import configured
from support.counting_embedder import Counting

MODEL = Counting.name
TENANTS = ("large", "small")
SECONDS_A_TEXT = 0.005


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Refusing(Counting):
    """Refuses batches with a text that has `poison` in it; while it `is_away`, all."""

    is_away = False

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        if self.is_away:
            raise ModelError("no embedding server answers")
        if any("poison" in text for text in texts):
            raise ModelError("the server refuses to embed (HTTP 400: invalid input)")
        return super().embed_documents(texts, progress)


class Installation:
    """Two tenants that share a queue."""

    def __init__(
        self, home: Path | str, url: str | None, jobs: Mapping[str, object], more: Mapping[str, object] | None = None
    ) -> None:
        """`jobs`: of the configuration's section; `more`: other sections."""
        content: dict[str, Any] = {"home": str(home), "jobs": {"embedding": "workers", **jobs}}
        content |= {"tenants": {name: {} for name in TENANTS}, "telemetry": {"url": url}, **(more or {})}
        self.content = content
        self.config: Config = configured(content)
        self.store = Store(self.config.home)
        self.clock = Clock()
        self.queue = JobQueue.of(self.config, self.clock)
        self.payloads = open_payloads(self.config)

    def enqueue(self, tenant: str, texts: Sequence[str]) -> list[str]:
        """Enqueue texts, each on a page of its own name; return the ids of the new jobs."""
        items = [EmbeddingText(vector_key(MODEL, text), text, f"page of {text}") for text in texts]
        batches = Pending(tenant, MODEL, items, self.config.jobs).batches()
        for batch in batches:
            self.payloads.save(tenant, MODEL, batch.items)
        return self.queue.enqueue(batches)

    def worker(self, embedder: Counting | None = None, tenant: str | None = None) -> Worker:
        return open_worker(self.config, self.queue, embedder or Counting(), tenant)

    def claim(self, worker: str = "w") -> JobClaim:
        claim = self.queue.claim(worker, MODEL)
        assert claim is not None
        return claim

    def cache(self, tenant: str) -> VectorCache:
        return VectorCache(self.store.cache(tenant), MODEL, Seal(self.store.home, SEAL_PURPOSE))

    def known(self, tenant: str, texts: Sequence[str]) -> int:
        """Return how many of the texts have a vector."""
        return len(self.cache(tenant).known([vector_key(MODEL, text) for text in texts]))

    def states(self, tenant: str) -> tuple[int, int]:
        """Return how many jobs of a tenant are open, and how many were put aside."""
        state = self.queue.state(tenant, MODEL)
        return len(state.open), len(state.dead)


def enqueue_in_process(content: dict[str, Any], tenant: str, texts: Sequence[str]) -> None:
    """Enqueue texts until the queue takes none any more; for a process of its own."""
    home = Installation(Path(content["home"]), content["telemetry"]["url"], content["jobs"])
    for start in range(0, len(texts), 8):
        home.enqueue(tenant, texts[start : start + 8])
    home.queue.database.close()


class Slow(Counting):
    """Takes some time for each text."""

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        time.sleep(SECONDS_A_TEXT * len(texts))
        return super().embed_documents(texts, progress)


def work_in_process(content: dict[str, Any]) -> None:
    """Work until killed; for a process of its own. The clock is the machine's."""
    config = configured(content)
    open_worker(config, JobQueue.of(config), Slow()).run(Event())
