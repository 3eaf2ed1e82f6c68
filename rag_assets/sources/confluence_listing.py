"""What a space lists now: every current page with all but its body, and what each says of its readers.

Belongs here: the enumeration of a space and everything that is read anew in each sync. Versions do not tell of moves,
labels or restrictions, so those come from here and not from the last sync.
Does not belong here: bodies, and what changed since the last sync (`confluence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_assets.sources.base import SourceError
from rag_assets.sources.confluence_client import Batch, ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence_replies import Faulty, Unreadable
from rag_assets.sources.envelope import EnvelopeError, exclusion_of, page_id_of, version_of
from rag_assets.steps.readers import GrantError, Grants, grants_of, missing_ancestors, restriction_readers
from rag_serving.access import NOBODY

LIST_LIMIT = 200
DETAILS = (
    "version,space,ancestors,metadata.labels,restrictions.read.restrictions.user,restrictions.read.restrictions.group"
)
_LEAN = "version"


@dataclass
class Listing:
    """The current pages of a space, by raw page id."""

    pages: dict[str, Envelope] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)  # of the pages and of ancestors that are not among them
    excluded: dict[str, str] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        return len(self.pages) + len(self.excluded) + len(self.failures)

    def add(self, entry: Envelope) -> None:
        """Take one entry; one that cannot be read is recorded."""
        try:
            page_id, _, excluded = page_id_of(entry), version_of(entry), exclusion_of(entry)
        except EnvelopeError as error:
            self.failures.append((str(entry.get("id")), f"its entry in the enumeration cannot be read: {error}"))
            return
        self.grants[page_id] = grants_of(entry)
        if excluded is None:
            self.pages[page_id] = entry
        else:
            self.excluded[page_id] = excluded


def list_space(client: ConfluenceClient, space: str, batch_size: int) -> Listing:
    """Enumerate a space to its end.

    Raises:
        SourceError: the enumeration did not end well, so nothing follows from what it does not list.
    """
    params = {"spaceKey": space, "type": "page", "status": "current", "limit": LIST_LIMIT, "expand": DETAILS}
    listing = Listing()
    try:
        entries = list(client.collect("rest/api/content", params, lean=_LEAN))
        if not entries:
            client.get(f"rest/api/space/{in_path(space)}", {})
    except Unreadable as error:
        raise SourceError(f"space {space!r} cannot be listed: {error}; check the key and the user's rights") from None
    for entry in _detailed(client, entries, batch_size):
        listing.add(complete(client, entry))
    for page_id in missing_ancestors(listing.grants):
        if (grants := _ancestor_grants(client, page_id)) is not None:
            listing.grants[page_id] = grants
    return listing


def has_details(entry: Mapping[str, Any]) -> bool:
    """Whether an entry came with what a row needs besides the body."""
    return "ancestors" in entry and "restrictions" in entry


def complete(client: ConfluenceClient, entry: Envelope) -> Envelope:
    """The entry with all of its labels and restrictions: these collections are paged inside of it."""
    return _with_all_restrictions(client, _with_all_labels(client, entry))


def _detailed(client: ConfluenceClient, entries: list[Envelope], batch_size: int) -> Iterator[Envelope]:
    """Entries of a page of results that failed with details get theirs by id; one that stays bare is hidden later."""
    bare = [str(entry.get("id")) for entry in entries if not has_details(entry)]
    details: dict[str, Envelope] = {}
    for ids in batches(bare, batch_size):
        details.update(client.by_ids(ids, DETAILS).found)
    return (details.get(str(entry.get("id")), entry) for entry in entries)


def batches(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """Ids in lists of at most `size`."""
    whole = list(ids)
    return (whole[start : start + size] for start in range(0, len(whole), size))


def still_there(client: ConfluenceClient, ids: list[str], space: str, batch_size: int) -> Batch:
    """Of pages that an enumeration did not list, those that are current in the space all the same.

    An offset enumeration misses a page when an earlier one is deleted under it.
    """
    still = Batch()
    for some in batches(ids, batch_size):
        batch = client.by_ids(some, DETAILS)
        still.found.update({page_id: entry for page_id, entry in batch.found.items() if _is_in(entry, space)})
        still.faulty.update(batch.faulty)
    return still


def _is_in(entry: Envelope, space: str) -> bool:
    where = entry.get("space")
    return entry.get("status") == "current" and isinstance(where, dict) and where.get("key") == space


def _ancestor_grants(client: ConfluenceClient, page_id: str) -> Grants | None:
    """What an ancestor that was not enumerated (archived, a folder, a draft) says; None where it cannot be read."""
    try:
        return Grants((), restriction_readers({"read": _all_restrictions(client, page_id)}))
    except GrantError as error:
        return Grants((), NOBODY, str(error))
    except (Unreadable, Faulty):
        pass
    try:
        entry = client.get(f"rest/api/content/{in_path(page_id)}", {"status": "any", "expand": DETAILS})
    except (Unreadable, Faulty):
        return None
    return grants_of(complete(client, entry))


def _with_all_labels(client: ConfluenceClient, entry: Envelope) -> Envelope:
    metadata = entry.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not _is_cut(labels):
        return entry
    try:
        results = list(client.collect(f"rest/api/content/{entry.get('id')}/label", {"limit": LIST_LIMIT}))
    except (Unreadable, Faulty):
        return entry
    return {**entry, "metadata": {**metadata, "labels": {"results": results}}}


def _with_all_restrictions(client: ConfluenceClient, entry: Envelope) -> Envelope:
    """Where the rest cannot be had, what came stays: fewer may read the page than should, never more."""
    restrictions = entry.get("restrictions")
    read = restrictions.get("read") if isinstance(restrictions, dict) else None
    lists = read.get("restrictions") if isinstance(read, dict) else None
    if not isinstance(lists, dict) or not any(_is_cut(lists.get(kind)) for kind in ("user", "group")):
        return entry
    try:
        return {**entry, "restrictions": {"read": _all_restrictions(client, str(entry.get("id")))}}
    except (Unreadable, Faulty):
        return entry


def _all_restrictions(client: ConfluenceClient, page_id: str) -> dict[str, Any]:
    """All read restrictions of a page: users and groups are paged together by one `start`."""
    path = f"rest/api/content/{in_path(page_id)}/restriction/byOperation/read"
    whole: dict[str, Any] = {}
    start = 0
    while True:
        params = {"expand": "restrictions.user,restrictions.group", "start": start, "limit": LIST_LIMIT}
        lists = client.get(path, params).get("restrictions")
        if not isinstance(lists, dict):
            raise Unreadable(f"{path} answered without restrictions", 200)
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


def _is_cut(collection: object) -> bool:
    """Whether a collection inside an entry may go on: it says so, or it is as long as its page."""
    if not isinstance(collection, dict):
        return False
    links, size, limit = collection.get("_links"), collection.get("size"), collection.get("limit")
    if isinstance(links, dict) and links.get("next"):
        return True
    return isinstance(size, int) and isinstance(limit, int) and 0 < limit <= size
