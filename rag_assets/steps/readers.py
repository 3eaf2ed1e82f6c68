"""The readers of a page: the space's readers, narrowed by the page's own restrictions and those of every ancestor.

An empty list of restrictions is "no restriction at this level", not "nobody". Unknown restrictions let nobody in. A
page's readers are explained level by level, from its sync's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rag_serving.access.principals import EVERYONE, NOBODY, Principal, clauses_of, reader_class, satisfies

SpaceReaders = Literal["from_source", "everyone"] | list[str]
UNNAMED = ""
"""An ancestor whose id is not said (real scrapes have them); it is always among the missing."""
_UNDERSTOOD = frozenset({"user", "group"})
_TYPES: Mapping[str, frozenset[str | None]] = {
    "user": frozenset({"known", "unknown", "user", None}),
    "group": frozenset({"group", None}),
}
_NAMES: Mapping[str, tuple[str, ...]] = {"user": ("username", "accountId", "userKey"), "group": ("name",)}


class RestrictionError(Exception):
    """Restrictions that this program does not understand; the message says what is wrong with them."""


@dataclass(frozen=True)
class Grants:
    """One page's own restrictions."""

    ancestors: tuple[str, ...] | None  # ids, root first; None: not said
    own: str | None  # reader class of its own read restrictions; None: not said
    fault: str | None = None  # why `own` is nobody though the page did say something


@dataclass(frozen=True)
class ReaderOrigins:
    """The origins of pages' reader restrictions: stored beside them for explanations."""

    space: str  # reader class of the space
    levels: Mapping[str, tuple[str, str | None]]  # page id -> its own reader class but everyone, and why if nobody

    def prefixed(self, prefix: str) -> ReaderOrigins:
        """Return the same by ids with the source's prefix."""
        levels = {f"{prefix}{one}" if one != UNNAMED else one: level for one, level in self.levels.items()}
        return ReaderOrigins(self.space, levels)

    @classmethod
    def of(cls, payload: object) -> ReaderOrigins | None:
        """Return the origins in a `payload`; None for anything else."""
        try:
            space, levels = payload["space"], payload["levels"]  # type: ignore[index]
            read = {str(one): (str(level), None if why is None else str(why)) for one, (level, why) in levels.items()}
            return cls(str(space), read)
        except (TypeError, KeyError, ValueError, AttributeError):
            return None

    def payload(self) -> dict[str, object]:
        """Return the JSON shape, in `sync_state.json`."""
        return {"space": self.space, "levels": {one: list(level) for one, level in self.levels.items()}}


@dataclass(frozen=True)
class EffectiveReaders:
    """The reader class of each page, why nobody may read some of them, and what narrowed them."""

    readers: Mapping[str, str]
    hidden: Mapping[str, str]  # page id -> reason
    origins: ReaderOrigins


def grants_of(envelope: Mapping[str, Any], id_prefix: str = "") -> Grants:
    """Return a page's own restrictions in a REST v1 content envelope; never raises."""
    try:
        own, fault = restriction_readers(envelope.get("restrictions", {})), None
    except RestrictionError as error:
        own, fault = NOBODY, str(error)
    return Grants(_ancestor_ids(envelope.get("ancestors"), id_prefix), own, fault)


def restriction_readers(restrictions: object) -> str | None:
    """Return the reader class of a `restrictions` block; None if it is absent or was not expanded at all (`{}`).

    Users and groups are alternatives: one clause. Raises RestrictionError: it differs from REST v1's documentation.
    """
    if restrictions == {}:
        return None
    read = restrictions.get("read") if isinstance(restrictions, dict) else None
    lists = read.get("restrictions") if isinstance(read, dict) else None
    if not isinstance(lists, dict):
        raise RestrictionError("its restrictions do not say who may read it")
    entries = {kind: _entries(collection, kind) for kind, collection in lists.items() if not kind.startswith("_")}
    unknown = sorted(kind for kind in entries.keys() - _UNDERSTOOD if entries[kind])
    if unknown:
        raise RestrictionError(f"grants of kind {unknown[0]!r} are not understood")
    if not any(entries.values()):
        if _UNDERSTOOD - entries.keys():
            raise RestrictionError("its restrictions were not given for both users and groups")
        return EVERYONE
    return reader_class([[name for kind in _UNDERSTOOD for name in names_in(entries.get(kind, []), kind)]])


