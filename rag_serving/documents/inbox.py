"""An upload inbox: records of documents received, replaced and deleted, who may read them, the proof of a deletion. An
editor may grant everyone of the tenant, each of his own groups, and himself; not other groups and users, whose names he
would have to know. A list is of alternatives: each of them may read."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_serving.access.principals import EVERYONE, Principal, intersect_readers, reader_class, satisfies
from rag_serving.artifacts.document_files import DocumentFiles, Spool
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.config.sources import Files
from rag_serving.documents.kinds import kind_of, media_type, safe_name

MAX_READERS = 100
MAX_CHARS = 20_000


class GrantError(Exception):
    """Readers that are none, or that the caller may not grant; the message is one line."""


def grantable(principal: Principal) -> list[str]:
    """Return the caller's possible grants, the narrowest first."""
    return [*sorted(principal.names, key=lambda name: (not name.startswith("user:"), name)), EVERYONE]


def granted(principal: Principal, asked: str | None) -> str | None:
    """Return the reader class of the field `readers`; None if it is empty. `asked`: `everyone`, one principal, or a
    JSON list of them. Raises GrantError: it is malformed, or names readers that the caller may not grant."""
    if asked is None or not asked.strip():
        return None
    names = [asked.strip()]
    if names[0].startswith("["):
        try:
            names = json.loads(names[0][:MAX_CHARS])
        except (ValueError, RecursionError):
            raise GrantError("`readers` is neither everyone nor a JSON list") from None
        if not all(isinstance(name, str) for name in names) or len(names) > MAX_READERS:
            raise GrantError(f"`readers` is a list of at most {MAX_READERS} names")
    allowed = set(grantable(principal))
    if not names or not allowed.issuperset(names):
        raise GrantError("`readers` may be everyone, or a list of your own groups and yourself: see GET /v1/documents")
    return class_of(names)


def narrowest(principal: Principal) -> str:
    """Return the default readers of a document: its uploader, else the members of all his groups."""
    if principal.user:
        return reader_class([[f"user:{principal.user}"]])
    return reader_class([[name] for name in principal.names])


def class_of(names: Sequence[str]) -> str:
    """Return the reader class of a list of alternatives."""
    return EVERYONE if EVERYONE in names else reader_class([names])


def named_class(names: Sequence[str]) -> str:
    """Return the reader class of alternatives that a person with access to the machine names. Raises GrantError: one is
    neither everyone nor a group or user."""
    for name in names:
        if name != EVERYONE and not (name.startswith(("group:", "user:")) and name.isprintable()):
            raise GrantError(f"reader {name!r} is neither everyone nor group:NAME or user:NAME")
    return class_of(names)


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
    """The build's progress with one version of a document. `shown`: the published version, or None. Of one that is
    being read, `page` of `of` pages; of one that is being embedded, `embedded` of `texts` texts."""

    version: int
    stage: Stage
    page: int | None = None
    of: int | None = None
    embedded: int | None = None
    texts: int | None = None
    reason: str | None = None
    shown: int | None = None

    @property
    def progress(self) -> dict[str, int | None] | None:
        """Return how many of its pages were read, or of its texts embedded; None if neither is being done."""
        if self.of is not None:
            return {"page": self.page, "of": self.of}
        return {"embedded": self.embedded, "of": self.texts} if self.texts is not None else None


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

    def payload(self) -> dict[str, Any]:
        """Return the document as the API shows it."""
        current, state = self.document.current, self.state
        of_current = state if state and self.status == state.stage else None
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
            "status": self.status,
            "progress": of_current.progress if of_current else None,
            "reason": of_current.reason if of_current else None,
            "readers": self.readers,
            "uploaded_at": current.uploaded_at.isoformat(),
            "page_id": self.page_id if state and state.shown is not None else None,
        }


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


Parsed = TypeVar("Parsed", bound=BaseModel)


class Inbox:
    """The documents of one source of kind `files` without a path."""

    def __init__(self, key: str, settings: Files, folder: Path) -> None:
        """`folder`: that of the source (`Store.source`)."""
        self.key, self.settings = key, settings
        self.files = _files_of(folder / "inbox")
        own = settings.readers
        self._own = reader_class([own]) if isinstance(own, list) else EVERYONE

    def is_open_to(self, principal: Principal) -> bool:
        """Return whether a caller may read the source itself, as its setting `readers` says."""
        return principal.tenant == self.settings.tenant and satisfies(principal, self._own)

    def entries(self) -> dict[str, Entry]:
        """Return all documents by id, deleted ones that are still published included."""
        states = self.files.read_states()
        return {name: self._entry(one, _parsed(ReadState, states.get(name))) for name, one in self._documents().items()}

    def entries_for(self, principal: Principal | None) -> dict[str, Entry]:
        """Return the documents that a caller may read; None: the owner of this machine, and so all documents."""
        if principal is None:
            return self.entries()
        if principal.tenant != self.settings.tenant:
            return {}
        return {name: entry for name, entry in self.entries().items() if satisfies(principal, entry.readers)}

    def receive(self, principal: Principal | None, upload: Upload, most: int) -> Entry:
        """Store an upload as a new document, as a new version of one, or not at all if it exists already. `principal`:
        the uploader; None: the owner of this machine, and so of all documents. `most`: the inbox's capacity in
        documents. Raises KindError: the file's format is not supported; NoSuchDocumentError: the document to replace
        does not exist for the caller; TooManyDocumentsError: the inbox is full; OSError: the disk refused the file."""
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
        """Mark a document as deleted for a caller (`entries_for`); the next build removes it. Idempotent. Raises
        NoSuchDocumentError: the caller sees no such document."""
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
        return self.files.read_documents(partial(_parsed, UploadedDocument))

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


def _parsed(model: type[Parsed], value: object) -> Parsed | None:
    try:
        return model.model_validate(value)
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


def most_bytes(inboxes: Sequence[Inbox]) -> int:
    """Return how many bytes a document may have that comes into one of these inboxes."""
    return max((inbox.settings.max_file_bytes for inbox in inboxes), default=0)


FOLDER = "deleted"
"""Of an inbox."""


class Deletion(_Record):
    """A document that is gone. `readers`: the reader class of those who could read it."""

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
    Raises SecretError: the installation's secret cannot be used."""
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
    """Return the record for who could read the document, or owns this machine (None); None for others, or unsigned."""
    if not DOCUMENT_ID.fullmatch(document_id):
        return None
    try:
        record = Deletion.model_validate(read_signed(store, _path(inbox, document_id)))
    except (StoreError, ValidationError):
        return None
    return record if principal is None or satisfies(principal, record.readers) else None


def _path(inbox: Inbox, document_id: str) -> Path:
    return inbox.files.folder / FOLDER / f"{document_id}.json"
