"""DOCX files: what a Word document says, in blocks.

Belongs here: the order of its blocks, tables, notes, text boxes, what is left out and counted.
Does not belong here: text within a paragraph (`word_text`), styles and numbers (`word_styles`).

mammoth, which makes HTML of such files, was tried on tests/office/samples/manual.docx: hidden text and the table of
contents became text, the numbers of headings and lists and the description of a picture were gone, nothing was counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from rag_assets.steps.files.office.block_writer import BlockWriter, Header, Line, Outcome, cell_text
from rag_assets.steps.files.office.drawings import write_chart, write_diagram
from rag_assets.steps.files.office.parts import Package, Relation
from rag_assets.steps.files.office.word_styles import Numbering, ParagraphKind, Styles, W, is_on, small_int, value_of
from rag_assets.steps.files.office.word_text import MC, TextReader, is_empty_control
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import Cell

_WRAPPERS = frozenset(f"{W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"))
_FIRST_ROW = 0x0020

DEPTH_MAX = 40  # tables in cells, boxes in boxes; a document nests a handful


def docx_text(content: bytes, budget: Budget, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of a Word document. Raises FileError if it cannot be read."""
    package = Package(content, "Word document")
    main = package.main_part("word/document.xml")
    tree = package.xml(main)
    body = None if tree is None else tree.find(f"{W}body")
    if body is None:
        raise FileError("it is not a readable Word document: its text is missing")
    writer = BlockWriter(budget)
    reader = _WordReader(package, main, writer)
    return writer.file_text(lambda: reader.read(body))


