"""What hangs on the pages of a space, listed for the whole space at once.

Belongs here: every file or comment of a space by CQL, in a request for two hundred of them; what a change shows in.
Does not belong here: rows (`attachments`, `comments`), when a single page is asked instead (`extras`).

A file or a comment that is added, edited or removed makes no version of its page, so versions of pages tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from rag_assets.sources.base import digest
from rag_assets.sources.confluence.client import ConfluenceClient, Envelope
from rag_assets.sources.confluence.listing import LIST_LIMIT
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault

Kind = Literal["attachment", "comment"]
Hanging = dict[str, list[Envelope]]
"""Entries by the raw id of their page."""


def list_hanging(client: ConfluenceClient, space: str, kind: Kind) -> Hanging | None:
    """Return all files or comments that search knows of; None where the site cannot tell this way.

    Search may not have learnt yet of what is new, and may know what is gone: the former comes with a later sync; of
    what is missing its page has to be asked.
    """
    params = {
        "cql": f'type = {kind} and space = "{space}"',
        "expand": "version,container,extensions" if kind == "attachment" else "version,container",
        "limit": LIST_LIMIT,
    }
    children: Hanging = {}
    try:
        for entry in client.collect("rest/api/content/search", params):
            page_id = _page_of(entry)
            if page_id is None:
                return None
            children.setdefault(page_id, []).append(entry)
    except (AccessRefused, ServerFault):
        return None
    return children


def state_of(entries: Iterable[Envelope]) -> str:
    """Return a digest of ids and versions: another one where anything was added, edited or removed."""
    return digest(*sorted(f"{entry.get('id')}:{_number(entry)}" for entry in entries))


NOTHING_HANGS = state_of(())


def _page_of(entry: Envelope) -> str | None:
    """Return the page that a file or a comment hangs on.

    On both kinds of site `container` is that page (`_expandable.container` names its address, and other clients rely on
    its id: sooperset/mcp-atlassian#796, Spenhouet/confluence-markdown-exporter#302). Cloud's reference calls it the
    space that content is in, as it is for pages: a space, which has a key, tells nothing here.
    """
    container = entry.get("container")
    page_id = container.get("id") if isinstance(container, dict) and "key" not in container else None
    return str(page_id) if page_id else None


def _number(entry: Envelope) -> object:
    version = entry.get("version")
    return version.get("number") if isinstance(version, dict) else None
