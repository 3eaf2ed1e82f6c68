"""Blocks of an office document, written in its order.

The text of a paragraph while it is gathered, headings with ids, list items in their groups, tables and which of their
first rows name the columns, links at the end of a section, what is counted in the ledger, where the budget is spent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from rag_assets.steps.files.records import FileText
from rag_assets.steps.formats.blocks import (
    BREAK,
    HEADER_MAX,
    STRUCK,
    Block,
    Budget,
    Cell,
    Content,
    Link,
    Mark,
    Repeats,
    blocks_body,
    clean,
    code_block,
    flat,
    grid,
    noted,
    one_header,
    paragraphs,
    row_blocks,
    shifted,
)
from rag_assets.steps.sections.anchors import Anchors


class Line:
    """Gathers the text of one paragraph."""

    def __init__(self, text: str = "") -> None:
        self._parts: list[str] = [text] if text else []
        self.links: list[Link] = []
        self.linked = 0  # characters of the text that are links
        self.names: list[str] = []  # bookmarks in it

    def write(self, text: str, mark: Mark = "") -> None:
        """Append text; white space collapses later."""
        if mark and text.strip():
            around = " " * text[0].isspace(), " " * text[-1].isspace()
            text = shifted(text, mark, self._parts[-1] if self._parts else "").join(around)
        self._parts.append(text)

    def begin(self, text: str) -> None:
        """Put text in front."""
        self._parts.insert(0, text)

    def line_break(self) -> None:
        """Append a forced line break."""
        self._parts.append(BREAK)

    def mark(self) -> int:
        """Return the place that is reached, for `link`."""
        return len(self._parts)

    def link(self, start: int, target: str) -> None:
        """Make a link of the text written since a mark: to a place of the document (`#name`) or to an address."""
        text = clean("".join(self._parts[start:]).replace(BREAK, " "))
        if not text or not target:
            return
        anchor = target.startswith("#")
        self.links.append(Link(text, "anchor", anchor=target[1:]) if anchor else Link(text, "url", target))
        self.linked += len(text)

    def paragraphs(self) -> list[str]:
        """Return the cleaned paragraphs: a break is a new line, two are a new paragraph."""
        return paragraphs("".join(self._parts))

    def verbatim(self) -> str:
        """Return the text to the letter."""
        return "".join(self._parts).replace(BREAK, "\n")

    def mend(self) -> None:
        """Join halves of characters that were written one after the other (UTF-16)."""
        text = "".join(self._parts)
        if any("\ud800" <= each <= "\udfff" for each in text):
            self._parts = [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")]

    def empty(self) -> bool:
        """Return whether there is no text."""
        return not any(part.strip() for part in self._parts)


Header = int | Literal["first", "unknown"]
"""How many rows are declared to be the header; "first": the table's style is for one with a header; "unknown": the file
does not say."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[-+−(]?[^\w\s]?\s?\d[\d.,'’/:\u00a0\u202f-]*\s?(?:[^\w\s]\)?|[A-Z]{3})?")


def headed(rows: Sequence[Sequence[Cell]], header: Header, repeats: Repeats) -> tuple[str, list[list[Cell]]]:
    """Return the caption in the first row, if any, and the rows without spans under one row of headers.

    A header of several lines becomes one: each column's words from top to bottom.
    """
    caption = ""
    rows = [row for row in rows if row]
    if len(rows) > 2 and header not in (0, 1) and _is_caption(rows):
        caption, rows = next(cell.text for cell in rows[0] if cell.text), rows[1:]
        header = header - 1 if isinstance(header, int) else header
    texts = list(grid(rows, repeats))
    depth = _depth(rows, texts, header)
    plain = [[Cell(text) for text in line] for line in texts[depth:]]
    if depth:
        plain.insert(0, [Cell(text, header=True) for text in one_header(texts[:depth])])
    return caption, plain


def _is_caption(rows: Sequence[Sequence[Cell]]) -> bool:
    filled = [cell for cell in rows[0] if cell.text]
    width = max(sum(cell.columns for cell in row) for row in rows[1:])
    covers = len(filled) == 1 and (filled[0].columns >= width or len(rows[0]) == width)
    return covers and width > 1 and filled[0].rows == 1 and sum(bool(cell.text) for cell in rows[1]) > 1


def _depth(rows: Sequence[Sequence[Cell]], texts: Sequence[Sequence[str]], header: Header) -> int:
    marked = next((at for at, row in enumerate(rows) if not all(cell.header for cell in row)), len(rows))
    declared = marked or (header if isinstance(header, int) else int(header == "first"))
    if declared >= len(rows):
        return min(declared, len(rows)) if declared == 1 else int(len(rows) > 1)
    if declared > 1:
        return min(declared, HEADER_MAX)
    if not declared:  # names of columns are text in nearly all, and no numbers
        filled = [text for text in texts[0] if text]
        is_named = len(filled) >= max(len(texts[0]) - 1, 1) and not any(map(_is_number, filled))
        if header != "unknown" or len(rows) < 2 or not is_named or all(map(_YEAR.fullmatch, filled)):
            return 0
    depth = 1  # and the rows below, where a merged cell is divided
    while depth < min(HEADER_MAX, len(rows) - 1) and any(cell.columns > 1 and cell.text for cell in rows[depth - 1]):
        named = [text for above, text in zip(texts[depth - 1], texts[depth], strict=False) if above]
        if not named or not all(named) or any(map(_is_number, named)):
            break
        depth += 1
    return depth


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and not _YEAR.fullmatch(text)


LEVEL_MAX = 6

Outcome = Literal["rendered", "navigation", "hidden", "lost"]


class BudgetSpentError(Exception):
    """No more of the document is kept; the message is the reason that is noted."""


