"""From a source's settings to the source.

Belongs here: which class reads which kind.
Does not belong here: any reading.
"""

from __future__ import annotations

from pathlib import Path

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import Source
from rag_serving.config import sources as source_kinds


def open_source(key: str, settings: source_kinds.Source, folder: Path, reader: LimitedReader | None = None) -> Source:
    """Return the source of a key; nothing is read yet.

    Args:
        key: the source's name in the configuration.
        settings: what the configuration says of it.
        folder: where the source may keep files of a sync under way (`Store.source(key)`).
        reader: what reads attached files; None: within the default limits.
    """
    if isinstance(settings, source_kinds.ConfluenceDump):
        from rag_assets.sources.confluence_dump.source import ConfluenceDump

        return ConfluenceDump(key, settings, reader)
    if isinstance(settings, source_kinds.ConfluenceExport):
        from rag_assets.sources.confluence_export.source import ConfluenceExport

        return ConfluenceExport(key, settings, reader)
    if isinstance(settings, source_kinds.ConfluenceMcp):
        from rag_assets.sources.confluence_mcp.source import ConfluenceMcp

        return ConfluenceMcp(key, settings)
    from rag_assets.sources.confluence.extras import ConfluenceExtras

    return ConfluenceExtras(key, settings, folder, reader=reader)
