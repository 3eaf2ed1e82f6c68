"""The record of an uploaded document: its versions, readers, and the state of the build.

Belongs here: the records and the status that follows from both. Does not belong here: files
(`artifacts.document_files`), changing records (`inbox`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rag_serving.documents.kinds import media_type

Stage = Literal["extracting", "chunking", "embedding", "published", "failed", "excluded"]
Status = Literal[
    "received", "extracting", "chunking", "embedding", "published", "failed", "excluded", "deleting", "deleted"
]
UNFINISHED: frozenset[str] = frozenset({"received", "extracting", "chunking", "embedding", "deleting"})


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Version(_Record):
    """One content of a document."""

    version: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    bytes: int = Field(ge=0)
    kind: str
    uploaded_at: datetime
    uploaded_by: str | None = None


class UploadedDocument(_Record):
    """A document as it was uploaded; `readers` is a reader class."""

    document_id: str = Field(pattern=r"^[a-z0-9]{1,64}$")
    name: str
    readers: str
    versions: list[Version] = Field(min_length=1)
    deleted_at: datetime | None = None

    @property
    def current(self) -> Version:
        return self.versions[-1]


class ReadState(_Record):
    """The build's progress with one version of a document. `shown`: the published version, or None.

    Of one that is being read, `page` of `of` pages; of one that is being embedded, `embedded` of `texts` texts.
    """

    version: int
    stage: Stage
    page: int | None = None
    of: int | None = None
    embedded: int | None = None
    texts: int | None = None
    reason: str | None = None
    shown: int | None = None


class Entry(_Record):
    """A document with what the build says of it. `readers`: of the document and its source together."""

    source: str
    document: UploadedDocument
    state: ReadState | None
    readers: str
    page_id: str

    @property
    def status(self) -> Status:
        if self.document.deleted_at is not None:
            return "deleting"
        if self.state is None or self.state.version != self.document.current.version:
            return "received"
        return self.state.stage

    def _progress(self) -> dict[str, int | None] | None:
        state = self.state
        if state is None or self.status != state.stage:
            return None
        if state.of is not None:
            return {"page": state.page, "of": state.of}
        return {"embedded": state.embedded, "of": state.texts} if state.texts is not None else None

    def payload(self) -> dict[str, Any]:
        """Return the document as the API shows it."""
        current, state, status = self.document.current, self.state, self.status
        is_told = state is not None and status == state.stage
        return {
            "document_id": self.document.document_id,
            "source": self.source,
            "name": self.document.name,
            "media_type": media_type(current.kind),
            "bytes": current.bytes,
            "sha256": current.sha256,
            "version": current.version,
            "versions": [
                version.model_dump(mode="json", include={"version", "sha256", "uploaded_at", "uploaded_by"})
                for version in self.document.versions
            ],
            "status": status,
            "progress": self._progress(),
            "reason": state.reason if is_told and state else None,
            "readers": self.readers,
            "uploaded_at": current.uploaded_at.isoformat(),
            "page_id": self.page_id if state and state.shown is not None else None,
        }
