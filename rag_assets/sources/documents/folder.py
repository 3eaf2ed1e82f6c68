"""A folder, a zip or a prefix of an object store as a source: each file is a page, members of archives included."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rag_assets.sources.base import READING_VERSION, Progress, SourceError, SyncResult, finish, rows_by_id
from rag_assets.sources.documents.document_pages import (
    DocumentFile,
    DocumentPages,
    FileSource,
    RowMaker,
    content_digest,
    identify,
    known_files,
    readers_notes,
    rows_by_content,
)
from rag_assets.sources.sites.trees import MOST_FILES, FileTree, LargeFileError, check_size
from rag_assets.steps.files.file_text import ZipMembers
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import Files
from rag_serving.documents.kinds import KindError, kind_by_name, kind_in

DEEPEST = 2
"""Archives within archives that are opened."""


class MembersTree:
    """The files of a tree; in place of an archive its members, as `archive.zip/member`. An archive that cannot be
    opened stays a file of its own, which then fails with a reason; `unopened` names it."""

    def __init__(self, tree: FileTree, key: str, max_bytes: int) -> None:
        """`max_bytes`: a larger member cannot be read, as no larger file can."""
        self._tree, self._max_bytes = tree, max_bytes
        self._where: dict[str, tuple[str, ...]] = {}  # by name: the file, then members of members
        self._stamps: dict[str, str] = {}
        self._written: dict[str, datetime] = {}  # of members
        self._open: tuple[tuple[str, ...], ZipMembers] | None = None  # the archive that was read last
        self.unopened: set[str] = set()
        for name in tree.names:
            for label, path, stamp in self._found((name,)):
                self._where[label], self._stamps[label] = path, stamp
                if len(path) > 1 and (written := self._members(path[:-1]).written_at(path[-1])) is not None:
                    self._written[label] = written
            if len(self._where) > MOST_FILES:
                raise SourceError(f"source {key!r} has more than {MOST_FILES:,} files; make several sources of it")
        self._open = None
        self.names: Sequence[str] = sorted(self._where)

    def stamp(self, name: str) -> str:
        """Return a value that changes with a file; for a member its size and checksum."""
        return self._stamps[name]

    def written_at(self, name: str) -> datetime:
        """Return when a file's content was written; of a member as its archive says, else when that was."""
        return self._written.get(name) or self._tree.written_at(self._where[name][0])

    def touched_at(self, name: str) -> float:
        return 0.0 if self.is_member(name) else self._tree.touched_at(name)

    def is_member(self, name: str) -> bool:
        """Return whether a file lies in an archive."""
        return len(self._where[name]) > 1

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises KeyError: there is none of that name. Raises FileError: it cannot be
        read, or is larger than allowed."""
        path = self._where[name]
        return self._content(path)

    def _found(self, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
        label = "/".join(path)
        stamp = self._tree.stamp(path[0]) if len(path) == 1 else self._members(path[:-1]).stamp(path[-1])
        members = None
        if kind_by_name(path[-1]) == "archive" and len(path) <= DEEPEST:
            try:
                members = self._members(path)
            except LargeFileError:
                pass
            except (FileError, KindError):
                self.unopened.add(label)
        if members is None or not members.names:
            yield label, path, stamp
            return
        for name in members.names:
            yield from self._found((*path, name))

    def _members(self, path: tuple[str, ...]) -> ZipMembers:
        """Return the members of an archive. Raises FileError, KindError: it cannot be opened, or is no archive."""
        if self._open is None or self._open[0] != path:
            content = self._content(path)
            if kind_in(path[-1], content) != "archive":
                raise KindError
            self._open = (path, ZipMembers(content))
        return self._open[1]

    def _content(self, path: tuple[str, ...]) -> bytes:
        if len(path) == 1:
            return self._tree.read(path[0])
        members = self._members(path[:-1])
        check_size(members.size(path[-1]), self._max_bytes)
        return members.read(path[-1])


class DocumentFolder(FileSource[Files]):
    """The files of a folder and of those below it, of a zip, or of a prefix of an object store."""

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the files with new content; the others keep their text."""
        began, known, reading = time.time(), known_files(state), self._reading
        before = rows_by_id(previous)
        with self._tree() as whole, nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            tree = MembersTree(whole, self.key, self._settings.max_file_bytes)
            digests = {name: content_digest(tree, name, known.get(name), state.get("began")) for name in tree.names}
            unopened = tuple(f"{archive}/" for archive in tree.unopened)  # what was read from them is kept
            kept = {name: one.sha256 for name, one in known.items() if name.startswith(unopened)}
            page_ids = identify(self.key, {name: one for name, one in digests.items() if one} | kept, known)
            maker = RowMaker(self.key, self._settings, reader, reading.originals)
            twins = rows_by_content(known, before, self._settings.id_prefix)
            pages = DocumentPages(tree, before, {one.page_id: one for one in known.values()}, maker, twins)
            for done, name in enumerate(tree.names, start=1):
                pages.take(self._document(name, page_ids.get(name), digests[name], tree))
                if progress is not None:
                    progress(done, len(tree.names))
            for name in kept:
                row_id = self._row_id(known[name].page_id, name)
                pages.keep(name, known[name], row_id, "its archive cannot be opened")
        return finish(
            self._settings,
            before,
            pages.rows,
            seen=len(tree.names) + len(kept),
            excluded=pages.excluded.items(),
            failures=pages.failures.items(),
            notes=readers_notes(self.key, self._settings),
            files={self._id(one.page_id): name for name, one in known.items()},
            state={
                "files": {name: one.dump() for name, one in pages.now.items()},
                "began": began,
                "reading": READING_VERSION,
            },
        )

    def _document(self, name: str, page_id: str | None, sha256: str | None, tree: MembersTree) -> DocumentFile:
        row_id = self._row_id(page_id, name)
        base = None if tree.is_member(name) else self._settings.base_url  # nothing serves a file inside another
        quoted = quote(name, errors="surrogateescape")
        url = self._reading.address(row_id) if base is None else f"{base.rstrip('/')}/{quoted}"
        return DocumentFile(name, page_id, row_id, sha256, tree.stamp(name), tree.written_at(name), url)
