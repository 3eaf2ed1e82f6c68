"""`SUMMARY.md` of an mdBook: which chapters a book has, in which order, under which numbers.

Belongs here: prefix, numbered and suffix chapters, parts, drafts, nesting, as mdBook's own parser reads them.
Does not belong here: the text of a chapter (`mdbook`), addresses.

The rules are those of mdbook-summary 0.5 (`crates/mdbook-summary/src/lib.rs`); what stops a build there (an item that
is no link, a list after the suffix) is left aside here: a book is read as far as it can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

FRONT = 0
"""The chapter that unnumbered ones (foreword, introduction, colophon) count as; each is a section of it."""
_DEEPEST = 20  # lists in lists; markdown-it reads as many


@dataclass(frozen=True)
class Chapter:
    """A line of the table of contents."""

    title: str
    file: str | None  # below the book's `src`, as it is written; None: a draft
    number: tuple[int, ...]  # such as (3, 2); unnumbered ones are (0, 1), (0, 2) and so on
    parents: tuple[int, ...] = ()  # places in the list of the chapters above it, root first
    part: str | None = None  # title of the part that it stands in

    @property
    def numbered(self) -> str:
        """Return its number as books print it, such as 3.2."""
        return ".".join(map(str, self.number))


def read_summary(text: str) -> list[Chapter]:
    """Return the chapters of a `SUMMARY.md` in reading order; one that is named twice stands where it is first."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(MarkdownIt("commonmark").parse(text))
    reader = _Reader()
    for place, node in enumerate(root.children):
        reader.read(node, is_first=place == 0)
    return reader.chapters


class _Reader:
    """What was read of a table of contents so far."""

    def __init__(self) -> None:
        self.chapters: list[Chapter] = []
        self._files: set[str] = set()
        self._unnumbered = 0
        self._top = 0
        self._part: str | None = None

    def read(self, node: Any, is_first: bool) -> None:
        """Read a block of the file. A heading above everything else is the file's own title, later ones name parts."""
        if node.type == "heading" and node.tag == "h1":
            self._part = None if is_first else _text(node)
        elif node.type in ("bullet_list", "ordered_list"):
            for item in node.children:
                self._top += self._item(item, (self._top + 1,), (), 0)
        elif node.type == "paragraph":
            for link in _links(node):
                self._unnumbered += 1
                self._add(link, (FRONT, self._unnumbered), (), None)

    def _item(self, item: Any, number: tuple[int, ...], parents: tuple[int, ...], depth: int) -> int:
        """Read an item of a list and those below it; returns how many numbers it takes: none without a link."""
        own = [child for child in item.children if child.type == "paragraph"]
        link = next((link for paragraph in own[:1] for link in _links(paragraph)), None)
        if link is None or depth > _DEEPEST:
            return 0
        place = self._add(link, number, parents, self._part)
        count = 0
        for child in item.children:
            if child.type in ("bullet_list", "ordered_list"):
                for below in child.children:
                    count += self._item(below, (*number, count + 1), (*parents, place), depth + 1)
        return 1

    def _add(self, link: Any, number: tuple[int, ...], parents: tuple[int, ...], part: str | None) -> int:
        """Add a chapter and return its place."""
        file = unquote(str(link.attrs.get("href", ""))).removeprefix("./") or None
        if file in self._files:
            file = None
        elif file:
            self._files.add(file)
        self.chapters.append(Chapter(" ".join(_text(link).split()), file, number, parents, part))
        return len(self.chapters) - 1


def _links(node: Any) -> Iterator[Any]:
    return (child for child in node.walk() if child.type == "link")


def _text(node: Any) -> str:
    """Return the words of a node, those of code and images as well."""
    parts: Sequence[str] = [
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in node.walk()
        if child.type in ("text", "code_inline", "softbreak", "hardbreak")
    ]
    return "".join(parts)
