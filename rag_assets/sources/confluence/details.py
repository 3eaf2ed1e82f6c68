"""What stands inside of a page's entry and is paged itself: its labels and its restrictions.

Belongs here: reading these to their end, for pages and for ancestors that no listing names.
Does not belong here: which pages there are (`listing`).
"""

from __future__ import annotations

from typing import Any

from rag_assets.sources.confluence.client import ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault
from rag_assets.steps.readers.readers import GrantError, Grants, grants_of, restriction_readers
from rag_serving.access.principals import NOBODY

DETAILS = (
    "version,space,ancestors,extensions.position,metadata.labels,"
    "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
)
CUT = "citelock:cut"
"""In an entry: why its labels or restrictions are not all of them."""
_LIMIT = 200


def complete(client: ConfluenceClient, entry: Envelope) -> Envelope:
    """Return the entry with all of its labels and restrictions; `CUT` in it says what could not be read to its end."""
    return _with_all_restrictions(client, _with_all_labels(client, entry))


def ancestor_grants(client: ConfluenceClient, page_id: str) -> Grants | None:
    """Return what an ancestor that was not listed (archived, a folder, a draft) says; None where it cannot be read."""
    try:
        return Grants((), restriction_readers({"read": all_restrictions(client, page_id)}))
    except GrantError as error:
        return Grants((), NOBODY, str(error))
    except (AccessRefused, ServerFault):
        pass
    try:
        entry = client.get(f"rest/api/content/{in_path(page_id)}", {"status": "any", "expand": DETAILS})
    except (AccessRefused, ServerFault):
        return None
    return grants_of(complete(client, entry))


def all_restrictions(client: ConfluenceClient, page_id: str) -> dict[str, Any]:
    """Return all read restrictions of a page: users and groups are paged together by one `start`.

    Raises:
        Unreadable, Faulty: they cannot be had.
    """
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
    """Return where the rest cannot be had, what came stays: fewer may read the page than should, never more."""
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
