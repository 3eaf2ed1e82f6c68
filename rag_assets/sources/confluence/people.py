"""Names of the people that pages mention: storage format has their ids alone.

Belongs here: asking a site for names, many in one request where it can, and putting them into bodies.
Does not belong here: what a mention leaves in the text (`steps.formats.storage_links`).

Every sync asks again, so that the pages that mention a renamed person change. Where a name cannot be had, the last one
that was stays; the sync never fails for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import escape
from urllib.parse import urlencode

import pyarrow as pa

from rag_assets.sources.base import Row, SourceError, SyncResult
from rag_assets.sources.confluence.client import ConfluenceClient
from rag_assets.sources.confluence.listing import batches
from rag_assets.sources.confluence.responses import AccessRefused
from rag_assets.sources.envelope import content_hash
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.storage_links import DISPLAY_NAME
from rag_serving.artifacts.schema import PAGES

_MENTION = re.compile(r"<ri:user\b([^<>]{0,1000}?)(\s*/?>)")
_ID = re.compile(r"\sri:(account-id|userkey|username)=\"([^\"<>]{1,200})\"")
_NAME = re.compile(rf'\sri:{DISPLAY_NAME}="[^"]*"')
_PARAMETERS = {"account-id": "accountId", "userkey": "key", "username": "username"}
_TOGETHER = 100  # ids in one request, whose address is no longer than servers take
_SINGLE = 200  # requests for one person each that a sync makes at most; the next one goes on with others
_LONGEST = 200

Person = tuple[str, str]
"""The attribute that a mention has, and its value."""


def without_names(pages: pa.Table) -> pa.Table:
    """Return rows of PAGES with bodies as their site gives them."""
    return PAGES.table([_with_body(row, _NAME.sub("", row["body"])) for row in pages.to_pylist()])


def with_names(
    client: ConfluenceClient, result: SyncResult, before: pa.Table, known: Mapping[str, object]
) -> SyncResult:
    """Return a sync whose bodies name the people that they mention.

    Args:
        client: of the site.
        result: the sync, bodies as the site gives them.
        before: the rows of the last sync.
        known: names by id, as the last sync left them.
    """
    rows = result.pages.to_pylist()
    people = dict.fromkeys(person for row in rows if _has_mentions(row) for person in _people(row["body"]))
    if not people:
        return replace(result, state={**result.state, "people": {}})
    names, notes = _names(client, people, known)
    named = [_with_body(row, _MENTION.sub(lambda found: _named(found, names), row["body"])) for row in rows]
    earlier = {row["page_id"]: row for row in before.to_pylist()}
    return replace(
        result,
        pages=PAGES.table(named),
        changed=sum(earlier.get(row["page_id"]) != row for row in named),
        notes=(*result.notes, *notes),
        state={**result.state, "people": {":".join(person): name for person, name in names.items()}},
    )


def _has_mentions(row: Row) -> bool:
    return row["body_format"] == "storage" and "<ri:user" in (row["body"] or "")


def _with_body(row: Row, body: str | None) -> Row:
    if body == row["body"] or not _has_mentions(row):
        return row
    digest = content_hash(row["title"], body or "", row["body_format"], row["anchor_flavor"], row["original"])
    return {**row, "body": body, "content_hash": digest}


def _people(body: str) -> Iterator[Person]:
    for mention in _MENTION.finditer(body):
        if found := _ID.search(mention[1]):
            yield found[1], found[2]


def _named(mention: re.Match[str], names: Mapping[Person, str]) -> str:
    found = _ID.search(mention[1])
    name = names.get((found[1], found[2])) if found else None
    attributes = _NAME.sub("", mention[1])
    return f'<ri:user{attributes} ri:{DISPLAY_NAME}="{escape(name)}"{mention[2]}' if name else mention[0]


def _names(
    client: ConfluenceClient, people: Iterable[Person], known: Mapping[str, object]
) -> tuple[dict[Person, str], list[str]]:
    """Return names by person, those that were asked for longest ago first, and a note where the site refuses."""
    order = {one: place for place, one in enumerate(known)}
    wanted = sorted(people, key=lambda person: order.get(":".join(person), -1))
    names = {one: str(name) for one in wanted if (name := known.get(":".join(one)))}
    try:
        fresh = _together(client, [value for kind, value in wanted if kind == "account-id"])
        alone = [one for one in wanted if one not in fresh][:_SINGLE]
        fresh |= {person: _one(client, person) for person in alone}
    except SourceError as error:
        return names, [f"the names of mentioned people cannot be read, those known stay: {error}"]
    for person, name in fresh.items():
        last = names.pop(person, "")
        names |= {person: name or last} if name or last else {}
    return names, []


def _together(client: ConfluenceClient, ids: list[str]) -> dict[Person, str]:
    """Return the names of accounts that the site tells together (Cloud), by person."""
    names: dict[Person, str] = {}
    for some in batches(ids, _TOGETHER):
        query = urlencode([("accountId", one) for one in some])
        try:
            answer = client.get(f"rest/api/user/bulk?{query}", {}, retries=1)
        except AccessRefused:  # the site answers for one person at a time
            return names
        results = answer.get("results")
        for user in results if isinstance(results, list) else ():
            if isinstance(user, dict) and (name := _name(user)):
                names["account-id", str(user.get("accountId"))] = name
    return names


def _one(client: ConfluenceClient, person: Person) -> str:
    """Return the name of one person; empty where the site tells none."""
    kind, value = person
    try:
        return _name(client.get("rest/api/user", {_PARAMETERS[kind]: value}, retries=1))
    except AccessRefused:
        return ""


def _name(user: Mapping[str, object]) -> str:
    name = user.get("displayName")
    return clean(name)[:_LONGEST] if isinstance(name, str) else ""
