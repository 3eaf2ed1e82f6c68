"""The contents of the office samples, written by hand beside their sources, and how much of them is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rag_assets.steps.files.file_text import kind_text
from rag_assets.steps.formats.blocks import Block, Content, blocks_content, without_note

SAMPLES = Path(__file__).parents[2] / "tests" / "office" / "samples"
_WORD = re.compile(r"\w+|[€$%]")


class OfficeFigures(NamedTuple):
    """Shares from 0 to 1."""

    words: int
    recall: float
    cells: int
    placed: float


def content_of(kind: str, file: bytes) -> Content:
    """Return the blocks of a file of a kind."""
    body, _ = without_note(kind_text(kind, "", file).body)
    return blocks_content(body) if body else Content([], Counter())


def figures(blocks: Sequence[Block], text: str, cells: Sequence[OfficeCell]) -> OfficeFigures:
    """Return the share of the words in the blocks in their order, and of the cells in their place."""
    from rapidfuzz.distance import LCSseq

    words = _WORD.findall(text)
    read = _WORD.findall("\n".join(block.text for block in blocks))
    recall = LCSseq.similarity(words, read) / len(words) if words else 1.0
    placed = cells_of(blocks)
    share = sum(cell in placed for cell in cells) / len(cells) if cells else 1.0
    return OfficeFigures(len(words), recall, len(cells), share)


def cells_of(blocks: Sequence[Block]) -> set[OfficeCell]:
    """Return every cell of the tables under its header, in the row that its first cell names."""
    cells: set[OfficeCell] = set()
    headers: dict[int, list[str]] = {}
    for block in blocks:
        if block.kind != "table":
            continue
        line, _, is_header = block.text.partition("\n")
        texts = [text.strip() for text in line.strip("|").split("|")]
        if is_header:
            headers[block.group] = texts
        elif block.group in headers:
            cells.update(
                OfficeCell(header, texts[0], text) for header, text in zip(headers[block.group], texts, strict=False)
            )
    return cells


class OfficeCell(NamedTuple):
    """A cell: the words of its column's header, the first cell of its row, and its content."""

    header: str
    row: str
    value: str


MANUAL_TEXT = """
Berth Manual
Mooring
Every ferry moors with four lines and two spring ropes.
Six lines above wind force seven.
The crew checks the tide table, then the weather.
Lines and fenders
Bow line of polyester
Diameter forty millimetres
Length sixty metres
Stern line of nylon
The order of work:
Lower the fenders.
Throw the heaving line.
Call the linesman first.
Make fast.
Fleet figures
See the fleet register and the chapter on mooring.
Table 1: Passengers and cars by route
Skarvoy 41200 9310 12870 2204
40877 9188 12015 2119
Ternholm 18655 3502 no winter service
Fares follow the distance.
Class Fare Conditions
Adult € 12.40 valid one day not refundable
Child € 6.20 under six free six to fifteen half price
Signals
Signals are given by horn.
Flags repeat the horn.
Flags are defined by the harbour statute.
berth --list north
berth --free 7
Lines and fenders
Fenders are replaced after 400 landings; größere Fähren after 250.
"""
"""In the order of the file, but what programs place differently: that is in MANUAL_BESIDE."""

MANUAL_BESIDE = ("Sound one long blast before departure.", "Flag diagram with three red pennants")
MANUAL_ABSENT = ("Secret berth code", "obsolete", "Ask the harbour master", "Kittiwake Ferries internal", "Page footer")
MANUAL_HEADINGS = (
    (1, "Berth Manual"),
    (1, "Mooring"),
    (2, "Lines and fenders"),
    (1, "Fleet figures"),
    (3, "Signals"),
    (2, "Lines and fenders"),
)

