"""Decide whether a source may lose so much in one sync, or a person has to.

Belongs here: the decision, for every kind of source. Does not belong here: which pages a source lists (`sources`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from rag_serving.access.principals import NOBODY
from rag_serving.config.sources import SourceBase

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
    """Return what is lost if the sync may have seen less than there is: a large share, or all that belongs together.

    Args:
        settings: those of the source; a `max_deleted_share` of 1 accepts every deletion.
        before: the rows of the last sync.
        there: ids that this sync saw.
        files: names below the source's folder, by id; that of a row is its `source_file`, too.
        is_confirmed: whether each missing page is known to be gone, not only unlisted; a place may then go whole.
    """
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
    """Return whether a row that hangs on a page should still be there, as its page is and the settings ask for it."""
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
    """Yield what a page stands below: pages, and the folders of its file; an archive is a file, too."""
    yield from (f"below page {above}" for above in row["ancestors"] if above)
    yield from (
        f"in folder {above}" for above in PurePosixPath(file).parents if above.name and above.suffix.lower() != ".zip"
    )
