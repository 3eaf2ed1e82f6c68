"""Publishing a checked generation in a server: sent in batches, compared, and then named by the tenant's alias.

Belongs here: the order of a publication, quotas, what nobody needs any more, whatever the server.
Does not belong here: a server (`qdrant_writer`), the points (`generation_points`), sending them
(`upload`), comparing them (`point_checks`), moving the alias (`citelock_stores.remote.aliases`).

The alias moves when all points are there and were compared: whoever is killed before leaves what is published as it
was, and the next publication goes on with what was sent, or removes what is not wanted any more.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from citelock_stores.publishing.generation_points import GenerationPoints
from citelock_stores.publishing.point_checks import PROBES, PointChecks
from citelock_stores.publishing.upload import Upload, Uploaded
from citelock_stores.remote.aliases import AliasPointer
from citelock_stores.remote.stored import StoredGeneration
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.databases import RemoteError
from rag_serving.indexes.generation_files import GenerationFiles, read_files

LEFT_READABLE = timedelta(hours=1)
"""How long a generation stays that the alias left: questions may still be reading it."""
_WARN = 0.8  # of a quota

_log = logging.getLogger(__name__)


class QuotaError(RemoteError):
    """A generation does not fit into the configured quota; the message says how to mend it."""


@dataclass(frozen=True)
class Publication:
    """What a publication did. `recall`: of sample queries, 0 to 1; `quotas`: what is used of each; `warnings`: what an
    operator should hear of; `stored_bytes`: what the generation takes on the server's disks, where it says so."""

    generation: str
    previous: str | None
    uploaded: Uploaded
    recall: float
    removed: tuple[str, ...]
    quotas: tuple[str, ...]
    warnings: tuple[str, ...]
    stored_bytes: int | None = None

    def figures(self) -> dict[str, int | float | str]:
        """Return what people read of it: numbers and short texts by name."""
        done = self.uploaded
        size = {} if self.stored_bytes is None else {"stored_bytes": self.stored_bytes}
        return {
            **size,
            "points_sent": done.points,
            "points_present": done.present,
            "batches": done.batches,
            "requests_repeated": done.repeats,
            "seconds": round(done.seconds, 3),
            "sample_queries": PROBES,
            "sample_recall": round(self.recall, 4),
            "quota": "; ".join(self.quotas) or "none is configured",
            "warnings": "; ".join(self.warnings) or "none",
        }


class AliasPublisher(AliasPointer):
    """The generations of one tenant in a server, for a holder of the tenant's lock (`Store.lock`)."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        super().__init__(config, tenant)
        self._store, self._config = store, config

    @abstractmethod
    def _points(self, files: GenerationFiles, folder: Path) -> GenerationPoints:
        """Return what the server holds of a generation."""

    @abstractmethod
    def _upload(self, points: GenerationPoints) -> Upload:
        """Return what sends it."""

    @abstractmethod
    def _checks(self, points: GenerationPoints) -> PointChecks:
        """Return what compares it."""

    def publish(
        self, generation_id: str, progress: Callable[[int, int], None] | None = None, resend: bool = False
    ) -> Publication:
        """Send a generation, compare it, and let the tenant's alias name it. `progress` hears of (points, all points);
        `resend`: points that are there are sent, too.

        Raises:
            StoreError: its folder is missing or damaged.
            QuotaError: it does not fit; nothing was sent.
            RemoteError: the server cannot take it; the alias is as it was.
        """
        files = read_files(self._store, self.tenant, generation_id, self._config.indexing.memory_bytes)
        points = self._points(files, self._store.generation(self.tenant, generation_id))
        removed = self.prune(also_keep=generation_id)
        quotas, warnings = self._check_quota(points)
        upload = self._upload(points)
        uploaded = upload.send(progress, resend)
        recall = self._checks(points).check()
        upload.complete()
        previous = self.point_to(generation_id)
        size = self._stored_bytes(upload.collection)
        return Publication(generation_id, previous, uploaded, recall, removed, quotas, warnings, size)

    def _stored_bytes(self, collection: str) -> int | None:  # noqa: ARG002
        """Return what a collection takes on the server's disks; None where it does not say so."""
        return None

    def prune(self, also_keep: str | None = None) -> tuple[str, ...]:
        """Remove what a killed publication left, and all but the last `keep_generations`; return their ids.

        What the alias left stays for an hour, for the questions that read it.
        """
        stored, current = self.generations(), self.current()
        kept = {current, also_keep}
        now = datetime.now(UTC)
        whole = [each for each in stored if each.is_whole and each.id not in kept]
        for each in whole:
            if each.left_at is None:  # the alias left it, and whoever moved it was killed before that was written down
                self.note_left(each.id, now)
        whole.sort(key=lambda each: each.left_at or now, reverse=True)
        doomed = [each for each in stored if each.id not in kept and not each.is_whole]
        beyond = whole[self._config.indexing.keep_generations - 1 :]
        doomed += [each for each in beyond if each.left_at and now - each.left_at >= LEFT_READABLE]
        for each in doomed:
            self.remove(each)
        return tuple(sorted(each.id for each in doomed))

    def _collection_of(self, points: GenerationPoints) -> str:
        return self.layout.collection(self.tenant, points.manifest.id)

    def _check_quota(self, points: GenerationPoints) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what will be used of each quota, and warnings of those that are nearly used up.

        Raises:
            QuotaError: one would be exceeded.
        """
        settings, shares, warnings = self._config.index, list[str](), list[str]()
        if settings.quota_vectors is None and settings.quota_bytes is None:
            return (), ()
        others = [each.manifest for each in self._everything() if each.manifest and each.id != points.manifest.id]
        used = sum(each.vectors for each in others), sum(each.bytes for each in others)
        own = points.manifest.vector_count, points.size
        quotas = settings.quota_vectors, settings.quota_bytes
        for name, quota, before, new in zip(("vectors", "bytes"), quotas, used, own, strict=True):
            if quota is None:
                continue
            share = f"{before + new:,} of {quota:,} {name} (index.quota_{name})"
            shares.append(share)
            if before + new < _WARN * quota:
                continue
            if before + new > quota:
                raise QuotaError(
                    f"generation {points.manifest.id} would take {self.product} to {share}; nothing was sent. Lower "
                    "indexing.keep_generations, index fewer pages, or raise the quota"
                )
            warnings.append(f"{self.product} holds {share} with generation {points.manifest.id}")
            _log.warning("%s", warnings[-1])
        return tuple(shares), tuple(warnings)

    def _everything(self) -> list[StoredGeneration]:
        """Return the generations of all tenants under the configured name."""
        base = self.layout.base
        names = [name for name in self.collections() if name == base or name.startswith(f"{base}.")]
        return [each for name in names for each in self.in_collection(name, everybody=True)]
