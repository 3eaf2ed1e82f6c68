"""The proof that a deleted document is gone: a signed record, written when a generation without it was published.

Belongs here: the record and its readers. Does not belong here: marking a document as deleted (`inbox`), detecting the
removal (`rag_assets.publishing.documents`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_serving.access.principals import Principal, satisfies
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.documents.inbox import DOCUMENT_ID, Inbox
from rag_serving.documents.records import Entry

FOLDER = "deleted"
"""Of an inbox."""


class Deletion(BaseModel):
    """A document that is gone. `readers`: the reader class of those who could read it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    document_id: str
    name: str
    readers: str
    sha256: list[str]  # of each version's bytes, none of which the inbox has for this document any more
    deleted_at: datetime
    gone_at: datetime
    generation: str | None = Field(description="published without it; None: the tenant has published none")
    kept_in: list[str] = Field(description="older generations that hold its passages until they are pruned")

    def payload(self) -> dict[str, Any]:
        """Return the record as the API shows it."""
        return {**self.model_dump(mode="json", exclude={"readers"}), "status": "deleted"}


def write_deletion(store: Store, inbox: Inbox, entry: Entry, generation: str | None, kept_in: list[str]) -> None:
    """Write the record of a document that no published passage, no row of its source and no upload shows any more.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    document, now = entry.document, datetime.now(UTC)
    record = Deletion(
        document_id=document.document_id,
        name=document.name,
        readers=entry.readers,
        sha256=list(dict.fromkeys(version.sha256 for version in document.versions)),
        deleted_at=document.deleted_at or now,
        gone_at=now,
        generation=generation,
        kept_in=kept_in,
    )
    write_signed(store, _path(inbox, document.document_id), record.model_dump(mode="json"))


def deletion_for(store: Store, inbox: Inbox, principal: Principal | None, document_id: str) -> Deletion | None:
    """Return the record for a caller who could read the document, or owns this machine (None); None for others, and if
    none is signed here."""
    if not DOCUMENT_ID.fullmatch(document_id):
        return None
    try:
        record = Deletion.model_validate(read_signed(store, _path(inbox, document_id)))
    except (StoreError, ValidationError):
        return None
    return record if principal is None or satisfies(principal, record.readers) else None


def _path(inbox: Inbox, document_id: str) -> Path:
    return inbox.files.folder / FOLDER / f"{document_id}.json"
