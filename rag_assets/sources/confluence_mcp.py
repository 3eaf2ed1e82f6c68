"""A Confluence space through an MCP server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from rag_assets.sources.base import (
    Progress,
    Row,
    SourceError,
    SyncResult,
    closed_notes,
    digest,
    finish,
    rows_by_id,
    settings_digest,
)
from rag_assets.sources.envelope import (
    EnvelopeError,
    Origin,
    content_hash,
    exclusion_of,
    foreign_space,
    row_of,
    space_keys,
)
from rag_assets.steps.readers import UNNAMED, Grants, effective_readers, grants_of, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceMcp as Settings
from rag_serving.escaping.redaction import RedactedError

Envelope = dict[str, Any]
BodyFormat = Literal["storage", "markdown"]
_STORAGE = ("storage", "html", "view", "export_view")  # HTML is read by the rules of storage format
_SPACE_IN_PATH = re.compile(r"/(?:spaces|display)/([^/?#]+)(?:/|$)")
_TITLE = re.compile(r"^#[ \t]++(\S.*)$", re.MULTILINE)


class NotOfSpaceError(EnvelopeError):
    """A page is not taken, because it is of another space or of an unknown one; the message says which."""


@dataclass(frozen=True)
class ListedPage:
    """A page as in a list of pages."""

    id: str
    told: Mapping[str, Any] = field(default_factory=dict)
    parent: str | None = None

    @property
    def version(self) -> int | None:
        """The page's version; None if the list lacks it."""
        version = self.told.get("version")
        number = version.get("number") if isinstance(version, dict) else version
        return number if isinstance(number, int) else None


def results_of(answer: Any) -> list[Mapping[str, Any]] | None:
    """Return the entries of a list or of an object with one; None if the answer is neither."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("results", "pages") if name in answer), None)
    if not isinstance(answer, list) or not all(isinstance(entry, dict) for entry in answer):
        return None
    return answer


def listed_of(answer: Any) -> Iterator[ListedPage]:
    """Yield the pages of a search or of a page tree; other entries are left out."""
    for entry in results_of(answer) or ():
        page = entry["content"] if isinstance(entry.get("content"), dict) and "id" in entry["content"] else entry
        if page.get("id") and page.get("type", "page") == "page":
            parent = page.get("parent_id")
            yield ListedPage(str(page["id"]), page, str(parent) if parent else None)


def named_spaces(page: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys by which an answer names a page's space, case-folded; empty if it names none. Where no field
    names it, the page's own address does: `…/spaces/KEY/pages/…` or `…/display/KEY/…`."""
    flat = [page.get(name) for name in ("space", "space_key", "spaceKey")]
    keys = space_keys(page) | {name.casefold() for name in flat if isinstance(name, str) and name}
    if keys:
        return keys
    links = page.get("_links")
    addresses = [page.get("url"), links.get("webui") if isinstance(links, dict) else None]
    matches = [_SPACE_IN_PATH.search(address) for address in addresses if isinstance(address, str)]
    return frozenset(unquote(one[1]).casefold() for one in matches if one)


def check_space(space: str, *answers: Mapping[str, Any]) -> None:
    """Check that every answer about a page that names a space names this one, and that one of them does. A server's own
    filter is not relied on: in some it can be bypassed. Raises NotOfSpaceError: the page is of another space, or
    nothing says of which."""
    named = [keys for answer in answers if (keys := named_spaces(answer))]
    for keys in named:
        if reason := foreign_space(keys, space):
            raise NotOfSpaceError(reason)
    if not named:
        raise NotOfSpaceError("the server does not say which space it belongs to")


def page_of(answer: Any, listed: ListedPage, space: str, base_url: str | None) -> tuple[Envelope, BodyFormat]:
    """Return the envelope of a page and the format of its body; fields missing from the answer are taken from the list.
    Raises NotOfSpaceError: the page is of another space, or of an unknown one. Raises EnvelopeError: the answer is no
    page, or is another one."""
    page = answer
    for name in ("metadata", "page", "content"):
        if isinstance(page, dict) and isinstance(page.get(name), dict) and "id" in page[name]:
            page = {**page, **page[name]}
    if isinstance(page, dict) and page.get("error"):
        raise EnvelopeError(f"the server says: {' '.join(str(page['error']).split())[:300]}")
    if isinstance(page, str):
        match = _TITLE.search(page)
        page = {"title": match[1].strip() if match else None, "content": {"value": page, "format": "markdown"}}
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
    """Return a number and a date; servers that give neither get version 1."""
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


class ToolError(RedactedError):
    """The server answered this one call with an error; the message is the server's."""