def space_readers(setting: SpaceReaders, permissions: object = None) -> str:
    """Return the reader class of a whole space, by configuration or by the permissions the source gave for it.

    `permissions` is the list of `GET /rest/api/space/{key}?expand=permissions`. Anything else gives `nobody`.
    """
    if setting == "everyone":
        return EVERYONE
    if isinstance(setting, list):
        return reader_class([setting])
    return _permission_readers(permissions) if isinstance(permissions, list) else NOBODY


def effective_readers(pages: Mapping[str, Grants], space: str, *, unsaid: str, missing: str) -> EffectiveReaders:
    """Space readers ∩ own restrictions ∩ those of every ancestor, for each page. `pages`: each page's own restrictions,
    archived ones included: they still narrow their descendants; `space`: reader class of the space; `unsaid`: the
    readers of a page without a restrictions block at its level: `everyone` or `nobody`; `missing`: the readers of an
    ancestor that is not among `pages`: `everyone` or `nobody`."""
    readers: dict[str, str] = {}
    hidden: dict[str, str] = {}
    levels: dict[str, tuple[str, str | None]] = {}
    known: dict[frozenset[str], str] = {}  # few distinct ones, however many pages
    for page_id, grants in pages.items():
        classes, faults = [space], []
        for lineal in lineage(page_id, pages):
            level, fault = _level(pages.get(lineal), unsaid, missing)
            classes.append(level)
            if level == NOBODY:
                whose = "it" if lineal == page_id else f"its ancestor {lineal or 'without an id'}"
                faults.append(f"{whose}{fault}" if fault.startswith(":") else f"{whose} {fault}")
            if level != EVERYONE:
                levels[lineal] = level, fault if level == NOBODY else None
        if grants.ancestors is None and missing == NOBODY:
            classes.append(NOBODY)
            faults.append("its ancestors are not known")
            levels[page_id] = NOBODY, "names no ancestors, which might narrow its readers"
        distinct = frozenset(classes)
        if distinct not in known:
            known[distinct] = reader_class(clause for one in distinct for clause in clauses_of(one))
        readers[page_id] = known[distinct]
        if faults:
            hidden[page_id] = faults[0]
    return EffectiveReaders(readers, hidden, ReaderOrigins(space, levels))


def _level(grants: Grants | None, unsaid: str, missing: str) -> tuple[str, str]:
    """Return the readers of one page of a lineage, and the reason if that is nobody."""
    if grants is None:
        return missing, "is not among the pages that could be read"
    if grants.own is None:
        return unsaid, "came without restrictions"
    return grants.own, f": {grants.fault or 'names nobody as reader'}"


def missing_ancestors(pages: Mapping[str, Grants]) -> tuple[str, ...]:
    """Return ids that pages name as ancestors and that are not among the pages."""
    named = {ancestor for grants in pages.values() for ancestor in grants.ancestors or ()}
    return tuple(sorted(named - pages.keys() - {UNNAMED}))


def lineage(page_id: str, pages: Mapping[str, Grants]) -> Iterator[str]:
    """Yield the page and its ancestors, and theirs: where two pages disagree about a chain, both narrow."""
    visited, waiting = {page_id}, [page_id]
    while waiting:
        lineal = waiting.pop()
        yield lineal
        grants = pages.get(lineal)
        further = [one for one in (grants.ancestors or () if grants else ()) if one not in visited]
        visited.update(further)
        waiting.extend(reversed(further))


def _ancestor_ids(ancestors: object, id_prefix: str) -> tuple[str, ...] | None:
    if not isinstance(ancestors, list):
        return None
    ids = [one.get("id") if isinstance(one, dict) else None for one in ancestors]
    return tuple(f"{id_prefix}{one}" if isinstance(one, str | int) and one else UNNAMED for one in ids)


def _entries(collection: object, kind: str) -> list[object]:
    results = collection.get("results") if isinstance(collection, dict) else None
    if not isinstance(results, list):
        raise RestrictionError(f"the list of its {kind} restrictions is malformed")
    return results


