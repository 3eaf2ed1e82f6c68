"""A live Confluence space over REST: only changed bodies are fetched, and nothing is deleted on suspicion.

Belongs here: comparing what the space lists with the last sync, fetching what changed, and deciding what is gone.
Does not belong here: requests (`client`), the enumeration (`listing`), envelopes (`envelope`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_assets.sources.base import Progress, Row, SyncResult, digest, finish, refuse_loss, rows_by_id
from rag_assets.sources.bounded_http import Limits, hosts_of
from rag_assets.sources.checkpoint import SyncCheckpoint
from rag_assets.sources.confluence.changes import list_changes
from rag_assets.sources.confluence.client import ConfluenceClient, Envelope, in_path
from rag_assets.sources.confluence.consistent_readers import settled_readers
from rag_assets.sources.confluence.details import CUT, DETAILS, complete
from rag_assets.sources.confluence.listing import Listing, Scope, batches, has_details, list_space, still_there
from rag_assets.sources.confluence.responses import AccessRefused, ServerFault
from rag_assets.sources.confluence.sync_state import SyncState, dump_sync_state, load_sync_state
from rag_assets.sources.confluence.transport import AtlassianTransport
from rag_assets.sources.envelope import EnvelopeError, Origin, row_of, version_of
from rag_assets.steps.readers.readers import Grants, grants_of, space_readers
from rag_serving.access.principals import NOBODY, intersect_readers
from rag_serving.config.sources import Confluence as Settings

_BODIES = f"body.storage,{DETAILS}"


@dataclass
class _Sync:
    """A sync under way; pages by raw id."""

    listing: Listing
    before: Mapping[str, Row]
    reusable: Mapping[str, Row]  # rows of `before` whose bodies need not be fetched where the version is the same
    failures: dict[str, str]
    fetched: dict[str, Row] = field(default_factory=dict)
    read_twice: dict[str, bool] = field(default_factory=dict)  # whether the second reading was like the first


class Confluence:
    """One space of a site."""

    def __init__(self, key: str, settings: Settings, folder: Path, client: ConfluenceClient | None = None) -> None:
        self.key = key
        self._settings = settings
        self._folder = folder
        self._client = client
        self._origin = Origin(key, settings.tenant, settings.flavor, settings.id_prefix, settings.base_url)
        self._identity = digest(settings.base_url, settings.space, settings.id_prefix)
        types = ("page", "blogpost") if settings.blog_posts else ("page",)
        self._scope = Scope(settings.space, types, ("current", "archived") if settings.archived else ("current",))
        self._began = 0.0
        self.grants: Mapping[str, Grants] = {}  # by raw page id: what decided on readers in the last sync

    def fingerprint(self) -> None:
        """Only a sync can tell whether the space changed."""
        return

    def sync(self, previous: pa.Table | None, state: Mapping[str, Any], progress: Progress | None = None) -> SyncResult:
        """List the space, fetch the bodies that changed, and renew everything else of every page.

        Where `listing_every_s` says that the last complete listing still serves, only what CQL tells is renewed.
        """
        self._began = time.time()
        with nullcontext(self._client) if self._client else open_client(self._settings) as client:
            return self._sync(client, rows_by_id(previous), state, progress)

    def _sync(
        self, client: ConfluenceClient, known: Mapping[str, Row], state: Mapping[str, Any], progress: Progress | None
    ) -> SyncResult:
        client.check_signed_in()  # who signs in is checked before anything is believed
        # Without a state (a full sync) nothing is reused, but what was there is still missed when it is gone.
        before = self._comparable(known) if state.get("identity", self._identity) == self._identity else {}
        memory = self._recall(before, state) if before else None
        changes = list_changes(client, self._scope, before, memory, self._settings.batch_size) if memory else None
        listing = changes or list_space(client, self._scope, self._settings.batch_size)
        sync = _Sync(listing, before, before if "identity" in state else {}, dict(listing.failures))
        self._check_gone(client, sync)
        work = SyncCheckpoint(self._folder, self._identity, _settled(state))
        self._fetch(client, sync, work, progress)
        space, notes = self._space_readers(client)
        rows = self._rows(sync)
        same_text = {one: row["readers"] for one, row in before.items() if one in rows and _is_text_of(row, rows[one])}
        effective = settled_readers(client, listing, space, rows, same_text, sync.read_twice)
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
                **self._remembered(client, sync, rows, state if changes else {}, memory),
                "identity": self._identity,
                "fingerprint": None,
                "settled": work.following,
            },
            is_confirmed=True,
        )

    def _comparable(self, known: Mapping[str, Row]) -> dict[str, Row]:
        """Return the rows of the last sync by raw id."""
        return {page_id.removeprefix(self._settings.id_prefix): row for page_id, row in known.items()}

    def _recall(self, before: Mapping[str, Row], state: Mapping[str, Any]) -> SyncState | None:
        """Return what the last sync remembered, where the listing it rests on still serves."""
        overlap = timedelta(hours=self._settings.overlap_hours)
        every_s = self._settings.listing_every_s if self._scope.statuses == ("current",) else 0.0
        return load_sync_state(state, self._ancestors(before), self._scope.parts, every_s, overlap)

    def _remembered(
        self,
        client: ConfluenceClient,
        sync: _Sync,
        rows: Mapping[str, Row],
        state: Mapping[str, Any],
        memory: SyncState | None,
    ) -> dict[str, Any]:
        """Return what the next sync may go by; `state` is that of the complete listing this sync rests on, if it made
        none."""
        began = client.server_time or datetime.now(UTC)
        now = SyncState(began, sync.listing.grants, set(sync.failures), memory.offset if memory else None)
        return dump_sync_state(now, state.get("listed_at", self._began), self._ancestors(rows), self._scope.parts)

    def _ancestors(self, rows: Mapping[str, Row]) -> dict[str, tuple[str, ...]]:
        """Return the raw ids above each page."""
        prefix = self._settings.id_prefix
        return {one: tuple(above.removeprefix(prefix) for above in row["ancestors"]) for one, row in rows.items()}

    def _check_gone(self, client: ConfluenceClient, sync: _Sync) -> None:
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

    def _fetch(self, client: ConfluenceClient, sync: _Sync, work: SyncCheckpoint, progress: Progress | None) -> None:
        """The bodies of new and changed pages, batch by batch onto disk."""
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

    def _take(self, client: ConfluenceClient, sync: _Sync, page_id: str, envelope: Envelope | None) -> Row | None:
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

    def _rows(self, sync: _Sync) -> dict[str, Row]:
        """Return every row of the space; a page that could not be fetched keeps its last version.

        One that could not even be listed keeps its last readers, too: as its own restriction, which others narrow.
        """
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
        if readers != NOBODY:
            return readers, []
        return readers, [
            f"who may read space {self._settings.space!r} could not be read, so nobody can read source {self.key!r}; "
            f"set sources.{self.key}.readers to everyone or to a list of group:NAME and user:NAME"
        ]


def open_client(settings: Settings) -> ConfluenceClient:
    """Return a client that is signed in as the settings say.

    Raises:
        SourceError: an environment variable is missing.
    """
    limits = Limits(
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
        archived=settings.archived,
    )


def cut_short(client: ConfluenceClient) -> list[str]:
    """Notes on collections whose end is in doubt: nothing is deleted for that, but something new may be missing."""
    return [
        f"{path} ended with an empty page though the site says that more remain; what is new may be missing"
        for path in sorted(client.cut_short)
    ]


def _is_version(row: Row | None, version: int) -> bool:
    return row is not None and row["version"] == version


def _is_listed(row: Row, page_id: str, listing: Listing) -> bool:
    """Return whether a row has the version that the listing tells."""
    entry = listing.pages.get(page_id)
    return entry is not None and _is_version(row, version_of(entry))


def _is_text_of(row: Row, now: Row) -> bool:
    return bool((row["version"], row["title"], row["body"]) == (now["version"], now["title"], now["body"]))


def _settled(state: Mapping[str, Any]) -> int:
    settled = state.get("settled")
    return settled if isinstance(settled, int) else 1
