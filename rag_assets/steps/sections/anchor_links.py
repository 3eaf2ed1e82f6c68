"""Where links to anchors land: the section of the page that they name, or nowhere.

Belongs here: finding it for links inside a source, how many land, and how many of a source's anchors can be trusted.
Does not belong here: making anchors (`anchors`), reading links from a body (`formats.storage_links`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus

import pyarrow as pa

from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.sections.anchors import BORROWED, Anchors

Link = Mapping[str, Any]
"""An element of the column `links` of SECTIONS."""


class Landing(NamedTuple):
    """A link to an anchor of a page that is there."""

    section_id: str  # where the link stands
    link: Link
    target: str | None  # id of the section that it leads to; None: the page has no such anchor


def landings(sections: pa.Table, pages: pa.Table) -> Iterator[Landing]:
    """Yield every link to an anchor of one of the pages, in order.

    A link names an anchor by its words (`ac:anchor`: a heading's, or an anchor macro's name) or by its whole id (the
    part of an address behind `#`). An anchor that stands twice leads to the first, as in a browser.

    Args:
        sections: rows of SECTIONS.
        pages: rows of PAGES, at least those of the sections.
    """
    pages = pages.select(["page_id", "space", "title", "url", "anchor_flavor"])
    page_of = {row["page_id"]: row for row in pages.to_pylist()}
    by_title = {_name(row["space"], row["title"]): page_id for page_id, row in page_of.items()}
    by_url = {_address(row["url"]): page_id for page_id, row in page_of.items() if row["url"]}
    places = _places(sections)
    for row in sections.select(["section_id", "page_id", "links"]).to_pylist():
        own = page_of[row["page_id"]]
        for link in row["links"]:
            url, _, fragment = link["target"].partition("#") if link["kind"] == "url" else ("", "", link["anchor"])
            if link["kind"] == "page":
                page_id = by_title.get(_name(link["space"] or own["space"], link["target"]))
            elif url:
                page_id = by_url.get(_address(url))
            else:
                page_id = row["page_id"]
            if fragment and page_id is not None:
                yield Landing(row["section_id"], link, _target(places, page_of[page_id], fragment))


def _places(sections: pa.Table) -> dict[tuple[str, str], str]:
    """Return the first section of a page that an anchor leads to; the page's own text alone has anchors."""
    places: dict[tuple[str, str], str] = {}
    columns = ("section_id", "page_id", "anchor", "anchors", "included_from")
    for row in sections.select(columns).to_pylist():
        if row["included_from"] is None:
            for name in (row["anchor"], *(one["name"] for one in row["anchors"])):
                places.setdefault((row["page_id"], name), row["section_id"])
    return places


def _target(places: Mapping[tuple[str, str], str], page: Mapping[str, Any], fragment: str) -> str | None:
    anchors = Anchors(clean(page["title"] or ""), page["anchor_flavor"])
    names = (name for words in (fragment, unquote(fragment)) for name in anchors.meant(words))
    return next((places[page["page_id"], name] for name in names if (page["page_id"], name) in places), None)


def _name(space: str | None, title: str | None) -> tuple[str, str]:
    return (space or "").casefold(), clean(title or "").casefold()


def _address(url: str) -> str:
    return unquote_plus(url.split("#")[0]).rstrip("/").casefold()


UNCONFIRMED = frozenset({"cloud-repeated", BORROWED})
"""Rules whose anchor may differ on the site: the new editor's suffix is not documented, and a heading without an
id on an HTML page is reached by the one above."""


@dataclass(frozen=True)
class AnchorFigures:
    """Counts of anchors: each section's, and the further ones that lead to it.

    A valid anchor is found in one section of its page only, and its rule is confirmed.
    """

    anchors: int
    repeated: int  # another section of the page has the same anchor
    unconfirmed: int
    valid: int
    rules: Mapping[str, int]  # most first

    @property
    def validity(self) -> float:
        """The share of valid anchors; 1 where there are none."""
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
