"""The time of a source's last full sync: a signed file in its folder, which the server reads, too.

Belongs here: the file. Does not belong here: overdue sources (`config.freshness`), other files of a sync
(`rag_assets.state`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError

FILE = "last_sync.json"
_FIELD = "synced_at"


def write_sync_time(store: Store, source: str, moment: datetime) -> None:
    """Record when a source was last synced in full, or proved unchanged.

    Raises:
        SecretError: the installation's secret cannot be used.
    """
    write_signed(store, _path(store, source), {_FIELD: moment.isoformat()})


def read_sync_time(store: Store, source: str) -> datetime | None:
    """Return when a source was last synced; None if nobody knows, or the file is not one that was signed here."""
    try:
        moment = datetime.fromisoformat(str(read_signed(store, _path(store, source)).get(_FIELD)))
    except (StoreError, ValueError):
        return None
    return moment if moment.tzinfo else None


def _path(store: Store, source: str) -> Path:
    return store.source(source) / FILE
