"""A live space with its files and comments, the people that pages mention, and the members of groups.

Search lists the files and the comments of the whole space, two hundred a request. A page is requested itself only if
its comments changed, or if search lost one of its files, which may still exist. Names are requested at every sync of
the whole, so that the pages that mention a renamed person change; if a name is unavailable, the last one stays. A group
whose members cannot be read has none: its name is alone in the table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.base import (
    COMMENTS_MARK,
    MARK,
    Progress,
    Row,
    SourceError,
    SyncResult,
    finish,
    hangs_on_a_page,
    rows_by_id,
)
from rag_assets.sources.confluence.client import FAILING_PAGES_IN_A_ROW, ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence.listing import NOTHING_HANGS, Hanging, Kind, batches, list_hanging, state_of
from rag_assets.sources.confluence.source import UNSETTLED, ConfluenceSpace, cut_short, decided_as_before, open_client
from rag_assets.sources.confluence.transport import AccessRefused, ServerFault
from rag_assets.sources.envelope import (
    Attached,
    AttachmentRows,
    Comment,
    EnvelopeError,
    attachment_rows,
    comments_id,
    comments_row,
    content_hash,
    kept_row,
    moment_of,
    unchanged_comments,
)
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.storage_elements import DISPLAY_NAME
from rag_assets.steps.readers import Grants, names_in
from rag_serving.access.principals import NOBODY, clauses_of, intersect_readers
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.sources import Confluence as Settings

_MENTION = re.compile(r"<ri:user\b([^<>]{0,1000}?)(\s*/?>)")
_ID = re.compile(r"\sri:(account-id|userkey|username)=\"([^\"<>]{1,200})\"")
_NAME = re.compile(rf'\sri:{DISPLAY_NAME}="[^"]*"')
_PARAMETERS = {"account-id": "accountId", "userkey": "key", "username": "username"}
_TOGETHER = 100  # ids in one request, whose address is no longer than servers take
_SINGLE = 200  # requests for one person each that a sync makes at most; the next one goes on with others
_LONGEST = 200
Person = tuple[str, str]
"""The attribute that a mention has, and its value."""


def without_names(pages: pa.Table) -> pa.Table:
    """Return rows of PAGES with bodies as their site gives them."""
    return PAGES.table([_with_body(row, _NAME.sub("", row["body"])) for row in pages.to_pylist()])


def with_names(
    client: ConfluenceClient,
    result: SyncResult,
    before: pa.Table,
    known: Mapping[str, object],
    only: Collection[str] = (),
) -> SyncResult:
    """Return a sync whose bodies name the people that they mention. `before`: rows of the last sync, `known`: its names
    by id; `only`: ids of the pages whose people are requested, none: all."""
    rows = result.pages.to_pylist()
    mentions = [(row["page_id"], person) for row in rows if _has_mentions(row) for person in _people(row["body"])]
    people = dict.fromkeys(person for _, person in mentions)
    asked = {person for page_id, person in mentions if not only or page_id in only}
    if not people:
        return replace(result, state={**result.state, "people": {}})
    names, notes = _names(client, people, known, asked)
    named = [_with_body(row, _MENTION.sub(lambda found: _named(found, names), row["body"])) for row in rows]
    earlier = {row["page_id"]: row for row in before.to_pylist()}
    return replace(
        result,
        pages=PAGES.table(named),
        changed=sum(earlier.get(row["page_id"]) != row for row in named),
        notes=(*result.notes, *notes),
        state={**result.state, "people": {":".join(person): name for person, name in names.items()}},
    )


def _has_mentions(row: Row) -> bool:
    return row["body_format"] == "storage" and "<ri:user" in (row["body"] or "")


def _with_body(row: Row, body: str | None) -> Row:
    if body == row["body"] or not _has_mentions(row):
        return row
    digest = content_hash(row["title"], body or "", row["body_format"], row["anchor_flavor"], row["original"])
    return {**row, "body": body, "content_hash": digest}


def _people(body: str) -> Iterator[Person]:
    for mention in _MENTION.finditer(body):
        if found := _ID.search(mention[1]):
            yield found[1], found[2]


def _named(mention: re.Match[str], names: Mapping[Person, str]) -> str:
    found = _ID.search(mention[1])
    name = names.get((found[1], found[2])) if found else None
    attributes = _NAME.sub("", mention[1])
    return f'<ri:user{attributes} ri:{DISPLAY_NAME}="{escape(name)}"{mention[2]}' if name else mention[0]


def _names(
    client: ConfluenceClient, people: Iterable[Person], known: Mapping[str, object], asked: Collection[Person]
) -> tuple[dict[Person, str], list[str]]:
    """Return names by person, requesting the oldest first, and a note if the site refuses. `asked`: people whose names
    are requested; of others the last names stay."""
    order = {one: place for place, one in enumerate(known)}
    wanted = sorted(people, key=lambda person: order.get(":".join(person), -1))
    names = {one: str(name) for one in wanted if (name := known.get(":".join(one)))}
    wanted = [one for one in wanted if one in asked]
    try:
        fresh = _together(client, [value for kind, value in wanted if kind == "account-id"])
        alone = [one for one in wanted if one not in fresh][:_SINGLE]
        fresh |= {person: _one(client, person) for person in alone}
    except SourceError as error:
        return names, [f"the names of mentioned people cannot be read, those known stay: {error}"]
    for person, name in fresh.items():
        last = names.pop(person, "")
        names |= {person: name or last} if name or last else {}
    return names, []


def _together(client: ConfluenceClient, ids: list[str]) -> dict[Person, str]:
    """Return the names of accounts, requested together (Cloud), by person."""
    names: dict[Person, str] = {}
    for some in batches(ids, _TOGETHER):
        query = urlencode([("accountId", one) for one in some])
        try:
            answer = client.get(f"rest/api/user/bulk?{query}", {}, retries=1)
        except AccessRefused:  # the site answers for one person at a time
            return names
        results = answer.get("results")
        for user in results if isinstance(results, list) else ():
            if isinstance(user, dict) and (name := _name(user)):
                names["account-id", str(user.get("accountId"))] = name
    return names


def _one(client: ConfluenceClient, person: Person) -> str:
    """Return the name of one person; empty if the site gives none."""
    kind, value = person
    try:
        return _name(client.get("rest/api/user", {_PARAMETERS[kind]: value}, retries=1))
    except AccessRefused:
        return ""


def _name(user: Mapping[str, object]) -> str:
    name = user.get("displayName")
    return clean(name)[:_LONGEST] if isinstance(name, str) else ""


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
    answer. Raises SourceError: the site as a whole fails."""
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


