"""PPTX files: what a presentation says, slide by slide.

Belongs here: slides in their order, the shapes of a slide in reading order, speaker notes, what is left out.
Does not belong here: text of a shape (`slide_text`), charts and diagrams (`drawings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rag_assets.steps.files.office.block_writer import BlockWriter
from rag_assets.steps.files.office.drawings import DGM, A, C, write_chart, write_diagram
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.files.office.parts import Package, Relation
from rag_assets.steps.files.office.slide_order import Placed, in_reading_order
from rag_assets.steps.files.office.slide_text import SlideText
from rag_assets.steps.files.office.slide_titles import write_notes, write_title
from rag_assets.steps.files.office.word_styles import is_on, small_int
from rag_assets.steps.files.office.word_text import MC, R
from rag_assets.steps.files.records import FileError, FileText, PagesDone
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.element_tree import Element

P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_TITLES = ("title", "ctrTitle")
_LEFT_OUT = ("dt", "ftr", "sldNum", "hdr", "sldImg")
_HEIGHT = 6_858_000.0  # English metric units: of a slide where the file does not say
_SHAPES = frozenset(f"{P}{name}" for name in ("sp", "pic", "graphicFrame", "cxnSp"))


class _View(NamedTuple):
    """How coordinates inside a group become those of the slide."""

    x: float = 0
    y: float = 0
    scale_x: float = 1
    scale_y: float = 1


def pptx_text(content: bytes, budget: Budget, pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of a presentation; a slide is a page. Raises FileError where it cannot be read."""
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


@dataclass
class _Shape:
    """A shape and the kind of placeholder that it fills."""

    node: Element
    kind: str | None  # None: it fills none


class _Slide:
    """Reads one slide."""

    def __init__(self, package: Package, name: str, writer: BlockWriter, height: float) -> None:
        self._package, self._writer, self._height = package, writer, height
        self._relations = package.relations(name)
        self._text = SlideText(writer, self._relations)
        self._inherited = self._layout()

    def read(self, slide: Element, number: int) -> None:
        """Write a slide, unless it is hidden."""
        self._writer.page = number
        if not is_on(slide.get("show")):
            self._writer.count("hidden slide", "hidden")
            return
        tree = slide.find(f"{P}cSld/{P}spTree")
        placed = [*self._placed(tree, _View())] if tree is not None else []
        shapes = in_reading_order(placed, self._height)
        title = next((shape for shape in shapes if shape.kind in _TITLES), None)
        words = Line("" if title is None else " ".join(_paragraphs(self._text, title.node)))
        write_title(self._writer, words, number)
        for shape in shapes:
            if shape is not title:
                self._shape(shape)
        self._beside()

    def _placed(self, tree: Element, view: _View) -> Iterator[Placed[_Shape]]:
        """Yield the shapes of a tree and of the groups in it."""
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
                x, y, height = box or (0.0, above, 0.0)
                placed = Placed(
                    _Shape(node, kind),
                    view.x + x * view.scale_x,
                    view.y + y * view.scale_y,
                    height * view.scale_y,
                )
                above = y
                yield placed

    def _shape(self, shape: _Shape) -> None:
        node = shape.node
        if shape.kind in _LEFT_OUT:
            has_text = any((text.text or "").strip() for text in node.iter(f"{A}t"))
            self._writer.count("page header or footer", "navigation", int(has_text))
        elif node.tag == f"{P}pic":
            self._figure(node)
        elif node.tag == f"{P}graphicFrame":
            self._frame(node)
        else:
            bullets = shape.kind in ("body", "obj")
            self._text.body(node.find(f"{P}txBody"), bullets)

    def _figure(self, node: Element) -> None:
        described = _description(node)
        self._writer.text(described)
        self._writer.count("figure", "rendered" if described else "lost")

    def _frame(self, node: Element) -> None:
        """Write a table, a chart or a diagram; what else a frame holds is another program's."""
        table, chart, diagram = (next(node.iter(tag), None) for tag in (f"{A}tbl", f"{C}chart", f"{DGM}relIds"))
        if table is not None:
            self._text.table(table)
        elif chart is not None:
            write_chart(self._writer, self._part(chart.get(f"{R}id", "")))
        elif diagram is not None:
            write_diagram(self._writer, self._part(diagram.get(f"{R}dm", "")))
        else:
            described = _description(node)
            self._writer.text(described)
            self._writer.count("embedded object", "rendered" if described else "lost")

    def _beside(self) -> None:
        """Write the speaker's notes; count comments."""
        for relation in self._relations.values():
            if relation.kind == "notesSlide" and (notes := self._package.xml(relation.target)) is not None:
                lines = [
                    self._text.line(paragraph)
                    for node in notes.iter(f"{P}sp")
                    if any(holder.get("type") == "body" for holder in node.iter(f"{P}ph"))
                    for paragraph in node.iterfind(f"{P}txBody/{A}p")
                ]
                write_notes(self._writer, lines)
            elif relation.kind == "comments" and (comments := self._package.xml(relation.target)) is not None:
                self._writer.count("comment", "hidden", len(comments))

    def _part(self, name: str) -> Element | None:
        relation = self._relations.get(name)
        return None if relation is None or relation.external else self._package.xml(relation.target)

    def _layout(self) -> Mapping[tuple[str, str], tuple[float, float, float]]:
        """Return where placeholders stand that the slide does not place: by their index, and by their kind."""
        boxes: dict[tuple[str, str], tuple[float, float, float]] = {}
        relations: Mapping[str, Relation] = self._relations
        for kind in ("slideLayout", "slideMaster"):
            relation = next((each for each in relations.values() if each.kind == kind), None)
            tree = None if relation is None else self._package.xml(relation.target)
            if relation is None or tree is None:
                break
            for node in tree.iter(f"{P}sp"):
                holder = next(node.iter(f"{P}ph"), None)
                if holder is not None and (box := _box(node)) is not None:
                    boxes.setdefault(_key(holder), box)
                    boxes.setdefault((holder.get("type", "obj"), ""), box)
            relations = self._package.relations(relation.target)
        return boxes


