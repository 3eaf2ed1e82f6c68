"""Text of DrawingML: paragraphs, lists and tables on slides.

Belongs here: runs, bullets with levels and numbers, links, cells.
Does not belong here: which shapes there are and in which order (`pptx`).
"""

from __future__ import annotations

from collections.abc import Mapping

from rag_assets.steps.files.office.block_writer import BlockWriter, cell_text
from rag_assets.steps.files.office.drawings import A, write_run
from rag_assets.steps.files.office.equations import M, equation_text
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.files.office.parts import Relation
from rag_assets.steps.files.office.word_numbering import number_text
from rag_assets.steps.files.office.word_styles import is_on, small_int
from rag_assets.steps.files.office.word_text import MC, R
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import Cell

_FORMS = {"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman"}


class SlideText:
    """Writes the text of one slide."""

    def __init__(self, writer: BlockWriter, relations: Mapping[str, Relation]) -> None:
        self._writer = writer
        self._relations = relations

    def body(self, element: Element | None, bullets: bool) -> None:
        """Write the paragraphs of a text body; `bullets`: where nothing is said, they are items of a list."""
        counts: dict[int, int] = {}
        for paragraph in () if element is None else element.iterchildren(f"{A}p"):
            line = self.line(paragraph)
            if not line.empty():
                self._paragraph(paragraph, line, bullets, counts)
        self._writer.end_list()

    def _paragraph(self, paragraph: Element, line: Line, bullets: bool, counts: dict[int, int]) -> None:
        properties = paragraph.find(f"{A}pPr")
        level = min((small_int(properties.get("lvl")) or 0) if properties is not None else 0, 8)
        numbered = None if properties is None else properties.find(f"{A}buAutoNum")
        for deeper in [each for each in counts if each > level or (numbered is None and each == level)]:
            del counts[deeper]
        if numbered is not None:
            counts[level] = counts.get(level, (small_int(numbered.get("startAt")) or 1) - 1) + 1
            self._writer.item(line, _number(counts[level], numbered.get("type", "")), level)
        elif self._is_item(properties, bullets, level):
            self._writer.item(line, "-", level)
        else:
            self._writer.paragraph(line)

    def _is_item(self, properties: Element | None, bullets: bool, level: int) -> bool:
        if properties is not None:
            if properties.find(f"{A}buNone") is not None:
                return False
            if properties.find(f"{A}buChar") is not None or properties.find(f"{A}buBlip") is not None:
                return True
        return bullets or level > 0

    def line(self, paragraph: Element) -> Line:
        """Return the text of a paragraph."""
        line = Line()
        self._read(paragraph, line)
        return line

    def _read(self, element: Element, line: Line) -> None:
        for node in element:
            if node.tag in (f"{A}r", f"{A}fld"):
                self._run(node, line)
            elif node.tag == f"{A}br":
                line.line_break()
            elif node.tag == f"{M}oMath":
                line.write(f" {equation_text(node)} ")
                self._writer.count("equation", "rendered")
            elif node.tag == f"{MC}AlternateContent":
                chosen = node.find(f"{MC}Choice")
                self._read(node if chosen is None else chosen, line)
            elif node.tag not in (f"{A}pPr", f"{A}endParaRPr") and isinstance(node.tag, str):
                self._read(node, line)

    def _run(self, node: Element, line: Line) -> None:
        mark = line.mark()
        write_run(self._writer, line, node)
        link = node.find(f"{A}rPr/{A}hlinkClick")
        relation = None if link is None else self._relations.get(link.get(f"{R}id", ""))
        if relation is not None and relation.external:
            line.link(mark, relation.target)

    def table(self, table: Element) -> None:
        """Write a table."""
        properties = table.find(f"{A}tblPr")
        first = properties is not None and is_on(properties.get("firstRow"), absent=False)
        rows = [[self._cell(cell) for cell in row.iterchildren(f"{A}tc") if not _is_covered(cell)] for row in table]
        self._writer.table([row for row in rows if row], "first" if first else "unknown")

    def _cell(self, cell: Element) -> Cell:
        with self._writer.cell() as blocks:
            self.body(cell.find(f"{A}txBody"), bullets=False)
        columns, rows = (small_int(cell.get(name)) or 1 for name in ("gridSpan", "rowSpan"))
        return Cell(cell_text(blocks), False, columns, rows)


def _is_covered(cell: Element) -> bool:
    return any(is_on(cell.get(name), absent=False) for name in ("hMerge", "vMerge"))


def _number(count: int, kind: str) -> str:
    """Return the number of an item in a form such as `arabicPeriod` or `alphaLcParenR`."""
    form = next((name for prefix, name in _FORMS.items() if kind.startswith(prefix)), "decimal")
    text = number_text(count, form)
    if kind.endswith("ParenBoth"):
        return f"({text})"
    return f"{text})" if kind.endswith("ParenR") else f"{text}."
