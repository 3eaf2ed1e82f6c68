"""What a folder held at the last sync, and what it may lose: the same for files and for documentation sites.

Belongs here: digests of files that are not read when nothing was written, refusing to delete a large share.
Does not belong here: which page a renamed file is (`renames`), pages themselves (`folder`, `sites.source`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from rag_assets.sources.base import READING_VERSION, Row, SourceError, digest, settings_digest
from rag_assets.sources.documents.renames import Known
from rag_assets.sources.sites.trees import FileTree
from rag_assets.steps.files.records import FileError
from rag_serving.config.sources import Files, SiteSource

SETTLED_S = 2.0
"""Seconds after which a file's times tell whether it was written to again: file systems keep them that coarsely."""


def files_fingerprint(key: str, settings: Files | SiteSource, public_url: str | None, tree: FileTree) -> str:
    """Return a digest of settings, names, sizes and times (in a zip: checksums): no file is opened."""
    stamps = [f"{name}:{tree.stamp(name)}" for name in tree.names]
    return digest(settings_digest(key, settings), public_url or "", *stamps)


def content_digest(tree: FileTree, name: str, known: Known | None, began: object) -> str | None:
    """Return the SHA-256 of a file: the known one where nothing was written since; None where it cannot be read.

    Args:
        tree: the files.
        name: of the file.
        known: it at the last sync; None: it was not there.
        began: when the last sync began, in seconds since 1970; anything else: not known.
    """
    was_settled = isinstance(began, float) and tree.touched_at(name) < began - SETTLED_S
    if known is not None and known.stamp == [tree.stamp(name)] and was_settled:
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


def refuse_loss(key: str, settings: Files | SiteSource, before: Mapping[str, Row], there: set[str]) -> None:
    """Refuse to delete a large share at once.

    Args:
        key: the source.
        settings: its settings.
        before: the rows of the last sync, by page id.
        there: ids of the pages whose files are there.

    Raises:
        SourceError: so much is gone that the folder may not be whole, or not mounted.
    """
    gone, allowed = len(before.keys() - there), settings.max_deleted_share
    if gone > 1 and gone / len(before) > allowed:
        raise SourceError(
            f"{settings.path} lacks {gone} of {len(before)} pages, more than max_deleted_share {allowed:g}; nothing "
            f"was deleted. If they were deleted on purpose, set sources.{key}.max_deleted_share to 1 for one build"
        )


def readers_notes(key: str, settings: Files | SiteSource) -> list[str]:
    """Return a note where nobody can read the source."""
    if settings.readers != "from_source":
        return []
    return [
        f"files do not say who may read them, so nobody can read source {key!r}; "
        f"set sources.{key}.readers to everyone or to a list of group:NAME and user:NAME"
    ]
