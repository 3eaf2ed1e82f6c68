"""PPTX files: what a presentation says, slide by slide; the order of a slide, for slides of all formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from rag_assets.steps.files.office.block_writer import BlockWriter, Line, cell_text
from rag_assets.steps.files.office.docx import MC, R
from rag_assets.steps.files.office.parts import (
    DGM,
    A,
    C,
    M,
    Package,
    description_of,
    equation_text,
    is_on,
    number_text,
    small_int,
    target_of,
    write_chart,
    write_diagram,
    write_run,
)
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import Budget, Cell
from rag_assets.steps.formats.element_tree import Element

T = TypeVar("T")


class PlacedShape(NamedTuple, Generic[T]):
    """Something on a slide: left, top and height in any one unit; without a position it stays in the file's order."""

    what: T
    x: float
    y: float
    height: float


def in_reading_order(items: Sequence[PlacedShape[T]], slide_height: float) -> list[T]:
    """Return them in rows from top to bottom, each from left to right.

    A row ends below the middle of its first item, at most a twelfth of the slide below its top.
    """
    ordered = sorted(items, key=lambda item: (item.y, item.x))
    rows: list[list[PlacedShape[T]]] = []
    end = float("-inf")
    for item in ordered:
        if item.y >= end:
            rows.append([])
            end = item.y + max(min(item.height / 2, slide_height / 12), 1)
        rows[-1].append(item)
    return [item.what for row in rows for item in sorted(row, key=lambda each: (each.x, each.y))]


def write_title(writer: BlockWriter, title: Line, number: int) -> None:
    """Write the heading of a slide: its number and its title."""
    words = " ".join(title.paragraphs())
    heading = Line(f"Slide {number}: {words}" if words else f"Slide {number}")
    writer.heading(heading, 1, names=(f"page={number}", f"slide={number}"))


def write_notes(writer: BlockWriter, lines: Sequence[Line]) -> None:
    """Write the speaker's notes of a slide, labelled in the first paragraph."""
    spoken = [line for line in lines if not line.empty()]
    for line in spoken[:1]:
        line.begin("Speaker notes: ")
    for line in spoken:
        writer.paragraph(line)


_FORMS = {"alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman"}

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TITLES = ("title", "ctrTitle")
_LEFT_OUT = ("dt", "ftr", "sldNum", "hdr", "sldImg")
_HEIGHT = 6_858_000.0  # English metric units: of a slide where the file does not say
_SHAPES = frozenset(f"{P}{name}" for name in ("sp", "pic", "graphicFrame", "cxnSp"))


class _View(NamedTuple):
    """The mapping of coordinates inside a group to those of the slide."""

    x: float = 0
    y: float = 0
    scale_x: float = 1
    scale_y: float = 1