class _Asking:
    """Attachments and comments of pages: of the whole space by search, of single pages if search is not enough. If a
    page's files or comments cannot be listed, those of the last sync stay."""

    def __init__(self, client: ConfluenceClient, id_prefix: str, kind: Kind) -> None:
        self._client = client
        self._prefix = id_prefix
        self._kind = kind
        self._found: Hanging | None = None
        self._in_a_row = 0
        self.failures: list[tuple[str, str]] = []

    def list_space(self, space: str) -> None:
        """Ask search once for the whole space."""
        self._found = list_hanging(self._client, space, self._kind)

    def state_of(self, page: Row) -> str | None:
        """Return the state of a page's attachments and comments according to search; None if only the page knows."""
        return state_of(self._listed(page)) if self._searched(page) else None

    def of(self, pages: Iterable[Row], hanging: Mapping[str, Row]) -> Iterator[tuple[str, Envelope]]:
        """Yield (page id, entry) of all files. A page for which search has lost a known file is requested itself."""
        known: dict[str, set[str]] = {}
        for row_id, row in hanging.items():
            if row_id.startswith(self._prefix + MARK):
                known.setdefault(row["ancestors"][-1], set()).add(row_id.removeprefix(self._prefix + MARK))
        for page in pages:
            page_id = page["page_id"]
            entries: list[Envelope] | None = self._listed(page)
            ids = {str(entry.get("id")).removeprefix(MARK) for entry in entries or ()}
            if known.get(page_id, set()) - ids or not self._searched(page):
                entries = self.page(page, "version,extensions")
            yield from ((page_id, entry) for entry in entries or ())

    def page(self, page: Row, expand: str) -> list[Envelope] | None:
        """Return everything on one page; None if it cannot be listed. Raises SourceError: so many pages fail one after
        the other that the site does."""
        path = f"rest/api/content/{in_path(page['page_id'].removeprefix(self._prefix))}/child/{self._kind}"
        try:
            entries = list(self._client.collect(path, {"expand": expand, "depth": "all", "limit": 100}))
        except (AccessRefused, ServerFault) as error:
            self._fail(page["page_id"], error)
            return None
        self._in_a_row = 0
        return list(_current(entries))

    def kept(self, hanging: Mapping[str, Row], pages: Mapping[str, Row], mark: str) -> dict[str, Row]:
        """Return the rows of the last sync for failed pages, for readers who could read them then and may read the
        pages now. Nobody else: the content was perhaps removed before a new reader was let in."""
        failed = {page_id for page_id, _ in self.failures}
        kept = {
            row_id: kept_row(row, pages[row["ancestors"][-1]])
            for row_id, row in hanging.items()
            if row_id.startswith(mark) and row["ancestors"][-1] in failed
        }
        return {
            one: {**row, "readers": intersect_readers(hanging[one]["readers"], row["readers"])}
            for one, row in kept.items()
        }

    def _searched(self, page: Row) -> bool:
        return self._found is not None and page["status"] == "current"

    def _listed(self, page: Row) -> list[Envelope]:
        listed = self._found or {}
        return list(_current(listed.get(page["page_id"].removeprefix(self._prefix), ())))

    def _fail(self, page_id: str, error: SourceError) -> None:
        what = f"{self._kind}s"
        self.failures.append((page_id, f"its {what} cannot be listed ({error}); those of the last sync stay"))
        self._in_a_row += isinstance(error, ServerFault)
        if self._in_a_row >= FAILING_PAGES_IN_A_ROW:
            raise SourceError(f"the {what} of {self._in_a_row} pages in a row failed, so the site does; last: {error}")


