"""Zip archives among documents: their members are documents as well.

Belongs here: names and contents of members, how deep archives within archives are opened.
Does not belong here: unpacking (`rag_assets.steps.files.zip_members`), an archive that is a whole source
(`rag_assets.sources.sites.trees`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rag_assets.sources.base import SourceError
from rag_assets.sources.sites.trees import MOST_FILES, FileTree, LargeFileError, check_size
from rag_assets.steps.files.records import FileError
from rag_assets.steps.files.zip_members import ZipMembers
from rag_serving.documents.kinds import KindError, kind_by_name, kind_in

DEEPEST = 2
"""Archives within archives that are opened."""


class MembersTree:
    """The files of a tree; in place of an archive its members, as `archive.zip/member`.

    An archive that cannot be opened stays a file of its own, which then fails with a reason; `unopened` names it.
    """

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
        """Return what differs when a file was changed; of a member its size and checksum."""
        return self._stamps[name]

    def written_at(self, name: str) -> datetime:
        """Return when a file's content was written; of a member as its archive says, else when that was."""
        return self._written.get(name) or self._tree.written_at(self._where[name][0])

    def touched_at(self, name: str) -> float:
        """See `FileTree`."""
        return 0.0 if self.is_member(name) else self._tree.touched_at(name)

    def is_member(self, name: str) -> bool:
        """Return whether a file lies in an archive."""
        return len(self._where[name]) > 1

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            KeyError: there is none of that name.
            FileError: it cannot be read, or is larger than allowed.
        """
        path = self._where[name]
        return self._content(path)

    def _found(self, path: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
        """Yield label, path and stamp of a file, or those of its members."""
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
        """Return the members of an archive.

        Raises:
            FileError, KindError: it cannot be opened, or is no archive.
        """
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
