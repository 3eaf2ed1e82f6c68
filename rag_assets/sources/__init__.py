"""Sources of pages: one protocol, one file for each kind.

Belongs here: reading a space, dump, book or folder into rows of PAGES.
Does not belong here: the contents of a page (`rag_assets.steps`), or the time of reading (`rag_assets.assets`).
"""

from __future__ import annotations

from rag_assets.sources.base import Progress, Source, SourceError, SyncResult
from rag_assets.sources.registry import open_source

__all__ = ["Progress", "Source", "SourceError", "SyncResult", "open_source"]
