"""The current contents of a space: every page with all but its body, its restrictions, its files and comments; and
the changes since the last sync, for a few requests however large the space is.

Labels and restrictions are paged themselves. A CQL date is read in the querying user's time zone, or the server's, and
nobody tells reliably which; responses have UTC. So changes are requested from so much earlier that all are found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal

from rag_assets.sources.base import Row, SourceError, digest
from rag_assets.sources.confluence.client import ConfluenceClient, Envelope, PageBatch, in_path, listed_by_v2
from rag_assets.sources.confluence.transport import AccessRefused, ServerFault
from rag_assets.sources.envelope import EnvelopeError, exclusion_of, foreign_space, page_id_of, space_keys, version_of
from rag_assets.steps.readers import Grants, RestrictionError, grants_of, missing_ancestors, restriction_readers
from rag_serving.access.principals import EVERYONE, NOBODY

DETAILS = (
    "version,space,ancestors,extensions.position,metadata.labels,"
    "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
)
CUT = "citelock:cut"
"""In an entry: why its labels or restrictions are not all of them."""
_LIMIT = 200


def complete(client: ConfluenceClient, entry: Envelope) -> Envelope:
    """Return the entry with all of its labels and restrictions; `CUT` in it lists incomplete ones."""
    return _with_all_restrictions(client, _with_all_labels(client, entry))


def ancestor_grants(client: ConfluenceClient, page_id: str) -> Grants | None:
    """Return the restrictions of an ancestor that was not listed (archived, a folder, a draft); None if unreadable."""
    try:
        return Grants((), restriction_readers({"read": all_restrictions(client, page_id)}))
    except RestrictionError as error:
        return Grants((), NOBODY, str(error))
    except (AccessRefused, ServerFault):
        pass
    try:
        entry = client.get(f"rest/api/content/{in_path(page_id)}", {"status": "any", "expand": DETAILS})
    except (AccessRefused, ServerFault):
        return None
    return grants_of(complete(client, entry))


def all_restrictions(client: ConfluenceClient, page_id: str) -> dict[str, Any]:
    """Return all read restrictions of a page: users and groups are paged together by one `start`. Raises Unreadable,
    Faulty: they cannot be had."""
    path = f"rest/api/content/{in_path(page_id)}/restriction/byOperation/read"
    whole: dict[str, Any] = {}
    start = 0
    while True:
        params = {"expand": "restrictions.user,restrictions.group", "start": start, "limit": _LIMIT}
        lists = client.get(path, params).get("restrictions")
        if not isinstance(lists, dict):
            raise AccessRefused(f"{path} answered without restrictions", 200)
        came = 0
        for kind, collection in lists.items():
            results = collection.get("results") if isinstance(collection, dict) else None
            if kind.startswith("_") or not isinstance(results, list):
                whole.setdefault(kind, collection)
                continue
            whole.setdefault(kind, {"results": []})["results"].extend(results)
            came = max(came, len(results))
        if not came or not any(_is_cut(collection) for collection in lists.values()):
            return {"restrictions": whole}
        start += came


def _with_all_labels(client: ConfluenceClient, entry: Envelope) -> Envelope:
    metadata = entry.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not _is_cut(labels):
        return entry
    try:
        results = list(client.collect(f"rest/api/content/{entry.get('id')}/label", {"limit": _LIMIT}))
    except (AccessRefused, ServerFault) as error:
        return {**entry, CUT: f"its labels cannot be read to their end: {error}"}
    return {**entry, "metadata": {**metadata, "labels": {"results": results}}}


def _with_all_restrictions(client: ConfluenceClient, entry: Envelope) -> Envelope:
    """Return an entry with all its restrictions; if the rest is unavailable, the partial list stays: too few readers,
    never too many."""
    restrictions = entry.get("restrictions")
    read = restrictions.get("read") if isinstance(restrictions, dict) else None
    lists = read.get("restrictions") if isinstance(read, dict) else None
    cut = isinstance(lists, dict) and any(_is_cut(lists.get(kind)) for kind in ("user", "group"))
    came_by_v2 = "ancestors" in entry and "restrictions" not in entry
    if not cut and not came_by_v2:
        return entry
    try:
        return {**entry, "restrictions": {"read": all_restrictions(client, str(entry.get("id")))}}
    except (AccessRefused, ServerFault) as error:
        return {**entry, CUT: f"its restrictions cannot be read to their end: {error}"} if cut else entry


def _is_cut(collection: object) -> bool:
    """Return whether a collection inside an entry may go on: it says so, or it is as long as its page."""
    if not isinstance(collection, dict):
        return False
    links, size, limit = collection.get("_links"), collection.get("size"), collection.get("limit")
    if isinstance(links, dict) and links.get("next"):
        return True
    return isinstance(size, int) and isinstance(limit, int) and 0 < limit <= size


LIST_LIMIT = 200
BARE_LIMIT = 1000
"""What Data Center gives at once with expansions, and without."""
LEAN = "version"
_MAX_TRASH = 20 * BARE_LIMIT
"""A trash can be larger than its space; what is not found among so many is asked for by its id."""


@dataclass(frozen=True)
class SpaceScope:
    """The wanted part of a space."""

    space: str
    types: tuple[str, ...] = ("page",)
    statuses: tuple[str, ...] = ("current",)

    @property
    def parts(self) -> tuple[str, ...]:
        """Return it as words, for comparison with the earlier scope."""
        return (*self.types, *self.statuses)

    @property
    def cql(self) -> str:
        """The scope in CQL, which covers current content alone."""
        return f'type in ({", ".join(self.types)}) and space = "{self.space}"'

    def excludes(self, entry: Envelope) -> str | None:
        """Return why an entry is excluded, or None; raises EnvelopeError. Whatever the request, a response may name
        another space: an index that lags behind a move, a proxy, a fault. An entry without a space is hidden until its
        body names one, without which no row is made."""
        return exclusion_of(entry, self.types, self.statuses) or foreign_space(space_keys(entry), self.space)

    def holds(self, entry: Envelope) -> bool:
        """Return whether an entry requested by its id is in the space and wanted."""
        return (
            self.space.casefold() in space_keys(entry)
            and entry.get("status") in self.statuses
            and entry.get("type") in self.types
        )


@dataclass
class SpaceListing:
    """The wanted pages of a space, by raw page id."""

    scope: SpaceScope
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


def list_space(client: ConfluenceClient, scope: SpaceScope, batch_size: int) -> SpaceListing:
    """Enumerate a space to its end. Raises SourceError: the enumeration failed, so missing pages prove nothing."""
    listing = SpaceListing(scope)
    for entry in detailed(client, list(_entries(client, scope, DETAILS)), batch_size):
        listing.add(complete(client, entry))
    _add_unlisted(client, listing, batch_size)
    listing.add_ancestors(client)
    return listing


def counted(client: ConfluenceClient, scope: SpaceScope) -> int | None:
    """Return the number of current pages in the search index; None if unknown. Raises AccessRefused, ServerFault:
    there is no search."""
    count = client.get("rest/api/search", {"cql": scope.cql, "limit": 1}, retries=1).get("totalSize")
    return count if isinstance(count, int) else None


def add_by_id(client: ConfluenceClient, listing: SpaceListing, ids: set[str], batch_size: int) -> dict[str, str]:
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


def _add_unlisted(client: ConfluenceClient, listing: SpaceListing, batch_size: int) -> None:
    """Add pages that search has and the enumeration left out.

    An enumeration ends with an empty page or without a link to the next, which does not show whether it ended too
    early. A known page is then requested before it counts as gone; a new one would not be missed. So the pages are
    counted by search, which costs one request, and listed by search only if it has more. Pages that search has and the
    site refuses are gone or hidden; without search, nothing can be verified.
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


