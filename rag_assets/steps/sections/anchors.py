"""Heading anchors: where on a page a link lands.

The id that Confluence gives a heading, per flavor, and the name of the rule that made it; where links to anchors land
inside a source, how many do, and how many of its anchors can be trusted. URLs and their encoding are elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, unquote_plus

from rag_assets.steps.formats.blocks import clean

if TYPE_CHECKING:
    import pyarrow as pa  # readers of files have no memory for it

_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"^https?://([^/?#]++)[^#]*?(?:/pages/|[?&]pageId=)(\d+)")
_NOT_IN_SLUG = re.compile(r"[^\w\s-]")
BORROWED = "html-above"
"""The rule of a heading that has no id of its own: it is reached by that of the heading above."""


class HeadingAnchor(NamedTuple):
    """An id without `#`, not yet encoded for a URL, and the rule that made it."""

    name: str
    rule: str


class Anchors:
    """The anchors of one page, called in document order.

    Rules (Atlassian's documentation of anchors and of the new editor): on Data Center `PageTitle-HeadingText` without
    white space, `id-` in front of a first character that is not a letter; on Cloud the heading text with white space as
    `-`. A repeated heading takes `.1`, `.2`, under a rule of its own since on Cloud it is a guess; if it has an anchor
    macro, that name is used, which is no guess. On HTML pages the names are the ids of the heading. In Markdown they
    are GitHub's (github-slugger): lower case, letters, digits, `-` and `_`, white space as `-`; a repeated heading
    takes `-1`, `-2`.

    Raises ValueError for an unknown flavor.
    """

    def __init__(self, title: str, flavor: str) -> None:
        if flavor not in _RULES:
            raise ValueError(f"anchor flavor {flavor!r} is not known; known are {', '.join(sorted(_RULES))}")
        self._title = title
        self._flavor = flavor
        self._seen: dict[str, int] = {}
        self._taken: set[str] = set()
        self._above = "top"  # HTML's name for the top of a page

    def title(self) -> HeadingAnchor:
        """Return the page title's own anchor, for text above the first heading."""
        return HeadingAnchor(_RULES[self._flavor].title(self._title) or "top", f"{self._flavor}-title")

    def heading(self, text: str, macros: Sequence[str] = ()) -> HeadingAnchor:
        """Return the anchor of the next heading; `macros` are names of the anchor macros inside it."""
        rules = _RULES[self._flavor]
        if rules.heading is None:
            self._above = macros[0] if macros else self._above
            return HeadingAnchor(self._above, "html-id" if macros else BORROWED)
        base = rules.heading(self._title, text)
        count = self._seen.get(base, 0)
        self._seen[base] = count + 1
        if count and macros:
            return self.macro(macros[0])
        name = f"{base}{rules.repeated}{count}" if count else base
        while name in self._taken:
            self._seen[base] = count = count + 1
            name = f"{base}{rules.repeated}{count}"
        self._taken.add(name)
        return HeadingAnchor(name, f"{self._flavor}-repeated" if count else self._flavor)

    def macro(self, name: str) -> HeadingAnchor:
        """Return the anchor of an anchor macro of this name, at any position."""
        return HeadingAnchor(_RULES[self._flavor].macro(self._title, name), f"{self._flavor}-macro")

    def meant(self, words: str) -> list[str]:
        """Return the ids that a link may mean by these words: a whole id, the name of an anchor macro, a heading."""
        rules = _RULES[self._flavor]
        of_heading = [rules.heading(self._title, words)] if rules.heading else []
        return [words, rules.macro(self._title, words), *of_heading]


class OneAnchor:
    """Anchors of text that another page includes: all links to it land on the heading above it there."""

    def __init__(self, anchor: HeadingAnchor) -> None:
        self._anchor = anchor

    def title(self) -> HeadingAnchor:
        return self._anchor

    def heading(self, _text: str, _macros: Sequence[str] = ()) -> HeadingAnchor:
        return self._anchor

    def macro(self, _name: str) -> HeadingAnchor:
        return self._anchor


class _Rules(NamedTuple):
    """The ids of a flavor: of a page's title, of a heading under a title, of an anchor macro under a title."""

    title: Callable[[str], str]
    heading: Callable[[str, str], str] | None  # None: only those that the page gives
    macro: Callable[[str, str], str]
    repeated: str = "."


def _data_center_id(text: str) -> str:
    name = _SPACE.sub("", text)
    return f"id-{name}" if name and not name[0].isalpha() else name


def _data_center(title: str, text: str) -> str:
    return _data_center_id(f"{title}-{text}")


def _cloud(_title: str, text: str) -> str:
    return _SPACE.sub("-", text.strip())


def _markdown(_title: str, text: str) -> str:
    return _SPACE.sub("-", _NOT_IN_SLUG.sub("", text.strip().lower())) or "section"


def _top(_title: str) -> str:
    return "top"


def _as_it_is(_title: str, name: str) -> str:
    return name


_RULES: Mapping[str, _Rules] = {
    "cloud": _Rules(partial(_cloud, ""), _cloud, _as_it_is),
    "datacenter": _Rules(_data_center_id, _data_center, _data_center),
    "markdown": _Rules(_top, _markdown, _as_it_is, "-"),
    "html": _Rules(_top, None, _as_it_is),
}


Link = Mapping[str, Any]
"""An element of the column `links` of SECTIONS."""


class PageTargets:
    """The target pages of links, by space and title, by address, and by the number in a Confluence site's addresses, of
    which a page has several."""

    def __init__(self, pages: Iterable[Mapping[str, Any]]) -> None:
        """`pages`: rows with the columns page_id, space, title and url of PAGES."""
        rows = list(pages)
        self._by_title = {_name(row["space"], row["title"]): row["page_id"] for row in rows}
        self._by_url = {_address(row["url"]): row["page_id"] for row in rows if row["url"]}
        numbers = ((row["page_id"], _NUMBER.match(row["url"] or "")) for row in rows)
        self._by_number = {found.groups(): one for one, found in numbers if found and one.endswith(found[2])}

    def of(self, link: Link, space: str) -> str | None:
        """Return the id of the target page of a link of the kind page or url in a space."""
        if link["kind"] == "page":
            return self._by_title.get(_name(link["space"] or space, link["target"]))
        number = _NUMBER.match(link["target"])
        return self._by_url.get(_address(link["target"])) or (self._by_number.get(number.groups()) if number else None)


class Landing(NamedTuple):
    """A link to an anchor of a page that is there."""

    section_id: str  # the link's place
    link: Link
    target: str | None  # id of the section that it leads to; None: the page has no such anchor


def landings(sections: pa.Table, pages: pa.Table) -> Iterator[Landing]:
    """Yield every link to an anchor of one of the pages, in order.

    A link names an anchor by its words (`ac:anchor`: a heading's, or an anchor macro's name) or by its whole id (the
    part of an address behind `#`). A repeated anchor leads to the first, as in a browser; the page's own text alone has
    anchors. `sections`: rows of SECTIONS; `pages`: rows of PAGES, at least those of the sections.
    """
    pages = pages.select(["page_id", "space", "title", "url", "anchor_flavor"])
    page_of = {row["page_id"]: row for row in pages.to_pylist()}
    targets = PageTargets(page_of.values())
    rows = sections.select(["section_id", "page_id", "anchor", "anchors", "included_from", "links"]).to_pylist()
    places: dict[tuple[str, str], str] = {}
    for row in rows:
        for name in (row["anchor"], *(one["name"] for one in row["anchors"])) if row["included_from"] is None else ():
            places.setdefault((row["page_id"], name), row["section_id"])
    for row in rows:
        own = page_of[row["page_id"]]
        for link in row["links"]:
            url, _, fragment = link["target"].partition("#") if link["kind"] == "url" else ("", "", link["anchor"])
            page_id = targets.of(link, own["space"]) if link["kind"] == "page" or url else row["page_id"]
            if fragment and page_id is not None:
                anchors = Anchors(clean(page_of[page_id]["title"] or ""), page_of[page_id]["anchor_flavor"])
                names = (name for words in (fragment, unquote(fragment)) for name in anchors.meant(words))
                target = next((places[page_id, name] for name in names if (page_id, name) in places), None)
                yield Landing(row["section_id"], link, target)


def _name(space: str | None, title: str | None) -> tuple[str, str]:
    return (space or "").casefold(), clean(title or "").casefold()


def _address(url: str) -> str:
    return unquote_plus(url.split("#")[0]).rstrip("/").casefold()


UNCONFIRMED = frozenset({"cloud-repeated", BORROWED})
"""Rules whose anchor may differ on the site: the new editor's suffix is not documented, and a heading without an
id on an HTML page is reached by the one above."""


@dataclass(frozen=True)
class AnchorFigures:
    """Counts of anchors: each section's, and its additional ones.

    A valid anchor belongs to one section of its page only, and its rule is confirmed.
    """

    anchors: int
    repeated: int  # another section of the page has the same anchor
    unconfirmed: int
    valid: int
    rules: Mapping[str, int]  # most first

    @property
    def validity(self) -> float:
        """The share of valid anchors; 1 if there are none."""
        return self.valid / self.anchors if self.anchors else 1.0


def anchor_figures(sections: pa.Table) -> AnchorFigures:
    """Return the figures of a table of SECTIONS. Text of other pages shares the anchor of the heading that shows it."""
    columns = (sections[name].to_pylist() for name in ("page_id", "anchor", "anchor_rule", "anchors", "included_from"))
    anchors: list[tuple[tuple[str, str], str]] = []  # of a page, by which rule
    owners: Counter[tuple[str, str]] = Counter()
    for page_id, anchor, rule, further, included_from in zip(*columns, strict=True):
        of_section = {anchor: rule, **{one["name"]: one["rule"] for one in further or ()}}
        anchors += (((page_id, name), made_by) for name, made_by in of_section.items())
        owners.update((page_id, name) for name in of_section if included_from is None)
    repeated = [owners[place] > 1 for place, _ in anchors]
    unconfirmed = [rule in UNCONFIRMED for _, rule in anchors]
    return AnchorFigures(
        anchors=len(anchors),
        repeated=sum(repeated),
        unconfirmed=sum(unconfirmed),
        valid=sum(not (twice or guessed) for twice, guessed in zip(repeated, unconfirmed, strict=True)),
        rules=dict(Counter(rule for _, rule in anchors).most_common()),
    )
