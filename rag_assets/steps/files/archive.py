"""Zip archives that hang on a page or are uploaded: each member is a section under its name.

Belongs here: the order of members, those that are not read. Does not belong here: unpacking (`zip_members`), archives
in a folder of documents, whose members are pages (`rag_assets.sources`).
"""

from __future__ import annotations

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.records import FileError, FileText
from rag_assets.steps.files.zip_members import ZipMembers

_NAMED = 20
"""Members that are named with the reason why they are not read; of the others only the number is told."""


def archive_text(content: bytes, composed: Composed) -> FileText:
    """Return the text of all members that can be read.

    Raises:
        FileError: the archive is broken or empty, or none of its members can be read.
    """
    members = ZipMembers(content)
    unread: list[str] = []
    for name in members.names:
        if composed.is_full:
            break
        try:
            composed.file(name, members.read(name), 1)
        except FileError as error:
            unread.append(f"{name}: {error}")
    if not composed.blocks:
        raise FileError(f"none of its members is read: {'; '.join(unread[:3])}" if unread else "the archive is empty")
    if unread:
        composed.lost("archive member", len(unread))
        composed.heading("Members that are not read", 1)
        for line in unread[:_NAMED]:
            composed.note(line)
        if len(unread) > _NAMED:
            composed.note(f"and {len(unread) - _NAMED:,} more")
    return composed.text()
