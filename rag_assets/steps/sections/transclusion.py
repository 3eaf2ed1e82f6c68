"""The outline of a page, and text of other pages that `include` and `excerpt-include` show on it.

The readers of the result are those who may read every page on the way, so that no page reveals another's text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa

from rag_assets.steps.formats.blocks import Block, Content, Link, Listing, Reference, clean
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.sections.anchors import Anchors, HeadingAnchor, OneAnchor
from rag_assets.steps.sections.reading import BodyReader, DirectReader
from rag_serving.access.principals import EVERYONE, intersect_readers
from rag_serving.text.currency import docs_version


@dataclass(frozen=True)
class OutlineSection:
    """The blocks under one heading. Level 0 is the text above the first."""

    level: int
    heading: str
    path: tuple[str, ...]
    anchor: HeadingAnchor
    blocks: list[Block] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    anchors: list[HeadingAnchor] = field(default_factory=list)  # further: of anchor macros, of headings in cells


def split_at_headings(
    blocks: Sequence[Block], heading: str, path: tuple[str, ...], anchors: Anchors | OneAnchor
) -> Iterator[OutlineSection]:
    """Yield sections in order, with text or without. An anchor belongs to the text after it, even in the next section.
    `blocks`: of a whole body; `heading`: of the text above the first heading; `path`: the headings above all of it;
    `anchors`: called in document order."""
    section = OutlineSection(0, heading, path, anchors.title())
    above: list[tuple[int, str]] = []
    waiting: list[HeadingAnchor] = []
    for block in blocks:
        if block.reference is not None:
            section.references.append(block.reference)
        elif block.listing is not None:
            section.listings.append(block.listing)
        elif block.links:
            section.links.extend(block.links)
        elif block.kind == "reference":
            waiting += map(anchors.macro, block.anchors)
        elif block.kind != "heading":
            section.blocks.append(block)
            section.anchors.extend(waiting)
            waiting.clear()
        else:
            anchor, named = anchors.heading(block.slug or block.text, block.anchors), map(anchors.macro, block.anchors)
            if not block.level:
                waiting += (anchor, *named)
                continue
            yield section
            while above and above[-1][0] >= block.level:
                above.pop()
            above.append((block.level, block.text))
            section = OutlineSection(block.level, block.text, _joined(path, [text for _, text in above]), anchor)
            section.anchors.extend((*waiting, *named))
            waiting.clear()
    section.anchors.extend(waiting)
    yield section


def _joined(path: tuple[str, ...], headings: Sequence[str]) -> tuple[str, ...]:
    """Return the headings below a path. A file's first heading mostly repeats its title, which then appears once."""
    title = path[-1] if path else ""
    is_said = headings[0] == title or (docs_version(title) is not None and title.startswith(f"{headings[0]} ("))
    return (*path, *headings[1:]) if is_said else (*path, *headings)


DEPTH_MAX = 5  # pages that include pages that include …
INCLUDED_MAX = 1_000_000  # characters of the same readers that one page may pull in; more is broken or hostile
FOLLOWED_MAX = 2_000  # references that are followed for one page, by the readers of the text that has them
_Key = tuple[str, str | None]  # page id and excerpt
_COLUMNS = ["source", "page_id", "space", "title", "url", "readers", "body", "body_format"]


class IncludedText(NamedTuple):
    """Text of another page, under a heading and an anchor of the page that shows it."""

    section: OutlineSection
    readers: str  # reader class of the pages it came through, the one that shows it not among them
    page_id: str | None  # whose text it is; None: of a list, which no page has


