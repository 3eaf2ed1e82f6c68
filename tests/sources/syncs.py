"""Syncs of a stand-in, one after the other, and what they gave."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Request
from support.constants import section_of

from rag_assets.sources import SyncResult
from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.extras import ConfluenceExtras
from rag_assets.sources.confluence.transport import AtlassianTransport
from rag_serving.config import sources as source_kinds


class Syncs:
    """Each sync gets what the last complete one left; waits are counted, not made."""

    def __init__(self, wiki: StandIn, folder: Path, **settings: Any) -> None:
        self.wiki = wiki
        self.folder = folder
        self.settings = settings
        self.waits: list[float] = []
        self.last: SyncResult | None = None

    def __call__(self, only: Collection[str] = (), **more: Any) -> SyncResult:
        settings = section_of(source_kinds.Confluence, **settings_of(self.wiki, **{**self.settings, **more}))
        transport = AtlassianTransport(settings.base_url, settings.auth, settings.timeout_s)
        client = ConfluenceClient(
            settings.base_url, transport, max_retries=5, archived="archived" in settings.also, sleep=self.waits.append
        )
        self.wiki.requests.clear()
        with client:
            source = ConfluenceExtras("eng", settings, self.folder, client, only=only)
            result = source.sync(self.last.pages if self.last else None, self.last.state if self.last else {})
        self.last = result
        assert json.loads(json.dumps(result.state)) == result.state
        return result


def settings_of(wiki: StandIn, **more: Any) -> dict[str, Any]:
    given = {"kind": "confluence", "tenant": "acme", "base_url": wiki.url, "space": "ENG", "readers": "everyone"}
    return {**given, "batch_size": 4, **more}


def column(result: SyncResult, name: str) -> dict[str, Any]:
    return dict(zip(result.pages["page_id"].to_pylist(), result.pages[name].to_pylist(), strict=True))


def ids(*numbers: int) -> set[str]:
    return {str(number) for number in numbers}


ALL = ids(*range(1, 13))
"""The pages of the stand-in that the tests begin with."""


def enumerates(request: Request) -> bool:
    return "spaceKey" in request.params


def third_batch(request: Request) -> bool:
    return request.params.get("cql", "").startswith("id in (9,")
