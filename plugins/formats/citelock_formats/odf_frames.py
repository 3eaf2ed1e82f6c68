"""Frames of OpenDocument files: boxes of text, pictures, charts, formulas.

Belongs here: what a frame says. Does not belong here: where it stands.
"""

from __future__ import annotations

from posixpath import normpath
from typing import Protocol

from citelock_formats.odf_styles import DRAW, OFFICE, SVG, TABLE, TEXT, XLINK
from citelock_formats.odf_tables import write_table
from rag_assets.steps.files.office.block_writer import BlockWriter
from rag_assets.steps.files.office.lines import Line
from rag_assets.steps.files.office.parts import Package
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.tables import Cell

_MATH = "{http://www.w3.org/1998/Math/MathML}"
_CELLS_MAX = 20_000


class Document(Protocol):
    """What a frame needs of the document that it stands in."""

    writer: BlockWriter
    package: Package

    def apart(self, element: Element) -> None: ...
    def write_notes(self) -> None: ...


def write_frame(document: Document, frame: Element) -> None:
    """Write what a frame says; count what has no words."""
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
    if objects:
        _write_object(document, objects[0], bool(described))
    elif frame.find(f"{DRAW}object-ole") is not None or frame.find(f"{DRAW}plugin") is not None:
        writer.count("embedded object", "rendered" if described else "lost")
    elif frame.find(f"{DRAW}image") is not None and not boxes:
        writer.count("figure", "rendered" if described else "lost")


def _write_object(document: Document, node: Element, described: bool) -> None:
    """Write the values of a chart, or the words of a formula, that stand in a document of their own."""
    name = normpath(node.get(f"{XLINK}href", "")).lstrip("./")
    tree = document.package.xml(f"{name}/content.xml") if name and "://" not in name else None
    if tree is None:
        document.writer.count("embedded object", "rendered" if described else "lost")
    elif str(tree.tag).startswith(_MATH):
        annotation = next(tree.iter(f"{_MATH}annotation"), None)
        words = "".join(tree.itertext()) if annotation is None else "".join(annotation.itertext())
        document.writer.text(words)
        document.writer.count("equation", "rendered" if words.strip() else "lost")
    elif (chart := tree.find(f"{OFFICE}body/{OFFICE}chart")) is not None:
        _write_chart(document.writer, chart)
    else:
        document.writer.count("embedded object", "rendered" if described else "lost")


def _write_chart(writer: BlockWriter, chart: Element) -> None:
    """Write the title of a chart and the table of its values."""
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
