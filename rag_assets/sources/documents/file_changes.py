"""Compare a folder with its last sync: the same for files and for documentation sites.

Belongs here: opening the files, digests of files that are not read when nothing was written.
Does not belong here: which page a renamed file is (`renames`), pages themselves (`folder`, `sites.source`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from rag_assets.sources.base import READING_VERSION, SourceError, digest, settings_digest
from rag_assets.sources.documents.renames import Known
from rag_assets.sources.documents.rows import MARK, Reading
from rag_assets.sources.sites.trees import FileTree, opened_tree
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import Files, SiteSource

S = TypeVar("S", bound=Files | SiteSource)

SETTLED_S = 2.0
"""Seconds after which a file's times tell whether it was written to again: file systems keep them that coarsely."""


class FileSource(Generic[S]):
    """A source whose pages are files of a folder, a zip or a prefix of an object store."""

    def __init__(self, key: str, settings: S, reading: Reading) -> None:
        self.key = key
        self._settings = settings
        self._reading = reading

    def fingerprint(self) -> str:
        """Return a digest of settings, names, sizes and times (in a zip: checksums): no file is opened."""
        with self._tree() as tree:
            stamps = [f"{name}:{tree.stamp(name)}" for name in tree.names]
        return digest(settings_digest(self.key, self._settings), self._reading.public_url or "", *stamps)

    @contextmanager
    def _tree(self) -> Iterator[FileTree]:
        if self._settings.path is None:
            raise SourceError(f"sources.{self.key} has no path")
        with opened_tree(self._settings.path, self.key, self._settings.max_file_bytes) as tree:
            yield tree

    def _id(self, page_id: str) -> str:
        return f"{self._settings.id_prefix}{page_id}"

    def _row_id(self, page_id: str | None, name: str) -> str:
        """Return the id of a file's row; a file without a page of its own has the id of its name."""
        return self._id(page_id or f"{MARK}{digest(self.key, name)[:16]}")


def is_unchanged(tree: FileTree, name: str, known: Known | None, began: object) -> bool:
    """Return whether nothing was written to a file since the last sync, as far as its size and times tell; the file is
    not opened. Arguments as those of `content_digest`."""
    was_settled = isinstance(began, float) and tree.touched_at(name) < began - SETTLED_S
    return known is not None and known.stamp == [tree.stamp(name)] and was_settled


def content_digest(tree: FileTree, name: str, known: Known | None, began: object) -> str | None:
    """Return the SHA-256 of a file: the known one where nothing was written since; None where it cannot be read.

    Args:
        tree: the files.
        name: of the file.
        known: it at the last sync; None: it was not there.
        began: when the last sync began, in seconds since 1970; anything else: not known.
    """
    if known is not None and is_unchanged(tree, name, known, began):
        return known.sha256
    try:
        return hashlib.sha256(tree.read(name)).hexdigest()
    except (FileError, KeyError):
        return None


def known_files(state: Mapping[str, Any]) -> dict[str, Known]:
    """Return the files of the last sync by name; none where they were read by other rules."""
    files = state.get("files")
    if state.get("reading") != READING_VERSION or not isinstance(files, dict):
        return {}
    return {name: one for name, value in files.items() if (one := Known.load(value)) is not None}


def readers_notes(key: str, settings: Files | SiteSource) -> list[str]:
    """Return a note where nobody can read the source."""
    if settings.readers != "from_source":
        return []
    return [
        f"files do not say who may read them, so nobody can read source {key!r}; "
        f"set sources.{key}.readers to everyone or to a list of group:NAME and user:NAME"
    ]
