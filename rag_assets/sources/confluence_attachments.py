"""A live space with the files of its pages.

Belongs here: listing the files of each page, fetching those that changed, and putting them beside the pages.
Does not belong here: the pages (`confluence`), or which files are read and what becomes of them (`attachments`).

A file that is added or replaced makes no version of its page, so each sync asks for the files of every page: one
request a page, only with `attachments`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from rag_assets.sources.attachments import MARK, Attached, attachment_rows, is_attachment, kept_row
from rag_assets.sources.base import Progress, Row, SourceError, SyncResult, finish, rows_by_id
from rag_assets.sources.confluence import Confluence, open_client
from rag_assets.sources.confluence_client import FAILING_PAGES_IN_A_ROW, ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence_replies import Faulty, Unreadable
from rag_assets.sources.envelope import EnvelopeError
from rag_serving.config import Confluence as Settings
from rag_serving.schema import PAGES


@dataclass
class _Unlisted:
    """Pages whose files could not be listed, by page id, and how many it were one after the other."""

    reasons: dict[str, str] = field(default_factory=dict)
    in_a_row: int = 0


class ConfluenceAttachments:
    """One space of a site; without `attachments` it is the pages alone."""

    def __init__(self, key: str, settings: Settings, folder: Path, client: ConfluenceClient | None = None) -> None:
        self.key = key
        self._settings = settings
        self._folder = folder
        self._client = client

    def fingerprint(self) -> None:
        """Only a sync can tell whether the space changed."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Sync the pages, then their files; see `Confluence.sync`."""
        known = rows_by_id(previous)
        pages: list[Mapping[str, object]] = [
            row for one, row in known.items() if not is_attachment(one, self._settings.id_prefix)
        ]
        with nullcontext(self._client) if self._client else open_client(self._settings) as client:
            inner = Confluence(self.key, self._settings, self._folder, client)
            result = inner.sync(PAGES.table(pages) if previous is not None else None, state, progress)
            if self._settings.attachments == "none" and len(pages) == len(known):
                return result
            return self._with_files(client, known, state, result)

    def _with_files(
        self, client: ConfluenceClient, known: Mapping[str, Row], state: Mapping[str, Any], result: SyncResult
    ) -> SyncResult:
        pages, unlisted = rows_by_id(result.pages), _Unlisted()
        files = {one: row for one, row in known.items() if is_attachment(one, self._settings.id_prefix)}
        wanted = pages if self._settings.attachments != "none" else {}
        found = (one for page_id in wanted for one in self._files_of(client, page_id, unlisted))
        attached = attachment_rows(found, pages, self._settings, files if "identity" in state else {})
        kept = {
            row_id: kept_row(row, pages[row["ancestors"][-1]])
            for row_id, row in files.items()
            if row["ancestors"][-1] in unlisted.reasons and row_id not in attached.rows
        }
        return finish(
            known,
            {**pages, **kept, **attached.rows},
            seen=result.seen + attached.seen + len(kept),
            excluded=[*result.excluded, *attached.excluded.items()],
            failures=[*result.failures, *attached.failures.items(), *unlisted.reasons.items()],
            hidden=result.hidden,
            notes=result.notes,
            state=result.state,
        )

    def _files_of(self, client: ConfluenceClient, page_id: str, unlisted: _Unlisted) -> Iterator[Attached]:
        """The files of a page; where they cannot be listed those of the last sync stay."""
        raw_id = page_id.removeprefix(self._settings.id_prefix)
        path = f"rest/api/content/{in_path(raw_id)}/child/attachment"
        try:
            entries = list(client.collect(path, {"expand": "version,extensions", "limit": 100}))
        except (Unreadable, Faulty) as error:
            unlisted.reasons[page_id] = f"its attachments cannot be listed ({error}); those of the last sync stay"
            unlisted.in_a_row += isinstance(error, Faulty)
            if unlisted.in_a_row >= FAILING_PAGES_IN_A_ROW:
                raise SourceError(
                    f"the attachments of {unlisted.in_a_row} pages in a row failed; last: {error}"
                ) from None
            return
        unlisted.in_a_row = 0
        for entry in entries:
            if (one := self._attached(client, page_id, entry)) is not None:
                yield one

    def _attached(self, client: ConfluenceClient, page_id: str, entry: Envelope) -> Attached | None:
        links, told, version = (_object(entry, name) for name in ("_links", "extensions", "version"))
        link, name = links.get("download"), entry.get("title")
        if entry.get("status", "current") != "current" or not isinstance(link, str) or not isinstance(name, str):
            return None
        size, number = told.get("fileSize"), version.get("number")
        return Attached(
            id=str(entry.get("id")).removeprefix(MARK),
            page_id=page_id,
            name=name,
            read=partial(_download, client, link),
            version=number if isinstance(number, int) else None,
            updated_at=_moment(version.get("when")),
            size=size if isinstance(size, int) else None,
            url=f"{client.base_url}{urlsplit(link).path}",
        )


def _object(entry: Envelope, name: str) -> dict[str, Any]:
    found = entry.get(name)
    return found if isinstance(found, dict) else {}


def _moment(when: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(when).astimezone(UTC) if isinstance(when, str) else None
    except ValueError:
        return None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000) if moment else None


def _download(client: ConfluenceClient, link: str) -> bytes:
    """A file's bytes; a fault of this one file is no fault of the site."""
    try:
        return client.download(link)
    except (Unreadable, Faulty) as error:
        raise EnvelopeError(f"it cannot be fetched: {error}") from None
