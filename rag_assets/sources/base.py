"""The interface of every kind of source, the result of a sync, and the original files that are kept of its pages."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Protocol, TypedDict

import pyarrow as pa

from rag_assets.steps.readers import ReaderOrigins
from rag_serving.access.principals import NOBODY
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import write_bytes
from rag_serving.config.sources import SourceBase
from rag_serving.escaping.redaction import RedactedError

ORIGINALS_FOLDER = "originals"
"""Of `Store.source(key)`."""


class OriginalFacts(TypedDict):
    """The column `original` of PAGES."""

    sha256: str
    media_type: str
    bytes: int
    page_count: int | None  # None: not paged, or not known
    received_sha256: str | None  # of the file as it came, where this one was made from it; None: this is it


def keep_original(
    folder: Path, content: bytes, media_type: str, page_count: int | None = None, received_sha256: str | None = None
) -> OriginalFacts:
    """Store a whole file under its digest, and return its facts for the row; an existing one is not written.
    `received_sha256`: of this one's source file."""
    sha256 = hashlib.sha256(content).hexdigest()
    facts = OriginalFacts(
        sha256=sha256, media_type=media_type, bytes=len(content), page_count=page_count, received_sha256=received_sha256
    )
    if not is_kept(folder, facts):
        write_bytes(folder / sha256, content)
    return facts


def is_kept(folder: Path, original: OriginalFacts) -> bool:
    """Return whether a file of this digest and size exists; its content is compared on publication."""
    path = folder / original["sha256"]
    return path.is_file() and path.stat().st_size == original["bytes"]


def remove_unnamed(folder: Path, named: Collection[str]) -> list[str]:
    """Remove the files whose digest is not among `named`, and the remains of a killed writer; return their names."""
    if not folder.is_dir():
        return []
    unnamed = sorted(path.name for path in folder.iterdir() if path.name not in named)
    for name in unnamed:
        (folder / name).unlink(missing_ok=True)
    return unnamed


MARK, COMMENTS_MARK = "att", "com"
"""What the ids of attachments and of comments begin with; those of pages are numbers."""
_FEW = 5
"""So many pages whose deletion is confirmed may go whatever their share: small spaces are tidied, too."""
_READERS_MIN, _PLACE_MIN = 2, 3
"""Pages from which on the loss of all that the same may read, or that stand in the same place, is a pattern."""
Rows = Mapping[str, Mapping[str, Any]]
"""Rows of PAGES by id."""


def hangs_on_a_page(page_id: str, id_prefix: str) -> bool:
    """Return whether a row of PAGES is a file's or that of comments."""
    return page_id.removeprefix(id_prefix).startswith((MARK, COMMENTS_MARK))


def doubtful_loss(
    settings: SourceBase, before: Rows, there: Collection[str], files: Mapping[str, str], is_confirmed: bool
) -> str | None:
    """Return the loss, if the sync may have seen less than there is: a large share, or all of a group. `there`: ids
    that this sync saw; `files`: names below the source's folder, by id (that of a row is its `source_file`, too);
    `is_confirmed`: whether each missing page is known to be gone, not only unlisted, so that a place may go whole. A
    `max_deleted_share` of 1 accepts every deletion."""
    if settings.max_deleted_share == 1 or before.keys() <= set(there):
        return None
    pages = {one: row for one, row in before.items() if not hangs_on_a_page(one, settings.id_prefix)}
    hanging = {
        one: before[one] for one in before.keys() - pages.keys() if _is_wanted(settings, one, before[one], there)
    }
    losses = [
        *_large_shares(settings.max_deleted_share, pages, hanging, there, _FEW if is_confirmed else 1),
        *_patterns(pages, there, None if is_confirmed else files),
    ]
    return losses[0] if losses else None


def _is_wanted(settings: SourceBase, page_id: str, row: Mapping[str, Any], there: Collection[str]) -> bool:
    is_file = page_id.removeprefix(settings.id_prefix).startswith(MARK)
    asked = getattr(settings, "attachments", "none") != "none" if is_file else getattr(settings, "comments", False)
    return asked and row["ancestors"][-1] in there


def _large_shares(allowed: float, pages: Rows, hanging: Rows, there: Collection[str], few: int) -> Iterator[str]:
    for what, rows in (("pages", pages), ("attachments and comments", hanging)):
        gone = len(rows.keys() - there)
        if gone > allowed * len(rows) and (gone > few or (gone == len(rows) and rows is pages)):
            yield f"{gone} of {len(rows)} {what} (more than max_deleted_share {allowed:g})"


