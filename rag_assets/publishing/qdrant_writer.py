"""Publishing a checked generation in Qdrant: sent in batches, compared, and then named by the tenant's alias.

Belongs here: the order of a publication, the alias, what nobody needs any more.
Does not belong here: the points (`qdrant_points`), sending them (`qdrant_upload`), comparing them (`qdrant_checks`),
reading them (`rag_serving.indexes.qdrant`).

The alias moves when all points are there and were compared: whoever is killed before leaves what is published as it
was, and the next publication goes on with what was sent, or removes what is not wanted any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assets.publishing.qdrant_checks import check_points
from rag_assets.publishing.qdrant_points import GenerationPoints
from rag_assets.publishing.qdrant_upload import Upload, Uploaded
from rag_assets.publishing.repeated_requests import RepeatedRequests
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.indexes.generation_files import read_files
from rag_serving.indexes.qdrant import filters
from rag_serving.indexes.qdrant.connection import Connection
from rag_serving.indexes.qdrant.layout import Layout, point_id
from rag_serving.indexes.qdrant.payloads import ManifestPayload, manifest_of
from rag_serving.indexes.remote.errors import RemoteDataError, RemoteError

LEFT_READABLE = timedelta(hours=1)
"""How long a generation stays that the alias left: questions may still be reading it."""
WAIT_S = 60.0  # for one answer
_WARN = 0.8  # of a quota

_log = logging.getLogger(__name__)


class QuotaError(RemoteError):
    """A generation does not fit into the configured quota; the message says how to mend it."""


@dataclass(frozen=True)
class StoredGeneration:
    """A generation that a server holds. `manifest`: None where it cannot be read."""

    id: str
    tenant: str
    collection: str
    manifest: ManifestPayload | None


@dataclass(frozen=True)
class Publication:
    """What a publication did. `recall`: of sample queries, 0 to 1; `warnings`: what an operator should hear of."""

    generation: str
    previous: str | None
    uploaded: Uploaded
    recall: float
    removed: tuple[str, ...]
    warnings: tuple[str, ...]


class QdrantPublisher:
    """The generations of one tenant in a Qdrant server, for a holder of the tenant's lock (`Store.lock`)."""

    def __init__(self, store: Store, tenant: str, config: Config) -> None:
        self._store, self._tenant, self._config = store, tenant, config
        self._layout = Layout.of(config.index)
        self._requests = RepeatedRequests(Connection(config.index, WAIT_S, "writer_key_env"))

    def publish(self, generation_id: str, progress: Callable[[int, int], None] | None = None) -> Publication:
        """Send a generation, compare it, and let the tenant's alias name it. `progress` hears of (points, all points).

        Raises:
            StoreError: its folder is missing or damaged.
            QuotaError: it does not fit; nothing was sent.
            RemoteError: the server cannot take it; the alias is as it was.
        """
        files = read_files(self._store, self._tenant, generation_id, self._config.indexing.memory_bytes)
        points = GenerationPoints(files, self._store.generation(self._tenant, generation_id))
        removed = self.prune(also_keep=generation_id)
        warnings = self._check_quota(points)
        upload = Upload(self._requests, self._layout.collection(self._tenant, generation_id), points, self._config)
        uploaded = upload.send(progress)
        recall = check_points(self._requests, upload.collection, points, self._config)
        upload.complete()
        previous = self.point(generation_id)
        return Publication(generation_id, previous, uploaded, recall, removed, warnings)

    def point(self, generation_id: str) -> str | None:
        """Let the tenant's alias name a generation that is there as a whole; return the one that it named before.

        Raises:
            RemoteDataError: it is not there as a whole; the alias is as it was.
        """
        stored = {each.id: each for each in self.generations()}
        chosen = stored.get(generation_id)
        manifest_of(chosen.manifest.model_dump() if chosen and chosen.manifest else None, self._tenant, generation_id)
        targets = self._targets()
        previous = targets[0].generation if targets else None
        if [target.generation for target in targets] != [generation_id]:
            self._move([target.alias for target in targets], generation_id)
        for target in targets:
            if target.generation != generation_id:
                self._note_left(target.generation, datetime.now(UTC))
        self._note_left(generation_id, None)
        return previous

    def current(self) -> str | None:
        """Return the generation that the tenant's alias names."""
        targets = self._targets()
        return targets[0].generation if targets else None

    def generations(self) -> list[StoredGeneration]:
        """Return the tenant's generations in the server, whole or not."""
        if self._layout.shared:
            return self._in_collection(self._layout.base) if self._exists(self._layout.base) else []
        found = []
        for name in self._collections():
            if generation := self._layout.generation_in(self._tenant, name):
                stored = [each for each in self._in_collection(name) if each.id == generation]
                found += stored or [StoredGeneration(generation, self._tenant, name, None)]
        return found

    def prune(self, also_keep: str | None = None) -> tuple[str, ...]:
        """Remove what a killed publication left, and all but the last `keep_generations`; return their ids.

        What the alias left stays for an hour, for the questions that read it.
        """
        stored, current = self.generations(), self.current()
        kept = {current, also_keep}
        now = datetime.now(UTC)
        whole = [each for each in stored if each.manifest and each.manifest.complete and each.id not in kept]
        for each in whole:
            if each.manifest and each.manifest.left_at is None:
                self._note_left(each.id, now)
        whole.sort(key=lambda each: (each.manifest and each.manifest.left_at) or now, reverse=True)
        doomed = [each for each in stored if each.id not in kept and each not in whole]
        for each in whole[self._config.indexing.keep_generations - 1 :]:
            if each.manifest and each.manifest.left_at and now - each.manifest.left_at >= LEFT_READABLE:
                doomed.append(each)
        for each in doomed:
            self._remove(each)
        return tuple(sorted(each.id for each in doomed))

    def close(self) -> None:
        """Close every connection."""
        self._requests.close()

    def _check_quota(self, points: GenerationPoints) -> tuple[str, ...]:
        """Return warnings of quotas that are nearly used up.

        Raises:
            QuotaError: one would be exceeded.
        """
        settings, warnings = self._config.index, []
        if settings.quota_vectors is None and settings.quota_bytes is None:
            return ()
        others = [each.manifest for each in self._everything() if each.manifest and each.id != points.manifest.id]
        used = sum(each.vectors for each in others), sum(each.bytes for each in others)
        own = points.manifest.vector_count, points.size
        quotas = settings.quota_vectors, settings.quota_bytes
        for name, quota, before, new in zip(("vectors", "bytes"), quotas, used, own, strict=True):
            if quota is None or before + new < _WARN * quota:
                continue
            share = f"{before + new:,} of {quota:,} {name} (index.quota_{name})"
            if before + new > quota:
                raise QuotaError(
                    f"generation {points.manifest.id} would take Qdrant to {share}; nothing was sent. Lower "
                    "indexing.keep_generations, index fewer pages, or raise the quota"
                )
            warnings.append(f"Qdrant holds {share} with generation {points.manifest.id}")
            _log.warning("%s", warnings[-1])
        return tuple(warnings)

    def _move(self, old: Sequence[str], generation_id: str) -> None:
        """Replace the tenant's aliases in one operation, which is done as a whole or not at all."""
        from qdrant_client.models import CreateAlias, CreateAliasOperation, DeleteAlias, DeleteAliasOperation

        create = CreateAlias(
            collection_name=self._layout.collection(self._tenant, generation_id),
            alias_name=self._layout.alias(self._tenant, generation_id),
        )
        deleted = [DeleteAliasOperation(delete_alias=DeleteAlias(alias_name=name)) for name in old]
        operations: list[Any] = [*deleted, CreateAliasOperation(create_alias=create)]
        try:
            self._requests.ask(lambda client: client.update_collection_aliases(operations))
        except RemoteDataError:
            if self.current() != generation_id:  # else an earlier try was done, and its answer lost
                raise

    def _note_left(self, generation_id: str, moment: datetime | None) -> None:
        """Write down when the alias left a generation."""
        payload = {"left_at": moment.isoformat() if moment else None}
        collection = self._layout.collection(self._tenant, generation_id)
        points: list[Any] = [point_id(self._tenant, generation_id, "manifest", 0)]
        self._requests.ask(lambda client: client.set_payload(collection, payload=payload, points=points, wait=True))

    def _remove(self, stored: StoredGeneration) -> None:
        if not self._layout.shared:
            self._requests.ask(lambda client: client.delete_collection(stored.collection))
            return
        selector = filters.selecting(filters.unread(stored.tenant, stored.id))
        self._requests.ask(lambda client: client.delete(stored.collection, points_selector=selector, wait=True))

    def _targets(self) -> list[Any]:
        answer = self._requests.ask(lambda client: client.get_aliases())
        return self._layout.published(
            self._tenant, [(alias.alias_name, alias.collection_name) for alias in answer.aliases]
        )

    def _collections(self) -> list[str]:
        answer = self._requests.ask(lambda client: client.get_collections())
        return [collection.name for collection in answer.collections]

    def _exists(self, name: str) -> bool:
        return name in self._collections()

    def _everything(self) -> list[StoredGeneration]:
        """Return the generations of all tenants under the configured name."""
        base = self._layout.base
        names = [name for name in self._collections() if name == base or name.startswith(f"{base}.")]
        return [each for name in names for each in self._in_collection(name, everybody=True)]

    def _in_collection(self, name: str, everybody: bool = False) -> list[StoredGeneration]:
        narrowed = filters.of_kind("manifest") if everybody else filters.of_tenant(self._tenant, "manifest")
        records, _ = self._requests.ask(
            lambda client: client.scroll(name, scroll_filter=narrowed, limit=10_000, with_payload=True)
        )
        return [_stored(record.payload or {}, name) for record in records]


def _stored(payload: dict[str, Any], collection: str) -> StoredGeneration:
    tenant, generation = str(payload.get("tenant")), str(payload.get("generation"))
    try:
        manifest = manifest_of({**payload, "complete": True}, tenant, generation)
    except RemoteDataError:
        return StoredGeneration(generation, tenant, collection, None)
    manifest = manifest.model_copy(update={"complete": payload.get("complete") is True})
    return StoredGeneration(generation, tenant, collection, manifest)
