"""The texts of jobs: a file for each in the tenant's cache folder, so that no text of a page is in the database.

Belongs here: writing, checking and removing the files. Does not belong here: jobs (`queue`).

A file may be deleted at any time: its job is forgotten then, and the build that needs the texts enqueues them again.
What a file holds is believed only where it has the content address that the job names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from rag_assets.embedding_jobs.records import Claim, Item, job_id
from rag_assets.state.vector_cache import vector_key
from rag_serving.artifacts.store import Store, StoreError, read_json, write_text

_FOLDER = "embedding_jobs"
_ABANDONED_S = 3600.0


class PayloadError(Exception):
    """The texts of a job are not there, or are others."""


class Payloads:
    """The texts of all tenants' jobs of one model."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, tenant: str, model: str, items: Sequence[Item]) -> str:
        """Write the texts of a job; return its id.

        Raises:
            OSError: the disk does not take them.
        """
        name = job_id(tenant, model, [item.key for item in items])
        rows = [{"key": item.key, "text": item.text, "page_id": item.page_id} for item in items]
        write_text(self._path(tenant, name), json.dumps(rows))
        return name

    def load(self, claim: Claim) -> list[Item]:
        """Return the texts of a job.

        Raises:
            PayloadError: they are not there, or are others.
        """
        try:
            rows = read_json(self._path(claim.tenant, claim.id))
            items = {row["key"]: Item(row["key"], row["text"], row["page_id"]) for row in rows}
            found = [items[key] for key in claim.keys]
        except (StoreError, KeyError, TypeError) as error:
            raise PayloadError(str(error)) from None
        if any(vector_key(claim.model, item.text) != item.key for item in found):
            raise PayloadError("a text was altered")
        return found

    def remove(self, claim: Claim) -> None:
        """Remove the texts of a job that is done or lost its texts; what cannot be removed is left to `sweep`."""
        with suppress(OSError):
            self._path(claim.tenant, claim.id).unlink(missing_ok=True)

    def sweep(self, tenant: str, wanted: Collection[str]) -> int:
        """Remove the texts of jobs that are not there; those of the last hour stay. Return how many."""
        doomed = []
        for path in sorted((self._store.cache(tenant) / _FOLDER).glob("*.json")):
            with suppress(OSError):
                is_old = path.stat().st_mtime < time.time() - _ABANDONED_S
                doomed += [path] if is_old and path.stem not in wanted else []
        for path in doomed:
            path.unlink(missing_ok=True)
        return len(doomed)

    def _path(self, tenant: str, name: str) -> Path:
        return self._store.cache(tenant) / _FOLDER / f"{name}.json"
