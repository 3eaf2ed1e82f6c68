"""Blocks of an office document, written in its order.

Belongs here: headings with ids, list items in their groups, tables under their headers, links at the end of a section,
what is counted in the ledger, where the budget is spent. Does not belong here: any file format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from rag_assets.steps.files.office.header_rows import Header, headed
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.files.records import FileText
from rag_assets.steps.formats.block_json import blocks_body
from rag_assets.steps.formats.blocks import Block, Content, Link, code_block, flat
from rag_assets.steps.formats.budget import Budget, noted
from rag_assets.steps.formats.tables import Cell, Repeats, row_blocks
from rag_assets.steps.formats.text_marks import STRUCK, Mark
from rag_assets.steps.sections.anchors import Anchors

LEVEL_MAX = 6

Outcome = Literal["rendered", "navigation", "hidden", "lost"]


class BudgetSpentError(Exception):
    """No more of the document is kept; the message is the reason that is noted."""


class BlockWriter:
    """Gathers the blocks of one document. Raises BudgetSpentError where it is more than the budget."""

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
        """How many cells of tables may still be written."""
        return self._left["cells"]

    @property
    def in_cell(self) -> bool:
        """Return whether a cell is being written."""
        return self._inside > 0

    def count(self, name: str, outcome: Outcome, number: int = 1) -> None:
        """Count what is not written as it stands in the document."""
        if number:
            self.ledger[name, outcome] += number

    def heading(self, line: Line, level: int, label: str = "", names: Sequence[str] = ()) -> None:
        """Write a heading; its id is made of its words, not of the number in front of them.

        Args:
            line: its words.
            level: from 1.
            label: the number in front of them.
            names: ids by which links reach it, first the one that citations use; without any it is made here.
        """
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
        """Collect what is written meanwhile apart, for a cell; `cell_text` makes a line of it."""
        self._flush_code()
        outer, group, self.blocks, self._list = self.blocks, self._list, [], 0
        self._inside += 1
        try:
            yield self.blocks
        finally:
            self.blocks, self._list = outer, group
            self._inside -= 1

    def end_list(self) -> None:
        """End the list and the code before; what follows begins its own."""
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
        body = blocks_body(Content(self.blocks, self.ledger))
        return FileText(noted(body, cut) if cut else body, "blocks", page_count)

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
