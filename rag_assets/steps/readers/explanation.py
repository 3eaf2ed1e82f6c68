"""Why somebody may read a page or may not: each restriction that a sync met, and whether it lets a principal in.

Belongs here: putting a page's readers together again from what its sync wrote down, level by level.
Does not belong here: deriving readers (`readers`), finding the page (`rag_assets.readers.command`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rag_assets.steps.readers.readers import UNNAMED, Grants, ReaderOrigins, SpaceReaders, lineage, space_readers
from rag_serving.access.principals import EVERYONE, NOBODY, Principal, clauses_of, reader_class, satisfies

Where = Literal["configuration", "space", "ancestor", "page", "further"]

Row = Mapping[str, Any]
"""A row of PAGES, or some of its columns."""


@dataclass(frozen=True)
class Level:
    """One thing that narrows who may read a page."""

    where: Where
    readers: str  # reader class
    reason: str  # where it comes from
    page_id: str | None = None  # of the restricted page
    lets_in: bool | None = None  # the principal; None: nobody was named

    def payload(self) -> dict[str, object]:
        """Return the JSON shape; `readers` as clauses of which each must name the principal."""
        return {**vars(self), "readers": clauses(self.readers)}


@dataclass(frozen=True)
class Explained:
    """Who may read a page, by what, and whether a principal may."""

    page_id: str
    readers: str
    levels: tuple[Level, ...]
    may_read: bool | None
    notes: tuple[str, ...]


def explain(
    row: Row,
    above: Mapping[str, Row],
    origins: ReaderOrigins | None,
    source: str,
    setting: SpaceReaders,
    hidden: str | None,
    principal: Principal | None,
) -> Explained:
    """Explain the readers of a page.

    Args:
        row: its row of PAGES.
        above: rows of the source's pages by id, of which the page's ancestors are read.
        origins: what its sync wrote down; None: an older program's sync wrote nothing.
        source: key of its source.
        setting: `sources.KEY.readers` as it is configured now.
        hidden: why its sync hid it; None: it did not.
        principal: who is asked about; None: nobody in particular.
    """
    readers, notes = str(row["readers"]), []
    levels = list(_levels(row, above, origins, source, setting)) if origins else []
    required = {clause for level in levels for clause in clauses_of(level.readers)}
    if further := clauses_of(readers) - required:
        reason = hidden or ("as its last sync left it" if origins else "its restrictions as a whole")
        levels.append(Level("further", reader_class(further), reason, str(row["page_id"])))
    if origins is None:
        notes.append(f"which restriction it is was not written down yet; `citelock build {source}` does")
    elif setting != "from_source" and space_readers(setting) != origins.space:
        notes.append(f"sources.{source}.readers has changed since the last sync; `citelock build {source}` applies it")
    if readers != NOBODY and required - clauses_of(readers):
        notes.append(f"its readers are of an earlier sync than these restrictions; `citelock build {source}`")
    if principal is None:
        return Explained(str(row["page_id"]), readers, tuple(levels), None, tuple(notes))
    judged = tuple(replace(level, lets_in=satisfies(principal, level.readers)) for level in levels)
    return Explained(str(row["page_id"]), readers, judged, satisfies(principal, readers), tuple(notes))


def _levels(
    row: Row, above: Mapping[str, Row], origins: ReaderOrigins, source: str, setting: SpaceReaders
) -> Iterator[Level]:
    """Yield the space, then the ancestors from the root, then the page; of ancestors only those that narrow."""
    if setting == "from_source":
        yield Level("space", origins.space, f"permissions of space {row['space']}")
    else:
        yield Level("configuration", origins.space, f"sources.{source}.readers")
    for one in _line(row, above):
        level, reason = origins.levels.get(one, (EVERYONE, None))
        if one == row["page_id"]:
            yield Level("page", level, _reason(level, reason), one)
        elif level != EVERYONE:
            title = _title(one, row, above)
            yield Level("ancestor", level, f"{_reason(level, reason)} of {title}", one)


def _line(row: Row, above: Mapping[str, Row]) -> Sequence[str]:
    """Return the page's ancestors, root first, those that only its ancestors name, and the page."""
    pages = {str(one): Grants(tuple(page["ancestors"] or ()), None) for one, page in above.items()}
    pages[str(row["page_id"])] = Grants(tuple(row["ancestors"] or ()), None)
    own = list(row["ancestors"] or ())
    further = [one for one in lineage(str(row["page_id"]), pages) if one not in own and one != row["page_id"]]
    return [*own, *further, str(row["page_id"])]


def _title(page_id: str, row: Row, above: Mapping[str, Row]) -> str:
    if page_id == UNNAMED:
        return "an ancestor without an id"
    titles = dict(zip(row["ancestors"] or (), row.get("ancestor_titles") or (), strict=False))
    title = above.get(page_id, {}).get("title") or titles.get(page_id)
    return f"page {page_id} “{title}”" if title else f"page {page_id}"


def _reason(level: str, reason: str | None) -> str:
    if level == EVERYONE:
        return "no restriction of its own"
    return "restriction" if reason is None else f"restriction ({reason.removeprefix(': ')})"


def clauses(readers: str) -> list[list[str]] | str:
    """Return a reader class as lists of principals, of each of which one must match; `everyone` and `nobody` by
    name."""
    if readers in (EVERYONE, NOBODY):
        return readers
    return sorted(sorted(clause) for clause in clauses_of(readers))


def in_words(readers: Sequence[Sequence[str]] | str) -> str:
    """Return what `clauses` gave, for people: `(group:ops or user:ann) and group:hr`."""
    if isinstance(readers, str):
        return readers
    return " and ".join(_either(clause, len(readers) > 1) for clause in readers)


def _either(clause: Sequence[str], several: bool) -> str:
    words = " or ".join(clause)
    return f"({words})" if several and len(clause) > 1 else words
