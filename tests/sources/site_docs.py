"""A folder of documentation that is synced again and again; each sync gets what the last one left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag_assets.sources.base import SyncResult
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.sites.source import SiteFolder
from rag_serving.config.sources import DocsFolder


class Docs:
    """The folder and what its last sync gave."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "docs"
        self.path.mkdir()
        self.last: SyncResult | None = None
        self.last_failures: tuple[tuple[str, str], ...] = ()
        self.reading = DocumentReading(originals=folder / "originals")

    def write(self, name: str, content: bytes | str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def source(self, **settings: Any) -> SiteFolder:
        given = {"kind": "docs_folder", "tenant": "acme", "path": self.path, "readers": "everyone", **settings}
        return SiteFolder("docs", DocsFolder(**given), self.reading)

    def sync(self, **settings: Any) -> SyncResult:
        last = self.last
        self.last_failures = last.failures if last else ()
        self.last = result = self.source(**settings).sync(last.pages if last else None, last.state if last else {})
        assert json.loads(json.dumps(result.state)) == result.state
        assert result.unaccounted == 0
        return result

    def rows(self) -> dict[str, dict[str, Any]]:
        assert self.last is not None
        return {row["source_file"]: row for row in self.last.pages.to_pylist()}

    def reasons(self) -> dict[str, str]:
        assert self.last is not None
        reasons = (why.partition(": ") for _, why in (*self.last.excluded, *self.last.failures))
        return {name: why for name, _, why in reasons}
