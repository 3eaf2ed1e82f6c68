"""A folder, a zip or a prefix of an object store as a source: each file is a page, members of archives included.

Belongs here: which of the files changed, and what becomes of one that cannot be read.
Does not belong here: finding the files (`sites.trees`), members of archives (`archives`), which page a renamed file is
(`renames`), the row of one (`rows`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rag_assets.sources.base import (
    READING_VERSION,
    Progress,
    Row,
    SourceError,
    SyncResult,
    digest,
    finish,
    rows_by_id,
    settings_digest,
)
from rag_assets.sources.documents.archives import MembersTree
from rag_assets.sources.documents.renames import Known, identify
from rag_assets.sources.documents.rows import (
    MARK,
    DocumentFacts,
    ExcludedError,
    Reading,
    RowMaker,
    UnreadableError,
)
from rag_assets.sources.sites.trees import FileTree, LargeFileError, opened_tree
from rag_assets.steps.files.records import FileError
from rag_assets.steps.readers.readers import space_readers
from rag_serving.config.sources import Files
from rag_serving.documents.kinds import extension_of
from rag_serving.documents.names import safe_name

_SETTLED_S = 2.0
"""Seconds after which a file's times tell whether it was written to again: file systems keep them that coarsely."""


@dataclass(frozen=True)
class _File:
    """A file by its name below the folder."""

    name: str
    stamp: list[Any]
    changed_at: datetime
    is_member: bool  # of an archive

    @property
    def base_name(self) -> str:
        """The name without folders, as it may be shown."""
        return safe_name(self.name.rpartition("/")[2])

    @property
    def label(self) -> str:
        """The whole name, as it may be shown."""
        return _label(self.name)


@dataclass
class _Sync:
    """What becomes of the files, by page id; `now`: what is remembered of them, by name."""

    tree: MembersTree
    before: Mapping[str, Row]
    known: Mapping[str, Known]  # by page id
    maker: RowMaker
    read: dict[tuple[str, str], Row] = field(default_factory=dict)  # by digest and ending: what a content gave
    rows: dict[str, Row] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    now: dict[str, Known] = field(default_factory=dict)