def _key(holder: Element | None) -> tuple[str, str]:
    return ("", "") if holder is None else ("", holder.get("idx", "") or f"type {holder.get('type', 'obj')}")


def _paragraphs(text: SlideText, node: Element) -> Iterator[str]:
    for paragraph in node.iterfind(f"{P}txBody/{A}p"):
        yield " ".join(text.line(paragraph).paragraphs())


def _description(node: Element) -> str:
    return clean(next((each.get("descr", "") for each in node.iter(f"{P}cNvPr")), ""))


def _box(node: Element) -> tuple[float, float, float] | None:
    """Return left, top and height of a shape; None where it has none of its own."""
    transform = node.find(f"{P}spPr/{A}xfrm")
    transform = node.find(f"{P}xfrm") if transform is None else transform
    if transform is None:
        return None
    x, y = _pair(transform.find(f"{A}off"), "x", "y")
    _, height = _pair(transform.find(f"{A}ext"), "cx", "cy")
    return x, y, height


def _inside(group: Element, view: _View) -> _View:
    """Return how coordinates inside a group become those of the slide."""
    transform = group.find(f"{P}grpSpPr/{A}xfrm")
    if transform is None:
        return view
    x, y = _pair(transform.find(f"{A}off"), "x", "y")
    width, height = _pair(transform.find(f"{A}ext"), "cx", "cy")
    child_x, child_y = _pair(transform.find(f"{A}chOff"), "x", "y")
    child_width, child_height = _pair(transform.find(f"{A}chExt"), "cx", "cy")
    scale_x = view.scale_x * (width / child_width if child_width else 1)
    scale_y = view.scale_y * (height / child_height if child_height else 1)
    left, top = view.x + x * view.scale_x, view.y + y * view.scale_y
    return _View(left - child_x * scale_x, top - child_y * scale_y, scale_x, scale_y)


def _pair(node: Element | None, first: str, second: str) -> tuple[float, float]:
    if node is None:
        return 0, 0
    return _number(node.get(first)), _number(node.get(second))


def _number(value: str | None) -> float:
    digits = (value or "").removeprefix("-")
    number = float(small_int(digits) or 0)
    return -number if value and value.startswith("-") else number
