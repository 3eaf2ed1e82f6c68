"""The texts of jobs: a file or an object for each, so that no text of a page is in the database.

Belongs here: writing, checking and removing them. Does not belong here: where they are kept (`job_files`), jobs
(`queue`).

A payload may be lost at any time: the job fails with that reason, and a build that needs its texts writes them again.
What a payload holds is believed only where it has the content address that the job names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress

from citelock_scale.embedding_jobs.job_files import JobFiles
from citelock_scale.embedding_jobs.queue import LACKS_TEXTS
from citelock_scale.embedding_jobs.records import Claim, Item, job_id
from rag_assets.state.vector_cache import vector_key
from rag_serving.artifacts.store import StoreError

FOLDER = "embedding_jobs"
ABANDONED_S = 3600.0


class PayloadError(Exception):
    """The texts of a job are not there, or are others; the message begins with LACKS_TEXTS."""


class Payloads:
    """The texts of all tenants' jobs."""

    def __init__(self, files: JobFiles) -> None:
        self._files = files

    def save(self, tenant: str, model: str, items: Sequence[Item]) -> str:
        """Write the texts of a job; return its id.

        Raises:
            OSError, StoreError: they cannot be written.
        """
        name = job_id(tenant, model, [item.key for item in items])
        rows = [{"key": item.key, "text": item.text, "page_id": item.page_id} for item in items]
        self._files.write(tenant, name, json.dumps(rows).encode())
        return name

    def load(self, claim: Claim) -> list[Item]:
        """Return the texts of a job.

        Raises:
            PayloadError: they are not there, or are others.
            OSError, StoreError: where they are kept is away.
        """
        content = self._files.read(claim.tenant, claim.id)
        if content is None:
            raise PayloadError(f"{LACKS_TEXTS}: workers and builds must share the home, and its secret")
        try:
            items = {row["key"]: Item(row["key"], row["text"], row["page_id"]) for row in json.loads(content)}
            found = [items[key] for key in claim.keys]
        except (ValueError, KeyError, TypeError):
            raise PayloadError(f"{LACKS_TEXTS}: what was written for it is damaged") from None
        if any(vector_key(claim.model, item.text) != item.key for item in found):
            raise PayloadError(f"{LACKS_TEXTS}: one was altered")
        return found

    def remove(self, claim: Claim) -> None:
        """Remove the texts of a job that is done; what cannot be removed is left to `sweep`."""
        with suppress(OSError, StoreError):
            self._files.remove(claim.tenant, claim.id)

    def sweep(self, tenant: str, wanted: Collection[str]) -> int:
        """Remove the texts of jobs that are not there; those of the last hour stay. Return how many."""
        doomed = [name for name, age_s in self._files.listed(tenant) if age_s > ABANDONED_S and name not in wanted]
        for name in doomed:
            self._files.remove(tenant, name)
        return len(doomed)
