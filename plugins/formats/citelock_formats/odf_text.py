"""Text of OpenDocument files: paragraphs, headings, lists, tables, frames, and the content of their sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from posixpath import normpath

from citelock_formats.odf_styles import (
    DRAW,
    OFFICE,
    PRESENTATION,
    STYLE,
    SVG,
    TABLE,
    TEXT,
    XLINK,
    HeadingNumbers,
    ListLevel,
    OpenStyles,
    label_of,
)
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import BlockWriter, Header, Line, Outcome, cell_text
from rag_assets.steps.files.office.parts import Package, small_int
from rag_assets.steps.files.office.pptx import PlacedShape, in_reading_order, write_notes, write_title
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import SPAN_MAX, Cell, Mark, clean
from rag_assets.steps.formats.element_tree import Element
from rag_serving.documents.kinds import PASSWORD
from rag_serving.text.normalization import OMISSION


def odt_text(content: bytes, composed: Composed, _pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an OpenDocument text. Raises FileError if it cannot be read."""
    text, body = open_document(content, composed, "OpenDocument text", "text")

    def read() -> None:
        text.container(body)
        text.write_notes()
        pages = text.package.xml("styles.xml")
        for node in () if pages is None else pages.iter(f"{STYLE}header", f"{STYLE}footer"):
            text.writer.count("page header or footer", "navigation", int(bool("".join(node.itertext()).strip())))

    return text.writer.file_text(read)


_LENGTH = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(cm|mm|in|pt)?")
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72}
_HEIGHT = 21.0  # centimetres: of a usual slide
_LEFT_OUT = ("page", "header", "footer", "date-time", "page-number", "handout")


