"""Heading anchors: where on a page a link lands.

Belongs here: the id that Confluence gives a heading, per flavor, and the name of the rule that made it.
Does not belong here: URLs and their encoding.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SPACE = re.compile(r"\s+")
_NOT_IN_SLUG = re.compile(r"[^\w\s-]")

BORROWED = "html-above"
"""The rule of a heading that has no id of its own: it is reached by that of the heading above."""


class Anchor(NamedTuple):
    """An id without `#`, not yet encoded for a URL, and the rule that made it."""

    name: str
    rule: str


class Anchors:
    """The anchors of one page, asked for in document order.

    Rules (Atlassian's documentation of anchors and of the new editor): on Data Center `PageTitle-HeadingText` without
    white space, `id-` in front of a first character that is not a letter; on Cloud the heading text with white space as
    `-`. A repeated heading takes `.1`, `.2`, under a rule of its own since on Cloud it is a guess; where it carries an
    anchor macro, that name is used, which is none.
    On HTML pages the names are the ids of the heading. In Markdown they are what GitHub makes of it (github-slugger):
    lower case, letters, digits, `-` and `_`, white space as `-`; a repeated heading takes `-1`, `-2`.

    Raises ValueError for a flavor that is not known.
    """

    def __init__(self, title: str, flavor: str) -> None:
        if flavor not in _RULES:
            raise ValueError(f"anchor flavor {flavor!r} is not known; known are {', '.join(sorted(_RULES))}")
        self._title = title
        self._flavor = flavor
        self._seen: dict[str, int] = {}
        self._taken: set[str] = set()
        self._above = "top"  # HTML's name for the top of a page

    def title(self) -> Anchor:
        """Return the page title's own anchor, for text above the first heading."""
        return Anchor(_RULES[self._flavor].title(self._title) or "top", f"{self._flavor}-title")

    def heading(self, text: str, macros: Sequence[str] = ()) -> Anchor:
        """Return the anchor of the next heading; `macros` are names of the anchor macros inside it."""
        rules = _RULES[self._flavor]
        if isinstance(rules, _Html):
            self._above = macros[0] if macros else self._above
            return Anchor(self._above, "html-id" if macros else BORROWED)
        base = rules.heading(self._title, text)
        count = self._seen.get(base, 0)
        self._seen[base] = count + 1
        if count and macros:
            return self.macro(macros[0])
        mark = rules.repeated
        name = f"{base}{mark}{count}" if count else base
        while name in self._taken:
            self._seen[base] = count = count + 1
            name = f"{base}{mark}{count}"
        self._taken.add(name)
        return Anchor(name, f"{self._flavor}-repeated" if count else self._flavor)

    def macro(self, name: str) -> Anchor:
        """Return the anchor that an anchor macro of this name makes, wherever it stands."""
        return Anchor(_RULES[self._flavor].macro(self._title, name), f"{self._flavor}-macro")

    def meant(self, words: str) -> list[str]:
        """Return the ids that a link may mean by these words: a whole id, the name of an anchor macro, a heading."""
        rules = _RULES[self._flavor]
        of_heading = [] if isinstance(rules, _Html) else [rules.heading(self._title, words)]
        return [words, rules.macro(self._title, words), *of_heading]


class OneAnchor:
    """Anchors of text that another page includes: all links to it land on the heading above it there."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor

    def title(self) -> Anchor:
        return self._anchor

    def heading(self, _text: str, _macros: Sequence[str] = ()) -> Anchor:
        return self._anchor

    def macro(self, _name: str) -> Anchor:
        return self._anchor


class _DataCenter:
    """Data Center and the legacy editor."""

    repeated = "."

    def title(self, title: str) -> str:
        return self._id(title)

    def heading(self, title: str, text: str) -> str:
        return self._id(f"{title}-{text}")

    def macro(self, title: str, name: str) -> str:
        return self._id(f"{title}-{name}")

    def _id(self, text: str) -> str:
        name = _SPACE.sub("", text)
        return f"id-{name}" if name and not name[0].isalpha() else name


class _Cloud:
    """Cloud's new editor."""

    repeated = "."

    def title(self, title: str) -> str:
        return _SPACE.sub("-", title.strip())

    def heading(self, _title: str, text: str) -> str:
        return _SPACE.sub("-", text.strip())

    def macro(self, _title: str, name: str) -> str:
        return name


class _Markdown:
    """Markdown as GitHub shows it, and mdBook, MkDocs and Docusaurus with small differences."""

    repeated = "-"

    def title(self, _title: str) -> str:
        return "top"

    def heading(self, _title: str, text: str) -> str:
        return _SPACE.sub("-", _NOT_IN_SLUG.sub("", text.strip().lower())) or "section"

    def macro(self, _title: str, name: str) -> str:
        return name


class _Html:
    """HTML pages: a heading has an id or is reached by the nearest one above it."""

    def title(self, _title: str) -> str:
        return "top"

    def macro(self, _title: str, name: str) -> str:
        return name


_RULES: Mapping[str, _DataCenter | _Cloud | _Markdown | _Html] = {
    "cloud": _Cloud(),
    "datacenter": _DataCenter(),
    "markdown": _Markdown(),
    "html": _Html(),
}
