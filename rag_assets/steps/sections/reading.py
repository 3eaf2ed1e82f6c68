"""Reading a body: from its format to blocks within a budget; other steps' queries to a body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from rag_assets.steps.formats.blocks import (
    BREAK,
    BUDGET,
    Block,
    Budget,
    Content,
    blocks_content,
    clean,
    paragraphs,
    within,
    without_note,
)
from rag_assets.steps.formats.element_tree import Element, PageError, markdown_tree, parse_storage
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.formats.macros import is_excerpt, shown_macros, wordless_elements
from rag_assets.steps.formats.storage_elements import Walk, storage_content, table_rows, tree_content


def markdown_content(body: str) -> Content:
    """Return the blocks of a Markdown body; HTML inside it is read as HTML, pictures without words count as lost.

    Raises PageError: it cannot be read.
    """
    tree = markdown_tree(body)
    wordless = wordless_elements(tree)
    content = tree_content(tree)
    return content._replace(ledger=content.ledger + wordless)


def storage_excerpt(body: str, name: str) -> Content | None:
    """Return blocks and macros of the excerpt of this name, or without a name of the first; None if there is none.

    Raises PageError if the body cannot be read.
    """
    walk = Walk()
    for macro in shown_macros(parse_storage(body)):
        if is_excerpt(macro, name):
            walk.container(macro.rich)
            return Content(walk.blocks, walk.ledger)
    return None


_LINES_MAX = 40  # a log has no empty lines; its lines still become blocks that fit a chunk


def plain_content(body: str) -> Content:
    """Return the paragraphs of a plain text: an empty line or a form feed ends one, and so does the fortieth line."""
    blocks: list[Block] = []
    for paragraph in paragraphs(BREAK.join(body.replace("\f", "\n\n").splitlines())):
        lines = paragraph.split("\n")
        for start in range(0, len(lines), _LINES_MAX):
            blocks.append(Block("paragraph", "\n".join(lines[start : start + _LINES_MAX])))
    return Content(blocks, Counter())


class Properties(NamedTuple):
    """One `details` macro: its id, often empty, and its values by key; of a repeated key the first."""

    id: str
    values: dict[str, str]


def page_properties(body: str) -> list[Properties]:
    """Return the page properties of a storage-format body, in order.

    A table has its keys in the first column or, where all of its first row are headers and no other cell is, there;
    then the second row has the values. Raises PageError if the body cannot be read.
    """
    tables = []
    for macro in shown_macros(parse_storage(body)):
        if macro.name == "details" and macro.rich is not None:
            values: dict[str, str] = {}
            for key, value in _pairs(macro.rich):
                values.setdefault(key, value)
            tables.append(Properties(macro.parameters.get("id", ""), values))
    return tables


def _pairs(rich: Element) -> Iterator[tuple[str, str]]:
    for table in rich.iter("table"):
        if any(above.tag == "table" for above in table.iterancestors()):
            continue
        rows = [[cell for cell in row if cell.tag in ("th", "td")] for row in table_rows(table)]
        rows = [row for row in rows if row]
        tags = [{cell.tag for cell in row} for row in rows]
        across = len(rows) > 1 and tags[0] == {"th"} and all(tag == {"td"} for tag in tags[1:])
        pairs = zip(rows[0], rows[1], strict=False) if across else (row[:2] for row in rows if len(row) > 1)
        for key, value in pairs:
            if name := clean(Walk().cell(key, [])):
                yield name, Walk().cell(value, [])


_READERS: Mapping[str, Callable[[str], Content]] = MappingProxyType(
    {
        "storage": storage_content,
        "html": html_content,
        "markdown": markdown_content,
        "text": plain_content,
        "blocks": blocks_content,
    }
)


class BodyReader(Protocol):
    """A reader of bodies. Each method raises PageError if the body cannot be read, or takes too much."""

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """Return the blocks of a body; with `lists` the places of lists of pages, too."""

    def excerpt(self, body: str, name: str) -> Content | None:
        """Return the blocks of the excerpt of this name in a body of storage format; None if there is none."""

    def properties(self, body: str) -> list[Properties]:
        """Return the page properties of a body of storage format."""


class DirectReader:
    """Reads bodies here and now, within a budget of text; it bounds neither time nor memory."""

    def __init__(self, budget: Budget = BUDGET) -> None:
        self._budget = budget

    def content(self, body: str, body_format: str, lists: bool = False) -> Content:
        """See `BodyReader`."""
        read = _READERS.get(body_format)
        if read is None:
            raise PageError(f"body format {body_format!r} is not known; known are {', '.join(sorted(_READERS))}")
        text, cut = without_note(body)
        content = storage_content(text, lists) if body_format == "storage" else read(text)
        content = within(content, self._budget)
        return content if content.cut or cut is None else content._replace(cut=cut)

    def excerpt(self, body: str, name: str) -> Content | None:
        """See `BodyReader`."""
        excerpt = storage_excerpt(body, name)
        return None if excerpt is None else within(excerpt, self._budget)

    def properties(self, body: str) -> list[Properties]:
        """See `BodyReader`."""
        return page_properties(body)
