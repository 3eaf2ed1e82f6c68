"""How far CQL's dates are from UTC: the time zone of whoever asks, found by asking.

Belongs here: the offset at which a known page is found by its time, and dates as CQL writes them.
Does not belong here: which dates are asked for (`changes`).

A CQL date is read in the asking user's time zone, or the server's; answers tell UTC. What the profile says is only a
guess (it may be absent, and the server may not follow it), so every offset is tried on a page whose time is known.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault

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
    """Return the offset of CQL's dates from UTC, or None where it cannot be told; one request where the remembered one
    holds.

    Args:
        client: who asks.
        page_id: a page that search knows.
        modified: when that page was last changed.
        remembered: the offset found last time.

    Raises:
        Unreadable, Faulty: there is no search.
    """
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
    """Return whether the page is found in the quarter of an hour around its time."""
    after = cql_date(modified - timedelta(minutes=7), offset)
    before = cql_date(modified + timedelta(minutes=8), offset)
    return _finds(client, f'id = {page_id} and lastmodified >= "{after}" and lastmodified < "{before}"')


def _bisected(client: ConfluenceClient, page_id: str, modified: datetime) -> timedelta | None:
    """Return the largest offset at which the page counts as changed since its own time."""

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
    """The page may have changed since it was remembered."""
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
