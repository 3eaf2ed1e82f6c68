"""A wiki lives and breaks, and is synced at random moments: pages and chunks are what a fresh full sync gives, for whom
the wiki itself would show them. What a sync could not read it says, and shows to no more people than before.

More of it: CITELOCK_STATEFUL_EXAMPLES=50 (each example is 250 steps).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import timedelta, timezone
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sources.following import Index, unlike
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Answer, Fault, Request, broken, cut, emptied, hidden, poisoned, throttled
from sources.stand_in_site import page
from sources.syncs import Syncs

from rag_assets.sources import SourceError, SyncResult
from rag_serving.access import Principal, satisfies

USERS, GROUPS = ["ann", "bob"], ["hq", "ops", "staff"]
PRINCIPALS = [
    Principal("acme", user, frozenset(groups))
    for user, groups in product([None, *USERS], [(), ("hq",), ("ops",), ("hq", "staff")])
]
PASSING: list[Callable[[], Fault]] = [
    lambda: throttled(2, "1"),
    lambda: throttled(1, "Fri, 01 Jan 2100 00:00:00 GMT", 503),
    lambda: throttled(2, None, 403, X_RateLimit_Remaining="0"),
    lambda: broken(3, 502),
    lambda: broken(2, 500, "search"),
    lambda: broken(7),
    lambda: cut(2),
    emptied,
    lambda: broken(3, 500, "label"),
    lambda: broken(3, 500, "restriction"),
    lambda: broken(2, 404, "child"),
]
words = st.sampled_from(["alpha", "beta", "gamma", "delta"])
picks = st.integers(0, 10_000)


class LivingWiki(RuleBasedStateMachine):
    """Ids are drawn as numbers and wrapped, so that every draw means some page."""

    flavor: Any = "cloud"

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.wiki = StandIn(self.flavor, caps=(3, 5, 7)).__enter__()
        self.site = self.wiki.site
        self.sync = Syncs(
            self.wiki, Path(self._folder.name) / "kept", max_deleted_share=1, attachments="text", comments=True
        )
        self.index = Index()
        self.made = 0
        self.bad: set[str] = set()
        self.steps = 0

    @initialize(hours=st.integers(-11, 13), lag=st.integers(-90, 90), nested_cap=st.sampled_from([1, 2, 200]))
    def found(self, hours: int, lag: int, nested_cap: int) -> None:
        self.site.nested_cap = nested_cap
        self.site.zone = timezone(timedelta(hours=hours))
        self.site.lag = timedelta(minutes=lag)
        self.site.put(page("1"))
        self.made = 1
        for _ in range(7):
            self.create(self.made, "alpha", "beta")

    def of(self, status: str) -> list[str]:
        return sorted((one["id"] for one in self.site.pages.values() if one["status"] == status), key=int)

    def pick(self, number: int, status: str = "current") -> str:
        found = self.of(status)
        return found[number % len(found)]

    @rule(parent=picks, title=words, body=words)
    def create(self, parent: int, title: str, body: str) -> None:
        self.made += 1
        above = self.pick(parent) if self.of("current") and parent % 5 else None
        self.site.create(str(self.made), above, title=f"{title} {self.made}", body=f"<p>{body}</p>")

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, body=words, move=st.booleans())
    def edit(self, number: int, body: str, move: bool) -> None:
        self.site.edit(self.pick(number), body=f"<p>{body} {number}</p>")
        if move:
            self.move(number, number // 2)

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, title=words)
    def rename(self, number: int, title: str) -> None:
        self.site.edit(self.pick(number), title=f"{title} {number}")

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, parent=picks)
    def move(self, number: int, parent: int) -> None:
        moved, above = self.pick(number), self.pick(parent)
        lineage = self.site.lineage(above)
        self.site.move(moved, *(() if moved in lineage else lineage))

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, users=st.sets(st.sampled_from(USERS)), groups=st.sets(st.sampled_from(GROUPS)))
    def restrict(self, number: int, users: set[str], groups: set[str]) -> None:
        self.site.restrict(self.pick(number), users, groups)

    @precondition(lambda self: self.of("current"))
    @rule(number=picks)
    def unrestrict(self, number: int) -> None:
        self.site.restrict(self.pick(number))

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, name=words, body=st.sampled_from(["", "alpha", "beta"]))
    def attach(self, number: int, name: str, body: str) -> None:
        self.site.attach(self.pick(number), f"{name}.txt", body.encode())

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, body=words)
    def say(self, number: int, body: str) -> None:
        self.site.say(self.pick(number), f"<p>{body}</p>")

    @rule(number=picks)
    def take_away(self, number: int) -> None:
        """A file or a comment goes."""
        hanging = [one for one in (*self.site.hanging.files.values(), *self.site.hanging.comments.values()) if one]
        found = hanging[number % len(hanging)] if hanging else []
        if isinstance(found, dict):
            del found[min(found)]
        elif found:
            del found[number % len(found)]

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, other=picks)
    def include(self, number: int, other: int) -> None:
        """A page shows the text of another one, itself perhaps."""
        title = self.site.pages[self.pick(other)]["title"]
        link = f'<ac:link><ri:page ri:content-title="{title}" /></ac:link>'
        macro = f'<ac:structured-macro ac:name="include"><ac:parameter ac:name="">{link}</ac:parameter>'
        self.site.edit(self.pick(number), body=f"<p>As there:</p>{macro}</ac:structured-macro>")

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, name=words)
    def label(self, number: int, name: str) -> None:
        self.site.label(self.pick(number), name)

    @precondition(lambda self: len(self.of("current")) > 1)
    @rule(number=picks)
    def trash(self, number: int) -> None:
        self.site.delete(self.pick(number))

    @precondition(lambda self: self.of("trashed"))
    @rule(number=picks)
    def restore(self, number: int) -> None:
        self.site.restore(self.pick(number, "trashed"))

    @precondition(lambda self: self.of("trashed"))
    @rule(number=picks)
    def purge(self, number: int) -> None:
        self.site.purge(self.pick(number, "trashed"))

    @precondition(lambda self: len(self.of("current")) > 1)
    @rule(number=picks)
    def archive(self, number: int) -> None:
        self.site.archive(self.pick(number))

    @rule(number=picks, back=st.booleans())
    def forbid(self, number: int, back: bool) -> None:
        """The asking user loses or regains a page."""
        if back or len(self.of("current")) < 3:
            self.site.forbidden.clear()
        else:
            self.site.forbidden.add(self.pick(number))

    @rule(fault=st.sampled_from(PASSING))
    def throttle_or_break(self, fault: Callable[[], Fault]) -> None:
        self.wiki.faults.append(fault())

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, fault=st.sampled_from([poisoned, hidden]))
    def spoil(self, number: int, fault: Callable[[str], Fault]) -> None:
        self.bad.add(self.pick(number))
        self.wiki.faults.append(fault(self.pick(number)))

    @rule()
    def mend(self) -> None:
        self.bad.clear()
        self.wiki.faults.clear()

    @rule()
    def sync_what_changed(self) -> None:
        """Between listings restrictions may be late; the next complete sync has to make good whatever was missed."""
        self._synced(listing_every_s=3600)

    @rule(after=st.integers(0, 6), number=picks)
    def sync_while_pages_change(self, after: int, number: int) -> None:
        """What is restricted while a sync runs may be late by one sync; what is written after that may not."""
        asked = 0
        secret = f"<p>secret {self.steps}</p>"

        def disturb(_: Request, answer: Answer) -> Answer:
            page_id = self.pick(number)
            self.site.restrict(page_id, groups=["ops"])
            self.site.edit(page_id, body=secret)
            self.site.delete(self.pick(number + 1)) if len(self.of("current")) > 1 else None
            return answer

        def is_time(_: Request) -> bool:
            nonlocal asked
            asked += 1
            return asked > after

        if not self.of("current"):
            return
        fault = Fault(disturb, 1, is_time)
        self.wiki.faults.append(fault)
        result = self._synced()
        fault.times = 0
        for row in result.pages.to_pylist() if result else ():
            readers = [who for who in PRINCIPALS if satisfies(who, row["readers"])]
            assert row["body"] != secret or all("ops" in who.groups for who in readers)

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
        try:
            return self.sync(**more)
        except SourceError:
            assert self.sync.last is before
            assert self.wiki.faults or not self._anything_listed()
            self.mend()
            return None

    def _anything_listed(self) -> bool:
        """A space that lists nothing at all is not believed."""
        return any(self.site.listed("ENG", "current"))

    def teardown(self) -> None:
        self.wiki.__exit__()
        self._folder.cleanup()


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

    machine = type("LivingWiki", (LivingWiki,), {"flavor": flavor})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(os.environ.get("CITELOCK_STATEFUL_EXAMPLES", "3")),
            stateful_step_count=250,
            deadline=None,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
