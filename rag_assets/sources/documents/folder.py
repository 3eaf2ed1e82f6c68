"""A folder, a zip or a prefix of an object store as a source: each file is a page, members of archives included.

Belongs here: the files of one sync, their ids and addresses.
Does not belong here: finding the files (`sites.trees`), members of archives (`archives`), which page a renamed file is
(`renames`), which are read anew (`document_pages`), the row of one (`rows`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rag_assets.sources.base import (
    READING_VERSION,
    Progress,
    SyncResult,
    finish,
    rows_by_id,
)
from rag_assets.sources.documents.archives import MembersTree
from rag_assets.sources.documents.document_pages import Document, DocumentPages, rows_by_content
from rag_assets.sources.documents.file_changes import (
    FileSource,
    content_digest,
    known_files,
    readers_notes,
)
from rag_assets.sources.documents.renames import Known, identify
from rag_assets.sources.documents.rows import RowMaker
from rag_serving.config.sources import Files


class FolderSource(FileSource[Files]):
    """The files of a folder and of those below it, of a zip, or of a prefix of an object store."""

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the files whose content is new; the others keep their text."""
        began, known, reading = time.time(), known_files(state), self._reading
        before = rows_by_id(previous)
        with self._tree() as whole, nullcontext(reading.reader) if reading.reader else reading.limited() as reader:
            tree = MembersTree(whole, self.key, self._settings.max_file_bytes)
            digests = {name: content_digest(tree, name, known.get(name), state.get("began")) for name in tree.names}
            kept = _hidden(tree, known)
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

    def _document(self, name: str, page_id: str | None, sha256: str | None, tree: MembersTree) -> Document:
        row_id = self._row_id(page_id, name)
        base = None if tree.is_member(name) else self._settings.base_url  # nothing serves a file inside another
        quoted = quote(name, errors="surrogateescape")
        url = self._reading.address(row_id) if base is None else f"{base.rstrip('/')}/{quoted}"
        return Document(name, page_id, row_id, sha256, tree.stamp(name), tree.written_at(name), url)


def _hidden(tree: MembersTree, known: Mapping[str, Known]) -> dict[str, str]:
    """Return the digests of files that were read from archives which cannot be opened now, by name."""
    if not tree.unopened:
        return {}
    return {
        name: one.sha256
        for name, one in known.items()
        if any(name.startswith(f"{archive}/") for archive in tree.unopened)
    }
