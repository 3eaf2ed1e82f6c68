"""What changed in a space since the last sync, for a few requests however large the space is.

Belongs here: asking by CQL for what was edited or made, counting, and listing ids where the count does not come out.
Does not belong here: the complete listing, which alone tells of moves, labels and restrictions (`listing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from rag_assets.sources.base import Row
from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.cql_timezone import WIDEST, cql_date, zone_offset
from rag_assets.sources.confluence.details import DETAILS, complete
from rag_assets.sources.confluence.listing import (
    LEAN,
    LIST_LIMIT,
    Listing,
    Scope,
    add_by_id,
    counted,
    detailed,
    list_ids,
)
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault
from rag_assets.sources.confluence.sync_state import SyncState


def list_changes(
    client: ConfluenceClient, scope: Scope, before: Mapping[str, Row], memory: SyncState, batch_size: int
) -> Listing | None:
    """Return the pages of the last sync, renewed where CQL tells of a change; None where the site has no CQL.

    Pages that came or went without a change of their own (restored, purged, hidden from this user) show in the count:
    then ids are listed, and that listing decides.

    Raises:
        SourceError: the site fails, so nothing is known.
    """
    listing = Listing(scope, {page_id: _bare(page_id, row, scope) for page_id, row in before.items()})
    listing.grants.update(memory.grants)
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
        _list_ids(client, listing, batch_size)
    listing.add_ancestors(client)
    return listing


def _list_ids(client: ConfluenceClient, listing: Listing, batch_size: int) -> None:
    """Bring the listing in line with the ids that the space lists now."""
    ids = list_ids(client, listing.scope)
    for known in (listing.pages, listing.excluded, listing.failures):
        for page_id in known.keys() - ids:
            del known[page_id]
    new = ids - listing.pages.keys() - listing.excluded.keys() - listing.failures.keys()
    for page_id, reason in add_by_id(client, listing, new, batch_size).items():
        listing.failures.setdefault(page_id, reason)


def _bare(page_id: str, row: Row, scope: Scope) -> dict[str, object]:
    """Return an entry that says of a page only that it is there, in the version that is known."""
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
