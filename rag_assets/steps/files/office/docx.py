"""DOCX files: what a Word document says, in blocks. Styles and numbers are in `parts`.

mammoth, which makes HTML of such files, was tried on tests/office/samples/manual.docx: hidden text and the table of
contents became text, the numbers of headings and lists and the description of a picture were gone, nothing was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from rag_assets.steps.files.office.block_writer import BlockWriter, Header, Line, cell_text
from rag_assets.steps.files.office.parts import (
    DGM,
    C,
    M,
    Numbering,
    Package,
    ParagraphKind,
    Relation,
    Styles,
    W,
    equation_text,
    is_on,
    small_int,
    target_of,
    value_of,
    write_chart,
    write_diagram,
)
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import Budget, Cell, Mark, clean
from rag_assets.steps.formats.element_tree import Element
from rag_serving.text.normalization import OMISSION

R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
PIC = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
V = "{urn:schemas-microsoft-com:vml}"

GENERATED_FIELDS = ("TOC", "INDEX", "TOA", "BIBLIOGRAPHY_INDEX")
_SILENT = frozenset(f"{W}{name}" for name in ("pPr", "sdtPr", "rPr", "delText", "rt"))  # `rt`: how a word is spoken
_SIGNS = {f"{W}tab": "\t", f"{W}noBreakHyphen": "-"}


@dataclass
class _Field:
    """A field that is open: its instruction, and where its result began."""

    instruction: str = ""
    result: bool = False
    mark: int = 0
    generated: bool = False


class TextReader:
    """Reads the text of paragraphs in their order; a field may go over several."""

    def __init__(self, page: _WordReader, styles: Styles, relations: Mapping[str, Relation]) -> None:
        self._page = page
        self._styles = styles
        self._relations = relations
        self._fields: list[_Field] = []
        self._line = Line()
        self._left_out = ""  # why the paragraph is, where its runs say nothing else
        self._mark: Mark = ""
        self._rules: Mapping[str, Callable[[Element], None]] = {
            f"{W}r": self._run,
            f"{W}hyperlink": self._hyperlink,
            f"{W}fldSimple": self._simple_field,
            f"{W}bookmarkStart": self._bookmark,
            f"{W}del": self._deleted,
            f"{W}moveFrom": self._deleted,
            f"{M}oMath": self._equation,
            f"{MC}AlternateContent": self._alternate,
            f"{W}sdt": self._control,
            f"{W}t": self._write,
            f"{W}br": self._break,
            f"{W}cr": self._break,
            f"{W}sym": self._symbol,
            f"{W}fldChar": self._field_mark,
            f"{W}instrText": self._instruction,
            **dict.fromkeys((f"{W}footnoteReference", f"{W}endnoteReference"), self._note),
            f"{W}drawing": self._drawing,
            f"{W}pict": self._picture,
            f"{W}object": self._object,
        }

    @property
    def generated(self) -> bool:
        """Return whether an open field is one that a program fills (a table of contents)."""
        return any(field.generated for field in self._fields)

    def read(self, paragraph: Element, line: Line, left_out: str = "") -> None:
        """Append the text of a paragraph to a line; `left_out`: why its style hides it."""
        self._line, self._left_out = line, left_out
        for field in self._fields:
            field.mark = line.mark()
        self._children(paragraph)

    def _children(self, element: Element) -> None:
        for child in element:
            rule = self._rules.get(child.tag)
            if rule is not None:
                rule(child)
            elif child.tag in _SIGNS:
                self._line.write(_SIGNS[child.tag])
            elif child.tag not in _SILENT and isinstance(child.tag, str):
                self._children(child)

    def _run(self, run: Element) -> None:
        properties = run.find(f"{W}rPr")
        if left_out := self._styles.left_out(properties, self._left_out):
            if any(clean(text.text or "") for text in run.iter(f"{W}t")):
                self._page.count(left_out, "hidden")
            return
        outer, self._mark = self._mark, self._styles.mark(properties)
        self._children(run)
        self._mark = outer

    def _silent(self) -> bool:
        return any(not field.result or field.generated for field in self._fields)

    def _write(self, node: Element) -> None:
        if not self._silent():
            self._line.write(node.text or "", self._mark)

    def _break(self, node: Element) -> None:
        if node.get(f"{W}type") in (None, "textWrapping"):
            self._line.line_break()
        else:
            self._line.write(" ")

    def _symbol(self, node: Element) -> None:
        """Write a character of a symbol font if it is a character of Unicode; those fonts have their own."""
        try:
            character = chr(int(node.get(f"{W}char", ""), 16))
        except (ValueError, OverflowError):
            return
        if character.isprintable() and not "\ue000" <= character <= "\uf8ff":
            self._line.write(character)
        else:
            self._page.count("symbol", "lost")

    def _hyperlink(self, node: Element) -> None:
        mark = self._line.mark()
        self._children(node)
        relation = self._relations.get(node.get(f"{R}id", ""))
        anchor = node.get(f"{W}anchor", "")
        address = relation.target if relation is not None and relation.external else ""
        self._line.link(mark, f"{address}#{anchor}" if anchor else address)

    def _control(self, node: Element) -> None:
        """Read the content of a control; of an empty one only the place of its value."""
        if is_empty_control(node):
            self._page.count("placeholder", "hidden")
            self._line.write(OMISSION)
        else:
            self._children(node)

    def _bookmark(self, node: Element) -> None:
        name = node.get(f"{W}name", "")
        if name and name != "_GoBack":
            self._line.names.append(name)

    def _deleted(self, node: Element) -> None:
        if any(clean(text.text or "") for text in node.iter(f"{W}delText", f"{W}t")):
            self._page.count("deleted text", "hidden")

    def _equation(self, node: Element) -> None:
        if not self._silent():
            self._line.write(f" {equation_text(node)} ")
            self._page.count("equation", "rendered")

    def _alternate(self, node: Element) -> None:
        """Read one of two ways to say the same: the first that is there."""
        chosen = node.find(f"{MC}Choice")
        chosen = node.find(f"{MC}Fallback") if chosen is None else chosen
        if chosen is not None:
            self._children(chosen)

    def _simple_field(self, node: Element) -> None:
        if is_generated(node.get(f"{W}instr", "")):
            self._page.count("table of contents", "navigation")
        else:
            self._children(node)

    def _field_mark(self, node: Element) -> None:
        kind = node.get(f"{W}fldCharType")
        if kind == "begin":
            self._fields.append(_Field())
        elif kind == "separate" and self._fields:
            field = self._fields[-1]
            field.result, field.mark = True, self._line.mark()
            field.generated = is_generated(field.instruction)
            self._page.count("table of contents", "navigation", int(field.generated))
        elif kind == "end" and self._fields:
            field = self._fields.pop()
            if field.result and not self._silent():
                self._line.link(field.mark, field_address(field.instruction))

    def _instruction(self, node: Element) -> None:
        if self._fields and not self._fields[-1].result:
            self._fields[-1].instruction += node.text or ""

    def _note(self, node: Element) -> None:
        kind = "footnote" if node.tag == f"{W}footnoteReference" else "endnote"
        self._line.write(self._page.note(kind, node.get(f"{W}id", "")))

    def _drawing(self, node: Element) -> None:
        described = (clean(each.get("descr", "") or "") for each in node.iter(f"{WP}docPr", f"{PIC}cNvPr"))
        self._parts(node, next(filter(None, described), ""), node.iter(f"{PIC}pic"))

    def _picture(self, node: Element) -> None:
        described = (clean(each.get("alt", "")) for each in node.iter(f"{V}shape"))
        self._parts(node, next(filter(None, described), ""), node.iter(f"{V}imagedata"))

    def _parts(self, node: Element, description: str, pictures: Iterable[Element]) -> None:
        """Write the text of a drawing; its boxes, charts and diagrams follow the paragraph."""
        if description:
            self._line.write(f" {description} ")
        for box in node.iter(f"{W}txbxContent"):
            above = list(takewhile(lambda each: each is not node, box.iterancestors()))
            if not any(each.tag in (f"{W}txbxContent", f"{MC}Fallback") for each in above):  # its older form
                self._page.after.append(("box", box))
        self._page.after += (("chart", each.get(f"{R}id", "")) for each in node.iter(f"{C}chart"))
        self._page.after += (("diagram", each.get(f"{R}dm", "")) for each in node.iter(f"{DGM}relIds"))
        self._line.write("".join(f" {text.text} " for text in node.iter(f"{V}textpath") if text.text))
        self._page.count("figure", "rendered" if description else "lost", len([*pictures]))

    def _object(self, node: Element) -> None:
        self._page.count("embedded object", "lost", 1)
        for shape in node.iter(f"{V}shape"):
            if alternative := clean(shape.get("alt", "")):
                self._line.write(f" {alternative} ")


def is_empty_control(node: Element) -> bool:
    """Return whether a content control shows its placeholder ("Click here to enter a date")."""
    return node.find(f"{W}sdtPr/{W}showingPlcHdr") is not None


def is_generated(instruction: str) -> bool:
    """Return whether a program fills a field of this instruction: a table of contents, an index."""
    words = instruction.split(None, 1)
    return bool(words) and words[0].upper() in GENERATED_FIELDS


def field_address(instruction: str) -> str:
    """Return where a HYPERLINK field leads: an address, or `#` and a bookmark with `\\l`."""
    words = instruction.split()
    if not words or words[0].upper() != "HYPERLINK":
        return ""
    quoted = [part for part in instruction.split('"')[1::2] if part]
    if not quoted:
        return ""
    return f"#{quoted[-1]}" if "\\l" in words[1:2] else quoted[0]


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
        self.writer, self.count = writer, writer.count
        self._package = package
        self._relations = package.relations(main)
        self._styles = Styles(self._part("styles"))
        self._numbering = Numbering(self._part("numbering"))
        self._notes = {kind: _notes(self._part(f"{kind}s"), kind) for kind in ("footnote", "endnote")}
        self._text = TextReader(self, self._styles, self._relations)
        self._note_texts = {
            kind: TextReader(self, self._styles, package.relations(name) if name else {})
            for kind in self._notes
            for name in [target_of(self._relations, f"{kind}s")]
        }
        self.after: list[tuple[str, Element | str]] = []  # the objects that follow the current paragraph
        self._pending: list[tuple[str, str, Element]] = []  # notes that follow the list or the table
        self._noted = 0
        self._carried: Line | None = None  # a line whose paragraph mark was deleted
        self._depth = 0

    def read(self, body: Element) -> None:
        """Write all blocks; count the parts beside the text: comments, headers and footers, macros."""
        self.container(body)
        self.write_notes()
        comments = self._part("comments")
        if comments is not None:
            self.count("comment", "hidden", sum(1 for _ in comments.iterchildren(f"{W}comment")))
        for relation in self._relations.values():
            if relation.kind in ("header", "footer") and (part := self._package.xml(relation.target)) is not None:
                has_text = any((text.text or "").strip() for text in part.iter(f"{W}t"))
                self.count("page header or footer", "navigation", int(has_text))
            elif relation.kind == "vbaProject":
                self.count("program (macros)", "hidden")

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
            gallery = node.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
            if is_empty_control(node):
                self.count("placeholder", "hidden")
            elif gallery is not None and gallery.get(f"{W}val", "").startswith("Table of"):
                self.count("table of contents", "navigation")
            elif (content := node.find(f"{W}sdtContent")) is not None:
                self.container(content)
        elif node.tag in (f"{W}del", f"{W}moveFrom"):
            self.count("deleted text", "hidden")
        elif node.tag == f"{W}altChunk":
            self.count("embedded document", "lost")
        elif node.tag == f"{MC}AlternateContent":
            chosen = node.find(f"{MC}Choice")
            self.container(node if chosen is None else chosen)
        elif node.tag not in (f"{W}sectPr", f"{W}tcPr", f"{W}pPr"):
            self.container(node)

    def _paragraph(self, node: Element) -> None:
        properties = node.find(f"{W}pPr")
        kind = self._styles.paragraph(properties)
        line, self._carried = self._carried or Line(), None
        outer, self.after = self.after, []
        generated = self._text.generated
        self._text.read(node, line, kind.left_out)
        if properties is not None and properties.find(f"{W}rPr/{W}del") is not None:
            self._carried = line  # its mark is deleted: it is one paragraph with the next
        elif kind.contents and not line.empty():
            self.count("table of contents", "navigation", int(not generated))
        else:
            self._write(line, kind)
        beside, self.after = self.after, outer
        for what, target in beside:
            if what == "box":
                self.container(target)
                continue
            relation = self._relations.get(str(target))
            tree = None if relation is None or relation.external else self._package.xml(relation.target)
            (write_chart if what == "chart" else write_diagram)(self.writer, tree)

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

    def _part(self, kind: str) -> Element | None:
        return self._package.xml(target_of(self._relations, kind))


def _notes(tree: Element | None, kind: str) -> dict[str, Element]:
    """Return the notes of a kind by their ids, without the lines that part them from the text."""
    nodes = () if tree is None else tree.iterchildren(f"{W}{kind}")
    return {node.get(f"{W}id", ""): node for node in nodes if node.get(f"{W}type", "normal") == "normal"}


def _write_table(document: _WordReader, table: Element) -> None:
    rows: list[list[Cell]] = []
    headers = 0
    covering: dict[int, tuple[int, int]] = {}  # column → row and place of the cell that still covers it
    for node in _inside(table, f"{W}tr"):
        is_deleted = node.find(f"{W}trPr/{W}del") is not None
        if is_deleted or _has_switch(node, "hidden"):
            document.count("deleted text" if is_deleted else "hidden text", "hidden")
            continue
        headers += _has_switch(node, "tblHeader") and headers == len(rows)
        rows.append(_row(document, node, rows, covering))
    document.writer.table(rows, headers or _style_header(table))
    document.write_notes()


def _row(
    document: _WordReader, node: Element, rows: list[list[Cell]], covering: dict[int, tuple[int, int]]
) -> list[Cell]:
    """Return the cells of a row; a cell that goes on with the one above makes that one longer."""
    column = small_int(value_of(node, f"trPr/{W}gridBefore")) or 0
    cells = [Cell("", columns=column)] if column else []
    for each in _inside(node, f"{W}tc"):
        columns = small_int(value_of(each, f"tcPr/{W}gridSpan")) or 1
        merge = each.find(f"{W}tcPr/{W}vMerge")
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


def _has_switch(row: Element, name: str) -> bool:
    switch = row.find(f"{W}trPr/{W}{name}")
    return switch is not None and is_on(switch.get(f"{W}val"))


def _style_header(table: Element) -> Header:
    look = table.find(f"{W}tblPr/{W}tblLook")
    if look is None:
        return "unknown"
    try:
        flags = int(look.get(f"{W}val", "0"), 16)
    except ValueError:
        flags = 0
    is_first = is_on(look.get(f"{W}firstRow"), absent=bool(flags & _FIRST_ROW))
    return "first" if is_first else "unknown"


def _inside(element: Element, tag: str) -> Iterator[Element]:
    """Yield the children of a tag, also those in content controls and marks of changes."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag)
