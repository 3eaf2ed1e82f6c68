"""A live space with what hangs on its pages: files and comments.

Belongs here: listing them for each page, fetching the files that changed, and putting the rows beside the pages.
Does not belong here: the pages (`confluence`), which files are read (`attachments`), what a row of comments is
(`comments`).

A file or a comment that is added makes no version of its page, so each sync asks every page for them: one request a
page with `attachments`, another with `comments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from rag_assets.sources.attachments import COMMENTS_MARK, MARK, Attached, attachment_rows, hangs_on_a_page, kept_row
from rag_assets.sources.base import Progress, Row, SourceError, SyncResult, finish, rows_by_id
from rag_assets.sources.comments import Comment, comments_row, moment_of
from rag_assets.sources.confluence import Confluence, open_client
from rag_assets.sources.confluence_client import FAILING_PAGES_IN_A_ROW, ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence_replies import Faulty, Unreadable
from rag_assets.sources.envelope import EnvelopeError
from rag_serving.schema import PAGES
from rag_serving.source_kinds import Confluence as Settings


@dataclass
class _Unlisted:
    """Pages whose files or comments could not be listed; what the last sync knew of them stays."""

    what: str
    reasons: list[tuple[str, str]] = field(default_factory=list)
    in_a_row: int = 0

    def add(self, page_id: str, error: SourceError) -> None:
        """Record a page; raises SourceError where so many fail one after the other that the site does."""
        self.reasons.append((page_id, f"its {self.what} cannot be listed ({error}); those of the last sync stay"))
        self.in_a_row += isinstance(error, Faulty)
        if self.in_a_row >= FAILING_PAGES_IN_A_ROW:
            raise SourceError(
                f"the {self.what} of {self.in_a_row} pages in a row failed, so the site does; last: {error}"
            )

    def kept(self, hanging: Mapping[str, Row], pages: Mapping[str, Row], mark: str) -> dict[str, Row]:
        """The rows of the last sync for these pages, under the readers that the pages have now."""
        failed = {page_id for page_id, _ in self.reasons}
        return {
            row_id: kept_row(row, pages[row["ancestors"][-1]])
            for row_id, row in hanging.items()
            if row_id.startswith(mark) and row["ancestors"][-1] in failed
        }


class ConfluenceExtras:
    """One space of a site; without `attachments` and `comments` it is the pages alone."""

    def __init__(self, key: str, settings: Settings, folder: Path, client: ConfluenceClient | None = None) -> None:
        self.key = key
        self._settings = settings
        self._folder = folder
        self._client = client

    def fingerprint(self) -> None:
        """Only a sync can tell whether the space changed."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Sync the pages, then what hangs on them; see `Confluence.sync`."""
        known = rows_by_id(previous)
        pages: list[Mapping[str, object]] = [
            row for one, row in known.items() if not hangs_on_a_page(one, self._settings.id_prefix)
        ]
        with nullcontext(self._client) if self._client else open_client(self._settings) as client:
            inner = Confluence(self.key, self._settings, self._folder, client)
            result = inner.sync(PAGES.table(pages) if previous is not None else None, state, progress)
            asked = self._settings.attachments != "none" or self._settings.comments
            if not asked and len(pages) == len(known):
                return result
            return self._with_files(client, known, state, result)

    def _with_files(
        self, client: ConfluenceClient, known: Mapping[str, Row], state: Mapping[str, Any], result: SyncResult
    ) -> SyncResult:
        pages, prefix = rows_by_id(result.pages), self._settings.id_prefix
        hanging = {one: row for one, row in known.items() if hangs_on_a_page(one, prefix)}
        no_files, no_comments = _Unlisted("attachments"), _Unlisted("comments")
        listed = pages if self._settings.attachments != "none" else {}
        found = (one for page_id in listed for one in self._files_of(client, page_id, no_files))
        attached = attachment_rows(found, pages, self._settings, hanging if "identity" in state else {})
        asked = pages.values() if self._settings.comments else ()
        comments = {row["page_id"]: row for page in asked if (row := self._comments_of(client, page, no_comments))}
        kept = no_files.kept(hanging, pages, prefix + MARK) | no_comments.kept(hanging, pages, prefix + COMMENTS_MARK)
        kept = {row_id: row for row_id, row in kept.items() if row_id not in attached.rows}
        return finish(
            known,
            {**pages, **kept, **attached.rows, **comments},
            seen=result.seen + attached.seen + len(kept) + len(comments),
            excluded=[*result.excluded, *attached.excluded.items()],
            failures=[*result.failures, *attached.failures.items(), *no_files.reasons, *no_comments.reasons],
            hidden=result.hidden,
            notes=result.notes,
            state=result.state,
        )

    def _entries(
        self, client: ConfluenceClient, page_id: str, kind: str, expand: str, without: _Unlisted
    ) -> list[Envelope]:
        raw_id = page_id.removeprefix(self._settings.id_prefix)
        path = f"rest/api/content/{in_path(raw_id)}/child/{kind}"
        try:
            entries = list(client.collect(path, {"expand": expand, "depth": "all", "limit": 100}))
        except (Unreadable, Faulty) as error:
            without.add(page_id, error)
            return []
        without.in_a_row = 0
        return [entry for entry in entries if entry.get("status", "current") == "current"]

    def _comments_of(self, client: ConfluenceClient, page: Row, without: _Unlisted) -> Row | None:
        """The row of a page's comments, replies and those on words of the page included."""
        entries = self._entries(client, page["page_id"], "comment", "body.storage,version", without)
        comments = []
        for entry in entries:
            body, version = _object(_object(entry, "body"), "storage").get("value"), _object(entry, "version")
            if isinstance(body, str):
                number = version.get("number")
                number = number if isinstance(number, int) else 1
                comments.append(Comment(str(entry.get("id")), body, number, moment_of(version.get("when"))))
        return comments_row(page, comments, self._settings.id_prefix)

    def _files_of(self, client: ConfluenceClient, page_id: str, without: _Unlisted) -> Iterator[Attached]:
        for entry in self._entries(client, page_id, "attachment", "version,extensions", without):
            if (one := self._attached(client, page_id, entry)) is not None:
                yield one

    def _attached(self, client: ConfluenceClient, page_id: str, entry: Envelope) -> Attached | None:
        links, told, version = (_object(entry, name) for name in ("_links", "extensions", "version"))
        link, name = links.get("download"), entry.get("title")
        if not isinstance(link, str) or not isinstance(name, str):
            return None
        size, number = told.get("fileSize"), version.get("number")
        return Attached(
            id=str(entry.get("id")).removeprefix(MARK),
            page_id=page_id,
            name=name,
            read=partial(_download, client, link),
            version=number if isinstance(number, int) else None,
            updated_at=moment_of(version.get("when")),
            size=size if isinstance(size, int) else None,
            url=f"{client.base_url}{urlsplit(link).path}",
        )


def _object(entry: Envelope, name: str) -> dict[str, Any]:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _download(client: ConfluenceClient, link: str) -> bytes:
    """A file's bytes; a fault of this one file is no fault of the site."""
    try:
        return client.download(link)
    except (Unreadable, Faulty) as error:
        raise EnvelopeError(f"it cannot be fetched: {error}") from None
