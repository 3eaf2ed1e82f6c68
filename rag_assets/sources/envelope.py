"""One REST v1 content envelope as a row of PAGES."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from rag_assets.sources.base import Row, digest
from rag_assets.steps.readers import UNNAMED
from rag_serving.access.principals import NOBODY
from rag_serving.escaping.redaction import RedactedError

Flavor = Literal["auto", "cloud", "datacenter"]

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")  # no colon: chunk ids are `page:version:index`
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE_IN_URL = re.compile(r"""[\s"<>\\^`{|}\x00-\x1f\x7f]""")
_SPACE_ADDRESS = re.compile(r"/rest/api/space/([^/?#]+)")
_CLOUD_PATH = re.compile(r"/spaces/[^/]+/(pages|blog)/\d+")
_MAX_VERSION = 2**31 - 1


class EnvelopeError(RedactedError):
    """This one page cannot be read; the message says why."""


@dataclass(frozen=True)
class Origin:
    """A row's fields from its source rather than from the envelope."""

    source: str
    tenant: str
    flavor: Flavor = "auto"
    id_prefix: str = ""
    base_url: str | None = None  # of pages that do not name their site


def load_envelope(content: bytes) -> dict[str, Any]:
    """Return a file's bytes as an envelope. Raises EnvelopeError: they are not one JSON object in UTF-8."""
    if not content.strip():
        raise EnvelopeError("the file is empty")
    try:
        envelope = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise EnvelopeError(f"the file is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        cut = ", the file ends too early" if error.pos >= len(error.doc.rstrip()) - 1 else ""
        raise EnvelopeError(f"not valid JSON: {error.msg} in line {error.lineno}{cut}; export the page again") from None
    except (ValueError, RecursionError) as error:
        raise EnvelopeError(f"not usable JSON: {error}") from None
    if not isinstance(envelope, dict):
        raise EnvelopeError(f"not a page envelope but a JSON {type(envelope).__name__}")
    return envelope


def page_id_of(envelope: Mapping[str, Any], id_prefix: str = "") -> str:
    """Return the page's id with the source's prefix. Raises EnvelopeError: there is none, or it could not be part of a
    chunk id."""
    identifier = envelope.get("id")
    text = str(identifier) if isinstance(identifier, str | int) and not isinstance(identifier, bool) else ""
    if not _ID.fullmatch(text):
        raise EnvelopeError("not a page envelope: no id" if not text else f"id {text[:40]!r} is not a page id")
    return id_prefix + text


def version_of(envelope: Mapping[str, Any]) -> int:
    """Return the page's version number. Raises EnvelopeError: there is none."""
    number = _member(envelope, "version").get("number")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MAX_VERSION:
        raise EnvelopeError("version.number is missing or is not a positive number")
    return number


def exclusion_of(
    envelope: Mapping[str, Any], types: Sequence[str] = ("page",), statuses: Sequence[str] = ("current",)
) -> str | None:
    """Return why a readable envelope is no page to index, or None; blog posts and archived pages are indexed by option.
    Raises EnvelopeError: type or status is missing."""
    kind, status = _string(envelope, "type"), _string(envelope, "status")
    if kind not in types:
        return f"its type is {kind!r}, not {' or '.join(map(repr, types))}"
    return None if status in statuses else f"its status is {status!r}, not {' or '.join(map(repr, statuses))}"


def space_keys(entry: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys by which an entry names its space (Cloud: key and alias), case-folded; empty if it names none.
    Keys of one site differ in more than case. A space that was not expanded is still named by its REST address."""
    space, expandable = entry.get("space"), entry.get("_expandable")
    if isinstance(space, dict):
        names = [space.get("key"), space.get("alias")]
    else:
        address = expandable.get("space") if isinstance(expandable, dict) else None
        match = _SPACE_ADDRESS.search(address) if isinstance(address, str) else None
        names = [unquote(match[1])] if match else []
    return frozenset(name.casefold() for name in names if isinstance(name, str) and name)


def foreign_space(keys: frozenset[str], space: str) -> str | None:
    """Return why a page that names its space by these keys is not one of `space`; None if it is, or names none."""
    if not keys or space.casefold() in keys:
        return None
    return f"it belongs to space {' or '.join(map(repr, sorted(keys)))}, not {space!r}"


def row_of(envelope: Mapping[str, Any], origin: Origin) -> Row:
    """Return the row of PAGES; its readers are nobody until all pages of the source are known. Raises EnvelopeError: a
    field is missing or of a wrong type."""
    page_id, version = page_id_of(envelope, origin.id_prefix), version_of(envelope)
    title, space = _string(envelope, "title"), _string(_member(envelope, "space"), "key")
    body = _member(_member(envelope, "body"), "storage").get("value")
    if not isinstance(body, str):
        raise EnvelopeError("body.storage.value is missing: export with expand=body.storage")
    body = _clean(body)
    ancestors = envelope.get("ancestors", [])
    if not isinstance(ancestors, list) or not all(isinstance(entry, dict) for entry in ancestors):
        raise EnvelopeError("ancestors is not a list of objects")
    url, flavor = _address(envelope, space, origin)
    name = _member(envelope, "space").get("name")
    user = _member(envelope, "version").get("by")
    told = user if isinstance(user, dict) else {}
    names = (told.get(name) for name in ("displayName", "publicName", "username"))
    return {
        "source": origin.source,
        "tenant": origin.tenant,
        "page_id": page_id,
        "version": version,
        "space": space,
        "title": title,
        "url": url,
        "status": _string(envelope, "status") if "status" in envelope else "current",
        "updated_at": _moment(_member(envelope, "version").get("when")),
        "labels": _labels(envelope),
        "ancestors": [page_id_of(one, origin.id_prefix) if one.get("id") else UNNAMED for one in ancestors],
        "ancestor_titles": [_clean(str(ancestor.get("title") or "")) for ancestor in ancestors],
        "position": _position(envelope),
        "readers": NOBODY,
        "body": body,
        "body_format": "storage",
        "anchor_flavor": flavor,
        "content_hash": content_hash(title, body, "storage", flavor),
        "original": None,
        "author": next((_clean(name) for name in names if isinstance(name, str) and name.strip()), None),
        "space_name": _clean(name) if isinstance(name, str) and name.strip() else None,
    }


def content_hash(title: str, body: str, body_format: str, anchor_flavor: str, original: str | None = None) -> str:
    """Return a digest of all that a page's sections depend on. `original`: digest of the file that is kept of it."""
    return digest(title, body, body_format, anchor_flavor, *([original] if original else []))


def _address(envelope: Mapping[str, Any], space: str, origin: Origin) -> tuple[str, str]:
    """Return the page's address without an anchor, and the flavor of its anchors."""
    raw = envelope.get("id")
    links = envelope.get("_links")
    links = links if isinstance(links, dict) else {}
    base = _base(links, origin.base_url)
    webui = links.get("webui")
    path = _clean(webui).partition("#")[0] if isinstance(webui, str) and webui.startswith("/") else ""
    flavor = origin.flavor if origin.flavor != "auto" else _guess_flavor(base, path)
    built = f"/spaces/{space}/pages/{raw}" if flavor == "cloud" else f"/pages/viewpage.action?pageId={raw}"
    return _UNSAFE_IN_URL.sub(lambda match: f"%{ord(match[0]):02X}", base + (path or built)), flavor


def _base(links: Mapping[str, Any], fallback: str | None) -> str:
    """Return the site's address; only http(s), because it becomes a link that people follow."""
    own = links.get("self")
    for base in (links.get("base"), own.partition("/rest/api/")[0] if isinstance(own, str) else None, fallback):
        if isinstance(base, str) and _is_site(base):
            return _clean(base).rstrip("/")
    raise EnvelopeError("_links.base is missing: the page has no address")


def _is_site(base: str) -> bool:
    try:
        parts = urlsplit(base)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not _UNSAFE_IN_URL.search(base)


def _guess_flavor(base: str, path: str) -> str:
    if (urlsplit(base).hostname or "").endswith(".atlassian.net"):
        return "cloud"
    return "cloud" if _CLOUD_PATH.match(path) else "datacenter"


def _labels(envelope: Mapping[str, Any]) -> list[str]:
    """Return names of the labels that all see: `my` ones are one user's private bookmarks."""
    metadata = envelope.get("metadata")
    collection = metadata.get("labels") if isinstance(metadata, dict) else None
    results = collection.get("results") if isinstance(collection, dict) else None
    entries = [entry for entry in results if isinstance(entry, dict)] if isinstance(results, list) else []
    names = {entry.get("name") for entry in entries if entry.get("prefix") != "my"}
    return sorted(_clean(name) for name in names if isinstance(name, str) and name)


def _position(envelope: Mapping[str, Any]) -> int | None:
    """Return the page's position among its siblings; the site says "none" if nobody arranged them."""
    extensions = envelope.get("extensions")
    position = extensions.get("position") if isinstance(extensions, dict) else None
    if not isinstance(position, int) or isinstance(position, bool) or abs(position) > _MAX_VERSION:
        return None
    return position


def _moment(when: object) -> datetime | None:
    """`version.when` to the millisecond, in UTC; a page without it is still a page."""
    if when is None:
        return None
    try:
        moment = datetime.fromisoformat(when) if isinstance(when, str) else None
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC) if moment else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise EnvelopeError("version.when is not a date")
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _member(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    member = mapping.get(key)
    if not isinstance(member, dict):
        raise EnvelopeError(f"{key} is missing or is not an object")
    return member


def _string(mapping: Mapping[str, Any], key: str) -> str:
    text = mapping.get(key)
    if not isinstance(text, str) or not text.strip():
        raise EnvelopeError(f"{key} is missing or is not a text")
    return _clean(text)


def _clean(text: str) -> str:
    """Return text that can be written as UTF-8: JSON may escape half a surrogate pair."""
    return _SURROGATES.sub("\ufffd", text)
