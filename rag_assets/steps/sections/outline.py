"""The outline of a page: its blocks, split at the headings.

Belongs here: which blocks stand under which heading, heading paths, where text of other pages is asked for.
Does not belong here: the ids of headings (`anchors`), rows (`sections`), other pages' text (`transclusion`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag_assets.steps.formats.blocks import Block, Link, Listing, Reference
from rag_assets.steps.sections.anchors import Anchor, Anchors, OneAnchor
from rag_serving.text.currency import docs_version


@dataclass(frozen=True)
class Section:
    """The blocks under one heading. Level 0 is the text above the first."""

    level: int
    heading: str
    path: tuple[str, ...]
    anchor: Anchor
    blocks: list[Block] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    anchors: list[Anchor] = field(default_factory=list)  # further ones: of anchor macros and of headings in cells


def split_at_headings(
    blocks: Sequence[Block], heading: str, path: tuple[str, ...], anchors: Anchors | OneAnchor
) -> Iterator[Section]:
    """Yield sections in order, with text or without. An anchor stands with the text after it, be that in the next
    section.

    Args:
        blocks: of a whole body.
        heading: what the text above the first heading stands under.
        path: the headings above all of it.
        anchors: asked in document order.
    """
    section = Section(0, heading, path, anchors.title())
    above: list[tuple[int, str]] = []
    waiting: list[Anchor] = []
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
            section = Section(block.level, block.text, _joined(path, [text for _, text in above]), anchor)
            section.anchors.extend((*waiting, *named))
            waiting.clear()
    section.anchors.extend(waiting)
    yield section


def _joined(path: tuple[str, ...], headings: Sequence[str]) -> tuple[str, ...]:
    """Return the headings below a path. A file's first heading is mostly its title again: it stands there once."""
    title = path[-1] if path else ""
    is_said = headings[0] == title or (docs_version(title) is not None and title.startswith(f"{headings[0]} ("))
    return (*path, *headings[1:]) if is_said else (*path, *headings)