def _current(entries: Iterable[Envelope]) -> Iterator[Envelope]:
    return (entry for entry in entries if entry.get("status", "current") == "current")


_WHEN = frozenset({"began", "finished_at"})
"""Of the state of a sync: when it was."""


@dataclass
class ConfluenceExtras:
    """One space of a site; without `attachments` and `comments` it is the pages alone."""

    key: str
    settings: Settings
    folder: Path
    client: ConfluenceClient | None = None
    reader: LimitedReader | None = None
    originals: Path | None = None
    only: Collection[str] = ()

    def fingerprint(self) -> None:
        """Return None: only a sync can detect changes of the space."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """Sync the pages, then their attachments and comments; see `ConfluenceSpace.sync`."""
        stored = PAGES.empty() if previous is None else previous
        before = without_names(stored)
        of_pages = [not hangs_on_a_page(one, self.settings.id_prefix) for one in before["page_id"].to_pylist()]
        with nullcontext(self.client) if self.client else open_client(self.settings) as client:
            inner = ConfluenceSpace(self.key, self.settings, self.folder, client, self.only)
            result = inner.sync(before.filter(pa.array(of_pages, pa.bool_())), state, progress)
            is_wanted = self.settings.attachments != "none" or self.settings.comments
            if is_wanted or not all(of_pages):
                result = self._with_extras(client, rows_by_id(before), state, result, inner.grants)
            only = {f"{self.settings.id_prefix}{one}" for one in self.only}
            result = with_names(client, result, stored, _remembered(state, "people"), only)
            if self.only:  # other changes since the last sync are still to be requested
                result = replace(result, state={**result.state, **{one: state[one] for one in _WHEN & state.keys()}})
            return _with_groups(client, result) if self.settings.groups else result

    def _with_extras(
        self,
        client: ConfluenceClient,
        known: Mapping[str, Row],
        state: Mapping[str, Any],
        result: SyncResult,
        grants: Mapping[str, Grants],
    ) -> SyncResult:
        pages, prefix = rows_by_id(result.pages), self.settings.id_prefix
        hanging = {one: row for one, row in known.items() if hangs_on_a_page(one, prefix)}
        is_same = state.get("identity", result.state["identity"]) == result.state["identity"]
        reusable = hanging if is_same and "identity" in state else {}
        files, comments = _Asking(client, prefix, "attachment"), _Asking(client, prefix, "comment")
        attached, said, states = AttachmentRows(), dict[str, Row](), dict[str, str]()
        if self.settings.attachments != "none":
            files.list_space(self.settings.space)
            attachments = (one for entry in files.of(pages.values(), hanging) if (one := _attached(client, *entry)))
            textless = _remembered(state, "textless") if reusable else {}
            attached = attachment_rows(
                attachments, pages, self.settings, reusable, textless, self.reader, self.originals
            )
        if self.settings.comments:
            comments.list_space(self.settings.space)
            said, states = self._comments(pages.values(), reusable, hanging, _remembered(state, "comments"), comments)
        kept = files.kept(hanging, pages, prefix + MARK) | comments.kept(hanging, pages, prefix + COMMENTS_MARK)
        kept = {row_id: row for row_id, row in kept.items() if row_id not in attached.rows}
        rows = {**kept, **attached.rows, **said}
        unsettled = self._unsettled(client, grants, pages, hanging, rows)
        return finish(
            self.settings if is_same else None,
            known,
            {**pages, **rows, **{one: {**rows[one], "readers": NOBODY} for one in unsettled}},
            seen=result.seen + attached.seen + len(kept) + len(said),
            excluded=[*result.excluded, *attached.excluded.items()],
            failures=[*result.failures, *attached.failures.items(), *files.failures, *comments.failures],
            hidden=[*result.hidden, *((one, UNSETTLED) for one in unsettled)],
            notes=dict.fromkeys([*result.notes, *cut_short(client)]),
            origins=result.origins,
            state={**result.state, "comments": states, "textless": attached.textless},
            is_confirmed=True,
        )

    def _unsettled(
        self,
        client: ConfluenceClient,
        grants: Mapping[str, Grants],
        pages: Mapping[str, Row],
        hanging: Mapping[str, Row],
        rows: Mapping[str, Row],
    ) -> list[str]:
        """Return new texts on pages whose readers changed before they were read; `grants` are the pages' by raw id."""
        prefix = self.settings.id_prefix
        anew = {
            one: row["ancestors"][-1].removeprefix(prefix)
            for one, row in rows.items()
            if row["readers"] != NOBODY and not _is_shown(hanging.get(one), row)
        }
        of_space = {one.removeprefix(prefix) for one in pages}
        settled = decided_as_before(client, grants, of_space, set(anew.values()))
        return sorted(one for one, page_id in anew.items() if page_id not in settled)

    def _comments(
        self,
        pages: Iterable[Row],
        reusable: Mapping[str, Row],
        hanging: Mapping[str, Row],
        before: Mapping[str, Any],
        asking: _Asking,
    ) -> tuple[dict[str, Row], dict[str, str]]:
        rows: dict[str, Row] = {}
        states: dict[str, str] = {}
        for page in pages:
            row_id = comments_id(page, self.settings.id_prefix)
            state = asking.state_of(page)
            if state is not None and state == before.get(page["page_id"]) and row_id in reusable:
                rows[row_id] = unchanged_comments(page, reusable[row_id])
            elif state is None or state != NOTHING_HANGS or row_id in hanging:
                entries = asking.page(page, "body.storage,version")
                if entries is None:
                    continue
                # If search and the page disagree, only the page shows the next change.
                state = state if state == state_of(entries) else None
                if row := comments_row(page, list(_comments_in(entries)), self.settings.id_prefix):
                    rows[row_id] = row
            if state is not None:
                states[page["page_id"]] = state
        return rows, states