def _patterns(pages: Rows, there: Collection[str], files: Mapping[str, str] | None) -> Iterator[str]:
    """Yield the readers all of whose pages are gone and, with `files`, the places."""
    together: dict[tuple[int, str], set[str]] = defaultdict(set)
    for page_id, row in pages.items():
        together[_READERS_MIN, f"with the readers {row['readers']}"].add(page_id)
        for place in () if files is None else _places(row, files.get(page_id) or row["source_file"] or ""):
            together[_PLACE_MIN, place].add(page_id)
    together.pop((_READERS_MIN, f"with the readers {NOBODY}"), None)
    for (least, pattern), ids in together.items():
        if least <= len(ids) < len(pages) and ids.isdisjoint(there):
            yield f"all {len(ids)} pages {pattern}"


def _places(row: Mapping[str, Any], file: str) -> Iterator[str]:
    """Yield the places above a page: pages, and the folders of its file; an archive is a file, too."""
    yield from (f"below page {above}" for above in row["ancestors"] if above)
    yield from (
        f"in folder {above}" for above in PurePosixPath(file).parents if above.name and above.suffix.lower() != ".zip"
    )


READING_VERSION = 10
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

    `seen` counts every page the source listed: indexed, excluded or failed. Reasons are (page id, reason); without a
    readable id, the file's name replaces it. A page in `failures` keeps its row of the last sync, if it had one.
    `hidden` pages have a row that nobody may read, because their restrictions are unknown.
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
    groups: tuple[tuple[str, str | None], ...] | None = None  # rows of GROUP_MEMBERS; None: not requested
    origins: ReaderOrigins | None = None  # what narrowed the readers of the pages

    @property
    def failed(self) -> int:
        """The number of unreadable pages."""
        return len(self.failed_ids)

    @property
    def failed_ids(self) -> frozenset[str]:
        """The ids of the unreadable pages, including those that keep their last row."""
        return frozenset(page_id for page_id, _ in self.failures)

    @property
    def indexed(self) -> int:
        """The number of pages with a row of this sync."""
        return len(set(self.pages["page_id"].to_pylist()) - self.failed_ids)

    @property
    def unaccounted(self) -> int:
        """Enumerated less indexed, excluded and failed: anything but 0 is a fault of this program."""
        return self.seen - self.indexed - len(dict(self.excluded)) - self.failed


class Source(Protocol):
    """A source of pages: one space, dump, book or folder."""

    key: str

    def fingerprint(self) -> str | None:
        """Return a cheap digest of the source's content and settings; None if only a sync can detect changes. Raises
        SourceError: the source does not exist."""
        ...

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Read the source, reusing unchanged pages. `previous`: the PAGES table of the last complete sync, None for the
        first. `state`: `SyncResult.state` of that sync, empty for the first; empty beside `previous` reads everything
        anew. `progress`: called with (done, in all) while pages are read. Raises SourceError: nothing is known about
        the whole, so everything stays as it is."""
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

    `settings` limit deletions: None if people delete their own, or other pages are read than before. `unseen` are
    excluded ids that count as gone, with the reason; `files` and `is_confirmed` those of `doubtful_loss`. Raises
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
    """Raise SourceError if a sync may have seen less than there is; arguments as those of `doubtful_loss`."""
    if lost := doubtful_loss(settings, previous, there, files, is_confirmed):
        key = next(iter(previous.values()))["source"]
        raise SourceError(
            f"source {key!r} lacks {lost} that it had{why}; nothing was deleted. If they were deleted on purpose, set "
            f"sources.{key}.max_deleted_share to 1 for one build"
        )


def open_to(key: str) -> str:
    return f"set sources.{key}.readers to everyone or to a list of group:NAME and user:NAME"


def closed_notes(settings: SourceBase, key: str, why: str) -> list[str]:
    """Return a note where nobody can read a source, because it does not say itself who may."""
    closed = settings.readers == "from_source"
    return [f"{why}, so nobody can read source {key!r}; {open_to(key)}"] if closed else []


_EMPTY: Row = dict.fromkeys(PAGES.optional)


def settings_digest(key: str, config: SourceBase) -> str:
    """Return a digest of everything but the content that shapes the rows of a source."""
    shaping = config.model_dump_json(exclude={"schedule", "stale_after_hours", "profile", "webhook"})
    return digest(key, shaping, f"{PAGES.version}.{READING_VERSION}")


def digest(*parts: str) -> str:
    """Return a short digest of a sequence of strings."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:32]
