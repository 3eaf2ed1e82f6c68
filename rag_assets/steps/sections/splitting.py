"""Sections: a page's text, split at its headings, each with its path and its anchor; rows of MACRO_LEDGER.

A source is synced by itself and cannot see the others. So its pages that show a page of another source are read again
whenever the tenant is published, from the pages as they then are: nothing is kept that could become stale.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.chunks.chunking import ChunkSize, build_chunks
from rag_assets.steps.formats.blocks import Block, clean, joined
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.sections.anchors import BORROWED, Anchors, HeadingAnchor
from rag_assets.steps.sections.page_lists import PageLists
from rag_assets.steps.sections.reading import BodyReader
from rag_assets.steps.sections.transclusion import (
    INCLUDED_MAX,
    IncludedText,
    Library,
    OutlineSection,
    Transclusion,
    split_at_headings,
)
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import MACRO_LEDGER, PAGES, SECTIONS
from rag_serving.models.protocols import Tokenizer

__all__ = ["PageError", "PageSections", "SectionsResult", "build_sections", "sections_of_page"]
VERSION = 13
"""Raised when the same page would give other sections: unchanged pages are then read again."""
TITLE_MAX, LISTS_MAX = 2_000, 200
"""Characters of a title, which each section repeats; lists of pages that are made for one page, others stay away."""


class PageSections(NamedTuple):
    """One page's rows of SECTIONS and of MACRO_LEDGER."""

    sections: list[dict[str, Any]]
    ledger: list[dict[str, Any]]
    missed: bool = False  # whether it shows a missing page
    cut: str | None = None  # why the rest of the page is left out


class _Text(NamedTuple):
    """The blocks of one row: a section's own, or a passage of another page."""

    section: OutlineSection
    blocks: list[Block]
    passage: IncludedText | None = None
    anchors: Sequence[HeadingAnchor] = ()  # further ones that lead to it


class SectionsResult(NamedTuple):
    """All pages' SECTIONS and MACRO_LEDGER, and (page id, reason) of each page that could not be read."""

    sections: pa.Table
    ledger: pa.Table
    failures: list[tuple[str, str]]
    missed: list[str]  # pages that show a missing one
    cut: dict[str, str]  # page id -> why the rest of it is left out


def build_sections(
    pages: pa.Table,
    max_page_bytes: int = 5_000_000,
    others: Sequence[pa.Table] = (),
    listed: pa.Table | None = None,
    reader: BodyReader | None = None,
) -> SectionsResult:
    """Return sections and macros of all pages, in their order.

    A page that cannot be read is recorded and stops nothing. `pages`: rows of PAGES. `max_page_bytes`: a page with a
    larger body of UTF-8 is recorded as failed. `others`: rows of PAGES to look up text of other pages, the source's own
    first; empty: the pages alone. `listed`: the pages that lists of pages may show; None: lists stay away. `reader`:
    reads the bodies; None: this process, within the default budget.
    """
    sections: list[Mapping[str, object]] = []
    ledger: list[Mapping[str, object]] = []
    failures: list[tuple[str, str]] = []
    missed: list[str] = []
    cut: dict[str, str] = {}
    own, *further = others or (pages,)
    library = Library(own, max_page_bytes, further, reader)
    lists = None if listed is None else PageLists(listed, library)
    for page in pages.to_pylist():
        try:
            _check_size(page["body"], max_page_bytes)
            split = sections_of_page(page, library, lists)
        except PageError as error:
            failures.append((page["page_id"], str(error)))
        except Exception as error:  # a fault in one page is reported; the others still arrive
            failures.append((page["page_id"], f"unexpected {type(error).__name__}: {error}"))
        else:
            sections += split.sections
            ledger += split.ledger
            missed += [page["page_id"]] if split.missed else []
            cut |= {page["page_id"]: split.cut} if split.cut else {}
    return SectionsResult(SECTIONS.table(sections), MACRO_LEDGER.table(ledger), failures, missed, cut)


def _check_size(body: str | None, limit: int) -> None:
    if body is None:
        raise PageError("the page has no body")
    if len(body) > limit or (len(body) * 4 > limit and len(body.encode(errors="replace")) > limit):
        raise PageError(f"the body is larger than {limit} bytes; raise the limit or split the page")