def pptx_text(content: bytes, budget: Budget, pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of a presentation; a slide is a page. Raises FileError if it cannot be read."""
    package = Package(content, "PowerPoint presentation")
    main = package.main_part("ppt/presentation.xml")
    tree = package.xml(main)
    if tree is None:
        raise FileError("it is not a readable PowerPoint presentation: its list of slides is missing")
    relations = package.relations(main)
    ids = [node.get(f"{R}id", "") for node in tree.iterfind(f"{P}sldIdLst/{P}sldId")]
    size = tree.find(f"{P}sldSz")
    height = _HEIGHT if size is None else float(small_int(size.get("cy")) or _HEIGHT)
    writer = BlockWriter(budget)

    def read() -> None:
        for number, name in enumerate(ids, 1):
            relation = relations.get(name)
            slide = None if relation is None else package.xml(relation.target)
            if relation is None or slide is None:
                raise FileError(f"it is not a readable PowerPoint presentation: slide {number} is missing")
            _Slide(package, relation.target, writer, height).read(slide, number)
            if pages_done is not None:
                pages_done(number, len(ids))

    return writer.file_text(read, len(ids))


class _Slide:
    def __init__(self, package: Package, name: str, writer: BlockWriter, height: float) -> None:
        self._package, self._writer, self._height = package, writer, height
        self._relations = package.relations(name)
        self._inherited: dict[tuple[str, str], tuple[float, float, float]] = {}
        relations = self._relations
        for kind in ("slideLayout", "slideMaster"):  # have the boxes of placeholders that the slide does not place
            above = target_of(relations, kind)
            tree = package.xml(above)
            if tree is None:
                break
            for node in tree.iter(f"{P}sp"):
                holder = next(node.iter(f"{P}ph"), None)
                if holder is not None and (box := _box(node)) is not None:
                    self._inherited.setdefault(_key(holder), box)
                    self._inherited.setdefault((holder.get("type", "obj"), ""), box)
            relations = package.relations(above)

    def read(self, slide: Element, number: int) -> None:
        """Write a slide, unless it is hidden."""
        self._writer.page = number
        if not is_on(slide.get("show")):
            self._writer.count("hidden slide", "hidden")
            return
        tree = slide.find(f"{P}cSld/{P}spTree")
        placed = [*self._placed(tree, _View())] if tree is not None else []
        shapes = in_reading_order(placed, self._height)
        title = next((node for node, kind in shapes if kind in _TITLES), None)
        titled = () if title is None else map(self._line, title.iterfind(f"{P}txBody/{A}p"))
        write_title(self._writer, Line(" ".join(" ".join(line.paragraphs()) for line in titled)), number)
        for node, kind in shapes:
            if node is not title:
                self._shape(node, kind)
        for relation in self._relations.values():
            if relation.kind == "notesSlide" and (notes := self._package.xml(relation.target)) is not None:
                lines = [
                    self._line(paragraph)
                    for node in notes.iter(f"{P}sp")
                    if any(holder.get("type") == "body" for holder in node.iter(f"{P}ph"))
                    for paragraph in node.iterfind(f"{P}txBody/{A}p")
                ]
                write_notes(self._writer, lines)
            elif relation.kind == "comments" and (comments := self._package.xml(relation.target)) is not None:
                self._writer.count("comment", "hidden", len(comments))

    def _placed(self, tree: Element, view: _View) -> Iterator[PlacedShape[tuple[Element, str | None]]]:
        """Yield the shapes of a tree and of the groups in it, with the kind of placeholder that each fills."""
        above = 0.0
        for node in tree:
            if node.tag == f"{MC}AlternateContent":
                chosen = node.find(f"{MC}Choice")
                yield from self._placed(node if chosen is None else chosen, view)
            elif node.tag == f"{P}grpSp":
                yield from self._placed(node, _inside(node, view))
            elif node.tag in _SHAPES:
                holder = next(node.iter(f"{P}ph"), None)
                kind = None if holder is None else holder.get("type", "obj")
                box = _box(node) or self._inherited.get(_key(holder)) or self._inherited.get((kind or "", ""))
                x, above, height = box or (0.0, above, 0.0)
                left, top = view.x + x * view.scale_x, view.y + above * view.scale_y
                yield PlacedShape((node, kind), left, top, height * view.scale_y)

    def _shape(self, node: Element, kind: str | None) -> None:
        """Write a table, a chart, a diagram, words; other frames belong to other programs."""
        table, chart, diagram = (next(node.iter(tag), None) for tag in (f"{A}tbl", f"{C}chart", f"{DGM}relIds"))
        is_frame = node.tag == f"{P}graphicFrame"
        if kind in _LEFT_OUT:
            has_text = any((text.text or "").strip() for text in node.iter(f"{A}t"))
            self._writer.count("page header or footer", "navigation", int(has_text))
        elif is_frame and table is not None:
            self._table(table)
        elif is_frame and chart is not None:
            write_chart(self._writer, self._part(chart.get(f"{R}id", "")))
        elif is_frame and diagram is not None:
            write_diagram(self._writer, self._part(diagram.get(f"{R}dm", "")))
        elif is_frame or node.tag == f"{P}pic":
            described = description_of(node, f"{P}cNvPr")
            self._writer.text(described)
            self._writer.count("embedded object" if is_frame else "figure", "rendered" if described else "lost")
        else:
            self._body(node.find(f"{P}txBody"), kind in ("body", "obj"))

    def _part(self, name: str) -> Element | None:
        relation = self._relations.get(name)
        return None if relation is None or relation.external else self._package.xml(relation.target)

    def _body(self, element: Element | None, bullets: bool) -> None:
        """Write the paragraphs of a text body; `bullets`: if nothing is said, they are items of a list."""
        counts: dict[int, int] = {}
        for paragraph in () if element is None else element.iterchildren(f"{A}p"):
            line = self._line(paragraph)
            if not line.empty():
                self._paragraph(paragraph, line, bullets, counts)
        self._writer.end_list()

    def _paragraph(self, paragraph: Element, line: Line, bullets: bool, counts: dict[int, int]) -> None:
        properties = paragraph.find(f"{A}pPr")
        marks = [] if properties is None else [str(each.tag).removeprefix(A) for each in properties]
        level = min((small_int(properties.get("lvl")) or 0) if properties is not None else 0, 8)
        numbered = None if properties is None else properties.find(f"{A}buAutoNum")
        for deeper in [each for each in counts if each > level or (numbered is None and each == level)]:
            del counts[deeper]
        if numbered is not None:
            counts[level] = counts.get(level, (small_int(numbered.get("startAt")) or 1) - 1) + 1
            kind = numbered.get("type", "")  # such as `arabicPeriod` or `alphaLcParenR`
            form = next((name for prefix, name in _FORMS.items() if kind.startswith(prefix)), "decimal")
            text = number_text(counts[level], form)
            end = ")" if "Paren" in kind else "."
            self._writer.item(line, f"{'(' * kind.endswith('ParenBoth')}{text}{end}", level)
        elif "buNone" not in marks and (bullets or level or "buChar" in marks or "buBlip" in marks):
            self._writer.item(line, "-", level)
        else:
            self._writer.paragraph(line)

    def _line(self, paragraph: Element, line: Line | None = None) -> Line:
        """Return the text of a paragraph, appended to the line."""
        line = line or Line()
        for node in paragraph:
            if node.tag in (f"{A}r", f"{A}fld"):
                mark = line.mark()
                write_run(self._writer, line, node)
                link = node.find(f"{A}rPr/{A}hlinkClick")
                relation = None if link is None else self._relations.get(link.get(f"{R}id", ""))
                if relation is not None and relation.external:
                    line.link(mark, relation.target)
            elif node.tag == f"{A}br":
                line.line_break()
            elif node.tag == f"{M}oMath":
                line.write(f" {equation_text(node)} ")
                self._writer.count("equation", "rendered")
            elif node.tag == f"{MC}AlternateContent":
                chosen = node.find(f"{MC}Choice")
                self._line(node if chosen is None else chosen, line)
            elif node.tag not in (f"{A}pPr", f"{A}endParaRPr") and isinstance(node.tag, str):
                self._line(node, line)
        return line

    def _table(self, table: Element) -> None:
        properties = table.find(f"{A}tblPr")
        first = properties is not None and is_on(properties.get("firstRow"), absent=False)
        rows = [
            [
                self._cell(cell)
                for cell in row.iterchildren(f"{A}tc")
                if not any(is_on(cell.get(name), absent=False) for name in ("hMerge", "vMerge"))
            ]
            for row in table
        ]
        self._writer.table([row for row in rows if row], "first" if first else "unknown")

    def _cell(self, cell: Element) -> Cell:
        with self._writer.cell() as blocks:
            self._body(cell.find(f"{A}txBody"), bullets=False)
        columns, rows = (small_int(cell.get(name)) or 1 for name in ("gridSpan", "rowSpan"))
        return Cell(cell_text(blocks), False, columns, rows)


def _key(holder: Element | None) -> tuple[str, str]:
    return ("", "") if holder is None else ("", holder.get("idx", "") or f"type {holder.get('type', 'obj')}")


def _box(node: Element) -> tuple[float, float, float] | None:
    """Return left, top and height of a shape; None if it has none of its own."""
    transform = node.find(f"{P}spPr/{A}xfrm")
    transform = node.find(f"{P}xfrm") if transform is None else transform
    if transform is None:
        return None
    return (*_pair(transform, "off", "x", "y"), _pair(transform, "ext", "cx", "cy")[1])


def _pair(transform: Element, name: str, *sides: str) -> tuple[float, float]:
    node = transform.find(f"{A}{name}")
    values = ("" if node is None else node.get(side, "") for side in sides)
    first, second = (
        float(small_int(value.removeprefix("-")) or 0) * (-1 if value[:1] == "-" else 1) for value in values
    )
    return first, second


def _inside(group: Element, view: _View) -> _View:
    transform = group.find(f"{P}grpSpPr/{A}xfrm")
    if transform is None:
        return view
    (x, y), (width, height) = _pair(transform, "off", "x", "y"), _pair(transform, "ext", "cx", "cy")
    child_x, child_y = _pair(transform, "chOff", "x", "y")
    child_width, child_height = _pair(transform, "chExt", "cx", "cy")
    scale_x = view.scale_x * (width / child_width if child_width else 1)
    scale_y = view.scale_y * (height / child_height if child_height else 1)
    left, top = view.x + x * view.scale_x, view.y + y * view.scale_y
    return _View(left - child_x * scale_x, top - child_y * scale_y, scale_x, scale_y)
