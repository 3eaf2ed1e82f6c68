"""A live Confluence space over REST: only changed bodies are fetched, and nothing is deleted on suspicion.

Fetched rows are stored on disk, so that a killed sync resumes.

A page's readers depend on itself and on every page above it, and these are read one after the other. If one is
restricted after it was read, and another opened before it is, the combination never existed, and would show a text to
people who could read it at no moment. Two equal readings of a page were true in between (unless it was changed and
changed back); if these intervals overlap for a whole lineage, all of it was true at one moment (a double collect: Afek
et al., "Atomic Snapshots of Shared Memory", 1993). This is required where it matters: for a text or readers that the
sync before did not show. All else is at most as widely shown as it was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.sources.base import Progress, Row, SyncResult, closed_notes, digest, finish, refuse_loss, rows_by_id
from rag_assets.sources.confluence.client import ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence.listing import (
    CUT,
    DETAILS,
    LIST_LIMIT,
    SpaceListing,
    SpaceScope,
    SyncState,
    ancestor_grants,
    batches,
    complete,
    dump_sync_state,
    has_details,
    list_changes,
    list_noted,
    list_space,
    load_sync_state,
    number_of,
    still_there,
)
from rag_assets.sources.confluence.transport import AccessRefused, AtlassianTransport, HttpLimits, ServerFault, hosts_of
from rag_assets.sources.envelope import EnvelopeError, Origin, row_of, version_of
from rag_assets.steps.readers import EffectiveReaders, Grants, effective_readers, grants_of, lineage, space_readers
from rag_serving.access.principals import NOBODY, intersect_readers
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import StoreError, read_table, remove_folder, write_table
from rag_serving.config.sources import Confluence as Settings


class SyncCheckpoint:
    """The numbered batches of one source. `settled` is the number that the last complete sync left in its state:
    whoever stored that state had stored its table before, so the batches below it have served. `identity` names the
    site and space, so that batches of other settings are never taken up."""

    def __init__(self, folder: Path, identity: str, settled: int = 1) -> None:
        root = folder / "sync"
        self._folder = root / identity
        self.following = settled
        for other in root.glob("*"):
            if other != self._folder:
                remove_folder(other)
        for file in self._files():
            if int(file.stem) < settled:
                file.unlink()

    def rows(self) -> dict[str, Row]:
        """Return everything fetched so far, by page id; a batch that cannot be read was not fetched."""
        rows: dict[str, Row] = {}
        for file in self._files():
            self.following = int(file.stem) + 1
            try:
                rows.update(rows_by_id(read_table(file, PAGES)))
            except StoreError:
                file.unlink()
        return rows

    def add(self, rows: Sequence[Row]) -> None:
        """Commit a batch."""
        if rows:
            write_table(self._folder / f"{self.following:06}.parquet", PAGES.table(list(rows)), PAGES)
            self.following += 1

    def _files(self) -> list[Path]:
        return sorted(file for file in self._folder.glob("*.parquet") if file.stem.isdigit())


ROUNDS = 4
"""So often a lineage is read again; one that is another each time is shown to nobody until the next sync."""
UNSETTLED = "who may read it changed again and again while it was read; the next sync will tell"
_EDITED = "it was edited while it was opened to more readers; the next sync will tell"
_REMEMBERED, _LISTED, _FETCHED = -1, 0, 1  # the first rounds of readings


def settled_readers(
    client: ConfluenceClient,
    listing: SpaceListing,
    space: str,
    shown: Mapping[str, int],
    before: Mapping[str, str],
    fetched: Mapping[str, bool],
) -> EffectiveReaders:
    """Return the reader class of every page of a listing, whose grants are the first reading, and are updated. `space`:
    reader class of the space; `shown`: versions of the texts; `before`: reader classes of the last sync, of pages with
    unchanged text; `fetched`: pages read a second time, with their body, and whether both readings agree."""
    runs = {one: (_LISTED, _LISTED) if one in listing.read else (_REMEMBERED, _REMEMBERED) for one in listing.grants}
    runs |= {one: (_LISTED if same else _FETCHED, _FETCHED) for one, same in fetched.items()}
    edited: set[str] = set()  # since their text was read: the readers of the new text are not those of the old one
    for number in range(_FETCHED + 1, _FETCHED + 2 + ROUNDS):
        readers = effective_readers(listing.grants, space, unsaid=NOBODY, missing=NOBODY)
        wider = set(_wider(shown, readers, before))
        torn = _torn(listing.grants, wider - edited, runs)
        if not torn or number == _FETCHED + 1 + ROUNDS:
            break
        again = set[str]().union(*torn.values())
        fresh, versions = _read(client, listing.grants, listing.pages.keys(), again)
        edited |= {one for one, version in versions.items() if version != shown.get(one)}
        other = {one for one in again if fresh.get(one) != listing.grants[one]}
        listing.grants.update(fresh)
        listing.add_ancestors(client)
        runs |= dict.fromkeys(listing.grants.keys() - runs.keys(), (number, number))  # ancestors that are named now
        runs |= {one: (number if one in other else runs[one][0], number) for one in again}
    closed = {**dict.fromkeys(torn, UNSETTLED), **dict.fromkeys(sorted(wider & edited), _EDITED)}
    return EffectiveReaders(
        {**readers.readers, **dict.fromkeys(closed, NOBODY)}, {**readers.hidden, **closed}, readers.origins
    )


def decided_as_before(
    client: ConfluenceClient, grants: Mapping[str, Grants], pages: Collection[str], page_ids: Iterable[str]
) -> set[str]:
    """Return those of the pages (raw ids) whose restrictions, own and inherited, still read the same: they were in
    force for all readings in between. `pages`: those of `grants` that are pages of the space."""
    above = {one: _known_lineage(one, grants) for one in page_ids}
    now, _ = _read(client, grants, pages, set[str]().union(*above.values()))
    return {one for one, ids in above.items() if all(now.get(each) == grants[each] for each in ids)}


def _wider(shown: Iterable[str], readers: EffectiveReaders, before: Mapping[str, str]) -> Iterator[str]:
    """Yield the pages that are shown to people whom the last sync did not show their text."""
    for one in shown:
        now = readers.readers[one]
        if now != NOBODY and (one not in before or intersect_readers(before[one], now) != now):
            yield one


def _torn(
    grants: Mapping[str, Grants], pages: Iterable[str], runs: Mapping[str, tuple[int, int]]
) -> dict[str, list[str]]:
    torn: dict[str, list[str]] = {}
    for page_id in pages:
        above = _known_lineage(page_id, grants)
        changed = max(runs[one][0] for one in above)
        older = [one for one in above if runs[one][1] <= changed]
        if older and (len(above) > 1 or changed == _REMEMBERED):
            torn[page_id] = older
    return torn


def _known_lineage(page_id: str, grants: Mapping[str, Grants]) -> list[str]:
    return [one for one in lineage(page_id, grants) if one in grants]


def _read(
    client: ConfluenceClient, grants: Mapping[str, Grants], pages: Collection[str], ids: set[str]
) -> tuple[dict[str, Grants], dict[str, object]]:
    """Return the present grants of pages and of others above them, and the versions of the pages; unreadable ones are
    left out."""
    fresh: dict[str, Grants] = {}
    versions: dict[str, object] = {}
    for some in batches(sorted(one for one in ids if one in pages), LIST_LIMIT):
        envelopes = client.by_ids(some, DETAILS).found
        fresh.update({one: grants_of(complete(client, entry)) for one, entry in envelopes.items()})
        versions.update({one: number_of(entry) for one, entry in envelopes.items()})
    for one in sorted(one for one in ids if one not in pages):
        if (now := ancestor_grants(client, one)) is not None:
            fresh[one] = Grants(grants[one].ancestors, now.own, now.fault)
    return fresh, versions


_BODIES = f"body.storage,{DETAILS}"


@dataclass
class _SpaceSync:
    """A sync under way; pages by raw id."""

    listing: SpaceListing
    before: Mapping[str, Row]
    reusable: Mapping[str, Row]  # rows of `before` whose bodies need not be fetched where the version is the same
    failures: dict[str, str]
    fetched: dict[str, Row] = field(default_factory=dict)
    read_twice: dict[str, bool] = field(default_factory=dict)  # whether the second reading was like the first


class ConfluenceSpace:
    """One space of a site."""

    def __init__(
        self,
        key: str,
        settings: Settings,
        folder: Path,
        client: ConfluenceClient | None = None,
        only: Collection[str] = (),
    ) -> None:
        """`only`: raw ids of the pages to look at; none: all there are."""
        self.key = key
        self._only = frozenset(only)
        self._settings = settings
        self._folder = folder
        self._client = client
        self._origin = Origin(key, settings.tenant, settings.flavor, settings.id_prefix, settings.base_url)
        self._identity = digest(settings.base_url, settings.space, settings.id_prefix)
        types = ("page", "blogpost") if "blog_posts" in settings.also else ("page",)
        statuses = ("current", "archived") if "archived" in settings.also else ("current",)
        self._scope = SpaceScope(settings.space, types, statuses)
        self._began = 0.0
        self.grants: Mapping[str, Grants] = {}  # by raw page id: what decided on readers in the last sync

    def fingerprint(self) -> None:
        """Return None: only a sync can detect changes of the space."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """List the space, fetch the bodies that changed, and update everything else of every page. While
        `listing_every_s` keeps the last complete listing valid, only changes from CQL are read; with `only`, these
        pages and those below moved ones."""
        self._began = time.time()
        with nullcontext(self._client) if self._client else open_client(self._settings) as client:
            return self._sync(client, rows_by_id(previous), state, progress)

    def _sync(
        self, client: ConfluenceClient, known: Mapping[str, Row], state: Mapping[str, Any], progress: Progress | None
    ) -> SyncResult:
        client.check_signed_in()  # the account is checked before anything is trusted
        # Without a state (a full sync) nothing is reused, but what was there is still missed when it is gone.
        before = self._comparable(known) if state.get("identity", self._identity) == self._identity else {}
        memory = self._recall(before, state) if before else None
        changes = self._list_changes(client, before, memory) if memory else None
        listing = changes or list_space(client, self._scope, self._settings.batch_size)
        sync = _SpaceSync(listing, before, before if "identity" in state else {}, dict(listing.failures))
        self._check_gone(client, sync)
        work = SyncCheckpoint(self._folder, self._identity, _settled(state))
        self._fetch(client, sync, work, progress)
        space, notes = self._space_readers(client)
        rows = self._rows(sync)
        same_text = {
            one: row["readers"]
            for one, row in before.items()
            if one in rows and all(row[name] == rows[one][name] for name in ("version", "title", "body"))
        }
        versions = {one: row["version"] for one, row in rows.items()}
        effective = settled_readers(client, listing, space, versions, same_text, sync.read_twice)
        # An old text, kept because the page cannot be read, was perhaps removed before others were let in.
        old = {
            one: before[one]["readers"]
            for one in before.keys() & rows.keys()
            if not _is_listed(rows[one], one, listing)
        }
        readers = {
            **effective.readers,
            **{one: intersect_readers(narrow, effective.readers[one]) for one, narrow in old.items()},
        }
        self.grants, prefix = listing.grants, self._settings.id_prefix
        return finish(
            self._settings if before else None,
            known,
            {f"{prefix}{one}": {**row, "readers": readers[one]} for one, row in rows.items()},
            seen=listing.seen,
            excluded=[(f"{prefix}{one}", why) for one, why in listing.excluded.items()],
            failures=[(f"{prefix}{one}", why) for one, why in sync.failures.items()],
            hidden=[(f"{prefix}{one}", why) for one, why in effective.hidden.items() if one in rows],
            notes=[*notes, *cut_short(client)],
            origins=effective.origins.prefixed(prefix),
            state={
                **self._remembered(client, sync, rows, state if changes else {}),
                "identity": self._identity,
                "fingerprint": None,
                "settled": work.following,
            },
            is_confirmed=True,
        )

    def _list_changes(
        self, client: ConfluenceClient, before: Mapping[str, Row], memory: SyncState
    ) -> SpaceListing | None:
        if self._only:
            return list_noted(client, self._scope, before, memory, self._only, self._settings.batch_size)
        return list_changes(client, self._scope, before, memory, self._settings.batch_size)

    def _comparable(self, known: Mapping[str, Row]) -> dict[str, Row]:
        return {page_id.removeprefix(self._settings.id_prefix): row for page_id, row in known.items()}

    def _recall(self, before: Mapping[str, Row], state: Mapping[str, Any]) -> SyncState | None:
        """Return the memory of the last sync, if its listing is still valid."""
        overlap = timedelta(hours=self._settings.overlap_hours)
        every_s = self._settings.listing_every_s if self._scope.statuses == ("current",) else 0.0
        every_s = math.inf if self._only else every_s
        return load_sync_state(state, self._ancestors(before), self._scope.parts, every_s, overlap)

    def _remembered(
        self,
        client: ConfluenceClient,
        sync: _SpaceSync,
        rows: Mapping[str, Row],
        state: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return the memory for the next sync; `state` is that of the complete listing this sync is based on, if it
        made none."""
        began = client.server_time or datetime.now(UTC)
        now = SyncState(began, sync.listing.grants, set(sync.failures))
        return dump_sync_state(now, state.get("listed_at", self._began), self._ancestors(rows), self._scope.parts)

    def _ancestors(self, rows: Mapping[str, Row]) -> dict[str, tuple[str, ...]]:
        prefix = self._settings.id_prefix
        return {one: tuple(above.removeprefix(prefix) for above in row["ancestors"]) for one, row in rows.items()}

    def _check_gone(self, client: ConfluenceClient, sync: _SpaceSync) -> None:
        """Be sure of each page that is no longer listed before it is left out. Raises SourceError as `finish`."""
        listing = sync.listing
        gone = sorted(sync.before.keys() - listing.pages.keys() - listing.excluded.keys() - listing.failures.keys())
        if not gone:
            return
        refuse_loss(self._settings, sync.before, sync.before.keys() - gone, is_confirmed=True)
        client.check_signed_in()  # again: a token may lapse on the way
        still = still_there(client, gone, self._scope, self._settings.batch_size)
        for entry in still.found.values():
            listing.add(complete(client, entry))
        listing.add_ancestors(client)
        for page_id, reason in still.faulty.items():
            listing.failures[page_id] = f"{reason}; it is not certain whether the page is gone"
        sync.failures.update(listing.failures)

    def _fetch(
        self, client: ConfluenceClient, sync: _SpaceSync, work: SyncCheckpoint, progress: Progress | None
    ) -> None:
        resumable = self._comparable(work.rows())
        wanted = []
        for page_id, entry in sync.listing.pages.items():
            if _is_version(resumable.get(page_id), version_of(entry)):
                sync.fetched[page_id] = resumable[page_id]
            elif not _is_version(sync.reusable.get(page_id), version_of(entry)):
                wanted.append(page_id)
        done = 0
        for ids in batches(wanted, self._settings.batch_size):
            batch = client.by_ids(ids, _BODIES)
            sync.failures.update({**batch.refused, **batch.faulty})
            work.add([row for page_id in ids if (row := self._take(client, sync, page_id, batch.found.get(page_id)))])
            done += len(ids)
            if progress is not None:
                progress(done, len(wanted))

    def _take(self, client: ConfluenceClient, sync: _SpaceSync, page_id: str, envelope: Envelope | None) -> Row | None:
        """Return the row of a page that was fetched. It renews the entry: a page may have been restricted, then
        edited."""
        if envelope is None:
            return None
        envelope = complete(client, envelope)
        try:
            if excluded := self._scope.excludes(envelope):
                del sync.listing.pages[page_id]
                sync.listing.excluded[page_id] = excluded
                return None
            sync.fetched[page_id] = row = row_of(envelope, self._origin)
        except EnvelopeError as error:
            sync.failures[page_id] = str(error)
            return None
        if CUT in envelope:
            sync.failures[page_id] = envelope[CUT]
        listed, grants = sync.listing.pages[page_id], grants_of(envelope)
        same = sync.listing.grants.get(page_id) == grants and _is_version(row, version_of(listed))
        sync.read_twice[page_id] = same
        sync.listing.grants[page_id] = grants
        sync.listing.pages[page_id] = {**envelope, "body": None}
        return row

    def _rows(self, sync: _SpaceSync) -> dict[str, Row]:
        """Return every row of the space; a page that could not be fetched keeps its last version. One that could not
        even be listed keeps its last readers, too: as its own restriction, which others narrow."""
        rows = {}
        above = self._ancestors(sync.before)
        for page_id in sync.failures.keys() & sync.before.keys() - sync.listing.grants.keys():
            sync.listing.grants[page_id] = Grants(above[page_id], sync.before[page_id]["readers"])
        for page_id in [*sync.listing.pages, *(sync.failures.keys() - sync.listing.pages.keys())]:
            row = sync.fetched.get(page_id) or sync.before.get(page_id)
            if row is None:
                continue
            entry = sync.listing.pages.get(page_id)
            if entry is None or page_id in sync.failures or not has_details(entry):
                rows[page_id] = {**row, "source": self.key, "tenant": self._settings.tenant}
                continue
            try:
                rows[page_id] = row_of({**entry, "body": {"storage": {"value": row["body"]}}}, self._origin)
            except EnvelopeError as error:
                sync.failures[page_id] = str(error)
                rows[page_id] = row
        return rows

    def _space_readers(self, client: ConfluenceClient) -> tuple[str, list[str]]:
        """Return the reader class of the space; by `from_source` the space's own permissions, as far as they can be
        read."""
        if self._settings.readers != "from_source":
            return space_readers(self._settings.readers), []
        try:
            answer = client.get(f"rest/api/space/{in_path(self._settings.space)}", {"expand": "permissions"})
        except (AccessRefused, ServerFault):
            answer = {}
        readers = space_readers("from_source", answer.get("permissions"))
        why = f"who may read space {self._settings.space!r} could not be read"
        return readers, closed_notes(self._settings, self.key, why) if readers == NOBODY else []