def list_ids(client: ConfluenceClient, scope: SpaceScope) -> set[str]:
    """Return the ids that a space lists, and nothing else: a fifth of the requests that details take. Raises
    SourceError: as `list_space`."""
    return {str(entry.get("id")) for entry in _entries(client, scope, None)}


def detailed(client: ConfluenceClient, entries: list[Envelope], batch_size: int) -> Iterator[Envelope]:
    """Entries that came without details get theirs by id; one that stays bare is hidden later."""
    bare = [str(entry.get("id")) for entry in entries if not has_details(entry)]
    details: dict[str, Envelope] = {}
    for ids in batches(bare, batch_size):
        details.update(client.by_ids(ids, DETAILS).found)
    return (details.get(str(entry.get("id")), entry) for entry in entries)


def has_details(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry came with everything a row needs besides the body."""
    return "ancestors" in entry and "restrictions" in entry


def batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """Return ids in lists of at most `size`."""
    whole = list(ids)
    return (whole[start : start + size] for start in range(0, len(whole), size))


def still_there(client: ConfluenceClient, gone: list[str], scope: SpaceScope, batch_size: int) -> PageBatch:
    """Return the pages that an enumeration missed although they are in the space. An offset enumeration misses a page
    when an earlier one is deleted under it. Pages in the trash need no request."""
    trashed = _trashed(client, scope, set(gone))
    still = PageBatch()
    for ids in batches([page_id for page_id in gone if page_id not in trashed], batch_size):
        batch = client.by_ids(ids, DETAILS)
        still.found.update({page_id: entry for page_id, entry in batch.found.items() if scope.holds(entry)})
        still.faulty.update(batch.faulty)
    return still


def _trashed(client: ConfluenceClient, scope: SpaceScope, wanted: set[str]) -> set[str]:
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


def _entries(client: ConfluenceClient, scope: SpaceScope, expand: str | None) -> Iterator[Envelope]:
    """Yield the entries of every wanted type and status; without any, verify that the space exists."""
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
    """By v1, which gives details; if that is gone, by v2, which gives none."""
    params = {"spaceKey": space, "type": kind, "status": status, "limit": LIST_LIMIT if expand else BARE_LIMIT}
    try:
        yield from client.collect(
            "rest/api/content", {**params, **({"expand": expand} if expand else {})}, lean=LEAN if expand else None
        )
    except AccessRefused as error:
        if error.status != 410:
            raise
        yield from listed_by_v2(client, space, kind, status)


Kind = Literal["attachment", "comment"]
Hanging = dict[str, list[Envelope]]
"""Entries by the raw id of their page."""


def list_hanging(client: ConfluenceClient, space: str, kind: Kind) -> Hanging | None:
    """Return all files or comments in the search index; None if the site cannot list them this way. The index may lag
    behind: a later sync adds new ones, and missing ones must be requested from their page."""
    params = {
        "cql": f'type = {kind} and space = "{space}"',
        "expand": "version,container,extensions" if kind == "attachment" else "version,container",
        "limit": LIST_LIMIT,
    }
    children: Hanging = {}
    try:
        for entry in client.collect("rest/api/content/search", params):
            page_id = _page_of(entry)
            if page_id is None:
                return None
            children.setdefault(page_id, []).append(entry)
    except (AccessRefused, ServerFault):
        return None
    return children


def state_of(entries: Iterable[Envelope]) -> str:
    """Return a digest of ids and versions: another one where anything was added, edited or removed."""
    return digest(*sorted(f"{entry.get('id')}:{number_of(entry)}" for entry in entries))


NOTHING_HANGS = state_of(())


def _page_of(entry: Envelope) -> str | None:
    """Return the page of a file or a comment.

    On both kinds of site `container` is that page (`_expandable.container` names its address, and other clients rely on
    its id: sooperset/mcp-atlassian#796, Spenhouet/confluence-markdown-exporter#302). Cloud's reference calls it the
    content's space, as it is for pages: a space, recognizable by its key, is ignored here.
    """
    container = entry.get("container")
    page_id = container.get("id") if isinstance(container, dict) and "key" not in container else None
    return str(page_id) if page_id else None


def number_of(entry: Envelope) -> object:
    """Return the number of an entry's version; None if it has none."""
    version = entry.get("version")
    return version.get("number") if isinstance(version, dict) else None


_WEST = timedelta(hours=12)  # of the zone that is the farthest behind UTC


@dataclass
class SyncState:
    """The state of the last sync."""

    since: datetime  # by the site's clock
    grants: Mapping[str, Grants]  # by raw page id: what each page said of its own readers
    unsettled: set[str] = field(default_factory=set)  # pages that could not be read


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
        return SyncState(datetime.fromisoformat(state["began"]) - overlap, grants, set(state["unsettled"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def list_changes(
    client: ConfluenceClient, scope: SpaceScope, before: Mapping[str, Row], memory: SyncState, batch_size: int
) -> SpaceListing | None:
    """Return the pages of the last sync, updated by changes from CQL; None if the site has no CQL. Pages that came or
    went without a change of their own (restored, purged, hidden from this user) show in the count: then ids are listed,
    and that listing decides. Raises SourceError: the site fails, so nothing is known."""
    listing = _remembered(scope, before, memory)
    since = f"{memory.since.astimezone(UTC) - _WEST:%Y-%m-%d %H:%M}"
    try:
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
    """Return a listing whose entries report only that a page exists, in its known version."""
    kind = {"type": scope.types[0]}
    known = {
        one: {"id": one, **kind, "status": row["status"], "version": {"number": row["version"]}}
        for one, row in before.items()
    }
    return SpaceListing(scope, known, grants=dict(memory.grants))