def _with_groups(client: ConfluenceClient, result: SyncResult) -> SyncResult:
    members, notes = group_members(client, groups_named(result.pages))
    return replace(result, groups=tuple(members), notes=(*result.notes, *notes))


def _comments_in(entries: Iterable[Envelope]) -> Iterator[Comment]:
    for entry in entries:
        body, version = _object(_object(entry, "body"), "storage").get("value"), _object(entry, "version")
        if isinstance(body, str):
            number = version.get("number")
            number = number if isinstance(number, int) else 1
            yield Comment(str(entry.get("id")), body, number, moment_of(version.get("when")))


def _remembered(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = state.get(name)
    return value if isinstance(value, dict) else {}


def _attached(client: ConfluenceClient, page_id: str, entry: Envelope) -> Attached | None:
    links, extensions, version = (_object(entry, name) for name in ("_links", "extensions", "version"))
    link, name = links.get("download"), entry.get("title")
    if not isinstance(link, str) or not isinstance(name, str):
        return None
    size, number = extensions.get("fileSize"), version.get("number")
    return Attached(
        id=str(entry.get("id")).removeprefix(MARK),
        page_id=page_id,
        name=name,
        read=partial(_download, client, link),
        version=number if isinstance(number, int) else None,
        updated_at=moment_of(version.get("when")),
        size=size if isinstance(size, int) else None,
        url=f"{_site(links, client)}{urlsplit(link).path}",
    )


def _is_shown(before: Row | None, now: Row) -> bool:
    if before is None or intersect_readers(before["readers"], now["readers"]) != now["readers"]:
        return False
    return all(before[name] == now[name] for name in ("title", "body", "version"))


def _site(links: Mapping[str, Any], client: ConfluenceClient) -> str:
    """Return the site's address for people: scoped tokens use another one (api.atlassian.com/ex/confluence/…)."""
    base = links.get("base")
    is_address = isinstance(base, str) and base.startswith(("https://", "http://"))
    return str(base).rstrip("/") if is_address else client.base_url


def _object(entry: Envelope, name: str) -> dict[str, Any]:
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def _download(client: ConfluenceClient, link: str) -> bytes:
    """Return a file's bytes; a fault of this one file is no fault of the site."""
    try:
        return client.download(link)
    except (AccessRefused, ServerFault) as error:
        raise EnvelopeError(f"it cannot be fetched: {error}") from None