class Library:
    """The pages that references may name, by space and title; titles are unique in a space, whatever their case.

    Pages of the referring source come first. A page of another source is taken only if it is on the same site and no
    second one has its name: two sites may have spaces of the same key. `pages`: rows of PAGES. `max_page_bytes`: a
    larger page is not read. `others`: rows of PAGES of the tenant's other sources. `reader`: reads bodies; None: this
    process, within the default budget.
    """

    def __init__(
        self,
        pages: pa.Table,
        max_page_bytes: int = 5_000_000,
        others: Sequence[pa.Table] = (),
        reader: BodyReader | None = None,
    ) -> None:
        self.reader = reader or DirectReader()
        self._pages = pa.concat_tables([table.select(_COLUMNS) for table in (pages, *others)])
        self._limit = max_page_bytes
        self._rows: dict[tuple[str, str], list[int]] = {}
        self._contents: dict[_Key, Content | None] = {}

    def find(self, space: str, title: str, asking: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the row of the page, None if there is none. A title may carry its space: `ENG:Release steps`. `space`:
        key of the space; `title`: of the page; `asking`: row of the page with the reference."""
        if not self._rows:
            names = zip(self._pages["space"].to_pylist(), self._pages["title"].to_pylist(), strict=True)
            for row, name in enumerate(names):
                self._rows.setdefault(_name(*name), []).append(row)
        matches = self._of_name(_name(space, title), asking)
        return self._of_name(_name(*title.split(":", 1)), asking) if matches is None and ":" in title else matches

    def _of_name(self, name: tuple[str, str], asking: Mapping[str, Any]) -> Mapping[str, Any] | None:
        rows: list[Mapping[str, Any]] = self._pages.take(pa.array(self._rows.get(name, ()), pa.int64())).to_pylist()
        own = [row for row in rows if row["source"] == asking.get("source", row["source"])]
        if own:
            return own[-1]
        near = [row for row in rows if _site(row) == _site(asking)]
        return near[0] if len(near) == 1 else None

    def content(self, page: Mapping[str, Any], excerpt: str | None) -> Content | None:
        """Return a page's content, or an excerpt; None if there is no such excerpt or the page cannot be read."""
        key = page["page_id"], excerpt
        if key not in self._contents:
            self._contents[key] = None
            if (body := self.body(page)) is not None:
                with suppress(PageError):
                    read = self.reader
                    whole = excerpt is None
                    self._contents[key] = read.content(body, "storage") if whole else read.excerpt(body, excerpt or "")
        return self._contents[key]

    def body(self, page: Mapping[str, Any]) -> str | None:
        """Return the page's body; None if it is not in storage format, or too large."""
        body = page["body"] or ""
        small = len(body) * 4 <= self._limit or len(body.encode(errors="replace")) <= self._limit
        return body if page["body_format"] == "storage" and small else None


class Transclusion:
    """One page's text of others. The same text is taken once; `ledger` has the outcome of the page's macros."""

    def __init__(self, page: Mapping[str, Any], library: Library) -> None:
        self.ledger: Counter[tuple[str, str]] = Counter()
        self.missed = False  # whether some page is missing, even one named by a shown page
        self._page = page
        self._library = library
        self._taken: set[tuple[_Key, str]] = set()
        self._taken_characters = Counter[str]()  # by reader class: what one may not read leaves no less room for others
        self._followed = Counter[str]()  # by reader class, too

    def passages(self, section: OutlineSection) -> list[IncludedText]:
        """Return the text of a section's references, in their order; that of nested ones after its page's."""
        passages: list[IncludedText] = []
        start: _Key = (self._page["page_id"], None)
        for reference in section.references:
            resolved = self._follow(reference, self._page, section, EVERYONE, (start,), passages)
            self.ledger[reference.macro, "resolved" if resolved else "unresolved"] += 1
        return passages

    def _follow(
        self,
        reference: Reference,
        asking: Mapping[str, Any],
        under: OutlineSection,
        readers: str,
        chain: tuple[_Key, ...],
        passages: list[IncludedText],
    ) -> bool:
        """Append the text of a reference; return whether it could be followed. `chain` is the path to it."""
        self._followed[readers] += 1
        if self._followed[readers] > FOLLOWED_MAX:
            return False
        page = self._library.find(reference.space or asking.get("space", ""), reference.title, asking)
        if page is None:
            self.missed = True
            return False
        key = page["page_id"], reference.excerpt
        content = self._library.content(page, reference.excerpt) if key not in chain else None
        if content is None or len(chain) > DEPTH_MAX:
            return False
        narrower = intersect_readers(readers, page["readers"])
        if (key, narrower) in self._taken:
            return True
        self._taken_characters[narrower] += sum(len(block.text) for block in content.blocks)
        if self._taken_characters[narrower] > INCLUDED_MAX:
            return False
        self._taken.add((key, narrower))
        for section in split_at_headings(content.blocks, under.heading, under.path, OneAnchor(under.anchor)):
            if section.blocks:
                passages.append(IncludedText(section, narrower, page["page_id"]))
            for nested in section.references:
                self._follow(nested, page, section, narrower, (*chain, key), passages)
        return True


def _site(page: Mapping[str, Any]) -> str:
    return urlsplit(page.get("url") or "").netloc.casefold()


def _name(space: str | None, title: str | None) -> tuple[str, str]:
    return (space or "").strip().casefold(), clean(title or "").casefold()