class _WordReader:
    def __init__(self, package: Package, main: str, writer: BlockWriter) -> None:
        self.writer = writer
        self._package = package
        self._relations = package.relations(main)
        self._styles = Styles(self._part("styles"))
        self._numbering = Numbering(self._part("numbering"))
        self._notes = {kind: _notes(self._part(f"{kind}s"), kind) for kind in ("footnote", "endnote")}
        self._text = TextReader(self, self._styles, self._relations)
        self._note_texts = {
            kind: TextReader(self, self._styles, self._part_relations(f"{kind}s")) for kind in self._notes
        }
        self._after: list[tuple[str, Element | str]] = []  # the objects that follow the current paragraph
        self._pending: list[tuple[str, str, Element]] = []  # notes that follow the list or the table
        self._noted = 0
        self._carried: Line | None = None  # a line whose paragraph mark was deleted
        self._depth = 0

    def read(self, body: Element) -> None:
        """Write all blocks."""
        self.container(body)
        self.write_notes()
        self._count_parts()

    def container(self, element: Element) -> None:
        """Write the blocks inside an element. Raises FileError if they are nested too deep."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise FileError(f"its tables and text boxes are nested more than {DEPTH_MAX} deep")
        for child in element:
            self._block(child)
        self._depth -= 1

    def _block(self, node: Element) -> None:
        if node.tag == f"{W}p":
            self._paragraph(node)
        elif node.tag == f"{W}tbl":
            _write_table(self, node)
        elif node.tag == f"{W}sdt":
            self._content_control(node)
        elif node.tag in (f"{W}del", f"{W}moveFrom"):
            self.count("deleted text", "hidden")
        elif node.tag == f"{W}altChunk":
            self.count("embedded document", "lost")
        elif node.tag == f"{MC}AlternateContent":
            chosen = node.find(f"{MC}Choice")
            self.container(node if chosen is None else chosen)
        elif node.tag not in (f"{W}sectPr", f"{W}tcPr", f"{W}pPr"):
            self.container(node)

    def _content_control(self, node: Element) -> None:
        gallery = node.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
        if is_empty_control(node):
            self.count("placeholder", "hidden")
        elif gallery is not None and gallery.get(f"{W}val", "").startswith("Table of"):
            self.count("table of contents", "navigation")
        elif (content := node.find(f"{W}sdtContent")) is not None:
            self.container(content)

    def _paragraph(self, node: Element) -> None:
        properties = node.find(f"{W}pPr")
        kind = self._styles.paragraph(properties)
        line, self._carried = self._carried or Line(), None
        after, self._after = self._after, []
        generated = self._text.generated
        self._text.read(node, line, kind.left_out)
        if properties is not None and properties.find(f"{W}rPr/{W}del") is not None:
            self._carried = line  # its mark is deleted: it is one paragraph with the next
        elif kind.contents and not line.empty():
            self.count("table of contents", "navigation", int(not generated))
        else:
            self._write(line, kind)
        beside, self._after = self._after, after
        for what, target in beside:
            self._write_beside(what, target)

    def _write(self, line: Line, kind: ParagraphKind) -> None:
        if line.empty():
            return
        label = self._numbering.label(kind.list_id, kind.list_level) if kind.list_id.strip("0") else None
        if kind.level:
            self.write_notes()
            self.writer.heading(line, kind.level, "" if label is None or label[1] else label[0])
        elif kind.code:
            self.writer.code_line(line.verbatim())
        elif label is not None:
            self.writer.item(line, label[0], kind.list_level)
        else:
            self.writer.paragraph(line)
            self.write_notes()

    def note(self, kind: str, name: str) -> str:
        """Return the mark of a note that a text refers to; its own text follows the paragraph, list or table."""
        note = self._notes[kind].pop(name, None)
        if note is None:
            return ""
        self._noted += 1
        self._pending.append((kind, f"[{self._noted}]", note))
        return f"[{self._noted}]"

    def write_notes(self) -> None:
        """Write the notes that the text before refers to."""
        while self._pending and not self.writer.in_cell:
            kind, mark, note = self._pending.pop(0)
            line = Line(f"{mark} ")
            for paragraph in note.iter(f"{W}p"):
                self._note_texts[kind].read(paragraph, line)
                line.line_break()
            self.writer.paragraph(line)
            self.count(kind, "rendered")

    def box(self, element: Element) -> None:
        """Write the blocks of a text box after the paragraph."""
        self._after.append(("box", element))

    def chart(self, relation: str) -> None:
        """Write the text of a chart after the paragraph."""
        self._after.append(("chart", relation))

    def diagram(self, relation: str) -> None:
        """Write the text of a diagram after the paragraph."""
        self._after.append(("diagram", relation))

    def _write_beside(self, what: str, target: Element | str) -> None:
        if what == "box":
            self.container(target)
            return
        relation = self._relations.get(str(target))
        tree = None if relation is None or relation.external else self._package.xml(relation.target)
        (write_chart if what == "chart" else write_diagram)(self.writer, tree)

    def count(self, name: str, outcome: Outcome, number: int = 1) -> None:
        """Count what is not written as in the document."""
        self.writer.count(name, outcome, number)

    def _count_parts(self) -> None:
        """Count the parts beside the text: comments, headers and footers, macros."""
        comments = self._part("comments")
        if comments is not None:
            self.count("comment", "hidden", sum(1 for _ in comments.iterchildren(f"{W}comment")))
        for relation in self._relations.values():
            if relation.kind in ("header", "footer") and (part := self._package.xml(relation.target)) is not None:
                has_text = any((text.text or "").strip() for text in part.iter(f"{W}t"))
                self.count("page header or footer", "navigation", int(has_text))
            elif relation.kind == "vbaProject":
                self.count("program (macros)", "hidden")

    def _part(self, kind: str) -> Element | None:
        """Return the tree of the part that is related to the document in this way."""
        name = next((each.target for each in self._relations.values() if each.kind == kind), "")
        return self._package.xml(name) if name else None

    def _part_relations(self, kind: str) -> dict[str, Relation]:
        name = next((each.target for each in self._relations.values() if each.kind == kind), "")
        return self._package.relations(name) if name else {}


def _notes(tree: Element | None, kind: str) -> dict[str, Element]:
    """Return the notes of a kind by their ids, without the lines that part them from the text."""
    nodes = () if tree is None else tree.iterchildren(f"{W}{kind}")
    return {node.get(f"{W}id", ""): node for node in nodes if node.get(f"{W}type", "normal") == "normal"}


def _write_table(document: _WordReader, table: Element) -> None:
    rows: list[list[Cell]] = []
    headers = 0
    covering: dict[int, tuple[int, int]] = {}  # column → row and place of the cell that still covers it
    for node in _inside(table, f"{W}tr"):
        properties = node.find(f"{W}trPr")
        if properties is not None and _is_gone(document, properties):
            continue
        is_header = properties is not None and is_on(_switch(properties, "tblHeader"), absent=False)
        headers += is_header and headers == len(rows)
        rows.append(_row(document, node, rows, covering))
    document.writer.table(rows, headers or _style_header(table))
    document.write_notes()


def _row(
    document: _WordReader, node: Element, rows: list[list[Cell]], covering: dict[int, tuple[int, int]]
) -> list[Cell]:
    """Return the cells of a row; a cell that goes on with the one above makes that one longer."""
    cells: list[Cell] = []
    properties = node.find(f"{W}trPr")
    column = 0
    if properties is not None and (before := small_int(value_of(properties, "gridBefore"))):
        cells.append(Cell("", columns=before))
        column = before
    for each in _inside(node, f"{W}tc"):
        cell = each.find(f"{W}tcPr")
        columns = (small_int(value_of(cell, "gridSpan")) if cell is not None else None) or 1
        merge = None if cell is None else cell.find(f"{W}vMerge")
        goes_on = merge is not None and merge.get(f"{W}val", "continue") == "continue"
        with document.writer.cell() as blocks:
            document.container(each)
            document.writer.end_list()
        text = cell_text(blocks)
        if goes_on and not text and (above := covering.get(column)) is not None:
            row, place = above
            rows[row][place] = rows[row][place]._replace(rows=rows[row][place].rows + 1)
        else:
            covering.pop(column, None)
            if merge is not None:
                covering[column] = (len(rows), len(cells))
            cells.append(Cell(text, columns=columns))
        column += columns
    return cells


def _is_gone(document: _WordReader, properties: Element) -> bool:
    """Return whether a row is deleted or hidden, and count it."""
    if properties.find(f"{W}del") is not None:
        document.count("deleted text", "hidden")
        return True
    if is_on(_switch(properties, "hidden"), absent=False):
        document.count("hidden text", "hidden")
        return True
    return False


def _switch(properties: Element, name: str) -> str | None:
    """Return the value of a switch; "on" without a value, None without the switch."""
    node = properties.find(f"{W}{name}")
    return None if node is None else node.get(f"{W}val", "on")


def _style_header(table: Element) -> Header:
    """Return the header according to the table's style."""
    look = table.find(f"{W}tblPr/{W}tblLook")
    if look is None:
        return "unknown"
    flag = look.get(f"{W}firstRow")
    if flag is None:
        try:
            return "first" if int(look.get(f"{W}val", "0"), 16) & _FIRST_ROW else "unknown"
        except ValueError:
            return "unknown"
    return "first" if is_on(flag) else "unknown"


def _inside(element: Element, tag: str) -> Iterator[Element]:
    """Yield the children of a tag, also those in content controls and marks of changes."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag)
