"""What a space lists now: every page with all but its body, and what each says of its readers.

Belongs here: the complete enumeration of a space and everything that is read anew in it. Versions do not tell of moves,
labels or restrictions, so those come from here and not from the last sync.
Does not belong here: bodies (`confluence`), asking only for what changed (`changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence import v2
from rag_assets.sources.confluence.client import Batch, ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence.details import CUT, DETAILS, ancestor_grants, complete
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault
from rag_assets.sources.envelope import (
    EnvelopeError,
    exclusion_of,
    foreign_space,
    page_id_of,
    space_keys,
    version_of,
)
from rag_assets.steps.readers.readers import Grants, grants_of, missing_ancestors

LIST_LIMIT = 200
BARE_LIMIT = 1000
"""What Data Center gives at once with expansions, and without."""

LEAN = "version"
_MAX_TRASH = 20 * BARE_LIMIT
"""A trash can be larger than its space; what is not found among so many is asked for by its id."""


@dataclass(frozen=True)
class Scope:
    """What of a space is wanted."""

    space: str
    types: tuple[str, ...] = ("page",)
    statuses: tuple[str, ...] = ("current",)

    @property
    def parts(self) -> tuple[str, ...]:
        """As words, to be compared with what was wanted before."""
        return (*self.types, *self.statuses)

    @property
    def cql(self) -> str:
        """What CQL finds of it: it knows nothing but current content."""
        return f'type in ({", ".join(self.types)}) and space = "{self.space}"'

    def excludes(self, entry: Envelope) -> str | None:
        """Return why an entry is not wanted, or None; raises EnvelopeError.

        Whatever was asked, what the site answers may name another space: an index that lags behind a move, a proxy, a
        fault. An entry that names none is hidden until its body names one, without which no row is made.
        """
        return exclusion_of(entry, self.types, self.statuses) or foreign_space(space_keys(entry), self.space)

    def holds(self, entry: Envelope) -> bool:
        """Return whether an entry that came by its id stands in the space, and is wanted."""
        return (
            self.space.casefold() in space_keys(entry)
            and entry.get("status") in self.statuses
            and entry.get("type") in self.types
        )


@dataclass
class Listing:
    """The wanted pages of a space, by raw page id."""

    scope: Scope
    pages: dict[str, Envelope] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)  # of the pages and of ancestors that are not among them
    excluded: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  # whose grants were read now, and not remembered

    @property
    def seen(self) -> int:
        return len(self.pages.keys() | self.excluded.keys() | self.failures.keys())

    def add(self, entry: Envelope) -> None:
        """Take one entry; one that cannot be read is recorded."""
        try:
            page_id, _, excluded = page_id_of(entry), version_of(entry), self.scope.excludes(entry)
        except EnvelopeError as error:
            self.failures[str(entry.get("id"))] = f"its entry in the listing cannot be read: {error}"
            return
        self.grants[page_id] = grants_of(entry)
        self.read.add(page_id)
        if excluded is None:
            self.pages[page_id] = entry
            if CUT in entry:
                self.failures[page_id] = entry[CUT]
        else:
            self.excluded[page_id] = excluded

    def add_ancestors(self, client: ConfluenceClient) -> None:
        """Ask for the ancestors that pages name and that are not among them."""
        for page_id in missing_ancestors(self.grants):
            if (grants := ancestor_grants(client, page_id)) is not None:
                self.grants[page_id] = grants


def list_space(client: ConfluenceClient, scope: Scope, batch_size: int) -> Listing:
    """Enumerate a space to its end.

    Raises:
        SourceError: the enumeration did not end well, so nothing follows from what it does not list.
    """
    listing = Listing(scope)
    for entry in detailed(client, list(_entries(client, scope, DETAILS)), batch_size):
        listing.add(complete(client, entry))
    _add_unlisted(client, listing, batch_size)
    listing.add_ancestors(client)
    return listing


def counted(client: ConfluenceClient, scope: Scope) -> int | None:
    """Return how many current pages search knows of; None where it does not tell.

    Raises:
        Unreadable, Faulty: there is no search.
    """
    count = client.get("rest/api/search", {"cql": scope.cql, "limit": 1}, retries=1).get("totalSize")
    return count if isinstance(count, int) else None


def add_by_id(client: ConfluenceClient, listing: Listing, ids: set[str], batch_size: int) -> dict[str, str]:
    """Take pages that no list named; the reasons of those that the site refuses, which may be gone, come back."""
    refused: dict[str, str] = {}
    for some in batches(sorted(ids), batch_size):
        batch = client.by_ids(some, DETAILS)
        for entry in batch.found.values():
            if listing.scope.holds(entry):
                listing.add(complete(client, entry))
        listing.failures.update(batch.faulty)
        refused.update(batch.refused)
    return refused


def _add_unlisted(client: ConfluenceClient, listing: Listing, batch_size: int) -> None:
    """Take in what search knows and the enumeration left out.

    An enumeration ends with an empty page or without a link to the next, and nothing in it tells whether it ended too
    early. A page that is known is then asked for before it counts as gone; one that is new would not be missed. So the
    pages are counted by search, which costs one request, and listed by search only where it knows of more. What search
    knows and the site refuses is gone or hidden; where there is no search, nothing can tell.
    """
    scope = listing.scope
    try:
        count = counted(client, scope)
        current = sum(entry.get("status") == "current" for entry in listing.pages.values())
        if count is None or count <= current + len(listing.failures.keys() - listing.pages.keys()):
            return
        entries = client.collect("rest/api/content/search", {"cql": scope.cql, "limit": BARE_LIMIT})
        known = listing.pages.keys() | listing.excluded.keys() | listing.failures.keys()
        ids = {str(entry.get("id")) for entry in entries} - known
    except (AccessRefused, ServerFault):
        return
    add_by_id(client, listing, ids, batch_size)


def list_ids(client: ConfluenceClient, scope: Scope) -> set[str]:
    """Return the ids that a space lists, and nothing else: a fifth of the requests that details take.

    Raises:
        SourceError: as `list_space`.
    """
    return {str(entry.get("id")) for entry in _entries(client, scope, None)}


def detailed(client: ConfluenceClient, entries: list[Envelope], batch_size: int) -> Iterator[Envelope]:
    """Entries that came without details get theirs by id; one that stays bare is hidden later."""
    bare = [str(entry.get("id")) for entry in entries if not has_details(entry)]
    details: dict[str, Envelope] = {}
    for ids in batches(bare, batch_size):
        details.update(client.by_ids(ids, DETAILS).found)
    return (details.get(str(entry.get("id")), entry) for entry in entries)


def has_details(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry came with what a row needs besides the body."""
    return "ancestors" in entry and "restrictions" in entry


def batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """Return ids in lists of at most `size`."""
    whole = list(ids)
    return (whole[start : start + size] for start in range(0, len(whole), size))


def still_there(client: ConfluenceClient, gone: list[str], scope: Scope, batch_size: int) -> Batch:
    """Return of pages that an enumeration did not list, those that are in the space all the same.

    An offset enumeration misses a page when an earlier one is deleted under it. What lies in the trash needs no asking.
    """
    trashed = _trashed(client, scope, set(gone))
    still = Batch()
    for ids in batches([page_id for page_id in gone if page_id not in trashed], batch_size):
        batch = client.by_ids(ids, DETAILS)
        still.found.update({page_id: entry for page_id, entry in batch.found.items() if scope.holds(entry)})
        still.faulty.update(batch.faulty)
    return still


def _trashed(client: ConfluenceClient, scope: Scope, wanted: set[str]) -> set[str]:
    """Return which of the wanted pages lie in the trash; not every user may look there."""
    trashed: set[str] = set()
    for kind in scope.types:
        params = {"spaceKey": scope.space, "type": kind, "status": "trashed", "limit": BARE_LIMIT}
        try:
            for entry in islice(client.collect("rest/api/content", params), _MAX_TRASH):
                trashed |= {str(entry.get("id"))} & wanted
                if trashed == wanted:
                    return trashed
        except (AccessRefused, ServerFault):
            continue
    return trashed


def _entries(client: ConfluenceClient, scope: Scope, expand: str | None) -> Iterator[Envelope]:
    """Yield the entries of every wanted type and status; of a space without any it is asked whether it exists."""
    any_came = False
    try:
        for kind in scope.types:
            for status in scope.statuses:
                for entry in _of_one_kind(client, scope.space, kind, status, expand):
                    any_came = True
                    yield entry
        if not any_came:
            client.get(f"rest/api/space/{in_path(scope.space)}", {})
    except AccessRefused as error:
        raise SourceError(
            f"space {scope.space!r} cannot be listed: {error}; check the key and the user's rights"
        ) from None


def _of_one_kind(
    client: ConfluenceClient, space: str, kind: str, status: str, expand: str | None
) -> Iterator[Envelope]:
    """By v1, which gives details; where that is gone, by v2, which gives none."""
    params = {"spaceKey": space, "type": kind, "status": status, "limit": LIST_LIMIT if expand else BARE_LIMIT}
    try:
        yield from client.collect(
            "rest/api/content", {**params, **({"expand": expand} if expand else {})}, lean=LEAN if expand else None
        )
    except AccessRefused as error:
        if error.status != 410:
            raise
        yield from v2.listed(client, space, kind, status)
