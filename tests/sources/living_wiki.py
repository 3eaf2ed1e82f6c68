"""A stand-in wiki that lives and breaks: whatever people and networks do to a Confluence site, drawn at random.

Belongs here: the changes, as rules of a state machine and as things that happen between two requests of a sync; what
was true of the wiki, moment by moment.
Does not belong here: syncing and judging it (`test_confluence_stateful`).

Every text that anybody writes holds a word of its own, so that it can be told who saw it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta, timezone
from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sources.stand_in_confluence import StandIn
from sources.stand_in_faults import Fault, broken, cut, emptied, hidden, poisoned, throttled
from sources.stand_in_site import page

from rag_serving.access.principals import Principal

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
STEP = timedelta(minutes=40)
"""By which the site's clock goes on, so that CQL finds only what is new."""

words = st.sampled_from(["alpha", "beta", "gamma", "delta"])
picks = st.integers(0, 10_000)
_MARKS = re.compile(r"w[0-9]+x")


@dataclass(frozen=True)
class Moment:
    """What was true of the wiki for a while."""

    marks: dict[str, frozenset[str]]  # the words of their own in a page's texts and in what hangs on it
    allowed: frozenset[tuple[str, int]]  # page, and number of a principal who may read it


def marks_in(text: str) -> frozenset[str]:
    return frozenset(_MARKS.findall(text))


class LivingWiki(RuleBasedStateMachine):
    """Ids are drawn as numbers and wrapped, so that every draw means some page."""

    flavor: Any = "cloud"

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.wiki = StandIn(self.flavor, caps=(3, 5, 7)).__enter__()
        self.site = self.wiki.site
        self.made = self.written = 0

    def teardown(self) -> None:
        self.wiki.__exit__()
        self._folder.cleanup()

    @initialize(hours=st.integers(-11, 13), lag=st.integers(-90, 90), nested_cap=st.sampled_from([1, 2, 200]))
    def found(self, hours: int, lag: int, nested_cap: int) -> None:
        self.site.nested_cap = nested_cap
        self.site.zone = timezone(timedelta(hours=hours))
        self.site.lag = timedelta(minutes=lag)
        self.site.put(page("1"))
        self.made = 1
        for _ in range(7):
            self.create(self.made, "alpha", "beta")

    # What is there

    def of(self, status: str) -> list[str]:
        return sorted((one["id"] for one in self.site.pages.values() if one["status"] == status), key=int)

    def pick(self, number: int, status: str = "current") -> str:
        found = self.of(status)
        return found[number % len(found)]

    def moment(self) -> Moment:
        marks = {}
        for page_id, one in self.site.pages.items():
            hanging = [file.content.decode() for file in self.site.hanging.files.get(page_id, {}).values()]
            hanging += [said.body for said in self.site.hanging.comments.get(page_id, ())]
            marks[page_id] = marks_in(" ".join([one["title"], one["body"]["storage"]["value"], *hanging]))
        may = (
            (page_id, number)
            for page_id in self.site.pages
            for number, who in enumerate(PRINCIPALS)
            if self.site.may_read(page_id, who.user, who.groups)
        )
        return Moment(marks, frozenset(may))

    def mark(self) -> str:
        """A word that stands nowhere else."""
        self.written += 1
        return f"w{self.written}x"

    # What people do

    @rule(parent=picks, title=words, body=words)
    def create(self, parent: int, title: str, body: str) -> None:
        self.made += 1
        above = self.pick(parent) if self.of("current") and parent % 5 else None
        self.site.create(
            str(self.made), above, title=f"{title} {self.made} {self.mark()}", body=f"<p>{body} {self.mark()}</p>"
        )

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, body=words, move=st.booleans())
    def edit(self, number: int, body: str, move: bool) -> None:
        self.site.edit(self.pick(number), body=f"<p>{body} {self.mark()}</p>")
        if move:
            self.move(number, number // 2)

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, title=words)
    def rename(self, number: int, title: str) -> None:
        self.site.edit(self.pick(number), title=f"{title} {number} {self.mark()}")

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
    @rule(number=picks, name=words, empty=st.booleans())
    def attach(self, number: int, name: str, empty: bool) -> None:
        self.site.attach(self.pick(number), f"{name}.txt", b"" if empty else self.mark().encode())

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, body=words)
    def say(self, number: int, body: str) -> None:
        self.site.say(self.pick(number), f"<p>{body} {self.mark()}</p>")

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

    # What goes wrong

    @rule(fault=st.sampled_from(PASSING))
    def throttle_or_break(self, fault: Callable[[], Fault]) -> None:
        self.wiki.faults.append(fault())

    @precondition(lambda self: self.of("current"))
    @rule(number=picks, fault=st.sampled_from([poisoned, hidden]))
    def spoil(self, number: int, fault: Callable[[str], Fault]) -> None:
        self.wiki.faults.append(fault(self.pick(number)))

    @rule()
    def mend(self) -> None:
        self.wiki.faults.clear()


def change(wiki: LivingWiki, kind: str, number: int, other: int) -> None:
    """One of the things that people do while a sync runs."""
    if len(wiki.of("current")) < 2:
        return
    match kind:
        case "close":
            wiki.site.restrict(wiki.pick(number), groups=[GROUPS[other % len(GROUPS)]])
        case "open":
            wiki.unrestrict(number)
        case "write":
            wiki.site.edit(wiki.pick(number), body=f"<p>{wiki.mark()}</p>")
        case "rename":
            wiki.site.edit(wiki.pick(number), title=wiki.mark())
        case "move":
            wiki.move(number, other)
        case "create":
            wiki.create(number, "alpha", "beta")
        case "trash":
            wiki.site.delete(wiki.pick(number))
        case "say":
            wiki.say(number, "alpha")
        case "attach":
            wiki.site.attach(wiki.pick(number), "alpha.txt", wiki.mark().encode())


changes = st.lists(
    st.tuples(
        st.integers(0, 25),  # after so many requests
        st.sampled_from(["close", "open", "write", "rename", "move", "create", "trash", "say", "attach"]),
        picks,
        picks,
    ),
    min_size=1,
    max_size=6,
)
