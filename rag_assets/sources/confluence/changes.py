"""The changes in a space since the last sync, for a few requests however large the space is.

A CQL date is read in the querying user's time zone, or the server's; responses have UTC. The profile's zone is only a
guess (it may be absent, and the server may not follow it), so every offset is tried on a page whose time is known.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rag_assets.sources.base import Row
from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.listing import (
    DETAILS,
    LEAN,
    LIST_LIMIT,
    SpaceListing,
    SpaceScope,
    add_by_id,
    complete,
    counted,
    detailed,
    list_ids,
)
from rag_assets.sources.confluence.transport import AccessRefused, ServerFault
from rag_assets.steps.readers import Grants
from rag_serving.access.principals import EVERYONE

_STEP = timedelta(minutes=15)  # zones differ by quarters of an hour
_WEST, _EAST = timedelta(hours=-12), timedelta(hours=14)
WIDEST = -_WEST
"""Asking for so much more finds everything, whatever the zone."""


def cql_date(moment: datetime, offset: timedelta) -> str:
    """Return a moment as a CQL literal, cut to the minute."""
    return (moment.astimezone(UTC) + offset).strftime("%Y-%m-%d %H:%M")


def zone_offset(
    client: ConfluenceClient, page_id: str, modified: datetime, remembered: timedelta | None
) -> timedelta | None:
    """Return the offset of CQL's dates from UTC, or None if unknown; one request if the remembered one is right.
    `modified`: the time of the last change of a page in the search index. Raises AccessRefused, ServerFault: there is
    no search."""
    guess = remembered if remembered is not None else _profile_offset(client, modified)
    for first in dict.fromkeys([guess if guess is not None else timedelta(0), timedelta(0)]):
        if _holds(client, page_id, modified, first):
            return first
    modified = _modified_now(client, page_id) or modified
    guesses = [guess, _profile_offset(client, modified), timedelta(0)]
    for again in dict.fromkeys(one for one in guesses if one is not None):
        if _holds(client, page_id, modified, again):
            return again
    return _bisected(client, page_id, modified)


def _holds(client: ConfluenceClient, page_id: str, modified: datetime, offset: timedelta) -> bool:
    after = cql_date(modified - timedelta(minutes=7), offset)
    before = cql_date(modified + timedelta(minutes=8), offset)
    return _finds(client, f'id = {page_id} and lastmodified >= "{after}" and lastmodified < "{before}"')


def _bisected(client: ConfluenceClient, page_id: str, modified: datetime) -> timedelta | None:

    def found(steps: int) -> bool:
        return _finds(client, f'id = {page_id} and lastmodified >= "{cql_date(modified, _WEST + steps * _STEP)}"')

    low, high = 0, (_EAST - _WEST) // _STEP + 1
    if not found(low) or found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if found(middle) else (low, middle)
    return _WEST + low * _STEP


def _finds(client: ConfluenceClient, cql: str) -> bool:
    answer = client.get("rest/api/content/search", {"cql": cql, "limit": 1})
    return bool(answer.get("results"))


def _modified_now(client: ConfluenceClient, page_id: str) -> datetime | None:
    try:
        version = client.get(f"rest/api/content/{page_id}", {"expand": "version"}).get("version")
        return datetime.fromisoformat(version["when"]) if isinstance(version, dict) else None
    except (AccessRefused, ServerFault, KeyError, TypeError, ValueError):
        return None


def _profile_offset(client: ConfluenceClient, moment: datetime) -> timedelta | None:
    try:
        name = client.current_user().get("timeZone")
        return moment.astimezone(ZoneInfo(name)).utcoffset() if isinstance(name, str) else None
    except (AccessRefused, ServerFault, ZoneInfoNotFoundError, ValueError):
        return None


@dataclass
class SyncState:
    """The state of the last sync."""

    since: datetime  # by the site's clock
    grants: Mapping[str, Grants]  # by raw page id: what each page said of its own readers
    unsettled: set[str] = field(default_factory=set)  # pages that could not be read
    offset: timedelta | None = None  # of CQL's dates


def dump_sync_state(
    memory: SyncState, listed_at: float, ancestors: Mapping[str, tuple[str, ...]], scope: Sequence[str]
) -> dict[str, Any]:
    """Return a memory, whose `since` is the start of this sync, as JSON; of pages with rows only what these do not
    contain. `listed_at`: of the last complete listing, in seconds since the epoch; `ancestors`: by raw page id, of the
    pages with rows."""
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
    """Return the memory of a result of `dump_sync_state`, or of anything; None if the space must be listed completely.
    `scope`: the one wanted now; `every_s`: for which a complete listing is valid; `overlap`: before the last sync,
    whose changes are requested again."""
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


def list_changes(
    client: ConfluenceClient, scope: SpaceScope, before: Mapping[str, Row], memory: SyncState, batch_size: int
) -> SpaceListing | None:
    """Return the pages of the last sync, updated by changes from CQL; None if the site has no CQL. Pages that came or
    went without a change of their own (restored, purged, hidden from this user) show in the count: then ids are listed,
    and that listing decides. Raises SourceError: the site fails, so nothing is known."""
    listing = _remembered(scope, before, memory)
    try:
        memory.offset = _offset(client, before, memory.offset)
        since = cql_date(memory.since, memory.offset) if memory.offset is not None else _earliest(memory.since)
        entries = list(
            client.collect(
                "rest/api/content/search",
                {"cql": f'{scope.cql} and lastmodified >= "{since}"', "expand": DETAILS, "limit": LIST_LIMIT},
                lean=LEAN,
            )
        )
        count = counted(client, scope)
    except (AccessRefused, ServerFault):
        return None
    for entry in detailed(client, entries, batch_size):
        listing.add(complete(client, entry))
    add_by_id(client, listing, memory.unsettled, batch_size)
    if count != listing.seen:
        ids = list_ids(client, listing.scope)
        for known in (listing.pages, listing.excluded, listing.failures):
            for page_id in known.keys() - ids:
                del known[page_id]
        new = ids - listing.pages.keys() - listing.excluded.keys() - listing.failures.keys()
        for page_id, reason in add_by_id(client, listing, new, batch_size).items():
            listing.failures.setdefault(page_id, reason)
    listing.add_ancestors(client)
    return listing


def list_noted(
    client: ConfluenceClient,
    scope: SpaceScope,
    before: Mapping[str, Row],
    memory: SyncState,
    noted: frozenset[str],
    batch_size: int,
) -> SpaceListing | None:
    """Return the pages of the last sync, with noted ones updated; None if a known one is no longer shown as a page of
    the space: only a complete listing can explain that. Pages below a moved one have new ancestors, too. A page that is
    neither known nor shown is left out. Raises SourceError: the site fails, so nothing is known."""
    listing = _remembered(scope, before, memory)
    add_by_id(client, listing, {*noted, *memory.unsettled}, batch_size)
    known = memory.grants.keys()
    moved = {
        one for one in noted & listing.read & known if listing.grants[one].ancestors != memory.grants[one].ancestors
    }
    below = {one for one in before if moved.intersection(memory.grants[one].ancestors or ())} if moved else set()
    add_by_id(client, listing, below - noted, batch_size)
    if (noted | below) & known - listing.read - listing.failures.keys():
        return None
    listing.add_ancestors(client)
    return listing


def _remembered(scope: SpaceScope, before: Mapping[str, Row], memory: SyncState) -> SpaceListing:
    listing = SpaceListing(scope, {page_id: _bare(page_id, row, scope) for page_id, row in before.items()})
    listing.grants.update(memory.grants)
    return listing


def _bare(page_id: str, row: Row, scope: SpaceScope) -> dict[str, object]:
    """Return an entry that reports only that a page exists, in its known version."""
    return {"id": page_id, "type": scope.types[0], "status": row["status"], "version": {"number": row["version"]}}


def _offset(client: ConfluenceClient, before: Mapping[str, Row], remembered: timedelta | None) -> timedelta | None:
    """Tried on the newest page: the older the page, the likelier that summer time has come or gone since."""
    dated = {page_id: row["updated_at"] for page_id, row in before.items() if row["updated_at"] is not None}
    if not dated:
        return None
    newest = max(dated, key=lambda page_id: (dated[page_id], page_id))
    return zone_offset(client, newest, dated[newest], remembered)


def _earliest(since: datetime) -> str:
    return cql_date(since - WIDEST, timedelta(0))
