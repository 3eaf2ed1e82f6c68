"""Sections: a page's text, split at its headings, each with its path and its anchor.

Belongs here: splitting blocks at headings, heading paths, which sections become rows of SECTIONS, rows of MACRO_LEDGER.
Does not belong here: reading a body format, the ids of headings (`anchors`), cutting sections to chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.steps.anchors import Anchor, Anchors
from rag_assets.steps.blocks import Block, clean, joined
from rag_assets.steps.boilerplate import is_boilerplate
from rag_assets.steps.markdown_format import markdown_content
from rag_assets.steps.plain_format import plain_content
from rag_assets.steps.storage_elements import Content, storage_content
from rag_assets.steps.storage_format import PageError
from rag_serving.schema import MACRO_LEDGER, SECTIONS

__all__ = ["PageError", "PageSections", "SectionsResult", "build_sections", "sections_of_page"]

VERSION = 1
"""Raised when the same page would give other sections: unchanged pages are then read again."""

_READERS: Mapping[str, Callable[[str], Content]] = MappingProxyType(
    {"storage": storage_content, "markdown": markdown_content, "text": plain_content}
)


class PageSections(NamedTuple):
    """One page's rows of SECTIONS and of MACRO_LEDGER."""

    sections: list[dict[str, Any]]
    ledger: list[dict[str, Any]]


class SectionsResult(NamedTuple):
    """All pages' SECTIONS and MACRO_LEDGER, and (page id, reason) of each page that could not be read."""

    sections: pa.Table
    ledger: pa.Table
    failures: list[tuple[str, str]]


@dataclass(frozen=True)
class _Section:
    level: int
    heading: str
    path: tuple[str, ...]
    anchor: Anchor
    blocks: list[Block] = field(default_factory=list)


def build_sections(pages: pa.Table, max_page_bytes: int = 5_000_000) -> SectionsResult:
    """Sections and macros of all pages, in their order.

    A page that cannot be read, or whose body is larger than `max_page_bytes` of UTF-8, is recorded and stops nothing.
    """
    sections: list[Mapping[str, object]] = []
    ledger: list[Mapping[str, object]] = []
    failures: list[tuple[str, str]] = []
    for page in pages.to_pylist():
        try:
            _check_size(page["body"], max_page_bytes)
            found = sections_of_page(page)
        except PageError as error:
            failures.append((page["page_id"], str(error)))
        except Exception as error:  # a fault in one page is reported; the others still arrive
            failures.append((page["page_id"], f"unexpected {type(error).__name__}: {error}"))
        else:
            sections += found.sections
            ledger += found.ledger
    return SectionsResult(SECTIONS.table(sections), MACRO_LEDGER.table(ledger), failures)


def _check_size(body: str | None, limit: int) -> None:
    if body is None:
        raise PageError("the page has no body")
    if len(body) > limit or (len(body) * 4 > limit and len(body.encode(errors="replace")) > limit):
        raise PageError(f"the body is larger than {limit} bytes; raise the limit or split the page")


def sections_of_page(page: Mapping[str, Any]) -> PageSections:
    """The sections of one row of PAGES.

    Text above the first heading is a section of level 0 under the page's title. A heading without text of its own makes
    no row when deeper headings follow: it stands in their paths. Without those its row's text is the heading itself, so
    that it can be found; beside sections that do have text it counts as boilerplate.

    Raises:
        PageError: the body cannot be read, or its format or anchor flavor is not known.
    """
    read = _READERS.get(page["body_format"])
    if read is None:
        raise PageError(f"body format {page['body_format']!r} is not known; known are {', '.join(sorted(_READERS))}")
    title = clean(page["title"] or "")
    try:
        anchors = Anchors(title, page["anchor_flavor"])
    except ValueError as error:
        raise PageError(str(error)) from error
    content = read(page["body"] or "")
    sections = list(_kept(list(_split(content.blocks, title, anchors))))
    return PageSections(_section_rows(page, sections), _ledger_rows(page, content.ledger))


def _split(blocks: Sequence[Block], title: str, anchors: Anchors) -> Iterator[_Section]:
    """Sections in order, with text or without."""
    section = _Section(0, title, (title,), anchors.title())
    above: list[tuple[int, str]] = []
    for block in blocks:
        if block.kind != "heading":
            section.blocks.append(block)
            continue
        anchor = anchors.heading(block.text, block.anchors)
        if not block.level:
            continue
        yield section
        while above and above[-1][0] >= block.level:
            above.pop()
        above.append((block.level, block.text))
        section = _Section(block.level, block.text, (title, *(text for _, text in above)), anchor)
    yield section


def _kept(sections: Sequence[_Section]) -> Iterator[_Section]:
    """Sections that become rows: those with text, and bare headings without deeper ones below."""
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        if not section.blocks:
            if not section.level or (following is not None and following.level > section.level):
                continue
            section.blocks.append(Block("heading", section.heading))
        yield section


def _section_rows(page: Mapping[str, Any], sections: Sequence[_Section]) -> list[dict[str, Any]]:
    has_text = any(section.blocks[0].kind != "heading" for section in sections)
    return [_section_row(page, order, section, has_text) for order, section in enumerate(sections)]


def _section_row(page: Mapping[str, Any], order: int, section: _Section, has_text: bool) -> dict[str, Any]:
    text, atoms = joined(section.blocks)
    bare = section.blocks[0].kind == "heading"
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
        "is_boilerplate": has_text if bare else is_boilerplate(section.heading, section.blocks),
        "content_hash": page["content_hash"],
    }


def _ledger_rows(page: Mapping[str, Any], ledger: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "page_id": page["page_id"],
            "version": page["version"],
            "macro": macro,
            "outcome": outcome,
            "count": count,
            "content_hash": page["content_hash"],
        }
        for (macro, outcome), count in sorted(ledger.items())
    ]
