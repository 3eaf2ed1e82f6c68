"""A Confluence space through an MCP server.

Belongs here: listing the space completely, requesting each page, and its readers.
Does not belong here: calling tools and the shapes of their answers (`tools`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rag_assets.sources.base import Progress, Row, SourceError, SyncResult, digest, finish, rows_by_id, settings_digest
from rag_assets.sources.confluence_mcp.tools import (
    Envelope,
    ListedPage,
    McpTools,
    NotOfSpaceError,
    ToolError,
    check_space,
    listed_of,
    named_spaces,
    open_tools,
    page_of,
    restrictions_of,
    results_of,
)
from rag_assets.sources.envelope import EnvelopeError, Origin, content_hash, exclusion_of, row_of
from rag_assets.steps.readers import UNNAMED, Grants, effective_readers, grants_of, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY
from rag_serving.config.sources import ConfluenceMcp as Settings

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
    """One space, as reported by a server.

    If the list of pages has their versions, only changed pages are requested. Readers are requested each time; labels,
    which make no version, come with the page's next one. The server's filters are not trusted: a page is taken only if
    the list or the page itself names this space, and neither names another.
    """

    def __init__(self, key: str, settings: Settings) -> None:
        self.key = key
        self._settings = settings
        self._origin = Origin(key, settings.tenant, settings.flavor, settings.id_prefix, settings.base_url)

    def fingerprint(self) -> None:
        """Return None: only a sync can detect changes of the space."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """List the space, then ask for each page; one that the server does not give keeps its last version.

        Raises:
            SourceError: the server is not there, cannot list the space completely, or a larger share of the pages is
                gone than `max_deleted_share` allows.
        """
        known = rows_by_id(previous)
        prefix = self._settings.id_prefix
        before = {page_id.removeprefix(prefix): row for page_id, row in known.items()}
        identity = digest(settings_digest(self.key, self._settings), _CHECKS)
        own = {one: row for one, row in before.items() if self._is_of_space(row)}
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
        """Return every page of the space.

        Raises:
            SourceError: it is not certain that these are all.
        """
        settings = self._settings
        if settings.tool("page") not in tools.names:
            raise SourceError(_missing_tool("page", settings.tool("page"), tools))
        if settings.tool("tree") in tools.names:
            pages = self._tree(tools)
        elif settings.tool("search") in tools.names:
            pages = {page.id: page for page in self._search(tools)}
        else:
            raise SourceError(_missing_tool("search", settings.tool("search"), tools))
        if not pages:
            raise SourceError(f"the MCP server lists no page of space {settings.space!r}; nothing was changed")
        return pages

    def _tree(self, tools: McpTools) -> dict[str, ListedPage]:
        answer = self._ask(tools, self._settings.tool("tree"), space_key=self._settings.space, limit=_TREE_LIMIT)
        if isinstance(answer, dict) and answer.get("has_more"):
            raise SourceError(
                f"the MCP server lists only the first {_TREE_LIMIT} pages of space {self._settings.space!r}; nothing "
                "was changed. Use kind: confluence for a space of this size"
            )
        return {page.id: page for page in listed_of(answer)}

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
        """Take a page as it was, where the list says that it is the same and its readers can be known besides.

        A move to another space makes no version, so the list must name the space, too.
        """
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

    def _is_of_space(self, row: Row) -> bool:
        return bool(row["space"].casefold() == self._settings.space.casefold())

    def _space_notes(self, reading: _SpaceContent) -> list[str]:
        if not reading.not_of_space:
            return []
        some = sorted(reading.not_of_space)
        return [
            f"pages that the server gives for space {self._settings.space!r} and that were left out: {len(some)} "
            f"(page {some[0]}: {reading.excluded[some[0]]}); update the server, or look at its filter of spaces"
        ]

    def _notes(self, tools: McpTools) -> list[str]:
        settings, notes = self._settings, []
        if settings.readers == "from_source":
            notes.append(
                f"an MCP server does not say who may read the space, so nobody can read source {self.key!r}; "
                f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
            )
        if (tool := settings.tool("restrictions")) not in tools.names and not settings.unrestricted:
            notes.append(
                f"the server has no tool {tool!r}, so pages that come without restrictions are "
                f"hidden; if none of them is restricted, set sources.{self.key}.unrestricted to true"
            )
        return notes


def _ancestors(page: ListedPage, listed: Mapping[str, ListedPage]) -> list[Envelope]:
    """Return the pages above, root first, by the parents in the tree."""
    chain: list[str] = []
    parent = page.parent
    while parent and parent not in chain and parent != page.id:
        chain.append(parent)
        parent = listed[parent].parent if parent in listed else None
    return [{"id": one, "title": listed[one].told.get("title") if one in listed else ""} for one in chain[::-1]]


def _missing_tool(use: str, name: str, tools: McpTools) -> str:
    offered = ", ".join(sorted(tools.names)) or "none"
    return f"the MCP server has no tool {name!r}; set tools.{use} to one of its own: {offered}"
