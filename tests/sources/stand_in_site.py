"""The content of a stand-in Confluence: pages that tests load, edit, move, restrict and delete.

Belongs here: what a site holds, how REST v1 shows it (expansions, nested collections, CQL), and its own judgement of
who may read a page, made without any of the program's code.
Does not belong here: HTTP and sign-in (`stand_in_confluence`), faults (`stand_in_faults`).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from operator import eq, ge, gt, le, lt
from pathlib import Path
from typing import Any

from sources.stand_in_hanging import Hanging, visible

Envelope = dict[str, Any]

_EXPANDABLE = ("version", "space", "ancestors", "extensions", "metadata", "restrictions", "body", "history", "children")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {">=": ge, "<=": le, ">": gt, "<": lt, "=": eq}


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
    """Pages by id, what is attached to them, and who may do what with them."""

    def __init__(self) -> None:
        self.pages: dict[str, Envelope] = {}
        self.hanging = Hanging()
        self.forbidden: set[str] = set()  # not for the user who asks: not listed, and 404 or 403 by id
        self.permissions: dict[str, list[Envelope]] = {}  # by space key, as `expand=permissions` gives them
        self.people: dict[str, str] = {}  # names by account id or key
        self.groups: dict[str, list[str]] = {}  # members, where the asking user may see them
        self.nested_cap = 200
        self.zone: tzinfo = timezone(timedelta(hours=0))  # of the asking user, which CQL dates are read in
        self.skew = timedelta(0)  # of the site's clock
        self.lag = timedelta(0)  # of `lastmodified` behind `version.when`
        self.unsearchable: set[str] = set()  # not yet in the search index
        self.misplaced: set[str] = set()  # given for every space, as by an index that lags behind a move

    def now(self) -> datetime:
        return datetime.now(UTC) + self.skew

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

    def create(self, page_id: str, parent: str | None = None, **fields: Any) -> None:
        """A page that is new now."""
        version = {"number": 1, "when": self.now().isoformat()}
        self.put(page(page_id, version=version, **fields))
        self.move(page_id, *self.lineage(parent))

    def edit(self, page_id: str, body: str | None = None, title: str | None = None) -> None:
        """A new version."""
        stored = self.pages[page_id]
        stored["version"] = {"number": stored["version"]["number"] + 1, "when": self.now().isoformat()}
        stored["body"]["storage"]["value"] = body if body is not None else stored["body"]["storage"]["value"]
        if title is not None:
            stored["title"] = title
            named = (one for other in self.pages.values() for one in other["ancestors"] if one.get("id") == page_id)
            for ancestor in named:
                ancestor["title"] = title

    def written_at(self, page_id: str) -> datetime:
        """When its version was made, by the site's clock."""
        return datetime.fromisoformat(self.pages[page_id]["version"]["when"])

    def delete(self, *page_ids: str) -> None:
        """To the trash."""
        for page_id in page_ids:
            self._leave(page_id)
            self.pages[page_id]["status"] = "trashed"

    def restore(self, page_id: str) -> None:
        """From the trash to the top of its space; that makes no version."""
        self.pages[page_id]["status"] = "current"
        self.pages[page_id]["ancestors"] = []

    def purge(self, page_id: str) -> None:
        """For good."""
        self._leave(page_id)
        del self.pages[page_id]

    def archive(self, page_id: str) -> None:
        self.pages[page_id]["status"] = "archived"

    def restrict(self, page_id: str, users: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Restrictions do not make a version."""
        self.pages[page_id]["restrictions"] = restrictions(users, groups)

    def label(self, page_id: str, *names: str) -> None:
        """Labels do not make a version."""
        self.pages[page_id]["metadata"] = {"labels": {"results": [{"prefix": "global", "name": n} for n in names]}}

    def arrange(self, *page_ids: str) -> None:
        """An order for pages below the same parent; that makes no version."""
        for position, page_id in enumerate(page_ids):
            self.pages[page_id]["extensions"] = {"position": position}

    def move(self, page_id: str, *parents: str) -> None:
        """Moves do not make a version; what is below the page goes with it."""
        titles = {parent: self.pages[parent]["title"] for parent in parents if parent in self.pages}
        above = page(page_id, parents=parents)["ancestors"]
        above = [{**one, "title": titles.get(one["id"], one["title"])} for one in above]
        for one in self.pages.values():
            ids = [ancestor.get("id") for ancestor in one["ancestors"]]
            if page_id in ids:
                one["ancestors"] = [*above, *one["ancestors"][ids.index(page_id) :]]
        self.pages[page_id]["ancestors"] = above

    def attach(self, page_id: str, name: str, content: bytes, media_type: str = "text/plain") -> None:
        """A file on a page; that makes no version of the page."""
        self.hanging.attach(page_id, name, content, media_type, self.now().isoformat())

    def say(self, page_id: str, body: str, when: str | None = None, version: int = 1) -> None:
        """A comment on a page; that makes no version of the page."""
        self.hanging.say(page_id, body, when or self.now().isoformat(), version)

    def search_hanging(self, kind: str, space: str) -> list[Envelope]:
        """Files or comments of a space's current pages by CQL."""
        pages = (
            one["id"] for one in self.pages.values() if one["status"] == "current" and one["space"]["key"] == space
        )
        entries = (entry for page_id in pages for entry in self.hanging.entries(page_id, kind))
        return visible(entries, self.forbidden | self.unsearchable)

    def lineage(self, page_id: str | None) -> list[str]:
        """The ids of a page's ancestors and of itself, root first."""
        return [*(one["id"] for one in self.pages[page_id]["ancestors"]), page_id] if page_id else []

    def may_read(self, page_id: str, user: str | None, groups: Iterable[str]) -> bool:
        """Whether the site would show a current page to someone; the space itself is open to all."""
        if page_id not in self.pages or self.pages[page_id]["status"] != "current" or page_id in self.forbidden:
            return False
        return all(self._admits(one, user, set(groups)) for one in self.lineage(page_id))

    def _admits(self, page_id: str, user: str | None, groups: set[str]) -> bool:
        if page_id not in self.pages:
            return False
        users = [one["username"] for one in self.restricted(self.pages[page_id], "user")]
        named = [one["name"] for one in self.restricted(self.pages[page_id], "group")]
        return not (users or named) or user in users or bool(groups & set(named))

    def listed(self, space: str, status: str, kind: str = "page") -> list[Envelope]:
        """The pages of a space in the order of their ids."""
        found = (one for one in self.pages.values() if one["status"] == status and one["type"] == kind)
        shown = (one for one in found if self._stands_in(one, space) and one["id"] not in self.forbidden)
        return sorted(shown, key=lambda one: int(one["id"]))

    def search(self, cql: str) -> list[Envelope]:
        """Current content by CQL: clauses of id, space, type and lastmodified, joined by AND."""
        clauses = re.split(r"\s+and\s+", cql.partition(" order by ")[0], flags=re.IGNORECASE)
        ids = re.fullmatch(r"id in \(([^)]*)\)", clauses[0])
        pages = [self.pages[one] for one in ids[1].split(",") if one in self.pages] if ids else self.pages.values()
        hidden = self.forbidden | self.unsearchable
        tests = [self._test(clause.strip()) for clause in clauses[1 if ids else 0 :]]
        return [
            one
            for one in pages
            if one["status"] == "current" and one["id"] not in hidden and all(test(one) for test in tests)
        ]

    def _test(self, clause: str) -> Callable[[Envelope], bool]:
        if ids := re.fullmatch(r"id = (\d+)", clause):
            return lambda one: bool(one["id"] == ids[1])
        if since := re.fullmatch(r'lastmodified ([<>]=?|=) "([^"]+)"', clause):
            moment = datetime.strptime(since[2], "%Y-%m-%d %H:%M").replace(tzinfo=self.zone)
            return lambda one: _COMPARISONS[since[1]](datetime.fromisoformat(one["version"]["when"]) + self.lag, moment)
        if kinds := re.fullmatch(r"type in \(([^)]*)\)", clause):
            return lambda one: one["type"] in kinds[1].replace(" ", "").split(",")
        if equal := re.fullmatch(r'(space|type) = "?([^"]+)"?', clause):
            is_space, value = equal[1] == "space", equal[2]
            return lambda one: self._stands_in(one, value) if is_space else bool(one["type"] == value)
        raise ValueError(f"the stand-in does not understand {clause!r}")

    def _stands_in(self, one: Envelope, space: str) -> bool:
        return bool(one["space"]["key"] == space) or one["id"] in self.misplaced

    def shown(self, one: Envelope, expand: str) -> Envelope:
        """An envelope as REST shows it: what is not expanded is only named."""
        asked = set(expand.split(",")) if expand else set()
        kept = {name: one[name] for name in ("id", "type", "status", "title")}
        kept["_links"] = {"webui": one["_links"]["webui"], "self": f"/rest/api/content/{one['id']}"}
        kept.update({name: one[name] for name in ("version", "space", "ancestors") if name in asked})
        if "extensions.position" in asked:
            kept["extensions"] = {"position": one.get("extensions", {}).get("position", "none")}
        if "body.storage" in asked:
            kept["body"] = one["body"]
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

    def _leave(self, page_id: str) -> None:
        """What is below a page that goes away moves up."""
        for one in self.pages.values():
            one["ancestors"] = [ancestor for ancestor in one["ancestors"] if ancestor.get("id") != page_id]
