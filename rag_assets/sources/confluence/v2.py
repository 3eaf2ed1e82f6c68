"""Cloud's REST v2, for sites that answer 410 where v1 had content: its entries in the shape of v1.

Belongs here: listing a space and reading one page by v2.
Does not belong here: CQL and restrictions, which v2 does not have and v1 keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from rag_assets.sources.confluence.responses import AccessRefused

_LIMIT = 250
_PATHS = {"page": "pages", "blogpost": "blogposts"}


class Client(Protocol):
    """What sends the requests: `ConfluenceClient`."""

    space_keys: dict[str, object]  # by the number that v2 gives a space

    def get(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]: ...

    def collect(self, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]: ...


def listed(client: Client, space: str, kind: str, status: str) -> Iterator[dict[str, Any]]:
    """Entries of a space without ancestors and restrictions.

    Raises:
        AccessRefused: there is no such space for this user.
    """
    spaces = client.get("api/v2/spaces", {"keys": space, "limit": 1}).get("results")
    if not isinstance(spaces, list) or not spaces or not isinstance(spaces[0], dict):
        raise AccessRefused(f"api/v2/spaces knows no space {space}", 404)
    number = str(spaces[0].get("id"))
    client.space_keys.setdefault(number, space)
    path = f"api/v2/spaces/{number}/{_PATHS[kind]}"
    for entry in client.collect(path, {"status": status, "limit": _LIMIT}):
        yield _as_v1(entry, kind, _space_key(client, str(entry.get("spaceId", number))))


def read(client: Client, page_id: str) -> dict[str, Any]:
    """Return one page with body, labels and ancestors. Its restrictions are v1's and are added by who needs them.

    Raises:
        AccessRefused, ServerFault: it cannot be had.
    """
    try:
        kind, entry = "page", client.get(f"api/v2/pages/{page_id}", {"body-format": "storage"})
    except AccessRefused as error:
        if error.status != 404:
            raise
        kind, entry = "blogpost", client.get(f"api/v2/blogposts/{page_id}", {"body-format": "storage"})
    path = f"api/v2/{_PATHS[kind]}/{page_id}"
    space = _space_key(client, str(entry.get("spaceId")))
    above = list(client.collect(f"{path}/ancestors", {"limit": _LIMIT})) if kind == "page" else []
    labels = list(client.collect(f"{path}/labels", {"limit": _LIMIT}))
    shaped = _as_v1(entry, kind, space)
    return {**shaped, "body": entry.get("body"), "ancestors": above, "metadata": {"labels": {"results": labels}}}


def _space_key(client: Client, number: str) -> object:
    """All pages of a source are of one space, so it is asked for once."""
    if number not in client.space_keys:
        client.space_keys[number] = client.get(f"api/v2/spaces/{number}", {}).get("key")
    return client.space_keys[number]


def _as_v1(entry: dict[str, Any], kind: str, space: object) -> dict[str, Any]:
    version = entry.get("version")
    details = version if isinstance(version, dict) else {}
    return {
        **{name: entry.get(name) for name in ("id", "status", "title", "_links")},
        "type": kind,
        "space": {"key": space},
        "version": {"number": details.get("number"), "when": details.get("createdAt")},
        "extensions": {"position": entry.get("position")},
    }
