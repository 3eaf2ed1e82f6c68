"""A wiki lives and breaks, and is synced at random moments, completely or by CQL, in quiet or while it changes.

What holds after each sync:

- Quiet and complete: pages and chunks are what a fresh full sync gives, for whom the wiki itself would show them. What
  could not be read is said, and is shown to no more people than before.
- By CQL alone: every page that was edited or made since has the text, the title and the place that it has on the site.
  Deletions, moves and restrictions that CQL cannot tell come with the next complete one.
- Always, whatever happens meanwhile: a text is shown only to those whom the sync before showed it already, or who
  could read it on the site at one and the same moment of this sync. So what a complete sync of a still wiki shows to
  nobody stays unseen, and who loses a page loses it with the next complete sync.

More of it: CITELOCK_STATEFUL_EXAMPLES=50 (each example is 250 steps).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from sources.following import Index, unlike
from sources.living_wiki import PRINCIPALS, STEP, LivingWiki, Moment, change, changes, marks_in
from sources.syncs import Syncs

from rag_assets.sources import SourceError, SyncResult
from rag_serving.access.principals import satisfies

EXAMPLES = int(os.environ.get("CITELOCK_STATEFUL_EXAMPLES", "1"))

Shown = frozenset[tuple[str, str, int]]
"""Page, a word of its own in a text of it, and the number of a principal who is shown that."""


class SyncedWiki(LivingWiki):
    """A living wiki, and what the syncs make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.sync = Syncs(
            self.wiki, self.folder / "kept", max_deleted_share=1, overlap_hours=4, attachments="text", comments=True
        )
        self.index = Index()
        self.shown: Shown = frozenset()
        self.moments: list[Moment] = []
        self.steps = 0

    @rule()
    def sync_by_cql(self) -> None:
        """What CQL tells is there; the rest was there before."""
        began = self.site.now()
        before = _told(self.sync.last) if self.sync.last else {}
        result = self._synced(listing_every_s=3600)
        if result is None:
            return
        told = _told(result)
        doubted = _doubted(result)
        for row in told.values():
            assert self._is_on_the_site(row) or row["page_id"] in before
        for page_id in self.of("current"):
            edited = (began - self.site.written_at(page_id)) < STEP
            if edited and page_id not in self.site.forbidden | doubted and not result.notes:
                assert self._is_as_on_the_site(told[page_id])

    @rule(by_cql=st.booleans(), happens=changes)
    def sync_while_people_work(self, by_cql: bool, happens: list[tuple[int, str, int, int]]) -> None:
        """Nothing that came together of two moments is shown; the next sync in quiet makes everything good."""
        due = sorted(happens, reverse=True)
        asked = 0

        def live() -> None:
            nonlocal asked
            asked += 1
            while due and due[-1][0] <= asked:
                change(self, *due.pop()[1:])
                self.moments.append(self.moment())

        self.wiki.meanwhile = live
        try:
            self._synced(**({"listing_every_s": 3600} if by_cql else {}))
        finally:
            self.wiki.meanwhile = lambda: None
        self.sync_and_compare()

    @rule()
    def sync_and_compare(self) -> None:
        """After every sync of a wiki that keeps still there is what a fresh full sync gives."""
        result = self._synced()
        if result is None:
            return
        self._check_readers(result)
        self._check_chunks(result)
        if result.notes:  # the site gave up in the middle of a list, and that is told
            return
        self.wiki.faults[:] = [fault for fault in self.wiki.faults if fault.times is None]
        with tempfile.TemporaryDirectory() as folder:
            fresh = Syncs(self.wiki, Path(folder), **{**self.sync.settings, "max_deleted_share": 1})()
        mine, theirs = _told(result), _told(fresh)
        doubted = _doubted(result)
        known = doubted | _doubted(fresh)
        # A fault that has passed is told of, and so is one that a fresh sync meets because it has to fetch more.
        assert _without(mine, known) == _without(theirs, known)
        assert all(self._is_as_on_the_site(row) for row in mine.values() if not _is_in(row, doubted))
        if doubted and not _doubted(fresh):
            assert _told(self.sync()) == theirs  # what a passing fault kept from being read arrives with the next sync

    def _is_as_on_the_site(self, row: dict[str, Any]) -> bool:
        """What need not be fetched again is right even where a fresh sync could not fetch it."""
        if row["page_id"] not in self.site.pages:
            return row["page_id"].startswith(("att", "com"))
        one = self.site.pages[row["page_id"]]
        body, version = one["body"]["storage"]["value"], one["version"]["number"]
        return bool((row["body"], row["version"], row["title"]) == (body, version, one["title"]))

    def _is_on_the_site(self, row: dict[str, Any]) -> bool:
        page_id = _page_of(row)
        return page_id in self.of("current") and page_id not in self.site.forbidden

    def _check_readers(self, result: SyncResult) -> None:
        """No page is shown to whom the site would refuse it, and whoever may read one is shown it."""
        for row in result.pages.to_pylist():
            page_id = _page_of(row)
            for who in PRINCIPALS:
                shown, allowed = satisfies(who, row["readers"]), self.site.may_read(page_id, who.user, who.groups)
                assert allowed or not shown, f"{who} sees {row['page_id']}"
                assert shown or not allowed or _is_in(row, _doubted(result)), f"{who} misses {row['page_id']}"

    def _check_chunks(self, result: SyncResult) -> None:
        """Chunks that were brought up to date are those made anew, and show no page's text to others."""
        self.index.follow(result.pages)
        anew = Index().follow(result.pages)
        assert unlike(self.index.chunks, anew.chunks) == []
        pages = {row["page_id"]: _page_of(row) for row in result.pages.to_pylist()}
        for chunk in self.index.chunks.select(["page_id", "included_from", "readers"]).to_pylist():
            shown = {pages[one] for one in (chunk["page_id"], chunk["included_from"]) if one}
            for who in PRINCIPALS:
                if satisfies(who, chunk["readers"]):
                    assert all(self.site.may_read(page_id, who.user, who.groups) for page_id in shown)

    @invariant()
    def counts_come_out_even(self) -> None:
        result = self.sync.last
        assert result is None or result.unaccounted == 0

    @invariant()
    def is_compared_every_so_often(self) -> None:
        """Hypothesis leaves out some rules in some examples, the comparison among them."""
        self.steps += 1
        if self.steps % 25 == 0:
            self.sync_and_compare()

    def _synced(self, **more: Any) -> SyncResult | None:
        """A sync, or nothing where the site was too broken; then what was there stays."""
        before = self.sync.last
        self.site.skew += STEP
        self.moments = [self.moment()]
        try:
            result = self.sync(**more)
        except SourceError:
            assert self.sync.last is before
            assert self.wiki.faults or not self._anything_listed()
            self.mend()
            return None
        self._check_moments(result)
        return result

    def _check_moments(self, result: SyncResult) -> None:
        """What is shown was shown before, or could be read at one moment of the sync."""
        shown: set[tuple[str, str, int]] = set()
        for row in result.pages.to_pylist():
            page_id, marks = _page_of(row), marks_in(f"{row['title']} {row['body']}")
            readers = [number for number, who in enumerate(PRINCIPALS) if satisfies(who, row["readers"])]
            shown.update((page_id, mark, number) for mark in marks for number in readers)
        for page_id, mark, number in shown - self.shown:
            assert any(
                (page_id, number) in moment.allowed and mark in moment.marks.get(page_id, ()) for moment in self.moments
            ), f"{PRINCIPALS[number]} sees {mark} on {page_id}"
        self.shown = frozenset(shown)

    def _anything_listed(self) -> bool:
        """A space that lists nothing at all is not believed."""
        return any(self.site.listed("ENG", "current"))


def _told(result: SyncResult) -> dict[str, dict[str, Any]]:
    return {row["page_id"]: row for row in result.pages.to_pylist()}


def _without(rows: dict[str, dict[str, Any]], names: set[str]) -> dict[str, dict[str, Any]]:
    return {page_id: row for page_id, row in rows.items() if not _is_in(row, names)}


def _doubted(result: SyncResult) -> set[str]:
    """What the sync itself says that it could not read."""
    return {name for name, _ in (*result.failures, *result.hidden)}


def _is_in(row: dict[str, Any], names: set[str]) -> bool:
    return not names.isdisjoint((row["page_id"], _page_of(row)))


def _page_of(row: dict[str, Any]) -> str:
    """The page itself, or the one that a file or a comment hangs on."""
    return str(row["ancestors"][-1] if row["page_id"].startswith(("att", "com")) else row["page_id"])


@pytest.mark.parametrize("flavor", ["cloud", "datacenter"])
def test_whatever_happens_a_sync_gives_what_a_fresh_one_gives(flavor: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Wiki", (SyncedWiki,), {"flavor": flavor})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=250 if EXAMPLES > 1 else 120,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