def sections_of_page(
    page: Mapping[str, Any], library: Library | None = None, lists: PageLists | None = None
) -> PageSections:
    """Return the sections of one row of PAGES. Text of other pages comes from the library; without one it stays away.

    Text above the first heading is a section of level 0 under the page's title. A heading without text of its own makes
    no row when deeper headings follow: it appears in their paths. Without those its row's text is the heading itself,
    so that it can be found; beside sections that do have text it counts as boilerplate.

    Text of another page has rows of its own after the page's, under the heading and the anchor that show it, with its
    additional readers' restriction.
    Raises PageError: the body cannot be read, or its format or anchor flavor is not known.
    """
    title = clean(page["title"] or "")
    if len(title) > TITLE_MAX:
        raise PageError(f"the title is longer than {TITLE_MAX} characters")
    try:
        anchors = Anchors(title, page["anchor_flavor"])
    except ValueError as error:
        raise PageError(str(error)) from error
    library = library or Library(PAGES.empty())
    content = library.reader.content(page["body"] or "", page["body_format"], lists is not None)
    sections = list(split_at_headings(content.blocks, title, (title,), anchors))
    transclusion = Transclusion(page, library)
    included = [passage for section in sections for passage in transclusion.passages(section)]
    listings = Counter[tuple[str, str]]()
    if lists is not None:
        included += _listed(page, sections, lists, listings)
    own = list(_kept(sections))  # first: its rows do not reveal whether there are any others
    has_text = any(text.blocks[0].kind != "heading" for text in own)
    texts = [*own, *(_Text(passage.section, passage.section.blocks, passage) for passage in included)]
    rows = [_section_row(page, order, text, has_text) for order, text in enumerate(texts)]
    if any(section.references or section.listings for section in sections):
        rows = _stamped(rows)
    ledger = content.ledger + transclusion.ledger + listings
    return PageSections(rows, _ledger_rows(page, ledger), transclusion.missed, content.cut)


def _listed(
    page: Mapping[str, Any], sections: Sequence[OutlineSection], lists: PageLists, ledger: Counter[tuple[str, str]]
) -> Iterator[IncludedText]:
    """Yield the text of the lists on a page; each one's outcome is counted in the ledger."""
    taken = Counter[str]()  # characters by reader class: what one may not read leaves no less room for others
    places = ((section, listing) for section in sections for listing in section.listings)
    for place, (section, listing) in enumerate(places):
        passages = lists.passages(listing, page, section) if place < LISTS_MAX else None
        ledger[listing.macro, "navigation" if passages is None else "resolved"] += 1
        for passage in passages or ():
            blocks = []
            for block in passage.section.blocks:
                taken[passage.readers] += len(block.text)
                blocks += [block] if taken[passage.readers] <= INCLUDED_MAX else []
            if blocks:
                yield passage._replace(section=replace(passage.section, blocks=blocks))


def _kept(sections: Sequence[OutlineSection]) -> Iterator[_Text]:
    """Yield the rows of the page's own text: sections with text, and bare headings without deeper ones below.

    A link to any other heading leads to the text below it.
    """
    above: list[HeadingAnchor] = []
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        deeper = following is not None and following.level > section.level
        if section.blocks or (section.level and not deeper):
            blocks = section.blocks or [Block("heading", section.heading)]
            yield _Text(section, blocks, anchors=[*above, *section.anchors])
            above.clear()
        else:
            above += [*([section.anchor] if section.level else []), *section.anchors]


def _section_row(page: Mapping[str, Any], order: int, part: _Text, has_text: bool) -> dict[str, Any]:
    section, passage = part.section, part.passage
    text, atoms = joined(part.blocks)
    bare = part.blocks[0].kind == "heading"
    further = (one for one in part.anchors if one.rule != BORROWED and one.name != section.anchor.name)
    return {
        "section_id": f"{page['page_id']}:{page['version']}:s{order}",
        "page_id": page["page_id"],
        "version": page["version"],
        "order": order,
        "level": section.level,
        "heading": section.heading,
        "heading_path": list(section.path),
        "anchor": section.anchor.name,
        "anchor_rule": section.anchor.rule,
        "text": text,
        "blocks": [atom._asdict() for atom in atoms],
        "content_types": list(dict.fromkeys("paragraph" if a.kind == "heading" else a.kind for a in atoms)),
        "is_boilerplate": has_text if bare else is_boilerplate(section.heading, part.blocks),
        "content_hash": page["content_hash"],
        "also_readers": passage.readers if passage else EVERYONE,
        "included_from": passage.page_id if passage else None,
        "links": [] if passage else [link._asdict() for link in section.links],
        "anchors": [anchor._asdict() for anchor in {anchor.name: anchor for anchor in further}.values()],
    }


