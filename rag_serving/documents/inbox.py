"""An upload inbox: documents that were received, replaced and deleted, for whom the next build reads them.

Belongs here: what becomes of an upload, and which documents there are for a caller.
Does not belong here: files (`artifacts.document_files`), HTTP (`api.documents`), reading documents
(`rag_assets.sources.documents`).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rag_serving.access.principals import EVERYONE, Principal, intersect_readers, reader_class, satisfies
from rag_serving.artifacts.document_files import DocumentFiles, Spool
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config
from rag_serving.config.sources import Files
from rag_serving.documents.kinds import kind_of
from rag_serving.documents.names import safe_name
from rag_serving.documents.records import Entry, ReadState, UploadedDocument, Version

DOCUMENT_ID = re.compile(r"[a-z0-9]{1,64}")
MAX_VERSIONS = 1000
"""Of which a document keeps the facts; the oldest are forgotten."""


class NoSuchDocumentError(Exception):
    """A document that is not there, or not for this caller: both are the same."""


class TooManyDocumentsError(Exception):
    """A tenant has as many documents as it may."""


@dataclass(frozen=True)
class Upload:
    """A received file: a closed or open spool, the sender's name for it, and his options."""

    spool: Spool
    name: str
    readers: str | None = None  # reader class; None: as it is, or the narrowest
    default_readers: str = EVERYONE
    document_id: str | None = None
    by: str | None = None


