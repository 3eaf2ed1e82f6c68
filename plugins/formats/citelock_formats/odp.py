"""ODP files: what an OpenDocument presentation says, slide by slide.

Belongs here: slides in their order, the frames of a slide in reading order, notes, hidden slides.
Does not belong here: text and frames (`odf_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from citelock_formats.odf_styles import DRAW, OFFICE, PRESENTATION, SVG, TEXT, OpenStyles, open_document
from citelock_formats.odf_text import OpenText, write_frame
from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.office.block_writer import BlockWriter, Line
from rag_assets.steps.files.office.pages import PlacedShape, in_reading_order, write_notes, write_title
from rag_assets.steps.files.records import FileText, PagesDone
from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import Element

_LENGTH = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(cm|mm|in|pt)?")
_CENTIMETRES = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72}
_HEIGHT = 21.0  # centimetres: of a usual slide
_LEFT_OUT = ("page", "header", "footer", "date-time", "page-number", "handout")


def odp_text(content: bytes, composed: Composed, pages_done: PagesDone | None = None) -> FileText:
    """Return the blocks of an OpenDocument presentation; a slide is a page.

    Raises FileError if it cannot be read.
    """
    package, body, styles = open_document(content, "OpenDocument presentation", "presentation")
    writer = BlockWriter(composed.budget)
    text = OpenText(package, styles, writer)
    slides = [*body.iterchildren(f"{DRAW}page")]

    def read() -> None:
        for number, slide in enumerate(slides, 1):
            writer.page = number
            _write(writer, text, slide, number, styles)
            if pages_done is not None:
                pages_done(number, len(slides))

    return writer.file_text(read, len(slides))


def _write(writer: BlockWriter, text: OpenText, slide: Element, number: int, styles: OpenStyles) -> None:
    if styles.is_unseen("drawing-page", slide.get(f"{DRAW}style-name", "")):
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
    """Return a length in centimetres."""
    match = _LENGTH.fullmatch(value or "")
    return float(match[1]) * _CENTIMETRES.get(match[2] or "cm", 1.0) if match else default


def _words(node: Element) -> str:
    paragraphs = [node] if node.tag == f"{TEXT}p" else node.iter(f"{TEXT}p")
    return clean(" ".join("".join(paragraph.itertext()) for paragraph in paragraphs))
