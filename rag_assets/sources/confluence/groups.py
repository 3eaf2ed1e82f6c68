"""Who is in the groups that may read pages.

Belongs here: asking a site for the members of groups, by name on Data Center and by id on Cloud.
Does not belong here: which groups matter (`extras`), who a caller is (`rag_serving.access.group_members`).

A group whose members cannot be read has none: its name stands alone in the table.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from rag_assets.sources.confluence.client import ConfluenceClient, in_path
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault
from rag_assets.steps.readers.readers import names_in
from rag_serving.access.principals import clauses_of

_LIMIT = 200

GroupMember = tuple[str, str | None]
"""A group and a name of one of its users; None beside a group says only that the group was asked for."""


def groups_named(pages: pa.Table) -> list[str]:
    """Return the groups that the reader classes of PAGES name, in order."""
    classes = pages["readers"].unique().to_pylist()
    names = {name for readers in classes for clause in clauses_of(readers) for name in clause}
    return sorted(name.removeprefix("group:") for name in names if name.startswith("group:"))


def group_members(client: ConfluenceClient, groups: Iterable[str]) -> tuple[list[GroupMember], list[str]]:
    """Return the members of groups by every name that restrictions may give them, and a note for each group without
    answer.

    Raises:
        SourceError: the site as a whole fails.
    """
    rows: list[GroupMember] = []
    notes: list[str] = []
    for group in groups:
        rows.append((group, None))
        try:
            rows += [(group, user) for user in sorted(_users(client, group))]
        except (AccessRefused, ServerFault) as error:
            notes.append(f"the members of group {group!r} cannot be read, so it has none: {error}")
    return rows, notes


def _users(client: ConfluenceClient, group: str) -> set[str]:
    """`GET /rest/api/group/{name}/member`; Cloud has `/rest/api/group/{id}/membersByGroupId` instead."""
    try:
        entries = list(client.collect(f"rest/api/group/{in_path(group)}/member", {"limit": _LIMIT}))
    except AccessRefused as error:
        if error.status not in (400, 404, 405, 410):
            raise
        response = client.get("rest/api/group/by-name", {"name": group})
        if response.get("name") != group or not response.get("id"):
            raise AccessRefused(f"{client.base_url} knows no group {group!r}", 404) from None
        path = f"rest/api/group/{in_path(str(response['id']))}/membersByGroupId"
        entries = list(client.collect(path, {"limit": _LIMIT}))
    return {name.removeprefix("user:") for name in names_in(entries, "user")}