def odp_text(content: bytes, composed: Composed, pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an OpenDocument presentation; a slide is a page. Raises FileError if it cannot be read."""
    text, body = open_document(content, composed, "OpenDocument presentation", "presentation")
    slides = [*body.iterchildren(f"{DRAW}page")]

    def read() -> None:
        for number, slide in enumerate(slides, 1):
            text.writer.page = number
            _write(text, slide, number)
            if pages_done is not None:
                pages_done(number, len(slides))

    return text.writer.file_text(read, len(slides))


def _write(text: OpenText, slide: Element, number: int) -> None:
    writer = text.writer
    if text.styles.is_unseen("drawing-page", slide.get(f"{DRAW}style-name", "")):
        writer.count("hidden slide", "hidden")
        return
    shapes = in_reading_order([*_placed(slide)], _HEIGHT)
    title = next((shape for shape in shapes if shape.get(f"{PRESENTATION}class") == "title"), None)
    write_title(writer, Line("" if title is None else _words(title)), number)
    for shape in shapes:
        if shape is title or shape.get(f"{PRESENTATION}class") in _LEFT_OUT:
            continue
        if shape.tag == f"{DRAW}frame":
            write_frame(text, shape)
        else:
            text.apart(shape)
        writer.end_list()
    notes = slide.find(f"{PRESENTATION}notes")
    frames = () if notes is None else notes.iterchildren(f"{DRAW}frame")
    lines = [Line(_words(part)) for frame in frames for part in frame.iter(f"{TEXT}p")]
    write_notes(writer, lines)
    writer.count("comment", "hidden", sum(1 for _ in slide.iterchildren(f"{OFFICE}annotation")))


def _placed(slide: Element) -> Iterator[PlacedShape[Element]]:
    """Yield the shapes on a slide and in its groups; one without a position has the previous one's."""
    y = 0.0
    for node in slide:
        if node.tag == f"{DRAW}g":
            yield from _placed(node)
        elif str(node.tag).startswith(DRAW):
            y = _length(node.get(f"{SVG}y"), y)
            yield PlacedShape(node, _length(node.get(f"{SVG}x"), 0), y, _length(node.get(f"{SVG}height"), 0))


def _length(value: str | None, default: float) -> float:
    match = _LENGTH.fullmatch(value or "")
    return float(match[1]) * _CENTIMETRES.get(match[2] or "cm", 1.0) if match else default


def _words(node: Element) -> str:
    paragraphs = [node] if node.tag == f"{TEXT}p" else node.iter(f"{TEXT}p")
    return clean(" ".join("".join(paragraph.itertext()) for paragraph in paragraphs))


REPEAT_MAX = 64  # how often a row or a cell of a text's table may repeat
_GROUPS = frozenset(f"{TABLE}{name}" for name in ("table-rows", "table-row-group", "table-header-rows"))
_MATH = "{http://www.w3.org/1998/Math/MathML}"
_CELLS_MAX = 20_000  # of a chart's table
DEPTH_MAX = 40  # lists, tables and frames in each other; a document nests a handful
_SPACES_MAX = 100
_INDEXES = ("table-of-content", "alphabetical-index", "illustration-index", "table-index", "object-index", "user-index")


def open_document(content: bytes, composed: Composed, noun: str, body: str) -> tuple[OpenText, Element]:
    """Return a writer of the file's text, and the element of this name in its body. Raises FileError: it is
    protected, or cannot be read."""
    package = Package(content, noun)
    manifest = package.part("META-INF/manifest.xml")
    if manifest is not None and b"encryption-data" in manifest:
        raise FileError(PASSWORD)
    tree = package.xml("content.xml")
    found = None if tree is None else tree.find(f"{OFFICE}body/{OFFICE}{body}")
    if found is None:
        raise FileError(f"it is not a readable {noun}: its content is missing")
    styles = OpenStyles()
    styles.read(package.xml("styles.xml"))
    styles.read(tree)
    return OpenText(package, styles, BlockWriter(composed.budget)), found


class OpenText:
    """Writes the blocks of text in one file."""

    def __init__(self, package: Package, styles: OpenStyles, writer: BlockWriter) -> None:
        self.writer = writer
        self.package = package
        self.styles = styles
        self._headings = HeadingNumbers(styles.outline)
        self._lists: list[tuple[str, dict[int, ListLevel], list[int]]] = []  # those that are open, with their counts
        self._continued: dict[str, list[int]] = {}  # counts of lists that are closed, by style
        self._item: tuple[int, str] | None = None  # depth of its list, and its marker until its first text took it
        self._line = Line()
        self._mark: Mark = ""
        self._after: list[Element] = []  # frames that follow the paragraph
        self._notes: list[tuple[str, Element]] = []
        self._noted = 0
        self._depth = 0
        self._blocks: Mapping[str, Callable[[Element], None]] = {
            f"{TEXT}h": self._heading,
            f"{TEXT}p": self._paragraph,
            f"{TEXT}list": self._list,
            f"{TABLE}table": lambda node: write_table(self, node),
            f"{TEXT}section": self._section,
            f"{TEXT}tracked-changes": self._changes,
            f"{DRAW}frame": lambda node: write_frame(self, node),
            f"{OFFICE}annotation": self._comment,
            **{f"{TEXT}{name}": self._index for name in _INDEXES},
            **dict.fromkeys((f"{OFFICE}forms", f"{TEXT}sequence-decls", f"{TEXT}variable-decls"), _nothing),
        }
        self._inline: Mapping[str, Callable[[Element], None]] = {
            f"{TEXT}s": self._spaces,
            f"{TEXT}tab": lambda _node: self._line.write("\t"),
            f"{TEXT}line-break": lambda _node: self._line.line_break(),
            f"{TEXT}span": self._span,
            f"{TEXT}a": self._link,
            f"{TEXT}note": self._note,
            f"{TEXT}bookmark": self._bookmark,
            f"{TEXT}bookmark-start": self._bookmark,
            f"{OFFICE}annotation": self._comment,
            f"{TEXT}hidden-text": self._hidden,
            f"{TEXT}placeholder": self._placeholder,
            f"{TEXT}hidden-paragraph": _nothing,
            f"{TEXT}ruby-text": _nothing,
            f"{DRAW}frame": self._after.append,
            f"{DRAW}custom-shape": self._after.append,
            f"{DRAW}g": self._after.append,
        }

    def container(self, element: Element) -> None:
        """Write the blocks inside an element. Raises FileError if they are nested too deep."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise FileError(f"its lists, tables and frames are nested more than {DEPTH_MAX} deep")
        for child in element:
            rule = self._blocks.get(child.tag)
            if rule is not None:
                rule(child)
            elif isinstance(child.tag, str):
                self.container(child)
        self._depth -= 1

    def apart(self, element: Element) -> None:
        """Write the blocks inside an element, independently of the list around it."""
        item, self._item = self._item, None
        lists, self._lists = self._lists, []
        self.container(element)
        self._item, self._lists = item, lists

    def write_notes(self) -> None:
        """Write the notes that the text before refers to."""
        while self._notes and not self.writer.in_cell:
            mark, note = self._notes.pop(0)
            line = Line(f"{mark} ")
            for paragraph in note.iter(f"{TEXT}p"):
                self._read(paragraph, line)
                line.line_break()
            self.writer.paragraph(line)

    def _heading(self, node: Element) -> None:
        level = min(max(small_int(node.get(f"{TEXT}outline-level")) or 1, 1), 10)
        line = Line()
        self._read(node, line)
        if line.empty():
            return
        label = "" if node.get(f"{TEXT}is-list-header") == "true" else self._headings.label(level)
        self.write_notes()
        self.writer.heading(line, level, label)
        self._write_after()

    def _paragraph(self, node: Element) -> None:
        style = node.get(f"{TEXT}style-name", "")
        if self.styles.is_hidden("paragraph", style):
            self._hidden(node)
            return
        line = Line()
        self._read(node, line)
        if line.empty():
            pass
        elif self._item is not None:
            depth, marker = self._item
            self.writer.item(line, marker, depth)
            self._item = depth, ""
        elif self.styles.is_code(style):
            self.writer.code_line(line.verbatim())
        elif self.styles.is_title(style):
            self.writer.heading(line, 1)
        else:
            self.writer.paragraph(line)
            self.write_notes()
        self._write_after()

    def _write_after(self) -> None:
        frames = [*self._after]
        self._after.clear()
        for frame in frames:
            self._blocks.get(frame.tag, self.apart)(frame)

    def _read(self, node: Element, line: Line) -> None:
        outer, self._line = self._line, line
        self._marked(node, "paragraph")
        self._line = outer

    def line(self, paragraph: Element) -> Line:
        """Return the text of a paragraph of a cell, whose frames are written elsewhere."""
        line = Line()
        self._read(paragraph, line)
        self._after.clear()
        return line

    def _marked(self, node: Element, family: str) -> None:
        outer = self._mark
        self._mark = self.styles.mark(family, node.get(f"{TEXT}style-name", "")) or outer
        self._children(node)
        self._mark = outer

    def _children(self, node: Element) -> None:
        self._write(node.text)
        for child in node:
            rule = self._inline.get(child.tag)
            if rule is not None:
                rule(child)
            elif isinstance(child.tag, str):
                self._children(child)
            self._write(child.tail)

    def _write(self, text: str | None) -> None:
        self.writer.write(self._line, text.replace("\n", " ") if text else "", self._mark)

    def _spaces(self, node: Element) -> None:
        self._line.write(" " * min(small_int(node.get(f"{TEXT}c")) or 1, _SPACES_MAX))

    def _span(self, node: Element) -> None:
        if self.styles.is_hidden("text", node.get(f"{TEXT}style-name", "")):
            self._hidden(node)
        else:
            self._marked(node, "text")

    def _hidden(self, node: Element) -> None:
        if "".join(node.itertext()).strip() or node.get(f"{TEXT}string-value"):
            self.writer.count("hidden text", "hidden")

    def _placeholder(self, _node: Element) -> None:
        """Mark the place of a value that nobody has filled in."""
        self.writer.count("placeholder", "hidden")
        self._line.write(OMISSION)

    def _link(self, node: Element) -> None:
        mark = self._line.mark()
        self._children(node)
        self._line.link(mark, node.get(f"{XLINK}href", ""))

    def _bookmark(self, node: Element) -> None:
        if name := node.get(f"{TEXT}name", ""):
            self._line.names.append(name)

    def _note(self, node: Element) -> None:
        body = node.find(f"{TEXT}note-body")
        if body is not None:
            self._noted += 1
            self._notes.append((f"[{self._noted}]", body))
            self._line.write(f"[{self._noted}]")
            self.writer.count(node.get(f"{TEXT}note-class", "footnote"), "rendered")

    def _comment(self, _node: Element) -> None:
        self.writer.count("comment", "hidden")

    def _index(self, _node: Element) -> None:
        self.writer.count("table of contents", "navigation")

    def _changes(self, node: Element) -> None:
        self.writer.count("deleted text", "hidden", sum(1 for _ in node.iter(f"{TEXT}deletion")))

    def _section(self, node: Element) -> None:
        if node.get(f"{TEXT}display") == "none" or self.styles.is_unseen("section", node.get(f"{TEXT}style-name", "")):
            self._hidden(node)
        else:
            self.container(node)

    def _list(self, node: Element) -> None:
        above = self._lists[-1] if self._lists else None
        own = node.get(f"{TEXT}style-name", "")
        name = own or (above[0] if above else "")
        goes_on = node.get(f"{TEXT}continue-numbering") == "true"
        continues = not above and (goes_on or node.get(f"{TEXT}continue-list", "-") in self._continued)
        counts = [*above[2], 0] if above else [(self._continued.get(name) or [0])[0] if continues else 0]
        levels = self.styles.lists.get(name, {})
        if not continues:
            counts[-1] = levels.get(len(counts), ListLevel()).start - 1
        self._lists.append((name, levels, counts))
        item = self._item
        for child in node:
            if child.tag in (f"{TEXT}list-item", f"{TEXT}list-header"):
                self._list_item(child, counts, levels)
        self._item = item
        self._lists.pop()
        if not above:
            self._continued[name] = counts
            self._continued[node.get("{http://www.w3.org/XML/1998/namespace}id", "")] = counts
            following = node.getnext()
            if following is None or following.tag != f"{TEXT}list":
                self.write_notes()  # they follow the list, unless another part of it does

    def _list_item(self, node: Element, counts: list[int], levels: dict[int, ListLevel]) -> None:
        definition = levels.get(len(counts), ListLevel(bullet=True))
        marker = ""
        first = next(iter(node), None)
        only_nests = first is not None and first.tag == f"{TEXT}list"  # a list one level deeper
        if node.tag == f"{TEXT}list-item" and not only_nests:
            start = small_int(node.get(f"{TEXT}start-value"))
            counts[-1] = counts[-1] + 1 if start is None else start
            marker = "-" if definition.bullet or not definition.form else label_of(definition, counts, levels)
        self._item = len(counts) - 1, marker
        self.container(node)


def _nothing(_node: Element) -> None:
    """Skip an element without text."""


def write_table(document: OpenText, table: Element) -> None:
    """Write a table and the notes in it."""
    rows: list[list[Cell]] = []
    headers = 0
    for row, is_header in table_rows(table):
        if row.get(f"{TABLE}visibility") in ("collapse", "filter"):
            document.writer.count("hidden row", "hidden")
            continue
        cells = list(_cells(document, row))
        headers += is_header and headers == len(rows)
        rows += [cells] * min(small_int(row.get(f"{TABLE}number-rows-repeated")) or 1, REPEAT_MAX)
    declares: Header = headers or (1 if table.get(f"{TABLE}use-first-row-styles") == "true" else "unknown")
    document.writer.table(rows, declares)
    document.write_notes()


def table_rows(table: Element, is_header: bool = False) -> Iterator[tuple[Element, bool]]:
    """Yield the rows of a table in its groups, and whether they are declared to be headers."""
    for child in table:
        if child.tag == f"{TABLE}table-row":
            yield child, is_header
        elif child.tag in _GROUPS:
            yield from table_rows(child, is_header or child.tag == f"{TABLE}table-header-rows")


def _cells(document: OpenText, row: Element) -> Iterator[Cell]:
    """Yield the cells of a row, but those that another one covers."""
    for node in row.iterchildren(f"{TABLE}table-cell"):
        with document.writer.cell() as blocks:
            document.apart(node)
            document.writer.end_list()
        columns = min(small_int(node.get(f"{TABLE}number-columns-spanned")) or 1, SPAN_MAX)
        cell = Cell(cell_text(blocks), False, columns, small_int(node.get(f"{TABLE}number-rows-spanned")) or 1)
        for _ in range(min(small_int(node.get(f"{TABLE}number-columns-repeated")) or 1, REPEAT_MAX)):
            yield cell


def write_frame(document: OpenText, frame: Element) -> None:
    """Write the text of a frame; count frames without words."""
    writer = document.writer
    described = clean(" ".join(frame.findtext(f"{SVG}{name}") or "" for name in ("title", "desc")))
    objects = [*frame.iterchildren(f"{DRAW}object")]
    if (table := frame.find(f"{TABLE}table")) is not None:  # what else is there is its picture
        write_table(document, table)
        return
    boxes = [*frame.iterchildren(f"{DRAW}text-box")]
    for box in boxes:
        document.apart(box)
    if described and not boxes:
        writer.paragraph(Line(described))
    outcome: Outcome = "rendered" if described else "lost"
    if objects:
        _write_object(document, objects[0], outcome)
    elif frame.find(f"{DRAW}object-ole") is not None or frame.find(f"{DRAW}plugin") is not None:
        writer.count("embedded object", outcome)
    elif frame.find(f"{DRAW}image") is not None and not boxes:
        writer.count("figure", outcome)


def _write_object(document: OpenText, node: Element, outcome: Outcome) -> None:
    """Write a formula or a chart; `outcome`: of another object."""
    name = normpath(node.get(f"{XLINK}href", "")).lstrip("./")
    tree = document.package.xml(f"{name}/content.xml") if name and "://" not in name else None
    if tree is not None and str(tree.tag).startswith(_MATH):
        annotation = next(tree.iter(f"{_MATH}annotation"), None)
        words = "".join(tree.itertext()) if annotation is None else "".join(annotation.itertext())
        document.writer.text(words)
        document.writer.count("equation", "rendered" if words.strip() else "lost")
    elif tree is not None and (chart := tree.find(f"{OFFICE}body/{OFFICE}chart")) is not None:
        _write_chart(document.writer, chart)
    else:
        document.writer.count("embedded object", outcome)


def _write_chart(writer: BlockWriter, chart: Element) -> None:
    rows: list[list[Cell]] = []
    for row in chart.iter(f"{TABLE}table-row"):
        cells = [Cell(clean("".join(cell.itertext())), header=not rows) for cell in row.iter(f"{TABLE}table-cell")]
        if sum(map(len, rows)) + len(cells) <= _CELLS_MAX:
            rows.append(cells)
    title = next((node for node in chart.iter() if str(node.tag).endswith("}title")), None)
    words = "" if title is None else clean(" ".join("".join(p.itertext()) for p in title.iter(f"{TEXT}p")))
    writer.text(words)
    if any(cell.text for row in rows for cell in row):
        writer.table(rows, 1)
        writer.count("chart", "rendered")
    else:
        writer.count("chart", "lost")
