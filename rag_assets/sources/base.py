"""What every kind of source promises, and what a sync gives back.

Belongs here: the `Source` protocol, its records, and comparing a sync with the one before.
Does not belong here: any kind of source, or files and sockets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from rag_assets.sources.deletions import doubtful_loss
from rag_assets.steps.readers.readers import ReaderOrigins
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.sources import SourceBase
from rag_serving.escaping.redaction import RedactedError

READING_VERSION = 9
"""Raised when the same source is read into other rows than before, so that unchanged sources are read again."""

Progress = Callable[[int, int], None]
"""Called with (done, in all)."""

Row = dict[str, Any]
"""A row of PAGES."""


class SourceError(RedactedError):
    """The source as a whole cannot be read, so nothing is deleted; the message is one line and says how to mend it."""


@dataclass(frozen=True)
class SyncResult:
    """The pages of a source after a complete sync, and what happened on the way.

    `seen` counts every page the source listed: indexed, excluded or failed. Reasons are (page id, reason); where no id
    could be read, the file's name stands for it. A page in `failures` keeps its row of the last sync, if it had one.
    `hidden` pages have a row that nobody may read, because their restrictions could not be known.
    """

    pages: pa.Table  # PAGES, complete, by page id
    seen: int
    changed: int  # rows that are new or differ in any column
    deleted: int  # rows of the last sync that are gone
    excluded: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, str], ...]
    hidden: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]  # about the source as a whole
    state: dict[str, Any]  # JSON; given to the next sync
    groups: tuple[tuple[str, str | None], ...] | None = None  # rows of GROUP_MEMBERS; None: not asked for
    origins: ReaderOrigins | None = None  # what narrowed the readers of the pages

    @property
    def failed(self) -> int:
        """How many pages could not be read."""
        return len(self.failed_ids)

    @property
    def failed_ids(self) -> frozenset[str]:
        """Which these are; a page that keeps its last row is among them."""
        return frozenset(page_id for page_id, _ in self.failures)

    @property
    def indexed(self) -> int:
        """How many pages have a row of this sync."""
        return len(set(self.pages["page_id"].to_pylist()) - self.failed_ids)

    @property
    def unaccounted(self) -> int:
        """Enumerated less indexed, excluded and failed: anything but 0 is a fault of this program."""
        return self.seen - self.indexed - len(dict(self.excluded)) - self.failed


class Source(Protocol):
    """Where pages come from: one space, dump, book or folder."""

    key: str

    def fingerprint(self) -> str | None:
        """Return a cheap digest of the source's content and settings; None where only a sync can tell.

        Raises:
            SourceError: the source is not there.
        """
        ...

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the source, reusing what did not change.

        Args:
            previous: the PAGES table of the last complete sync, None for the first.
            state: `SyncResult.state` of that sync, empty for the first; empty beside `previous` reads everything anew.
            progress: called with (done, in all) while pages are read.

        Raises:
            SourceError: nothing is known about the whole, so everything stays as it is.
        """
        ...


_NONE: Mapping[str, str] = MappingProxyType({})


def rows_by_id(table: pa.Table | None) -> dict[str, Row]:
    """Return the rows of a PAGES table, by page id."""
    return {row["page_id"]: row for row in table.to_pylist()} if table is not None else {}


def finish(
    settings: SourceBase | None,
    previous: Mapping[str, Row],
    rows: Mapping[str, Row],
    *,
    seen: int,
    state: Mapping[str, Any],
    excluded: Iterable[tuple[str, str]] = (),
    failures: Iterable[tuple[str, str]] = (),
    hidden: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
    origins: ReaderOrigins | None = None,
    files: Mapping[str, str] = _NONE,
    unseen: Mapping[str, str] = _NONE,
    is_confirmed: bool = False,
) -> SyncResult:
    """Return a complete sync as a result; the same pages give the same table.

    `settings` decide what may be gone: None where people delete what is theirs, or other pages are read than before.
    `unseen` are excluded ids that count as gone, with the reason; `files` and `is_confirmed` those of `doubtful_loss`.

    Raises:
        SourceError: the sync may have seen less than there is, so nothing is deleted.
    """
    excluded, failures = tuple(sorted(excluded)), tuple(sorted(failures))
    there = (rows.keys() | dict(failures).keys() | dict(excluded).keys()) - unseen.keys()
    if settings:
        why = f" (page {min(unseen)}: {unseen[min(unseen)]})" if unseen else ""
        refuse_loss(settings, previous, there, files, is_confirmed=is_confirmed, why=why)
    return SyncResult(
        pages=PAGES.table([rows[page_id] for page_id in sorted(rows)]),
        seen=seen,
        changed=sum(previous.get(page_id) != {**_EMPTY, **row} for page_id, row in rows.items()),
        deleted=len(previous.keys() - rows.keys()),
        excluded=excluded,
        failures=failures,
        hidden=tuple(sorted(hidden)),
        notes=tuple(notes),
        state={**state, "complete": True, "enumerated": seen, "finished_at": datetime.now(UTC).isoformat()},
        origins=origins,
    )


def refuse_loss(
    settings: SourceBase,
    previous: Mapping[str, Row],
    there: Collection[str],
    files: Mapping[str, str] = _NONE,
    *,
    is_confirmed: bool,
    why: str = "",
) -> None:
    """Raise SourceError where a sync may have seen less than there is; arguments as those of `doubtful_loss`."""
    if lost := doubtful_loss(settings, previous, there, files, is_confirmed):
        key = next(iter(previous.values()))["source"]
        raise SourceError(
            f"source {key!r} lacks {lost} that it had{why}; nothing was deleted. If they were deleted on purpose, set "
            f"sources.{key}.max_deleted_share to 1 for one build"
        )


_EMPTY: Row = dict.fromkeys(PAGES.optional)


def settings_digest(key: str, config: SourceBase) -> str:
    """Return a digest of everything but the content that shapes the rows of a source."""
    shaping = config.model_dump_json(exclude={"schedule", "stale_after_hours", "profile"})
    return digest(key, shaping, f"{PAGES.version}.{READING_VERSION}")


def digest(*parts: str) -> str:
    """Return a short digest of a sequence of strings."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]