MANUAL_CELLS = (
    OfficeCell("Summer Passengers", "Skarvoy", "41200"),
    OfficeCell("Summer Cars", "Skarvoy", "9310"),
    OfficeCell("Winter Passengers", "Skarvoy", "12870"),
    OfficeCell("Winter Cars", "Skarvoy", "2204"),
    OfficeCell("Summer Passengers", "Skarvoy", "40877"),
    OfficeCell("Summer Cars", "Skarvoy", "9188"),
    OfficeCell("Winter Passengers", "Skarvoy", "12015"),
    OfficeCell("Winter Cars", "Skarvoy", "2119"),
    OfficeCell("Summer Passengers", "Ternholm", "18655"),
    OfficeCell("Summer Cars", "Ternholm", "3502"),
    OfficeCell("Winter Passengers", "Ternholm", "no winter service"),
    OfficeCell("Winter Cars", "Ternholm", "no winter service"),
    OfficeCell("Fare", "Adult", "€ 12.40"),
    OfficeCell("Conditions", "Adult", "valid one day; not refundable"),
    OfficeCell("Fare", "Child", "€ 6.20"),
    OfficeCell("Conditions", "Child", "under six, free; six to fifteen, half price"),
)

TALK_TEXT = """
Plan for the season
Two new berths at Skarvoy
North berth opens in May
One ferry sold to Ternholm
Thank the harbour crews before the figures.
Punctuality
Route On time Cancelled
Skarvoy 97.1 % 14
Ternholm 92.8 % 31
First remark in a group.
Right below stands the second remark.
Next steps
Details are in the full plan.
"""
TALK_ABSENT = ("Draft budget",)
TALK_HEADINGS = (
    (1, "Slide 1: Plan for the season"),
    (1, "Slide 2: Punctuality"),
    (1, "Slide 4: Next steps"),
)
TALK_CELLS = (
    OfficeCell("On time", "Skarvoy", "97.1 %"),
    OfficeCell("Cancelled", "Skarvoy", "14"),
    OfficeCell("On time", "Ternholm", "92.8 %"),
    OfficeCell("Cancelled", "Ternholm", "31"),
)

FIGURES_TEXT = """
Routes
Route figures 2026
Route Summer Income Summer Load Winter Income Winter Load
Skarvoy 412,300.50 € 87.3% 98,000.00 € 41.2%
Ternholm 1,250.25 € 55.5% 0.00 € 0.0%
Total 413,550.75 €
Vessel Built Passengers
Kittiwake 2014-06-30 1,200
Fulmar 2021-02-01 850
Notes
Figures are audited every spring.
"""
FIGURES_ABSENT = ("Secret margin", "Hidden route", "Captain salary", "Ask the auditor")
FIGURES_HEADINGS = ((1, "Routes"), (1, "Notes"))
FIGURES_CELLS = (
    OfficeCell("Summer Income", "Skarvoy", "412,300.50 €"),
    OfficeCell("Summer Load", "Skarvoy", "87.3%"),
    OfficeCell("Winter Income", "Skarvoy", "98,000.00 €"),
    OfficeCell("Winter Load", "Skarvoy", "41.2%"),
    OfficeCell("Summer Income", "Ternholm", "1,250.25 €"),
    OfficeCell("Summer Load", "Ternholm", "55.5%"),
    OfficeCell("Winter Income", "Ternholm", "0.00 €"),
    OfficeCell("Winter Load", "Ternholm", "0.0%"),
    OfficeCell("Summer Income", "Total", "413,550.75 €"),
    OfficeCell("Built", "Kittiwake", "2014-06-30"),
    OfficeCell("Passengers", "Kittiwake", "1,200"),
    OfficeCell("Built", "Fulmar", "2021-02-01"),
    OfficeCell("Passengers", "Fulmar", "850"),
)


class Truth(NamedTuple):
    """The contents of one document, whatever its format."""

    text: str
    cells: tuple[OfficeCell, ...]
    headings: tuple[tuple[int, str], ...]
    absent: tuple[str, ...]


TRUTH = {
    "manual": Truth(MANUAL_TEXT, MANUAL_CELLS, MANUAL_HEADINGS, MANUAL_ABSENT),
    "talk": Truth(TALK_TEXT, TALK_CELLS, TALK_HEADINGS, TALK_ABSENT),
    "figures": Truth(FIGURES_TEXT, FIGURES_CELLS, FIGURES_HEADINGS, FIGURES_ABSENT),
}
