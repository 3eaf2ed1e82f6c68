"""Who may read what a sync shows anew, read until it can be believed: a wiki changes while it is read.

Belongs here: which readings are made again, and until when.
Does not belong here: what restrictions mean (`rag_assets.steps.readers.readers`), the first reading
(`listing`).

A page is decided by itself and by every page above it, and these are read one after the other. Where one is restricted
after it was read, and another opened before it is, what was read never held, and would show a text to people who could
read it at no moment. Two equal readings of a page held in between (unless it was changed and changed back); where the
times in between overlap for a whole lineage, all of it held at one moment (a double collect: Afek et al., "Atomic
Snapshots of Shared Memory", 1993).

That is asked for where it matters: of a text or readers that the sync before did not show. All else is at most as
widely shown as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.details import DETAILS, ancestor_grants, complete
from rag_assets.sources.confluence.listing import LIST_LIMIT, Listing, batches
from rag_assets.steps.readers.readers import EffectiveReaders, Grants, effective_readers, grants_of, lineage
from rag_serving.access.principals import NOBODY, intersect_readers

ROUNDS = 4
"""So often a lineage is read again; one that is another each time is shown to nobody until the next sync."""
UNSETTLED = "who may read it changed again and again while it was read; the next sync will tell"

_REMEMBERED, _LISTED, _FETCHED = -1, 0, 1  # the first rounds of readings


def settled_readers(
    client: ConfluenceClient,
    listing: Listing,
    space: str,
    shown: Iterable[str],
    before: Mapping[str, str],
    fetched: Mapping[str, bool],
) -> EffectiveReaders:
    """Return the reader class of every page of a listing.

    Args:
        client: who asks.
        listing: its grants are the first reading, and are brought up to date.
        space: reader class of the space.
        shown: the pages that are shown now.
        before: the reader classes of the last sync, of those whose text is the same.
        fetched: pages that were read a second time, with their body; whether that reading was like the first.
    """
    shown = list(shown)
    runs = {one: (_LISTED, _LISTED) if one in listing.read else (_REMEMBERED, _REMEMBERED) for one in listing.grants}
    runs |= {one: (_LISTED if same else _FETCHED, _FETCHED) for one, same in fetched.items()}
    for number in range(_FETCHED + 1, _FETCHED + 1 + ROUNDS):
        readers = effective_readers(listing.grants, space, unsaid=NOBODY, missing=NOBODY)
        torn = _torn(listing.grants, _wider(shown, readers, before), runs)
        if not torn:
            return readers
        again = set[str]().union(*torn.values())
        other = _read_again(client, listing, again)
        runs |= dict.fromkeys(listing.grants.keys() - runs.keys(), (number, number))  # ancestors that are named now
        runs |= {one: (number if one in other else runs[one][0], number) for one in again}
    readers = effective_readers(listing.grants, space, unsaid=NOBODY, missing=NOBODY)
    torn = _torn(listing.grants, _wider(shown, readers, before), runs)
    return EffectiveReaders(
        {**readers.readers, **dict.fromkeys(torn, NOBODY)},
        {**readers.hidden, **dict.fromkeys(torn, UNSETTLED)},
        readers.origins,
    )


def decided_as_before(
    client: ConfluenceClient, grants: Mapping[str, Grants], pages: Collection[str], page_ids: Iterable[str]
) -> set[str]:
    """Return those of the asked pages of which all that decides reads now as it did: it held when anything was read
    between.

    Args:
        client: who asks.
        grants: what was read.
        pages: which of them are pages of the space.
        asked: raw page ids.
    """
    above = {one: _known_lineage(one, grants) for one in page_ids}
    now = _read(client, grants, pages, set[str]().union(*above.values()))
    return {one for one, ids in above.items() if all(now.get(each) == grants[each] for each in ids)}


def _wider(shown: Iterable[str], readers: EffectiveReaders, before: Mapping[str, str]) -> Iterator[str]:
    """Yield the pages that are shown to people whom the last sync did not show their text."""
    for one in shown:
        now = readers.readers[one]
        if now != NOBODY and (one not in before or intersect_readers(before[one], now) != now):
            yield one


def _torn(
    grants: Mapping[str, Grants], pages: Iterable[str], runs: Mapping[str, tuple[int, int]]
) -> dict[str, list[str]]:
    """Return pages whose lineage need not have held at one moment, each with what must be read again."""
    torn: dict[str, list[str]] = {}
    for page_id in pages:
        above = _known_lineage(page_id, grants)
        changed = max(runs[one][0] for one in above)
        older = [one for one in above if runs[one][1] <= changed]
        if older and (len(above) > 1 or changed == _REMEMBERED):
            torn[page_id] = older
    return torn


def _known_lineage(page_id: str, grants: Mapping[str, Grants]) -> list[str]:
    return [one for one in lineage(page_id, grants) if one in grants]


def _read_again(client: ConfluenceClient, listing: Listing, ids: set[str]) -> set[str]:
    """Read grants anew; which of them are others, or cannot be read any more."""
    fresh = _read(client, listing.grants, listing.pages.keys(), ids)
    other = {one for one in ids if fresh.get(one) != listing.grants[one]}
    listing.grants.update(fresh)
    listing.add_ancestors(client)
    return other


def _read(
    client: ConfluenceClient, grants: Mapping[str, Grants], pages: Collection[str], ids: set[str]
) -> dict[str, Grants]:
    """Return the grants of pages and of others above them as they are now; what cannot be read again is left out."""
    fresh: dict[str, Grants] = {}
    for some in batches(sorted(one for one in ids if one in pages), LIST_LIMIT):
        envelopes = client.by_ids(some, DETAILS).found
        fresh.update({one: grants_of(complete(client, entry)) for one, entry in envelopes.items()})
    for one in sorted(one for one in ids if one not in pages):
        if (now := ancestor_grants(client, one)) is not None:
            fresh[one] = Grants(grants[one].ancestors, now.own, now.fault)
    return fresh
