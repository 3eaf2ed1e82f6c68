"""The text of a paragraph of a Word document.

Belongs here: runs, fields, links, what is deleted or hidden, references to notes, what of a drawing is text.
Does not belong here: what a paragraph is (`word_styles`), blocks (`docx`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from rag_assets.steps.files.office.block_writer import Line, Outcome
from rag_assets.steps.files.office.drawings import DGM, C, M, equation_text
from rag_assets.steps.files.office.parts import Relation
from rag_assets.steps.files.office.word_styles import Styles, W
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.text_marks import Mark
from rag_serving.text.normalization import OMISSION

R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
PIC = "{http://schemas.openxmlformats.org/drawingml/2006/picture}"
V = "{urn:schemas-microsoft-com:vml}"
O = "{urn:schemas-microsoft-com:office:office}"  # noqa: E741

GENERATED_FIELDS = ("TOC", "INDEX", "TOA", "BIBLIOGRAPHY_INDEX")


class ParagraphPage(Protocol):
    """The interface of a paragraph's text to its page."""

    def count(self, name: str, outcome: Outcome, number: int = 1) -> None: ...
    def note(self, kind: str, name: str) -> str: ...
    def box(self, element: Element) -> None: ...
    def chart(self, relation: str) -> None: ...
    def diagram(self, relation: str) -> None: ...


@dataclass
class _Field:
    """A field that is open: its instruction, and where its result began."""

    instruction: str = ""
    result: bool = False
    mark: int = 0
    generated: bool = False


class TextReader:
    """Reads the text of paragraphs in their order; a field may go over several."""

    def __init__(self, page: ParagraphPage, styles: Styles, relations: Mapping[str, Relation]) -> None:
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
            f"{W}pPr": _nothing,
            f"{W}sdt": self._control,
            f"{W}sdtPr": _nothing,
            f"{W}t": self._write,
            f"{W}tab": self._tab,
            f"{W}br": self._break,
            f"{W}cr": self._break,
            f"{W}noBreakHyphen": self._hyphen,
            f"{W}sym": self._symbol,
            f"{W}fldChar": self._field_mark,
            f"{W}instrText": self._instruction,
            f"{W}footnoteReference": self._footnote,
            f"{W}endnoteReference": self._endnote,
            f"{W}drawing": self._drawing,
            f"{W}pict": self._picture,
            f"{W}object": self._object,
            f"{W}rt": _nothing,  # how a word is spoken, above it
            f"{W}rPr": _nothing,
            f"{W}delText": _nothing,
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
            elif isinstance(child.tag, str):
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
        """Return whether the current text is the instruction of a field, or generated."""
        return any(not field.result or field.generated for field in self._fields)

    def _write(self, node: Element) -> None:
        if not self._silent():
            self._line.write(node.text or "", self._mark)

    def _tab(self, _node: Element) -> None:
        self._line.write("\t")

    def _break(self, node: Element) -> None:
        if node.get(f"{W}type") in (None, "textWrapping"):
            self._line.line_break()
        else:
            self._line.write(" ")

    def _hyphen(self, _node: Element) -> None:
        self._line.write("-")

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

    def _footnote(self, node: Element) -> None:
        self._line.write(self._page.note("footnote", node.get(f"{W}id", "")))

    def _endnote(self, node: Element) -> None:
        self._line.write(self._page.note("endnote", node.get(f"{W}id", "")))

    def _drawing(self, node: Element) -> None:
        described = [_description(each) for each in node.iter(f"{WP}docPr", f"{PIC}cNvPr")]
        self._parts(node, next(filter(None, described), ""), node.iter(f"{PIC}pic"))

    def _picture(self, node: Element) -> None:
        described = (clean(each.get("alt", "")) for each in node.iter(f"{V}shape"))
        self._parts(node, next(filter(None, described), ""), node.iter(f"{V}imagedata"))

    def _parts(self, node: Element, description: str, pictures: Iterable[Element]) -> None:
        """Write the text of a drawing; its boxes, charts and diagrams follow the paragraph."""
        boxes = [box for box in node.iter(f"{W}txbxContent") if not _within(box, node)]
        charts = [each.get(f"{R}id", "") for each in node.iter(f"{C}chart")]
        diagrams = [each.get(f"{R}dm", "") for each in node.iter(f"{DGM}relIds")]
        if description:
            self._line.write(f" {description} ")
        for box in boxes:
            self._page.box(box)
        for relation in charts:
            self._page.chart(relation)
        for relation in diagrams:
            self._page.diagram(relation)
        self._line.write("".join(f" {text.text} " for text in node.iter(f"{V}textpath") if text.text))
        self._page.count("figure", "rendered" if description else "lost", len([*pictures]))

    def _object(self, node: Element) -> None:
        self._page.count("embedded object", "lost", 1)
        for shape in node.iter(f"{V}shape"):
            if alternative := clean(shape.get("alt", "")):
                self._line.write(f" {alternative} ")


def _nothing(_node: Element) -> None:
    """Skip an element without text."""


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


def _description(node: Element) -> str:
    return clean(node.get("descr", "") or "")


def _within(box: Element, node: Element) -> bool:
    """Return whether a text box is inside another one of the same drawing, or is its older form."""
    above = box.getparent()
    while above is not None and above is not node:
        if above.tag in (f"{W}txbxContent", f"{MC}Fallback"):
            return True
        above = above.getparent()
    return False