class FolderSource:
    """The files of a folder and of those below it, of a zip, or of a prefix of an object store."""

    def __init__(self, key: str, settings: Files, reading: Reading) -> None:
        self.key = key
        self._settings = settings
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of settings, names, sizes and times: no file is opened."""
        with self._tree() as tree:
            stamps = [f"{name}:{tree.stamp(name)}" for name in tree.names]
        return digest(settings_digest(self.key, self._settings), self._reading.public_url or "", *stamps)

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the files whose content is new; the others keep their text."""
        began, known, reading = time.time(), _remembered(state), self._reading
        before = rows_by_id(previous)
        with self._tree() as whole, nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            tree = MembersTree(whole, self.key, self._settings.max_file_bytes)
            files = _files(tree)
            digests = {file.name: _sha256(tree, file, known.get(file.name), state.get("began")) for file in files}
            kept = _hidden(tree, known)
            page_ids = identify(self.key, {name: one for name, one in digests.items() if one} | kept, known)
            there = {self._row_id(page_ids.get(file.name), file.name) for file in files}
            self._refuse_loss(before, there | {self._row_id(page_ids[name], name) for name in kept})
            maker = RowMaker(self.key, self._settings, reader, reading.originals)
            read = _read_before(known, before, self._settings.id_prefix)
            sync = _Sync(tree, before, {one.page_id: one for one in known.values()}, maker, read)
            for done, file in enumerate(files, start=1):
                self._take(file, digests[file.name], page_ids.get(file.name), sync)
                if progress is not None:
                    progress(done, len(files))
            self._keep(kept, known, sync)
        return finish(
            before,
            sync.rows,
            seen=len(files) + len(kept),
            excluded=sync.excluded.items(),
            failures=sync.failures.items(),
            notes=self._notes(),
            state={
                "files": {name: one.dump() for name, one in sync.now.items()},
                "began": began,
                "reading": READING_VERSION,
            },
        )

    def _keep(self, kept: Mapping[str, str], known: Mapping[str, Known], sync: _Sync) -> None:
        """Keep what was read of archives that cannot be opened now."""
        for name in kept:
            sync.now[name] = known[name]
            row_id = self._row_id(known[name].page_id, name)
            if (row := sync.before.get(row_id)) is not None:
                sync.rows[row_id] = row
            sync.failures[row_id] = f"{_label(name)}: its archive cannot be opened; its last version stays"

    def _take(self, file: _File, sha256: str | None, page_id: str | None, sync: _Sync) -> None:
        row_id = self._row_id(page_id, file.name)
        known = sync.known.get(page_id) if page_id else None
        is_same = known is not None and known.sha256 == sha256
        version = 1 if known is None else known.version if is_same else known.version + 1
        address = self._address(file, row_id)
        facts = DocumentFacts(row_id, version, file.base_name, address, self._readers(), file.changed_at)
        left_out = known.left_out if known and is_same else None
        if left_out and sync.maker.reader.is_past(left_out[1]):
            left_out = None
        elif is_same and not left_out and (row := _kept(row_id, facts, sync)):
            sync.rows[row_id] = row
        if left_out is None and row_id not in sync.rows:
            left_out = self._read(file, (sha256 or "", extension_of(file.base_name)), facts, sync)
        if sha256 and page_id:
            sync.now[file.name] = Known(page_id, sha256, version, file.stamp, left_out)
        if left_out is not None:
            self._leave_out(file, facts, left_out, sync)

    def _read(self, file: _File, content: tuple[str, str], facts: DocumentFacts, sync: _Sync) -> list[str] | None:
        """Read a file into its row; a content that another file had is not read again.

        Return what it is (`failed`, `excluded`) and why where it gives none.
        """
        if (twin := sync.read.get(content)) and (row := sync.maker.kept(twin, facts)):
            sync.rows[facts.page_id] = row
            return None
        try:
            sync.rows[facts.page_id] = sync.maker.read(facts, sync.tree.read(file.name))
        except (ExcludedError, LargeFileError) as error:
            return ["excluded", str(error)]
        except (UnreadableError, FileError) as error:
            return ["failed", str(error)]
        if content[0]:
            sync.read[content] = sync.rows[facts.page_id]
        return None

    def _leave_out(self, file: _File, facts: DocumentFacts, left_out: list[str], sync: _Sync) -> None:
        """Record why a file gave no row of its version; the last one that could be read stays, as a failure's does."""
        kind, why = left_out
        if kind == "excluded":
            sync.excluded[facts.page_id] = f"{file.label}: {why}"
            return
        if (row := sync.before.get(facts.page_id)) is not None:
            sync.rows[facts.page_id] = {**row, "readers": facts.readers}
            why += "; its last version stays"
        sync.failures[facts.page_id] = f"{file.label}: {why}"

    @contextmanager
    def _tree(self) -> Iterator[FileTree]:
        if self._settings.path is None:
            raise SourceError(f"sources.{self.key} has no path")
        with opened_tree(self._settings.path, self.key, self._settings.max_file_bytes) as tree:
            yield tree

    def _row_id(self, page_id: str | None, name: str) -> str:
        """Return the id of a file's row; one that was never read has the id of its name."""
        return f"{self._settings.id_prefix}{page_id or MARK + digest(self.key, name)[:16]}"

    def _refuse_loss(self, before: Mapping[str, Row], page_ids: set[str]) -> None:
        """Refuse to delete a large share at once.

        Raises:
            SourceError: so much is gone that the folder may not be whole, or not mounted.
        """
        gone = len(before.keys() - page_ids)
        allowed = self._settings.max_deleted_share
        if gone > 1 and gone / len(before) > allowed:
            raise SourceError(
                f"folder {self._settings.path} lacks {gone} of {len(before)} documents, more than max_deleted_share "
                f"{allowed:g}; nothing was deleted. If they were deleted on purpose, set "
                f"sources.{self.key}.max_deleted_share to 1 for one build"
            )

    def _address(self, file: _File, row_id: str) -> str:
        if self._settings.base_url is None or file.is_member:  # nothing serves a file inside another
            return self._reading.address(row_id)
        return f"{self._settings.base_url.rstrip('/')}/{quote(file.name, errors='surrogateescape')}"

    def _readers(self) -> str:
        return space_readers(self._settings.readers)

    def _notes(self) -> list[str]:
        if self._settings.readers != "from_source":
            return []
        return [
            f"files do not say who may read them, so nobody can read source {self.key!r}; "
            f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
        ]


def _read_before(known: Mapping[str, Known], before: Mapping[str, Row], prefix: str) -> dict[tuple[str, str], Row]:
    """Return the rows of the last sync by digest and ending of their file."""
    return {
        (one.sha256, extension_of(name.rpartition("/")[2])): row
        for name, one in known.items()
        if one.left_out is None and (row := before.get(f"{prefix}{one.page_id}"))
    }


def _kept(row_id: str, facts: DocumentFacts, sync: _Sync) -> Row | None:
    row = sync.before.get(row_id)
    return sync.maker.kept(row, facts) if row is not None else None


def _files(tree: MembersTree) -> list[_File]:
    return [_File(name, [tree.stamp(name)], tree.written_at(name), tree.is_member(name)) for name in tree.names]


def _hidden(tree: MembersTree, known: Mapping[str, Known]) -> dict[str, str]:
    """Return the digests of files that were read from archives which cannot be opened now, by name."""
    if not tree.unopened:
        return {}
    return {
        name: one.sha256
        for name, one in known.items()
        if any(name.startswith(f"{archive}/") for archive in tree.unopened)
    }


def _sha256(tree: MembersTree, file: _File, known: Known | None, began: object) -> str | None:
    """Return the digest of a file's content: the known one where nothing was written since. None: not readable."""
    was_settled = isinstance(began, float) and tree.touched_at(file.name) < began - _SETTLED_S
    if known is not None and known.stamp == file.stamp and was_settled:
        return known.sha256
    try:
        return hashlib.sha256(tree.read(file.name)).hexdigest()
    except FileError:
        return None


def _label(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _remembered(state: Mapping[str, Any]) -> dict[str, Known]:
    """Return what the last sync knew of the files, by name; nothing where it was read by another program."""
    files = state.get("files")
    if state.get("reading") != READING_VERSION or not isinstance(files, dict):
        return {}
    return {name: known for name, value in files.items() if (known := Known.load(value)) is not None}