class BlockWriter:
    """Gathers the blocks of one document. Raises BudgetSpentError if it is more than the budget."""

    def __init__(self, budget: Budget) -> None:
        self.blocks: list[Block] = []
        self.ledger: Counter[tuple[str, str]] = Counter()
        self.page = 0  # that is being written, from 1; 0: the file is not paged
        self._budget = budget
        self._left: dict[str, int] = budget._asdict()
        self._anchors = Anchors("", "markdown")
        self._repeats = Repeats()
        self._links: list[Link] = []
        self._groups = 0
        self._list = 0  # the group that the next list item joins
        self._code: list[str] = []
        self._inside = 0  # cells that are being written

    @property
    def cells_left(self) -> int:
        """The number of table cells that may still be written."""
        return self._left["cells"]

    @property
    def in_cell(self) -> bool:
        """Return whether a cell is being written."""
        return self._inside > 0

    def count(self, name: str, outcome: Outcome, number: int = 1) -> None:
        """Count what is not written as in the document."""
        if number:
            self.ledger[name, outcome] += number

    def heading(self, line: Line, level: int, label: str = "", names: Sequence[str] = ()) -> None:
        """Write a heading; its id is made of its words, not of the number in front of them. `line`: its words. `level`:
        from 1. `label`: the number in front of them. `names`: ids by which links reach it, first the one that citations
        use; without any it is made here."""
        words = " ".join(line.paragraphs())
        if not words:
            return
        if self._inside:
            self._add(Block("paragraph", f"{label} {words}".strip()))
            return
        self._end_section()
        names = tuple(dict.fromkeys((*(names or (self._anchors.heading(words).name,)), *line.names)))
        self._add(Block("heading", f"{label} {words}".strip(), level=min(level, LEVEL_MAX), anchors=names))

    def paragraph(self, line: Line) -> None:
        """Write paragraphs: two line breaks after each other part them."""
        linked = line.linked
        for text in line.paragraphs():
            self._add(Block("paragraph", text, linked=linked))
            linked = 0
        self._links += line.links

    def text(self, text: str) -> None:
        """Write plain text as a paragraph."""
        self.paragraph(Line(text))

    def item(self, line: Line, marker: str, depth: int) -> None:
        """Write a list item, `depth` lists below the outermost; without a marker it goes on with the item above."""
        parts = line.paragraphs()
        if not parts:
            return
        self._flush_code()
        group = self._list = self._list or self._group()
        for number, text in enumerate(parts):
            begins = bool(marker) and not number
            mark = f"{marker} " if begins and not self._inside else ""
            indent = 2 * depth + (0 if begins else 2)
            self._add(Block("list", mark + text, group, indent, linked=0 if number else line.linked), group)
        self._links += line.links

    def code_line(self, text: str) -> None:
        """Write a line of code; lines after each other are one block."""
        if self._inside:
            self.text(text)
            return
        self._code.append(text)

    def table(self, rows: Sequence[Sequence[Cell]], header: Header = "unknown") -> None:
        """Write a table under its header; one inside a cell leaves its rows there as items."""
        if self._inside:
            lines = (", ".join(cell.text for cell in row if cell.text) for row in rows)
            self.blocks += [Block("list", line) for line in lines if line]
            return
        caption, plain = headed(rows, header, self._repeats)
        self.text(caption)
        self.end_list()
        for block in row_blocks(plain, self._group()):
            self._add(block, block.group)
        self.end_list()

    @contextmanager
    def cell(self) -> Iterator[list[Block]]:
        """Collect the text written meanwhile apart, for a cell; `cell_text` makes a line of it."""
        self._flush_code()
        outer, group, self.blocks, self._list = self.blocks, self._list, [], 0
        self._inside += 1
        try:
            yield self.blocks
        finally:
            self.blocks, self._list = outer, group
            self._inside -= 1

    def end_list(self) -> None:
        """End the list and the code before; the next one begins its own."""
        self._flush_code()
        self._list = 0

    def file_text(self, read: Callable[[], None], page_count: int | None = None) -> FileText:
        """Return the body that `read` writes here, cut where the budget is spent."""
        cut = None
        try:
            read()
            self._end_section()
        except BudgetSpentError as error:
            cut = str(error)
        if not any(block.text for block in self.blocks):
            return FileText("", "blocks", page_count)
        return FileText(noted(blocks_body(Content(self.blocks, self.ledger)), cut), "blocks", page_count)

    def _end_section(self) -> None:
        self.end_list()
        if self._links:
            self.blocks.append(Block("reference", "", links=tuple(self._links)))
            self._links.clear()

    def _flush_code(self) -> None:
        lines, self._code = "\n".join(self._code), []
        if lines.strip():
            self._add(code_block(lines))

    def write(self, line: Line, text: str, mark: Mark) -> None:
        """Append text to a line; struck text is left out and counted."""
        if mark != "struck":
            line.write(text, mark)
        elif text.strip():
            self.count(STRUCK, "hidden")

    def _add(self, block: Block, group: int = 0) -> None:
        if not group:
            self._flush_code()
            self._list = 0
        elif block.kind == "table":
            self._spend("cells", block.text.partition("\n")[0].count("|") - 1)
        self._spend("text_chars", len(block.text))
        self._spend("blocks", 1)
        self.blocks.append(block._replace(page=self.page))

    def _spend(self, name: str, cost: int) -> None:
        self._left[name] -= cost
        if self._left[name] < 0:
            raise BudgetSpentError(self._budget.reason(name))

    def _group(self) -> int:
        self._groups += 1
        return self._groups


def cell_text(blocks: Sequence[Block]) -> str:
    """Return the blocks of a cell as one line, items parted by semicolons."""
    return flat(blocks, [])
