"""What slides of both formats have in common: their headings and the speaker's notes.

Belongs here: how a slide is headed, how notes are told from its text. Does not belong here: reading slides.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_assets.steps.files.office.block_writer import BlockWriter
from rag_assets.steps.files.office.lines import Line

NOTES = "Speaker notes:"


def write_title(writer: BlockWriter, title: Line, number: int) -> None:
    """Write the heading of a slide: its number and its title."""
    words = " ".join(title.paragraphs())
    heading = Line(f"Slide {number}: {words}" if words else f"Slide {number}")
    writer.heading(heading, 1, names=(f"page={number}", f"slide={number}"))


def write_notes(writer: BlockWriter, lines: Sequence[Line]) -> None:
    """Write the speaker's notes of a slide, the first paragraph with what they are."""
    first = True
    for line in lines:
        if line.empty():
            continue
        if first:
            line.begin(f"{NOTES} ")
        first = False
        writer.paragraph(line)