def _stamped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a page with references: their hash covers the included text, as the page's own hash cannot.

    It never equals the page's, so that such a page is never taken for unchanged.
    """
    said = ("content_hash", "text", "heading_path", "also_readers", "included_from")
    content = [[row[name] for name in said] for row in rows]
    digest = hashlib.sha256(json.dumps(content).encode(errors="surrogatepass")).hexdigest()[:32]
    return [row | {"content_hash": digest} for row in rows]


def _ledger_rows(page: Mapping[str, Any], ledger: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    of_page = {name: page[name] for name in ("page_id", "version", "content_hash")}
    return [
        of_page | {"macro": name, "outcome": what, "count": count} for (name, what), count in sorted(ledger.items())
    ]


_NAVIGATION = re.compile(
    r"(?:table of )?contents?|toc|[io]n this (?:page|section|article)|(?:quick )?navigation|page tree|children"
    r"|(?:child|sub) ?pages"
    r"|recent(?:ly updated| updates)|contributors|labels|search this (?:space|documentation)|breadcrumbs"
)
_LEFTOVER = re.compile(
    r"(?:table of )?contents|toc|on this page|in this (?:section|page|article)|child pages|page tree|navigation|menu"
    r"|(?:back to |go to |return to )?(?:the )?top(?: of (?:the )?page)?|back to (?:home|index|overview)"
    r"|(?:go |return )?back|next(?: page)?|prev(?:ious)?(?: page)?|home|up"
    r"|more|(?:read|see|show) more|show all|click here(?: to expand)?"
    r"|edit(?: (?:this|the) (?:page|section))?|view (?:source|history|this page)|(?:print|share)(?: this page)?"
    r"|(?:was|is) this (?:page|article) helpful|like|comments?|labels?|no labels|contributors|recently updated"
    r"|this page (?:is|was) (?:intentionally|deliberately) (?:left )?blank|intentionally left blank"
    r"|tbd|tba|tbc|todo|to do|to be (?:done|defined|determined|added|written)"
    r"|work in progress|wip|coming soon|placeholder"
    r"|(?:page )?(?:last )?(?:updated|modified|edited|changed|created)(?: (?:by|on|at)\b.{0,80})?"
    r"|(?:copyright|\(c\)|©).{0,120}|.{0,60}all rights reserved|powered by (?:atlassian|confluence).{0,60}"
    r"|(?:add|enter|type|insert|put|write) (?:your |the |a |any |some )?"
    r"(?:text|content|description|details|title|notes) here",
)
_HINT = re.compile(r"[<\[{](?:[^<>\[\]{}]{0,200})[>\]}]")  # all of a line in brackets: a template's hint
_MARKS = " \t>-*|[].:;,…!?→←↑↓»«·•_="
_LINKED = 0.6


def is_boilerplate(heading: str, blocks: Sequence[Block]) -> bool:
    """Return whether a section has nothing but navigation, template hints, footers or edit notices.

    - Never with code, and never with a table.
    - Every line is a known leftover ("Back to top", "TBD", "Last updated by …"), a bracketed hint or image name, or
      marks without letters.
    - Or the heading names navigation ("Contents", "Child pages") and most of the text is links.
    """
    if any(block.kind in ("code", "table") for block in blocks):
        return False
    lines = [line for block in blocks for line in block.text.splitlines()]
    if all(_is_leftover(line) for line in lines):
        return True
    linked, letters = sum(block.linked for block in blocks), sum(len(block.text) for block in blocks)
    return bool(_NAVIGATION.fullmatch(_bare(heading))) and linked >= _LINKED * letters


def _is_leftover(line: str) -> bool:
    if len(line) > 300:
        return False
    bare = _bare(line)
    return not any(c.isalnum() for c in bare) or bool(_LEFTOVER.fullmatch(bare) or _HINT.fullmatch(line.strip(" >-*")))


def _bare(line: str) -> str:
    """Return a line without list marks, quotes and closing punctuation, in lower case."""
    return line.strip(_MARKS).lower()


class IncludingSource(NamedTuple):
    """A source with pages that show pages which it does not have."""

    chunks: pa.Table  # CHUNKS, as the source made them
    pages: pa.Table  # PAGES, those that the chunks were made of
    missed: list[str]  # ids of the pages in question
    listed: pa.Table | None = None  # see `build_sections`


class Across(NamedTuple):
    """A source's chunks with text of the other sources, and how many macros that resolved."""

    chunks: pa.Table
    resolved: int


def with_other_sources(
    source: IncludingSource,
    others: Mapping[str, pa.Table],
    tokenizer: Tokenizer,
    size: ChunkSize,
    max_page_bytes: int,
    reader: BodyReader | None = None,
) -> Across:
    """Return the chunks of a source, with those pages made again that show a page of another source. `source`: with the
    referring pages; `others`: PAGES of the tenant's other sources by name; `tokenizer`: see `build_chunks`; `size`: see
    `build_chunks`; `max_page_bytes`: a larger page is not read; `reader`: see `build_sections`."""
    asking = source.pages.filter(pc.is_in(source.pages["page_id"], value_set=pa.array(source.missed, pa.string())))
    alone = build_sections(asking, max_page_bytes, [source.pages], source.listed, reader)
    result = build_sections(asking, max_page_bytes, [source.pages, *others.values()], source.listed, reader)
    resolved = _resolved(result.ledger) - _resolved(alone.ledger)
    if result.sections.equals(alone.sections):
        return Across(source.chunks, resolved)
    made = build_chunks(result.sections, asking, tokenizer, size)
    ids = pc.unique(asking["page_id"])
    kept = source.chunks.filter(pc.invert(pc.is_in(source.chunks["page_id"], value_set=ids)))
    return Across(pa.concat_tables([kept, made]), resolved)


def _resolved(ledger: pa.Table) -> int:
    return int(pc.sum(ledger.filter(pc.equal(ledger["outcome"], "resolved"))["count"]).as_py() or 0)
