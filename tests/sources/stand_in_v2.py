"""How Cloud's REST v2 shows a stand-in site: by cursor, with parents, without CQL, ancestors and restrictions.

Belongs here: the paths below `/api/v2`.
Does not belong here: v1, sign-in and faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from sources.stand_in_faults import Answer, Request
from sources.stand_in_site import Envelope, Site

MAX_LIMIT = 250
_KINDS = {"pages": "page", "blogposts": "blogpost"}


class StandInV2:
    """Answers of one site."""

    def __init__(self, site: Site, url: str) -> None:
        self._site = site
        self._url = url

    def answer(self, request: Request, parts: list[str]) -> Answer:
        if int(request.params.get("limit", "25")) > MAX_LIMIT:
            return Answer.of({"errors": [{"status": 400, "title": "limit must be at most 250"}]}, 400)
        match parts:
            case ["spaces"]:
                keys = self._keys()
                found = [{"id": self._space_id(key), "key": key} for key in keys if key == request.params.get("keys")]
                return self._page(request, found)
            case ["spaces", number]:
                keys = [key for key in self._keys() if self._space_id(key) == number]
                return Answer.of({"id": number, "key": keys[0]})
            case ["spaces", number, kind] if kind in _KINDS:
                spaces = [key for key in self._keys() if self._space_id(key) == number]
                status = request.params.get("status", "current")
                listed = [one for key in spaces for one in self._site.listed(key, status, _KINDS[kind])]
                return self._page(request, [self._shown(one, request) for one in listed])
            case [kind] if kind in _KINDS:
                wanted = request.params["id"].split(",")
                found = [self._site.pages[one] for one in wanted if self._is_seen(one)]
                return self._page(request, [self._shown(one, request) for one in found])
            case [kind, page_id] if kind in _KINDS and self._is_seen(page_id):
                return Answer.of(self._shown(self._site.pages[page_id], request))
            case ["pages", page_id, "ancestors"] if self._is_seen(page_id):
                above = self._site.pages[page_id]["ancestors"]
                return self._page(request, [{"id": one["id"], "type": "page"} for one in above])
            case [kind, page_id, "labels"] if kind in _KINDS and self._is_seen(page_id):
                return self._page(request, self._site.pages[page_id]["metadata"]["labels"]["results"])
        return Answer.of({"errors": [{"status": 404}]}, 404)

    def _keys(self) -> list[str]:
        return sorted({one["space"]["key"] for one in self._site.pages.values()})

    def _space_id(self, key: str) -> str:
        return str(9000 + self._keys().index(key))

    def _is_seen(self, page_id: str) -> bool:
        seen = page_id in self._site.pages and page_id not in self._site.forbidden
        return seen and self._site.pages[page_id]["status"] in ("current", "archived")

    def _shown(self, one: Envelope, request: Request) -> Envelope:
        ancestors = one["ancestors"]
        shown = {
            "id": one["id"],
            "status": one["status"],
            "title": one["title"],
            "spaceId": self._space_id(one["space"]["key"]),
            "parentId": ancestors[-1]["id"] if ancestors else None,
            "parentType": "page" if ancestors else None,
            "position": one.get("extensions", {}).get("position"),
            "version": {"number": one["version"]["number"], "createdAt": one["version"]["when"]},
            "_links": {"webui": f"/spaces/{one['space']['key']}/pages/{one['id']}"},
        }
        body = one["body"] if request.params.get("body-format") == "storage" else {}
        return {**shown, "body": body}

    def _page(self, request: Request, found: Sequence[Envelope]) -> Answer:
        limit, start = int(request.params.get("limit", "25")), int(request.params.get("cursor", "0"))
        links = {"base": self._url}
        if start + limit < len(found):
            links["next"] = f"/wiki{request.path}?{urlencode({'limit': limit, 'cursor': start + limit})}"
        return Answer.of({"results": list(found[start : start + limit]), "_links": links})
