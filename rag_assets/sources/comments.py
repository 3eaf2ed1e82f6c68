"""What people wrote below a page, as one row of PAGES beside the page's own.

Belongs here: which comments count, their order, and what the row takes from its page: its readers above all.
Does not belong here: where a source keeps its comments.

The row is the comments' own, not a part of the page's body: a comment makes no version of its page, and a citation of a
page version has to stay true whatever is said below it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.sources.attachments import beside
from rag_assets.sources.base import Row
from rag_assets.sources.deletions import COMMENTS_MARK
from rag_assets.sources.envelope import content_hash


@dataclass(frozen=True)
class Comment:
    """One comment in its current version."""

    id: str
    body: str  # storage format
    version: int
    updated_at: datetime | None


def comments_row(page: Row, comments: Sequence[Comment], id_prefix: str) -> Row | None:
    """Return the row of a page's comments, oldest first; None where there are none.

    Its version is the sum of theirs, so that it grows with each comment and each edit.
    """
    said = sorted(comments, key=lambda one: (one.updated_at or datetime.min.replace(tzinfo=UTC), one.id))
    body = "".join(f"<div>{one.body}</div>" for one in said if one.body.strip())
    if not body:
        return None
    title = f"Comments on {page['title']}"
    row = beside(page)
    return {
        **row,
        "page_id": comments_id(page, id_prefix),
        "version": sum(one.version for one in said),
        "title": title,
        "updated_at": said[-1].updated_at or page["updated_at"],
        "body": body,
        "body_format": "storage",
        "content_hash": content_hash(title, body, "storage", row["anchor_flavor"]),
    }


def comments_id(page: Row, id_prefix: str) -> str:
    """Return the id of the row of a page's comments."""
    return f"{id_prefix}{COMMENTS_MARK}{page['page_id'].removeprefix(id_prefix)}"


def unchanged_comments(page: Row, before: Row) -> Row:
    """Return the row of comments that are the same, below a page that may have changed."""
    row = beside(page)
    title = f"Comments on {page['title']}"
    columns = {name: before[name] for name in ("page_id", "version", "updated_at", "body", "body_format")}
    return {**row, **columns, "title": title, "content_hash": content_hash(title, before["body"], "storage", "html")}


def moment_of(when: object) -> datetime | None:
    """Return an ISO 8601 date with its zone, to the millisecond, in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(when).astimezone(UTC) if isinstance(when, str) else None
    except (ValueError, OverflowError):
        return None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000) if moment else None