def names_in(entries: Sequence[object], kind: str) -> Iterator[str]:
    """Yield the principals of a list; an entry that cannot be read lets in no one, it does not open the level."""
    for entry in entries:
        stated = entry.get("type") if isinstance(entry, dict) else 0
        if not isinstance(entry, dict) or not (stated is None or isinstance(stated, str)) or stated not in _TYPES[kind]:
            continue
        names = (entry.get(name) for name in _NAMES[kind])
        yield from (f"{kind}:{one}" for one in names if isinstance(one, str) and one.strip() and one.isprintable())


def _permission_readers(permissions: list[object]) -> str:
    """Return the union of all grants to view the space (`operation: read`, `targetType: space`)."""
    names: set[str] = set()
    for grant in permissions:
        operation = grant.get("operation") if isinstance(grant, dict) else None
        if not isinstance(grant, dict) or not isinstance(operation, dict):
            continue
        if operation.get("operation") != "read" or operation.get("targetType") != "space":
            continue
        if grant.get("anonymousAccess") is True:
            return EVERYONE
        subjects = grant.get("subjects")
        for kind, collection in subjects.items() if isinstance(subjects, dict) else ():
            results = collection.get("results") if isinstance(collection, dict) else None
            if kind in _UNDERSTOOD and isinstance(results, list):
                names.update(names_in(results, kind))
    return reader_class([names])


Where = Literal["configuration", "space", "ancestor", "page", "further"]
Row = Mapping[str, Any]
"""A row of PAGES, or some of its columns."""


@dataclass(frozen=True)
class RestrictionLevel:
    """One restriction of a page's readers."""

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
    """The readers of a page, the restrictions behind them, and whether a principal may read it."""

    page_id: str
    readers: str
    levels: tuple[RestrictionLevel, ...]
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
    """Explain the readers of a page. `row`: its row of PAGES. `above`: rows of the source's pages by id, of which the
    page's ancestors are read. `origins`: written by its sync; None: an older program's sync wrote nothing. `source`:
    key of its source. `setting`: `sources.KEY.readers` as configured now. `hidden`: why its sync hid it; None: it did
    not. `principal`: the one to explain; None: nobody in particular."""
    readers, notes = str(row["readers"]), []
    levels = list(_levels(row, above, origins, source, setting)) if origins else []
    required = {clause for level in levels for clause in clauses_of(level.readers)}
    if further := clauses_of(readers) - required:
        reason = hidden or ("as its last sync left it" if origins else "its restrictions as a whole")
        levels.append(RestrictionLevel("further", reader_class(further), reason, str(row["page_id"])))
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
) -> Iterator[RestrictionLevel]:
    """Yield the space, then the ancestors from the root, those that only its ancestors name, then the page; of
    ancestors only those that narrow."""
    if setting == "from_source":
        yield RestrictionLevel("space", origins.space, f"permissions of space {row['space']}")
    else:
        yield RestrictionLevel("configuration", origins.space, f"sources.{source}.readers")
    page_id, own = str(row["page_id"]), list(row["ancestors"] or ())
    pages = {str(one): Grants(tuple(page["ancestors"] or ()), None) for one, page in above.items()}
    pages[page_id] = Grants(tuple(own), None)
    further = [one for one in lineage(page_id, pages) if one not in own and one != page_id]
    for one in (*own, *further, page_id):
        level, reason = origins.levels.get(one, (EVERYONE, None))
        if one == row["page_id"]:
            yield RestrictionLevel("page", level, _reason(level, reason), one)
        elif level != EVERYONE:
            title = _title(one, row, above)
            yield RestrictionLevel("ancestor", level, f"{_reason(level, reason)} of {title}", one)


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
    """Return a reader class as lists of principals, one of each must match; `everyone` and `nobody` by name."""
    if readers in (EVERYONE, NOBODY):
        return readers
    return sorted(sorted(clause) for clause in clauses_of(readers))


def in_words(readers: Sequence[Sequence[str]] | str) -> str:
    """Return the result of `clauses` in words: `(group:ops or user:ann) and group:hr`."""
    if isinstance(readers, str):
        return readers
    is_bare = len(readers) == 1
    return " and ".join(" or ".join(c) if is_bare or len(c) == 1 else f"({' or '.join(c)})" for c in readers)
