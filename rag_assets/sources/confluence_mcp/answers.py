"""What the tools of a Confluence MCP server answer, as REST v1 envelopes.

Belongs here: the shapes of answers: sooperset/mcp-atlassian's, REST envelopes handed through, and plain Markdown.
Does not belong here: calling tools (`tools`), or envelopes (`envelope`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from rag_assets.sources.envelope import EnvelopeError, foreign_space, space_keys

Envelope = dict[str, Any]
BodyFormat = Literal["storage", "markdown"]

_STORAGE = ("storage", "html", "view", "export_view")  # HTML is read by the rules of storage format
_SPACE_IN_PATH = re.compile(r"/(?:spaces|display)/([^/?#]+)(?:/|$)")
_TITLE = re.compile(r"^#[ \t]++(\S.*)$", re.MULTILINE)


class NotOfSpaceError(EnvelopeError):
    """A page is not taken, because it stands in another space or nothing says in which; the message says which."""


@dataclass(frozen=True)
class Listed:
    """A page as a list of pages tells of it."""

    id: str
    told: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None

    @property
    def version(self) -> int | None:
        """The page's version; None where the list does not tell it."""
        version = self.told.get("version")
        number = version.get("number") if isinstance(version, dict) else version
        return number if isinstance(number, int) else None


def results_of(answer: Any) -> list[Mapping[str, Any]] | None:
    """Return the entries of a list or of an object that holds one; None where the answer is neither."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("results", "pages") if name in answer), None)
    if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
        return None
    return answer


def listed_of(answer: Any) -> Iterator[Listed]:
    """Yield the pages of a search or of a page tree; what is no page is left out."""
    for entry in results_of(answer) or ():
        page = entry["content"] if isinstance(entry.get("content"), dict) and "id" in entry["content"] else entry
        if page.get("id") and page.get("type", "page") == "page":
            parent = page.get("parent_id")
            yield Listed(str(page["id"]), page, str(parent) if parent else None)


def named_spaces(page: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys by which an answer names a page's space, case-folded; empty where it names none.

    Where no field names it, the page's own address does: `…/spaces/KEY/pages/…` or `…/display/KEY/…`.
    """
    flat = [page.get(name) for name in ("space", "space_key", "spaceKey")]
    keys = space_keys(page) | {name.casefold() for name in flat if isinstance(name, str) and name}
    if keys:
        return keys
    links = page.get("_links")
    addresses = [page.get("url"), links.get("webui") if isinstance(links, dict) else None]
    matches = [_SPACE_IN_PATH.search(address) for address in addresses if isinstance(address, str)]
    return frozenset(unquote(one[1]).casefold() for one in matches if one)


def check_space(space: str, *answers: Mapping[str, Any]) -> None:
    """Check that every answer about a page that names a space names this one, and that one of them does.

    A server's own filter is not relied on: in some it can be bypassed.

    Raises:
        NotOfSpaceError: the page is of another space, or nothing says of which.
    """
    named = [keys for answer in answers if (keys := named_spaces(answer))]
    for keys in named:
        if reason := foreign_space(keys, space):
            raise NotOfSpaceError(reason)
    if not named:
        raise NotOfSpaceError("the server does not say which space it belongs to")


