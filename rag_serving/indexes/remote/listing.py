"""The generations that the database of `index` has of a tenant, whichever database it is.

Belongs here: one shape for all of them. Does not belong here: asking (`indexes.postgres.publisher`,
`remote.aliases`), folders (`indexes.catalog`), printing.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rag_serving.config.loading import Config
from rag_serving.indexes.remote.pointers import ALIASED, open_pointer


@dataclass(frozen=True)
class StoredInfo:
    """One generation in a database."""

    id: str
    chunks: int
    created_at: datetime
    published_at: datetime
    current: bool

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape of one line of the list."""
        moments = {"created_at": self.created_at.isoformat(), "published_at": self.published_at.isoformat()}
        return {**vars(self), **moments}


def list_stored(config: Config, tenant: str) -> list[StoredInfo] | None:
    """Return what the database has of a tenant, newest publication first; None where this machine cannot ask for all.

    Raises:
        ConfigError, RemoteError: it cannot be asked, and why.
    """
    if config.index.kind in ALIASED:
        return _under_alias(config, tenant)
    if not config.index.writer_url:
        return None
    from rag_serving.indexes.postgres.publisher import Publisher

    return [
        StoredInfo(info.id, info.chunks, info.created_at, info.published_at, info.current)
        for info in Publisher(config, tenant).listed()
    ]


def _under_alias(config: Config, tenant: str) -> list[StoredInfo]:
    with closing(open_pointer(config, tenant, "api_key_env")) as pointer:
        current = pointer.current()
        return [
            StoredInfo(each.id, each.chunks, each.created_at, each.published_at or each.created_at, each.id == current)
            for each in pointer.listed()
        ]