class Inbox:
    """The documents of one source of kind `files` without a path."""

    def __init__(self, key: str, settings: Files, folder: Path) -> None:
        """`folder`: that of the source (`Store.source`)."""
        self.key = key
        self.settings = settings
        self.files = _files_of(folder / "inbox")
        own = settings.readers
        self._own = reader_class([own]) if isinstance(own, list) else EVERYONE

    def is_open_to(self, principal: Principal) -> bool:
        """Return whether a caller may read the source itself, as its setting `readers` says."""
        return principal.tenant == self.settings.tenant and satisfies(principal, self._own)

    def entries(self) -> dict[str, Entry]:
        """Return all documents by id, deleted ones that are still published included."""
        states = self.files.read_states()
        return {name: self._entry(one, _state(states.get(name))) for name, one in self._documents().items()}

    def entries_for(self, principal: Principal | None) -> dict[str, Entry]:
        """Return the documents that a caller may read; None: the owner of this machine, and so all documents."""
        if principal is None:
            return self.entries()
        if principal.tenant != self.settings.tenant:
            return {}
        return {name: entry for name, entry in self.entries().items() if satisfies(principal, entry.readers)}

    def receive(self, principal: Principal | None, upload: Upload, most: int) -> Entry:
        """Store an upload as a new document, as a new version of one, or not at all if it exists already.

        Args:
            principal: the uploader; None: the owner of this machine, and so of all documents.
            upload: the received file.
            most: the inbox's capacity in documents.

        Raises:
            KindError: the file's format is not supported.
            NoSuchDocumentError: the document to replace does not exist for the caller.
            TooManyDocumentsError: the inbox is full.
            OSError: the disk refused the file.
        """
        name = safe_name(upload.name)
        kind = kind_of(name, upload.spool.head)
        with self.files.lock():
            entries = self.entries()
            before = self._before(principal, upload, entries)
            if before is None and len(entries) >= most:
                raise TooManyDocumentsError
            document = self._document(upload, name, kind, before)
            if before is not None and document == before.document:
                upload.spool.discard()
                return before
            self.files.keep(upload.spool)
            self.files.write_document(document.document_id, document.model_dump(mode="json"))
        return self._entry(document, before.state if before else None)

    def delete(self, principal: Principal | None, document_id: str) -> Entry:
        """Mark a document as deleted for a caller (`entries_for`); the next build removes it. Idempotent.

        Raises:
            NoSuchDocumentError: the caller sees no such document.
        """
        with self.files.lock():
            entry = self.entries_for(principal).get(document_id)
            if entry is None:
                raise NoSuchDocumentError
            if entry.document.deleted_at is None:
                document = entry.document.model_copy(update={"deleted_at": datetime.now(UTC)})
                self.files.write_document(document_id, document.model_dump(mode="json"))
                entry = self._entry(document, entry.state)
        return entry

    def fingerprint(self) -> str:
        """Return a digest of all that the build reads of the records; deleted documents are not read."""
        facts = [
            (name, one.current.sha256, one.current.version, one.name, one.readers)
            for name, one in sorted(self._documents().items())
            if one.deleted_at is None
        ]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]

    def deletions(self) -> str | None:
        """Return a digest of the documents that are to be taken away; None if there are none."""
        facts = [(name, one.deleted_at) for name, one in sorted(self._documents().items()) if one.deleted_at]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:32] if facts else None

    def _documents(self) -> dict[str, UploadedDocument]:
        """Return the records that can be read."""
        return self.files.read_documents(_document)

    def _before(self, principal: Principal | None, upload: Upload, entries: dict[str, Entry]) -> Entry | None:
        """Return the document that an upload is of: the one it names, or one of the same bytes, name and readers."""
        readable = {
            name: entry for name, entry in entries.items() if principal is None or satisfies(principal, entry.readers)
        }
        if upload.document_id is not None:
            if upload.document_id not in readable:
                raise NoSuchDocumentError
            return readable[upload.document_id]
        digest, readers = upload.spool.sha256, upload.readers or upload.default_readers
        for _, entry in sorted(readable.items()):
            document = entry.document
            is_same = document.current.sha256 == digest and document.readers == readers
            if is_same and document.deleted_at is None:
                return entry
        return None

    def _document(self, upload: Upload, name: str, kind: str, before: Entry | None) -> UploadedDocument:
        version = Version(
            version=1,
            sha256=upload.spool.sha256,
            bytes=upload.spool.size,
            kind=kind,
            uploaded_at=datetime.now(UTC),
            uploaded_by=upload.by,
        )
        if before is None:
            return UploadedDocument(
                document_id=f"doc{secrets.token_hex(8)}",
                name=name,
                readers=upload.readers or upload.default_readers,
                versions=[version],
            )
        document = before.document
        readers = upload.readers or document.readers
        if document.current.sha256 == version.sha256:
            is_replaced = upload.document_id is not None
            kept_name = name if is_replaced else document.name
            return document.model_copy(update={"readers": readers, "deleted_at": None, "name": kept_name})
        following = version.model_copy(update={"version": document.current.version + 1})
        versions = [*document.versions, following][-MAX_VERSIONS:]
        changed = {"name": name, "readers": readers, "versions": versions, "deleted_at": None}
        return document.model_copy(update=changed)

    def _entry(self, document: UploadedDocument, state: ReadState | None) -> Entry:
        return Entry(
            source=self.key,
            document=document,
            state=state,
            readers=intersect_readers(self._own, document.readers),
            page_id=f"{self.settings.id_prefix}{document.document_id}",
        )


@lru_cache(maxsize=256)
def _files_of(folder: Path) -> DocumentFiles:
    """Return the files of an inbox: one for all requests, because it remembers the records that it read."""
    return DocumentFiles(folder)


def _document(value: object) -> UploadedDocument | None:
    try:
        return UploadedDocument.model_validate(value)
    except ValidationError:
        return None


def _state(value: object) -> ReadState | None:
    try:
        return ReadState.model_validate(value) if value is not None else None
    except ValidationError:
        return None


def inboxes_of(config: Config, tenant: str) -> list[Inbox]:
    """Return a tenant's upload inboxes, in the order of the configuration."""
    store = Store(config.home)
    return [
        Inbox(key, settings, store.source(key))
        for key, settings in config.sources.items()
        if settings.tenant == tenant and isinstance(settings, Files) and settings.path is None
    ]
