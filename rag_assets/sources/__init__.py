"""Sources of pages: one protocol, one file for each kind; from a source's settings to the source."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.sources.base import Progress, Source, SourceError, SyncResult
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_serving.config import sources as source_kinds

if TYPE_CHECKING:
    from rag_assets.parsing.reader import LimitedReader

__all__ = ["Progress", "Source", "SourceError", "SyncResult", "open_source"]


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
    """Return the source of a key; nothing is read yet. `folder`: for files of a sync under way (`Store.source(key)`);
    `reader`: None: within the default limits; `originals`: folder for the files that serving renders, None: none is
    stored; `public_url`: where people reach the server, which shows documents; `only`: raw ids of the pages of a wiki
    to look at, none: all there are."""
    if isinstance(settings, source_kinds.ConfluenceDump):
        from rag_assets.sources.confluence_dump import ConfluenceDumpSource

        return ConfluenceDumpSource(key, settings, reader, originals)
    if isinstance(settings, source_kinds.ConfluenceExport):
        from rag_assets.sources.confluence_export import ConfluenceExportSource

        return ConfluenceExportSource(key, settings, reader, originals)
    if isinstance(settings, source_kinds.ConfluenceMcp):
        from rag_assets.sources.confluence_mcp import ConfluenceMcpSource

        return ConfluenceMcpSource(key, settings)
    if isinstance(settings, source_kinds.Files):
        return _documents(key, settings, folder, DocumentReading(reader, originals, public_url))
    if isinstance(settings, source_kinds.SiteSource):
        from rag_assets.sources.sites.source import SiteFolder

        return SiteFolder(key, settings, DocumentReading(reader, originals, public_url))
    from rag_assets.sources.confluence.extras import ConfluenceExtras

    return ConfluenceExtras(key, settings, folder, reader=reader, originals=originals, only=only)


def _documents(key: str, settings: source_kinds.Files, folder: Path, reading: DocumentReading) -> Source:
    if settings.path is not None:
        from rag_assets.sources.documents.folder import DocumentFolder

        return DocumentFolder(key, settings, reading)
    from rag_assets.sources.documents.folder import InboxSource
    from rag_serving.documents.inbox import Inbox

    return InboxSource(key, settings, Inbox(key, settings, folder), reading)