class McpTools:
    """The tools of a connected server."""

    def __init__(self, portal: Any, client: Any, tools: Mapping[str, frozenset[str]], timeout_s: float) -> None:
        self._portal = portal
        self._client = client
        self._tools = tools  # name -> names of arguments
        self._timeout_s = timeout_s

    @property
    def names(self) -> Collection[str]:
        """The names of the server's tools."""
        return self._tools.keys()

    def call(self, name: str, **arguments: Any) -> Any:
        """Return a tool's answer: parsed if it is JSON, else its text. Arguments that the tool does not have are left
        out. Raises ToolError: the server says that this call failed. Raises SourceError: the server is gone, or does
        not answer in time."""
        taken = {key: value for key, value in arguments.items() if key in self._tools[name]}
        try:
            result = self._portal.call(self._client.call_tool, name, taken, self._timeout_s)
        except Exception as error:
            raise SourceError(f"the MCP server failed at {name}: {_reason(error)}; nothing was changed") from None
        text = "".join(getattr(part, "text", "") or "" for part in result.content)
        if result.is_error:
            raise ToolError(" ".join(text.split())[:300] or f"{name} failed without saying why")
        if not text.lstrip().startswith(("{", "[")):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


@contextmanager
def open_tools(settings: Settings) -> Iterator[McpTools]:
    """Yield the tools of the server that the settings name, for as long as the block runs. Raises SourceError: `mcp` is
    not installed, or the server cannot be started or reached."""
    try:
        from anyio.from_thread import start_blocking_portal
        from mcp import Client
    except ImportError:
        raise SourceError("kind confluence_mcp needs the package mcp; install citelock[mcp]") from None
    with start_blocking_portal() as portal:
        try:
            client = Client(_server(settings), read_timeout_seconds=settings.timeout_s)
            connection = portal.wrap_async_context_manager(client)
            connection.__enter__()
        except SourceError:
            raise
        except Exception as error:
            where = " ".join(settings.command) if settings.command else str(settings.url)
            raise SourceError(f"the MCP server {where} cannot be reached: {_reason(error)}") from None
        try:
            yield McpTools(portal, client, _offered(portal, client), settings.timeout_s)
        finally:
            _close(connection)


def _close(connection: Any) -> None:
    """End the session; a server that is gone already has nothing to say to that."""
    try:
        connection.__exit__(None, None, None)
    except Exception:
        return


def _server(settings: Settings) -> Any:
    if settings.command:
        from mcp import StdioServerParameters

        command, *args = settings.command
        return StdioServerParameters(command=command, args=args, env={name: _secret(name) for name in settings.env})
    headers = {"Authorization": f"Bearer {_secret(settings.token_env)}"} if settings.token_env else {}
    return _http_streams(str(settings.url), headers, settings.timeout_s)


@asynccontextmanager
async def _http_streams(url: str, headers: Mapping[str, str], timeout_s: float) -> AsyncIterator[Any]:
    """Streams over HTTP; redirects to another host are not followed, so the token stays with its server."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout_s) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


def _offered(portal: Any, client: Any) -> dict[str, frozenset[str]]:
    tools: dict[str, frozenset[str]] = {}
    cursor = None
    while True:
        try:
            answer = portal.call(lambda: client.list_tools(cursor=cursor))  # noqa: B023
        except Exception as error:
            raise SourceError(f"the MCP server does not list its tools: {_reason(error)}") from None
        tools |= {tool.name: frozenset((tool.input_schema or {}).get("properties", {})) for tool in answer.tools}
        if not answer.next_cursor or answer.next_cursor == cursor:
            return tools
        cursor = answer.next_cursor


def _secret(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise SourceError(f"environment variable {name} is not set; the MCP server needs it")
    return value


def _reason(error: BaseException) -> str:
    """Return the first cause in one line; errors in task groups come in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join((str(error) or type(error).__name__).split())[:300]


_TREE_LIMIT = 1000  # of sooperset/mcp-atlassian; it says `has_more` where a space is larger
_SEARCH_LIMIT = 50
_CHECKS = "the space of every page"  # what rows that may be reused were checked for


@dataclass
class _SpaceContent:
    """The server's data; pages by raw id."""

    rows: dict[str, Row] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)
    excluded: dict[str, str] = field(default_factory=dict)
    not_of_space: set[str] = field(default_factory=set)  # of another space, or of an unknown one
    failures: dict[str, str] = field(default_factory=dict)