def open_client(settings: Settings) -> ConfluenceClient:
    """Return a client that is signed in as the settings say. Raises SourceError: an environment variable is missing."""
    limits = HttpLimits(
        settings.base_url,
        hosts_of(settings.base_url, settings.download_hosts),
        settings.max_response_bytes,
        settings.deadline_s,
    )
    transport = AtlassianTransport(settings.base_url, settings.auth, settings.timeout_s, limits)
    return ConfluenceClient(
        settings.base_url,
        transport,
        max_retries=settings.max_retries,
        per_second=settings.max_requests_per_s,
        archived="archived" in settings.also,
    )


def cut_short(client: ConfluenceClient) -> list[str]:
    """Return notes on collections whose end is in doubt: nothing is deleted for that, but something new may be
    missing."""
    return [
        f"{path} ended with an empty page though the site says that more remain; what is new may be missing"
        for path in sorted(client.cut_short)
    ]


def _is_version(row: Row | None, version: int) -> bool:
    return row is not None and row["version"] == version


def _is_listed(row: Row, page_id: str, listing: SpaceListing) -> bool:
    entry = listing.pages.get(page_id)
    return entry is not None and _is_version(row, version_of(entry))


def _settled(state: Mapping[str, Any]) -> int:
    settled = state.get("settled")
    return settled if isinstance(settled, int) else 1
