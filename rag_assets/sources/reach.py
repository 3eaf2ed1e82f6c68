"""Reachability of a source for `citelock doctor`, for a few requests and within a few seconds.

Nothing is changed and no body is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from rag_assets.sources import open_source
from rag_assets.sources.base import SourceError, open_to
from rag_assets.sources.confluence.client import ConfluenceClient, in_path
from rag_assets.sources.confluence.listing import DETAILS
from rag_assets.sources.confluence.source import open_client
from rag_assets.sources.confluence.transport import AccessRefused
from rag_assets.sources.confluence_dump import dump_files, opened
from rag_assets.sources.confluence_mcp import McpTools, ToolError, listed_of, named_spaces, open_tools, results_of
from rag_assets.sources.documents.document_pages import CLOSED
from rag_assets.sources.sites.site import opened_tree
from rag_assets.steps.files.composed import missing_extra
from rag_assets.steps.readers import space_readers
from rag_serving.access.principals import NOBODY
from rag_serving.config import sources as source_kinds
from rag_serving.documents.kinds import kind_by_name

REQUEST_S = 5.0
"""How long one request may take."""


@dataclass(frozen=True)
class Reach:
    """The result of a check of a source; `mend` in the imperative if something is wrong."""

    state: Literal["ok", "warn", "fail"]
    detail: str
    mend: str = ""


def reach(key: str, settings: source_kinds.Source) -> Reach:
    """Check a source; the result has its faults."""
    try:
        return _reach(settings, key)
    except SourceError as error:
        detail, _, mend = str(error).rpartition("; ")
        return Reach("fail", detail or mend, mend if detail else f"look at sources.{key}")


@singledispatch
def _reach(settings: Any, key: str) -> Reach:
    """Return whether a source of any other kind is reachable: its content has a fingerprint."""
    open_source(key, settings, Path()).fingerprint()
    return Reach("ok", f"{settings.kind} is there")


@_reach.register
def _(settings: source_kinds.ConfluenceDump, key: str) -> Reach:
    with dump_files(settings.path) as files:
        detail = f"{len(files.envelopes):,} page files in {settings.path}"
    return _unless_closed(Reach("ok", detail), key, settings, "a dump does not say who may read the space")


@_reach.register
def _(settings: source_kinds.ConfluenceExport, key: str) -> Reach:
    if not settings.path.is_file():
        raise SourceError(f"export {settings.path} does not exist; set sources.{key}.path to the zip of a space export")
    with opened(settings.path, "export") as archive:
        is_xml = "entities.xml" in archive.namelist()
    open_source(key, settings, Path()).fingerprint()
    detail = f"{settings.path}, {'XML' if is_xml else 'HTML'}"
    if is_xml:
        return Reach("ok", detail)
    if not settings.unrestricted:
        mend = f"export the space as XML, or set sources.{key}.unrestricted to true if no page is restricted"
        return Reach("fail", f"{detail}, which does not say which pages are restricted: all are hidden", mend)
    return _unless_closed(Reach("ok", detail), key, settings, "HTML does not say who may read the space")


@_reach.register
def _(settings: source_kinds.Confluence, key: str) -> Reach:
    bounded = settings.model_copy(update={"timeout_s": min(settings.timeout_s, REQUEST_S), "max_retries": 0})
    with open_client(bounded) as client:
        met = [_site(settings.base_url)]
        if settings.auth.kind != "none":
            client.check_signed_in()
            met.append("signed in")
        space, is_told = _space(client, settings, key)
        met.append(f"space {settings.space} is there")
        if settings.readers == "from_source":
            if space_readers("from_source", space.get("permissions")) == NOBODY:
                detail = f"{', '.join(met)}, but who may read it cannot be read: nobody could read its pages"
                return Reach("fail", detail, f"let the account see the space's permissions, or {open_to(key)}")
            met.append("its permissions can be read")
        return _pages(client, settings, key, met) if is_told else Reach("ok", ", ".join(met))


@_reach.register
def _(settings: source_kinds.ConfluenceMcp, key: str) -> Reach:
    bounded = settings.model_copy(update={"timeout_s": min(settings.timeout_s, 2 * REQUEST_S)})
    with open_tools(bounded) as tools:
        listing = next((name for name in (settings.tool("tree"), settings.tool("search")) if name in tools.names), None)
        lacking = [settings.tool("page")] if settings.tool("page") not in tools.names else []
        lacking += [settings.tool("search")] if listing is None else []
        if lacking:
            offered = ", ".join(sorted(tools.names)) or "none"
            return Reach("fail", f"the server has no tool {lacking[0]!r}", f"name one of its own: {offered}")
        problem = _listed(tools, listing or "", settings)
        has_restrictions = settings.tool("restrictions") in tools.names
    if problem:
        return Reach("fail", problem, f"check sources.{key}.space and what the server may read")
    detail = f"the server answers, space {settings.space} is there"
    if not has_restrictions and not settings.unrestricted:
        mend = f"if no page is restricted, set sources.{key}.unrestricted to true"
        return Reach("warn", f"{detail}; without a tool {settings.tool('restrictions')!r} its pages are hidden", mend)
    return _unless_closed(Reach("ok", detail), key, settings, "an MCP server does not say who may read the space")


@_reach.register
def _(settings: source_kinds.Files, key: str) -> Reach:
    lacks_pdf = find_spec("pypdfium2") is None
    mend = "install citelock[pdf] here, or PDF files fail"
    if settings.path is None:
        detail = "an upload inbox"
        return Reach("warn", f"{detail}; PDF files cannot be read", mend) if lacks_pdf else Reach("ok", detail)
    with opened_tree(settings.path, key, settings.max_file_bytes) as tree:
        names = tree.names
    found = Reach("ok", f"{len(names):,} files in {settings.path}")
    if lacks_pdf and any(name.lower().endswith(".pdf") for name in names):
        found = Reach("warn", f"{found.detail}; PDF files cannot be read", mend)
    elif lacking := sorted({kind for name in names if (kind := kind_by_name(name)) and missing_extra(kind)}):
        mend = f"install {missing_extra(lacking[0])} here, or they fail"
        found = Reach("warn", f"{found.detail}; those of kind {', '.join(lacking)} cannot be read", mend)
    return _unless_closed(found, key, settings, CLOSED)


def _unless_closed(result: Reach, key: str, settings: source_kinds.SourceBase, why: str) -> Reach:
    """`readers: from_source` where the source does not say it: everything is hidden from everybody."""
    if settings.readers != "from_source":
        return result
    return Reach("fail", f"{result.detail}; {why}, so nobody can read its pages", open_to(key))


def _space(client: ConfluenceClient, settings: source_kinds.Confluence, key: str) -> tuple[dict[str, Any], bool]:
    """Return the site's record of the space, and whether v1 serves it. Raises SourceError: it does not exist for this
    user."""
    try:
        return client.get(f"rest/api/space/{in_path(settings.space)}", {"expand": "permissions"}), True
    except AccessRefused as error:
        if error.status != 410:
            raise _no_space(client, settings, key, error) from None
    try:
        spaces = client.get("api/v2/spaces", {"keys": settings.space, "limit": 1}).get("results")
    except AccessRefused as error:
        raise _no_space(client, settings, key, error) from None
    if not spaces:
        raise _no_space(client, settings, key, None)
    return {}, False


def _no_space(
    client: ConfluenceClient, settings: source_kinds.Confluence, key: str, error: AccessRefused | None
) -> SourceError:
    status = f" (it answered {error.status})" if error else ""
    return SourceError(
        f"{_site(client.base_url)} is reached, but has no space {settings.space!r} for this user{status}; "
        f"check sources.{key}.space and the user's rights"
    )


def _pages(client: ConfluenceClient, settings: source_kinds.Confluence, key: str, met: list[str]) -> Reach:
    params = {"spaceKey": settings.space, "type": "page", "limit": 1, "expand": DETAILS}
    try:
        results = client.get("rest/api/content", params).get("results")
    except AccessRefused as error:
        if error.status == 410:
            return Reach("ok", ", ".join(met))
        return Reach("fail", f"{', '.join(met)}, but its pages cannot be listed ({error.status})", "check rights")
    first = results[0] if isinstance(results, list) and results and isinstance(results[0], dict) else None
    if first is None:
        return Reach("warn", f"{', '.join(met)}, but it lists no page", f"check sources.{key}.space and rights")
    if not first.get("restrictions"):
        detail = f"{', '.join(met)}, but restrictions of pages are not told: such pages are hidden"
        return Reach("fail", detail, "let the account see the restrictions of pages")
    return Reach("ok", ", ".join([*met, "restrictions of pages can be read"]))


def _listed(tools: McpTools, name: str, settings: source_kinds.ConfluenceMcp) -> str | None:
    """Return the fault of the server's list of the space, or None."""
    cql = f'type = page AND space = "{settings.space}"'
    try:
        answer = tools.call(name, space_key=settings.space, query=cql, cql=cql, limit=1)
    except ToolError as error:
        return f"the server cannot list space {settings.space!r}: {error}"
    if results_of(answer) is None:
        return f"{name} answered with something that is not a list of pages"
    pages = list(listed_of(answer))
    if not pages:
        return f"the server lists no page of space {settings.space!r}"
    named = named_spaces(pages[0].told)
    if named and settings.space.casefold() not in named:
        return f"asked for space {settings.space!r}, the server lists a page of {' or '.join(sorted(named))!r}"
    return None


def _site(base_url: str) -> str:
    """Return an address without credentials: user, password and query are left out."""
    parts = urlsplit(base_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path.rstrip('/')}"
