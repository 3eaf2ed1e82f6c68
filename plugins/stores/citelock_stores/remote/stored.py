"""What a server that has collections and aliases says of the generations in it.

Belongs here: the manifest's point and what is read of it. Does not belong here: asking for it (`aliases`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from citelock_stores.remote.point_ids import FORMAT
from rag_serving.indexes.databases import RemoteDataError

Payload = Mapping[str, Any]

TENANT, GENERATION, POINT, READERS = "tenant", "generation", "point", "readers"
"""Fields of all that a server holds: whose it is, and of what kind."""


class ManifestPayload(BaseModel):
    """What a generation says of itself in a server. `published_at`, `left_at`: when the alias came last, and went.

    `points`: how many there are of each kind. `vectors`, `bytes`: what the generation takes of a quota.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: int
    content: str  # manifest.json in base64
    created_at: datetime
    newest: dict[str, datetime]
    classes: tuple[str, ...]
    points: dict[str, int]
    windows: bool
    vectors: int
    bytes: int
    complete: bool = False
    published_at: datetime | None = None
    left_at: datetime | None = None


@dataclass(frozen=True)
class StoredGeneration:
    """A generation that a server holds. `manifest`: None where it cannot be read."""

    id: str
    tenant: str
    collection: str
    manifest: ManifestPayload | None

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there."""
        return self.manifest is not None and self.manifest.complete

    @property
    def chunks(self) -> int:
        """How many chunks it has."""
        return self.manifest.points.get("chunk", 0) if self.manifest else 0

    @property
    def left_at(self) -> datetime | None:
        """When the alias left it; None where it did not, or never came."""
        return self.manifest.left_at if self.manifest else None

    @property
    def published_at(self) -> datetime | None:
        """When the alias came to it last; None where it never did."""
        return self.manifest.published_at if self.manifest else None

    @property
    def created_at(self) -> datetime:
        """When it was built."""
        return self.manifest.created_at if self.manifest else datetime.min.replace(tzinfo=UTC)


def manifest_of(payload: Payload | None, tenant: str, generation: str) -> ManifestPayload:
    """Return what a generation says of itself.

    Raises:
        RemoteDataError: it is missing, of another format, or was not published as a whole.
    """
    where = f"generation {generation} of tenant {tenant!r}"
    try:
        manifest = ManifestPayload.model_validate(payload or {})
    except ValidationError:
        reason = "is not in the database" if payload is None else "has a damaged manifest in the database"
        raise RemoteDataError(f"{where} {reason}; run `citelock generations repair`") from None
    if manifest.format != FORMAT:
        raise RemoteDataError(f"{where} has format {manifest.format} in the database, this program reads {FORMAT}")
    if not manifest.complete:
        raise RemoteDataError(f"{where} is not in the database as a whole; run `citelock generations repair`")
    return manifest


def stored_generation(payload: Payload, collection: str) -> StoredGeneration:
    """Return the generation that the payload of a manifest is of."""
    tenant, generation = str(payload.get("tenant")), str(payload.get("generation"))
    try:
        manifest = manifest_of({**payload, "complete": True}, tenant, generation)
    except RemoteDataError:
        return StoredGeneration(generation, tenant, collection, None)
    manifest = manifest.model_copy(update={"complete": payload.get("complete") is True})
    return StoredGeneration(generation, tenant, collection, manifest)
