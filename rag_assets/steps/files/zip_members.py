"""Members of a zip, unpacked within bounds.

Belongs here: valid names, the limits of an archive, faults of its members. Does not belong here: the meaning of a
member (`file_text`), archives that are folders of a source (`rag_assets.sources`).
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from datetime import UTC, datetime
from io import BytesIO

from rag_assets.steps.files.records import FileError
from rag_serving.documents.kinds import PASSWORD

MOST_MEMBERS = 10_000
MOST_BYTES = 300_000_000
"""Unpacked, of all members that are read."""
MOST_RATIO = 200
"""Unpacked to packed bytes of a member; text seldom reaches 20."""
RATIO_FROM = 1_000_000
"""Unpacked bytes from which the ratio counts: a small member harms nobody."""

_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # the others unpack without bounds
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error, NotImplementedError, IndexError)


class ZipMembers:
    """The files of a zip by their names; hidden ones are left aside, and of one name the last counts."""

    def __init__(self, content: bytes) -> None:
        """Read the directory.

        Raises:
            FileError: it is broken, or has too many members.
        """
        if content.count(b"PK\x01\x02") > 2 * MOST_MEMBERS:  # before zipfile makes an object of each
            raise FileError(f"the archive has more than {MOST_MEMBERS:,} members")
        try:
            self._file = zipfile.ZipFile(BytesIO(content))
            found = self._file.infolist()
        except (*_BROKEN, UnicodeError, RuntimeError) as error:
            raise FileError(f"the archive is broken: {_short(error)}") from None
        if len(found) > MOST_MEMBERS:
            raise FileError(f"the archive has more than {MOST_MEMBERS:,} members")
        self._unpacked: set[str] = set()  # a member that is read again counts once
        self._total = 0
        self._members = {one.filename: one for one in found if not one.is_dir() and is_shown(one.filename)}

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def size(self, name: str) -> int:
        """Return how many bytes a member unpacks to at most."""
        return self._members[name].file_size

    def stamp(self, name: str) -> str:
        """Return size and checksum of a member, as the archive says."""
        member = self._members[name]
        return f"{member.file_size}.{member.CRC:08x}"

    def written_at(self, name: str) -> datetime | None:
        """Return when a member was written, as the archive says; None if that is no date."""
        try:
            return datetime(*self._members[name].date_time, tzinfo=UTC)
        except ValueError:
            return None

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises:
            KeyError: there is none of that name.
            FileError: it is encrypted, broken, or unpacks to more than is allowed.
        """
        member = self._members[name]
        if member.flag_bits & 0x1:
            raise FileError(PASSWORD)
        if member.compress_type not in _METHODS:
            raise FileError(f"it is packed by a method that is not read ({member.compress_type})")
        if member.file_size > max(RATIO_FROM, MOST_RATIO * member.compress_size):
            raise FileError(f"it unpacks to more than {MOST_RATIO} times its size")
        if name not in self._unpacked:
            self._unpacked.add(name)
            self._total += member.file_size
        if self._total > MOST_BYTES:
            raise FileError(f"the archive unpacks to more than {MOST_BYTES:,} bytes")
        try:
            return self._file.read(member)  # never more than `file_size`, whatever is packed
        except (*_BROKEN, UnicodeError, RuntimeError) as error:
            raise FileError(f"it is broken in its archive: {_short(error)}") from None


def is_shown(name: str) -> bool:
    """Return whether a member is a file that people put there, not one that a system hides beside it."""
    parts = name.split("/")
    return all(parts) and "__MACOSX" not in parts and not any(part.startswith(".") for part in parts)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
