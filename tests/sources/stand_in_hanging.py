"""What hangs on the pages of a stand-in Confluence: files and comments.

Belongs here: what REST v1 tells of a file or a comment, by its page and by CQL.
Does not belong here: which pages there are and who sees them (`stand_in_site`), serving (`stand_in_confluence`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Envelope = dict[str, Any]

_SEARCH = re.compile(r'type = (attachment|comment) and space = "([^"]+)"')


@dataclass(frozen=True)
class File:
    """A file of a page in its current version; one that is attached again under its old name is another one."""

    id: str
    content: bytes
    media_type: str
    version: int
    when: str


@dataclass(frozen=True)
class Said:
    """A comment in its current version."""

    id: str
    body: str
    version: int
    when: str


class Hanging:
    """Files by page id and name, comments by page id."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, File]] = {}
        self.comments: dict[str, list[Said]] = {}
        self._made = 0

    def attach(self, page_id: str, name: str, content: bytes, media_type: str, when: str) -> None:
        """A file, or a new version of it."""
        old = self.files.setdefault(page_id, {}).get(name)
        self._made += not old
        file_id = old.id if old else f"att{page_id}{self._made:03}"
        self.files[page_id][name] = File(file_id, content, media_type, old.version + 1 if old else 1, when)

    def say(self, page_id: str, body: str, when: str, version: int = 1) -> None:
        """A comment."""
        self._made += 1
        self.comments.setdefault(page_id, []).append(Said(f"9{page_id}{self._made:03}", body, version, when))

    def entries(self, page_id: str, kind: str) -> list[Envelope]:
        """Everything of one kind on a page, with all that may be asked for."""
        if kind == "attachment":
            return [_attachment(page_id, name, file) for name, file in sorted(self.files.get(page_id, {}).items())]
        return [_comment(page_id, one) for one in self.comments.get(page_id, [])]

    @staticmethod
    def asked(cql: str) -> tuple[str, str] | None:
        """The kind and the space that CQL asks for, where it asks for what hangs on pages."""
        found = _SEARCH.fullmatch(cql)
        return (found[1], found[2]) if found else None


def shown(entry: Envelope, expand: str) -> Envelope:
    """An entry with what was asked for."""
    asked = {part.partition(".")[0] for part in expand.split(",")}
    always = {"id", "type", "status", "title", "_links", "metadata", "extensions"}
    return {name: value for name, value in entry.items() if name in always | asked}


def _attachment(page_id: str, name: str, file: File) -> Envelope:
    return {
        "id": file.id,
        "type": "attachment",
        "status": "current",
        "title": name,
        "version": {"number": file.version, "when": file.when},
        "container": {"id": page_id, "type": "page"},
        "metadata": {"mediaType": file.media_type},
        "extensions": {"mediaType": file.media_type, "fileSize": len(file.content)},
        "_links": {
            "webui": f"/pages/viewpage.action?pageId={page_id}&preview=/{page_id}/{quote(name)}",
            "download": f"/download/attachments/{page_id}/{quote(name)}?version={file.version}&api=v2",
        },
    }


def _comment(page_id: str, said: Said) -> Envelope:
    return {
        "id": said.id,
        "type": "comment",
        "status": "current",
        "title": "Re: a page",
        "version": {"number": said.version, "when": said.when},
        "container": {"id": page_id, "type": "page"},
        "body": {"storage": {"value": said.body}},
        "_links": {},
    }


def visible(entries: Iterator[Envelope], hidden: set[str]) -> list[Envelope]:
    """What search knows of and the asking user may see."""
    return [one for one in entries if one["id"] not in hidden and one["container"]["id"] not in hidden]