def page_of(answer: Any, listed: Listed, space: str, base_url: str | None) -> tuple[Envelope, BodyFormat]:
    """Return the envelope of a page and the format of its body; what the answer leaves out is taken from the list.

    Raises:
        NotOfSpaceError: the page is of another space, or nothing says of which.
        EnvelopeError: the answer is no page, or is another one.
    """
    page = answer
    for name in ("metadata", "page", "content"):
        if isinstance(page, dict) and isinstance(page.get(name), dict) and "id" in page[name]:
            page = {**page, **page[name]}
    if isinstance(page, dict) and page.get("error"):
        raise EnvelopeError(f"the server says: {' '.join(str(page['error']).split())[:300]}")
    if isinstance(page, str):
        page = {"title": _first_heading(page), "content": {"value": page, "format": "markdown"}}
    if not isinstance(page, dict):
        raise EnvelopeError(f"the server answered with a JSON {type(page).__name__}, not a page")
    if str(page.get("id", listed.id)) != listed.id:
        raise EnvelopeError(f"the server answered with page {page['id']!r}")
    check_space(space, listed.told, page)
    page = {**listed.told, **{name: value for name, value in page.items() if value not in (None, "")}}
    body, body_format = _body(page)
    return {
        "id": listed.id,
        "type": page.get("type", "page"),
        "status": page.get("status", "current"),
        "title": page.get("title"),
        "space": page["space"] if isinstance(page.get("space"), dict) else {"key": space},
        "version": _version(page),
        "metadata": {"labels": {"results": list(_labels(page))}},
        "body": {"storage": {"value": body}},
        "_links": _links(page, base_url),
        **{name: page[name] for name in ("ancestors", "restrictions") if name in page},
    }, body_format


def restrictions_of(answer: Any) -> Any:
    """Return the `restrictions` block of an answer `{"read": {"users": […], "groups": […]}}`, or of a block as REST
    has it."""
    read = answer.get("read") if isinstance(answer, dict) else None
    if not isinstance(read, dict) or "restrictions" in read:
        return answer if read else {"read": None}
    users, groups = read.get("users"), read.get("groups")
    if not isinstance(users, list) or not isinstance(groups, list):
        return {"read": None}
    lists = {
        "user": {"results": [{"type": "known", "accountId": user} for user in users]},
        "group": {"results": [{"type": "group", "name": group} for group in groups]},
    }
    return {"read": {"restrictions": lists}}


def _body(page: Mapping[str, Any]) -> tuple[str, BodyFormat]:
    content, body = page.get("content"), page.get("body")
    if isinstance(body, dict):
        for name in _STORAGE:
            if isinstance(body.get(name), dict) and isinstance(body[name].get("value"), str):
                return body[name]["value"], "storage"
    if isinstance(content, dict) and isinstance(content.get("value"), str):
        return content["value"], "storage" if content.get("format") in _STORAGE else "markdown"
    for text in (content, body):
        if isinstance(text, str):
            return text, "markdown"
    if content is None and body is None and "id" in page:  # a page without text comes without content
        return "", "storage"
    raise EnvelopeError("the server's answer has no content")


def _version(page: Mapping[str, Any]) -> Envelope:
    """Return a number and a date; servers that tell neither get version 1."""
    version = page.get("version")
    if isinstance(version, dict):
        return version
    number = version if isinstance(version, int) and version > 0 else 1
    when = page.get("version_date") or page.get("updated")
    return {"number": number, "when": when if _is_date(when) else None}


def _is_date(when: object) -> bool:
    try:
        return isinstance(when, str) and bool(datetime.fromisoformat(when))
    except ValueError:
        return False


def _labels(page: Mapping[str, Any]) -> Iterator[Envelope]:
    metadata = page.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    labels = labels.get("results") if isinstance(labels, dict) else page.get("labels")
    for label in labels if isinstance(labels, list) else ():
        yield label if isinstance(label, dict) else {"prefix": "global", "name": label}


def _links(page: Mapping[str, Any], base_url: str | None) -> Envelope:
    if isinstance(page.get("_links"), dict):
        return {"base": base_url, **page["_links"]}
    url = page.get("url")
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return {"base": base_url}
    if base_url and url.startswith(base_url.rstrip("/") + "/"):
        return {"base": base_url, "webui": url.removeprefix(base_url.rstrip("/"))}
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return {"base": f"{parts.scheme}://{parts.netloc}", "webui": f"{parts.path}{query}"}


def _first_heading(text: str) -> str | None:
    match = _TITLE.search(text)
    return match[1].strip() if match else None
