"""From a source's settings to the source.

Belongs here: which class reads which kind.
Does not belong here: any reading.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.sources.base import Source
from rag_assets.sources.documents.rows import DocumentReading
from rag_serving.config import sources as source_kinds

if TYPE_CHECKING:
    from rag_assets.parsing.reader import LimitedReader


def open_source(
    key: str,
    settings: source_kinds.Source,
    folder: Path,
    reader: LimitedReader | None = None,
    originals: Path | None = None,
    *,
    public_url: str | None = None,
    only: Collection[str] = (),
) -> Source:
    """Return the source of a key; nothing is read yet.

    Args:
        key: the source's name in the configuration.
        settings: its configuration.
        folder: for the source's files of a sync under way (`Store.source(key)`).
        reader: reads attached files; None: within the default limits.
        originals: folder for the files that serving renders (`sources.originals`); None: none is stored.
        public_url: where people reach the server (`serving.public_url`), which shows documents.
        only: raw ids of the pages of a wiki to look at; none: all there are.
    """
    if isinstance(settings, source_kinds.ConfluenceDump):
        from rag_assets.sources.confluence_dump import ConfluenceDumpSource

        return ConfluenceDumpSource(key, settings, reader, originals)
    if isinstance(settings, source_kinds.ConfluenceExport):
        from rag_assets.sources.confluence_export.source import ConfluenceExportSource

        return ConfluenceExportSource(key, settings, reader, originals)
    if isinstance(settings, source_kinds.ConfluenceMcp):
        from rag_assets.sources.confluence_mcp.source import ConfluenceMcpSource

        return ConfluenceMcpSource(key, settings)
    if isinstance(settings, source_kinds.Files):
        return _documents(key, settings, folder, DocumentReading(reader, originals, public_url))
    if isinstance(settings, source_kinds.SiteSource):
        from rag_assets.sources.sites.source import SiteFolder

        return SiteFolder(key, settings, DocumentReading(reader, originals, public_url))
    from rag_assets.sources.confluence.extras import ConfluenceExtras

    return ConfluenceExtras(key, settings, folder, reader=reader, originals=originals, only=only)


def _documents(key: str, settings: source_kinds.Files, folder: Path, reading: DocumentReading) -> Source:
    """Return the folder or upload inbox that the settings mean."""
    if settings.path is not None:
        from rag_assets.sources.documents.folder import DocumentFolder

        return DocumentFolder(key, settings, reading)
    from rag_assets.sources.documents.inbox import InboxSource
    from rag_serving.documents.inbox import Inbox

    return InboxSource(key, settings, Inbox(key, settings, folder), reading)
