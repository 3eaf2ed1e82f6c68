"""The content of a stand-in Confluence: pages that tests load, edit, restrict and delete.

Belongs here: what a site holds and how REST v1 shows it: expansions, nested collections, CQL.
Does not belong here: HTTP, sign-in and faults (`stand_in_confluence`).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Envelope = dict[str, Any]

_EXPANDABLE = ("version", "space", "ancestors", "metadata", "restrictions", "body", "history", "children")


def page(page_id: str | int, title: str = "", **fields: Any) -> Envelope:
    """A small page; `users` and `groups` restrict it, `parents` are its ancestors' ids, root first."""
    users, groups = fields.pop("users", ()), fields.pop("groups", ())
    parents, space, labels = fields.pop("parents", ()), fields.pop("space", "ENG"), fields.pop("labels", ())
    body = fields.pop("body", f"<p>Text of page {page_id}.</p>")
    return {
        "id": str(page_id),
        "type": "page",
        "status": "current",
        "title": title or f"Page {page_id}",
        "space": {"key": space, "name": space.title()},
        "version": {"number": 1, "when": "2026-03-01T10:00:00.000Z"},
        "ancestors": [{"id": str(parent), "type": "page", "title": f"Page {parent}"} for parent in parents],
        "metadata": {"labels": {"results": [{"prefix": "global", "name": name} for name in labels]}},
        "restrictions": restrictions(users, groups),
        "body": {"storage": {"value": body, "representation": "storage"}},
        "_links": {"webui": f"/display/{space}/{page_id}", "base": "https://wiki.example"},
        **fields,
    }


def restrictions(users: Iterable[str] = (), groups: Iterable[str] = ()) -> Envelope:
    """A `restrictions` block as REST returns it."""
    named = [{"type": "known", "username": user, "accountId": f"id-{user}"} for user in users]
    lists = {
        "user": {"results": named},
        "group": {"results": [{"type": "group", "name": group} for group in groups]},
    }
    return {"read": {"operation": "read", "restrictions": lists}}


class Site:
    """Pages by id, and who may do what with them."""

    def __init__(self) -> None:
        self.pages: dict[str, Envelope] = {}
        self.forbidden: set[str] = set()  # not for the user who asks: not listed, and 404 or 403 by id
        self.permissions: dict[str, list[Envelope]] = {}  # by space key, as `expand=permissions` gives them
        self.nested_cap = 200
        self.zone = timezone(timedelta(hours=0))  # of the asking user, which CQL dates are read in

    def load(self, folder: Path) -> Site:
        """Add every envelope of a folder."""
        for file in sorted(folder.glob("*.json")):
            self.put(json.loads(file.read_text(encoding="utf-8")))
        return self

    def put(self, *envelopes: Envelope) -> Site:
        for envelope in envelopes:
            stored = copy.deepcopy(envelope)
            stored.setdefault("restrictions", restrictions())
            self.pages[str(stored["id"])] = stored
        return self

    def edit(self, page_id: str, body: str | None = None, title: str | None = None) -> None:
        """A new version."""
        stored = self.pages[page_id]
        stored["version"] = {"number": stored["version"]["number"] + 1, "when": datetime.now(UTC).isoformat()}
        stored["title"] = title or stored["title"]
        stored["body"]["storage"]["value"] = body if body is not None else stored["body"]["storage"]["value"]

    def delete(self, *page_ids: str) -> None:
        """To the trash."""
        for page_id in page_ids:
            self.pages[page_id]["status"] = "trashed"

    def archive(self, page_id: str) -> None:
        self.pages[page_id]["status"] = "archived"

    def restrict(self, page_id: str, users: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Restrictions do not make a version."""
        self.pages[page_id]["restrictions"] = restrictions(users, groups)

    def label(self, page_id: str, *names: str) -> None:
        """Labels do not make a version."""
        self.pages[page_id]["metadata"] = {"labels": {"results": [{"prefix": "global", "name": n} for n in names]}}

    def move(self, page_id: str, *parents: str) -> None:
        """Moves do not make a version."""
        self.pages[page_id]["ancestors"] = page(page_id, parents=parents)["ancestors"]

    def listed(self, space: str, status: str) -> list[Envelope]:
        """The pages of a space in the order of their ids."""
        return [
            one
            for _, one in sorted(self.pages.items(), key=lambda item: int(item[0]))
            if one["space"]["key"] == space and one["status"] == status and str(one["id"]) not in self.forbidden
        ]

    def search(self, cql: str) -> list[Envelope]:
        """Pages by CQL: clauses of id, space, type and lastmodified, joined by AND."""
        found = [one for one in self.pages.values() if one["status"] == "current" and one["id"] not in self.forbidden]
        for clause in re.split(r"\s+and\s+", cql.partition(" order by ")[0], flags=re.IGNORECASE):
            found = [one for one in found if self._matches(one, clause.strip())]
        return found

    def _matches(self, one: Envelope, clause: str) -> bool:
        if ids := re.fullmatch(r"id in \(([^)]*)\)", clause):
            return one["id"] in ids[1].split(",")
        if since := re.fullmatch(r'lastmodified >= "([^"]+)"', clause):
            moment = datetime.strptime(since[1], "%Y-%m-%d %H:%M").replace(tzinfo=self.zone)
            return datetime.fromisoformat(one["version"]["when"]) >= moment
        if equal := re.fullmatch(r'(space|type) = "?([^"]+)"?', clause):
            return bool(equal[2] == (one["space"]["key"] if equal[1] == "space" else one["type"]))
        raise ValueError(f"the stand-in does not understand {clause!r}")

    def shown(self, one: Envelope, expand: str) -> Envelope:
        """An envelope as REST shows it: what is not expanded is only named."""
        asked = set(expand.split(",")) if expand else set()
        kept = {name: copy.deepcopy(one[name]) for name in ("id", "type", "status", "title")}
        kept["_links"] = {"webui": one["_links"]["webui"], "self": f"/rest/api/content/{one['id']}"}
        kept.update({name: copy.deepcopy(one[name]) for name in ("version", "space", "ancestors") if name in asked})
        if "body.storage" in asked:
            kept["body"] = copy.deepcopy(one["body"])
        if "metadata.labels" in asked:
            kept["metadata"] = {"labels": self.part(one["metadata"]["labels"]["results"], 0)}
        kinds = [kind for kind in ("user", "group") if f"restrictions.read.restrictions.{kind}" in asked]
        if kinds:
            lists = {kind: self.part(self.restricted(one, kind), 0) for kind in kinds}
            kept["restrictions"] = {"read": {"operation": "read", "restrictions": lists}}
        return {**kept, "_expandable": {name: "" for name in _EXPANDABLE if name not in kept}}

    def restricted(self, one: Envelope, kind: str) -> list[Envelope]:
        results: list[Envelope] = one["restrictions"]["read"]["restrictions"][kind]["results"]
        return results

    def part(self, results: list[Envelope], start: int) -> Envelope:
        """A page of a nested collection."""
        some = results[start : start + self.nested_cap]
        links = {"next": f"?start={start + len(some)}"} if start + len(some) < len(results) else {}
        return {"results": some, "start": start, "limit": self.nested_cap, "size": len(some), "_links": links}