class ConfluenceMcpSource:
    """One space, as reported by a server. If the list of pages has their versions, only changed pages are requested.
    Readers are requested each time; labels, which make no version, come with the page's next one. The server's filters
    are not trusted: a page is taken only if the list or the page itself names this space, and neither names another."""

    def __init__(self, key: str, settings: Settings) -> None:
        self.key = key
        self._settings = settings
        self._origin = Origin(key, settings.tenant, settings.flavor, settings.id_prefix, settings.base_url)

    def fingerprint(self) -> None:
        """Return None: only a sync can detect changes of the space."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """List the space, then ask for each page; one that the server does not give keeps its last version. Raises
        SourceError: the server is not there, cannot list the space completely, or a larger share of the pages is gone
        than `max_deleted_share` allows."""
        known = rows_by_id(previous)
        prefix = self._settings.id_prefix
        before = {page_id.removeprefix(prefix): row for page_id, row in known.items()}
        identity = digest(settings_digest(self.key, self._settings), _CHECKS)
        space = self._settings.space.casefold()
        own = {one: row for one, row in before.items() if row["space"].casefold() == space}
        reusable = own if state.get("identity") == identity else {}
        reading = _SpaceContent()
        with open_tools(self._settings) as tools:
            listed = self._list(tools)
            for done, page in enumerate(listed.values(), start=1):
                if not self._reuse(tools, page, listed, reusable.get(page.id), reading):
                    self._read(tools, page, listed, reading)
                if progress is not None:
                    progress(done, len(listed))
            notes = [*self._notes(tools), *self._space_notes(reading)]
        self._keep(own, reading)
        unknown = EVERYONE if self._settings.unrestricted else NOBODY
        space = space_readers(self._settings.readers)
        effective = effective_readers(reading.grants, space, unsaid=unknown, missing=unknown)
        return finish(
            self._settings if own else None,
            known,
            {f"{prefix}{one}": {**row, "readers": effective.readers[one]} for one, row in reading.rows.items()},
            seen=len(listed),
            excluded=[(f"{prefix}{one}", why) for one, why in reading.excluded.items()],
            unseen={f"{prefix}{one}": reading.excluded[one] for one in own.keys() & reading.not_of_space},
            failures=[(f"{prefix}{one}", why) for one, why in reading.failures.items()],
            hidden=[(f"{prefix}{one}", why) for one, why in effective.hidden.items() if one in reading.rows],
            notes=notes,
            origins=effective.origins.prefixed(prefix),
            state={"fingerprint": None, "identity": identity},
        )

    def _list(self, tools: McpTools) -> dict[str, ListedPage]:
        """Return every page of the space. Raises SourceError: it is not certain that these are all."""
        settings = self._settings
        if settings.tool("page") not in tools.names:
            raise SourceError(_missing_tool("page", settings.tool("page"), tools))
        if settings.tool("tree") in tools.names:
            answer = self._ask(tools, settings.tool("tree"), space_key=settings.space, limit=_TREE_LIMIT)
            if isinstance(answer, dict) and answer.get("has_more"):
                raise SourceError(
                    f"the MCP server lists only the first {_TREE_LIMIT} pages of space {settings.space!r}; nothing was "
                    "changed. Use kind: confluence for a space of this size"
                )
            pages = {page.id: page for page in listed_of(answer)}
        elif settings.tool("search") in tools.names:
            pages = {page.id: page for page in self._search(tools)}
        else:
            raise SourceError(_missing_tool("search", settings.tool("search"), tools))
        if not pages:
            raise SourceError(f"the MCP server lists no page of space {settings.space!r}; nothing was changed")
        return pages

    def _search(self, tools: McpTools) -> Iterator[ListedPage]:
        """Yield pages by CQL; received ones are excluded from the next search, because not every server can page."""
        seen_ids: set[str] = set()
        while True:
            cql = f'type = page AND space = "{self._settings.space}"'
            cql += f" AND id not in ({','.join(sorted(seen_ids))})" if seen_ids else ""
            answer = self._ask(tools, self._settings.tool("search"), query=cql, cql=cql, limit=_SEARCH_LIMIT)
            new_pages = [page for page in listed_of(answer) if page.id not in seen_ids]
            if results_of(answer) and not new_pages:
                raise SourceError("the MCP server gives the same pages again and again, so its list has no end")
            if not new_pages:
                return
            yield from new_pages
            seen_ids.update(page.id for page in new_pages)

    def _ask(self, tools: McpTools, name: str, **arguments: Any) -> Any:
        try:
            answer = tools.call(name, **arguments)
        except ToolError as error:
            raise SourceError(f"the MCP server cannot list space {self._settings.space!r}: {error}") from None
        if results_of(answer) is None:
            raise SourceError(f"{name} of the MCP server answered with something that is not a list of pages")
        return answer

    def _read(
        self, tools: McpTools, page: ListedPage, listed: Mapping[str, ListedPage], reading: _SpaceContent
    ) -> None:
        try:
            if named_spaces(page.told):
                check_space(self._settings.space, page.told)
            answer = tools.call(
                self._settings.tool("page"),
                page_id=page.id,
                id=page.id,
                include_metadata=True,
                convert_to_markdown=False,
            )
            envelope, body_format = page_of(answer, page, self._settings.space, self._settings.base_url)
            if self._settings.tool("tree") in tools.names and "ancestors" not in envelope:
                envelope["ancestors"] = _ancestors(page, listed)
            self._restrict(tools, page.id, envelope)
            reading.grants[page.id] = grants_of(envelope)
            if excluded := exclusion_of(envelope):
                reading.excluded[page.id] = excluded
                return
            row = row_of(envelope, self._origin)
        except NotOfSpaceError as error:
            reading.excluded[page.id] = str(error)
            reading.not_of_space.add(page.id)
            return
        except (EnvelopeError, ToolError) as error:
            reading.failures[page.id] = str(error)
            return
        hashed = content_hash(row["title"], row["body"], body_format, row["anchor_flavor"])
        reading.rows[page.id] = {**row, "body_format": body_format, "content_hash": hashed}

    def _reuse(
        self,
        tools: McpTools,
        page: ListedPage,
        listed: Mapping[str, ListedPage],
        row: Row | None,
        reading: _SpaceContent,
    ) -> bool:
        """Take a page as it was, where the list says that it is the same and its readers can be known besides. A move
        to another space makes no version, so the list must name the space, too."""
        if row is None or page.version != row["version"] or page.told.get("title", row["title"]) != row["title"]:
            return False
        if self._settings.space.casefold() not in named_spaces(page.told):
            return False
        if page.told.get("status", "current") != "current":
            return False
        envelope = {name: page.told[name] for name in ("ancestors", "restrictions") if name in page.told}
        if self._settings.tool("tree") in tools.names:
            envelope.setdefault("ancestors", _ancestors(page, listed))
        try:
            self._restrict(tools, page.id, envelope)
        except ToolError:
            return False
        grants = grants_of(envelope, self._settings.id_prefix)
        if grants.ancestors is None or UNNAMED in grants.ancestors or "restrictions" not in envelope:
            return False
        reading.grants[page.id] = grants_of(envelope)
        titles = [str(one.get("title") or "") for one in envelope["ancestors"]]
        reading.rows[page.id] = {**row, "ancestors": list(grants.ancestors), "ancestor_titles": titles}
        return True

    def _restrict(self, tools: McpTools, page_id: str, envelope: Envelope) -> None:
        """Add the page's readers, if the server has a tool for them."""
        if "restrictions" not in envelope and self._settings.tool("restrictions") in tools.names:
            answer = tools.call(self._settings.tool("restrictions"), page_id=page_id, id=page_id)
            envelope["restrictions"] = restrictions_of(answer)

    def _keep(self, before: Mapping[str, Row], reading: _SpaceContent) -> None:
        """Pages that could not be read stay as they were, with the readers they had or fewer."""
        for page_id in reading.failures:
            if row := before.get(page_id):
                reading.rows[page_id] = {**row, "source": self.key, "tenant": self._settings.tenant}
                above = (one.removeprefix(self._settings.id_prefix) for one in row["ancestors"])
                reading.grants[page_id] = Grants(tuple(above), row["readers"])
                reading.failures[page_id] += "; its last version stays"

    def _space_notes(self, reading: _SpaceContent) -> list[str]:
        if not reading.not_of_space:
            return []
        some = sorted(reading.not_of_space)
        return [
            f"pages that the server gives for space {self._settings.space!r} and that were left out: {len(some)} "
            f"(page {some[0]}: {reading.excluded[some[0]]}); update the server, or look at its filter of spaces"
        ]

    def _notes(self, tools: McpTools) -> list[str]:
        settings = self._settings
        notes = closed_notes(settings, self.key, "an MCP server does not say who may read the space")
        if (tool := settings.tool("restrictions")) not in tools.names and not settings.unrestricted:
            notes.append(
                f"the server has no tool {tool!r}, so pages that come without restrictions are "
                f"hidden; if none of them is restricted, set sources.{self.key}.unrestricted to true"
            )
        return notes


def _ancestors(page: ListedPage, listed: Mapping[str, ListedPage]) -> list[Envelope]:
    chain: list[str] = []
    parent = page.parent
    while parent and parent not in chain and parent != page.id:
        chain.append(parent)
        parent = listed[parent].parent if parent in listed else None
    return [{"id": one, "title": listed[one].told.get("title") if one in listed else ""} for one in chain[::-1]]


def _missing_tool(use: str, name: str, tools: McpTools) -> str:
    offered = ", ".join(sorted(tools.names)) or "none"
    return f"the MCP server has no tool {name!r}; set tools.{use} to one of its own: {offered}"
