"""What a sync remembers for the next one, as JSON beside the pages.

Belongs here: reading it back with forgiveness: what is not understood is not remembered, and the space is listed anew.
Does not belong here: the pages themselves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assets.steps.readers.readers import Grants
from rag_serving.access.principals import EVERYONE


@dataclass
class SyncState:
    """Of the last sync."""

    since: datetime  # by the site's clock
    grants: Mapping[str, Grants]  # by raw page id: what each page said of its own readers
    unsettled: set[str] = field(default_factory=set)  # pages that could not be read
    offset: timedelta | None = None  # of CQL's dates


def dump_sync_state(
    memory: SyncState, listed_at: float, ancestors: Mapping[str, tuple[str, ...]], scope: Sequence[str]
) -> dict[str, Any]:
    """Return a memory as JSON; of pages that have rows only what these do not tell.

    Args:
        memory: of this sync; `since` is when it began.
        listed_at: when the space was last listed completely, in seconds since the epoch.
        ancestors: by raw page id, of the pages that have rows.
        scope: what was listed.
    """
    unchanged = {page_id for page_id, one in memory.grants.items() if ancestors.get(page_id) == one.ancestors}
    return {
        "began": memory.since.isoformat(),
        "listed_at": listed_at,
        "scope": list(scope),
        "offset_minutes": None if memory.offset is None else memory.offset // timedelta(minutes=1),
        "unsettled": sorted(memory.unsettled),
        "restricted": {
            page_id: [one.own, one.fault]
            for page_id, one in memory.grants.items()
            if page_id in unchanged and (one.own, one.fault) != (EVERYONE, None)
        },
        "apart": {
            page_id: [list(one.ancestors) if one.ancestors is not None else None, one.own, one.fault]
            for page_id, one in memory.grants.items()
            if page_id not in unchanged
        },
    }


def load_sync_state(
    state: Mapping[str, Any],
    ancestors: Mapping[str, tuple[str, ...]],
    scope: Sequence[str],
    every_s: float,
    overlap: timedelta,
) -> SyncState | None:
    """Return what is remembered, or None where the space must be listed completely.

    Args:
        state: what `dump_sync_state` gave, or anything.
        ancestors: by raw page id, of the pages that have rows.
        scope: what is wanted now.
        every_s: seconds for which a complete listing serves.
        overlap: how far before the last sync changes are asked for again.
    """
    try:
        if not 0 <= time.time() - state["listed_at"] < every_s or state["scope"] != list(scope):
            return None
        restricted = state["restricted"]
        grants = {
            page_id: Grants(above, *restricted.get(page_id, (EVERYONE, None))) for page_id, above in ancestors.items()
        }
        for page_id, (above, own, fault) in state["apart"].items():
            grants[page_id] = Grants(tuple(above) if above is not None else None, own, fault)
        minutes = state["offset_minutes"]
        return SyncState(
            datetime.fromisoformat(state["began"]).astimezone(UTC) - overlap,
            grants,
            set(state["unsettled"]),
            timedelta(minutes=minutes) if minutes is not None else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
