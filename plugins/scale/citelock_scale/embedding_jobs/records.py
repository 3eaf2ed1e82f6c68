"""What the queue tells of its jobs and workers.

Belongs here: plain records. Does not belong here: rows of the database (`queue`, `listing`), texts (`payloads`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A text to embed: its content address, and the page that it stands on."""

    key: str
    text: str
    page_id: str


@dataclass(frozen=True)
class Batch:
    """Texts of one tenant for one model; the same texts are the same batch. `tokens`: about so many."""

    tenant: str
    model: str
    items: tuple[Item, ...]
    tokens: int

    @property
    def id(self) -> str:
        return job_id(self.tenant, self.model, [item.key for item in self.items])


@dataclass(frozen=True)
class Claim:
    """A job that a worker has until its lease ends. `fence`: of this claim alone."""

    id: str
    tenant: str
    model: str
    keys: tuple[str, ...]
    tokens: int
    attempts: int
    fence: int


@dataclass(frozen=True)
class Failure:
    """Texts that could not be embedded, with the reason."""

    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class QueueState:
    """What a tenant has open of a model: keys by job, those put aside with reasons, and why a job failed last."""

    open: dict[str, tuple[str, ...]]
    dead: dict[str, Failure]
    running: int
    lacking: dict[str, int]  # jobs that wait or were put aside because their texts are missing, with their tries
    last_reason: str | None
    last_finished_at: float | None  # of any tenant


def job_id(tenant: str, model: str, keys: Sequence[str]) -> str:
    """Return the id of a batch: SHA-256 over tenant, model and keys in any order, 32 hexadecimal digits."""
    return hashlib.sha256("\0".join([tenant, model, *sorted(keys)]).encode()).hexdigest()[:32]
