"""Who may read what, from the envelopes alone, level by level: none of the product's own reading or deciding.

The rules are Confluence's: a page is read by whoever may read its space, and passes its own restrictions and those of
every ancestor. Empty lists restrict nothing. What is not said, not there or not understood lets nobody in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from typing import Any

from restricted_wiki import MARKER, PAGE_ID, Wiki, page_of

from rag_serving.access.principals import Principal

_KNOWN_USERS = ("known", "unknown", "user", None)
_WORDS = re.compile(r"[^\W_]+")
_RUN = 5  # words in a row that tell whose text it is


class Judge:
    """Answers for one wiki; what it was asked once it remembers."""

    def __init__(self, wiki: Wiki) -> None:
        self._space = {one["id"]: wiki.readers[key] for key, found in wiki.envelopes.items() for one in found}
        self._pages = {one["id"]: one for found in wiki.envelopes.values() for one in found}
        self.page_ids = list(self._pages)
        self._answers: dict[tuple[str | None, frozenset[str], str], bool] = {}

    def envelope(self, page_id: str) -> Mapping[str, Any]:
        return self._pages[page_id]

    def may_read(self, who: Principal, page_id: str) -> bool:
        """Whether the page may be read; one that the wiki does not have may not."""
        key = who.user, who.groups, page_id
        if key not in self._answers:
            self._answers[key] = page_id in self._pages and self._decide(who, page_id)
        return self._answers[key]

    def unreadable(self, who: Principal) -> frozenset[str]:
        """Every page that this principal may not read."""
        return frozenset(page_id for page_id in self._pages if not self.may_read(who, page_id))

    def _decide(self, who: Principal, page_id: str) -> bool:
        space = self._space[page_id]
        if space != "everyone" and (space == "from_source" or not any(_is(who, name) for name in space)):
            return False
        above = [ancestor.get("id") for ancestor in self._pages[page_id]["ancestors"]]
        return all(
            one in self._pages and _passes(who, self._pages[one].get("restrictions")) for one in [page_id, *above]
        )


def _passes(who: Principal, restrictions: Any) -> bool:
    """Whether one level lets the principal through."""
    try:
        lists = {kind: list(collection["results"]) for kind, collection in restrictions["read"]["restrictions"].items()}
    except (KeyError, TypeError, AttributeError):
        return False
    if any(entries for kind, entries in lists.items() if kind not in ("user", "group")):
        return False
    if not any(lists.values()):
        return {"user", "group"} <= lists.keys()
    users = [one for one in lists.get("user", []) if isinstance(one, dict) and one.get("type") in _KNOWN_USERS]
    named = [one.get(field) for one in users for field in ("username", "accountId", "userKey")]
    groups = [one.get("name") for one in lists.get("group", []) if isinstance(one, dict)]
    return bool(who.user and who.user in named) or any(group in who.groups for group in groups if group)


def _is(who: Principal, name: str) -> bool:
    kind, _, rest = name.partition(":")
    return rest == who.user if kind == "user" else rest in who.groups


def pages_told(payload: object) -> frozenset[str]:
    """Every page of a made-up wiki of which any field of a payload holds the id or the marker."""
    text = json.dumps(payload, ensure_ascii=False, default=str)
    return frozenset(PAGE_ID.findall(text)) | {page_of(marker) for marker in MARKER.findall(text.lower())}


class Texts:
    """Whose words these are, in a wiki without markers: five words in a row, whole titles, page ids."""

    def __init__(self, envelopes: Iterable[Mapping[str, Any]]) -> None:
        pages = list(envelopes)
        titles = {tuple(_words(one["title"])) for one in pages}
        self._owners: dict[tuple[str, ...], set[str]] = {}
        self._lengths = {_RUN, *map(len, titles)} - {1}
        for one in pages:
            body = one["body"]["storage"]["value"].replace("<![CDATA[", " ").replace("]]>", " ")
            # What stands in an attribute, such as the title of a linked page, is read with the page as well.
            named = re.sub(r"<[^>]*>", lambda tag: " ".join(["", *re.findall(r'"([^"]*)"', tag[0]), ""]), body)
            for text in (one["title"], re.sub(r"<[^>]*>", " ", body), named):
                for run in self._runs(_words(unescape(text))):
                    if len(run) == _RUN or run in titles:
                        self._owners.setdefault(run, set()).add(one["id"])
            self._owners[(one["id"],)] = {one["id"]}

    def owners_told(self, payload: object) -> Iterator[tuple[str, frozenset[str]]]:
        """Each run of words in a payload that is some page's, with all pages that it could be from."""
        for text in _strings(payload):
            words = _words(text)
            for run in (*self._runs(words), *((word,) for word in words)):
                if run in self._owners:
                    yield " ".join(run), frozenset(self._owners[run])

    def _runs(self, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        for length in self._lengths:
            for at in range(len(words) - length + 1):
                yield tuple(words[at : at + length])


def _words(text: str) -> list[str]:
    return _WORDS.findall(text.lower())


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
