"""Reading of PDF files beside the truth: pages accounted for, hand-written table cells in their row and column."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import Block, Content, blocks_content, without_note
from rag_serving.text.units import cells_of

ROOT = Path(__file__).parents[2]
TRUTH = ("table_cells.yaml", "more_table_cells.yaml")
REAL = ROOT.parent / "shared/data/pdf"


class PdfTrueCell(NamedTuple):
    """A cell as the page shows it. `header`: words above it; empty: its table has none."""

    page: int
    label: str
    header: str
    value: str


class PdfRead(NamedTuple):
    """A file as it is read."""

    content: Content
    pages: int


def read(content: bytes) -> PdfRead:
    """Return the blocks of a PDF and its number of pages."""
    text = file_text("a.pdf", content)
    return PdfRead(blocks_content(without_note(text.body)[0]), text.page_count or 0)


def true_cells() -> dict[str, list[PdfTrueCell]]:
    """Return the cells written by hand, by file."""
    truth: defaultdict[str, list[PdfTrueCell]] = defaultdict(list)
    for file in TRUTH:
        for name, cells in yaml.safe_load((ROOT / "tests/pdf" / file).read_text(encoding="utf-8")).items():
            truth[name] += [PdfTrueCell(*cell) for cell in cells]
    return dict(truth)


def found_cells(content: Content, cells: Sequence[PdfTrueCell]) -> list[bool]:
    """Return of each true cell whether a table of its page has it in its row and under its header."""
    rows = list(_rows(content.blocks))
    return [any(_has(header, row, cell) for page, header, row in rows if page == cell.page) for cell in cells]


def pages_told(read_file: PdfRead) -> int:
    """Return how many pages have blocks or are counted as being without text."""
    pages = {block.page for block in read_file.content.blocks}
    pages |= {page for block in read_file.content.blocks for _, page in block.breaks}
    ledger = read_file.content.ledger
    bare = ledger["page without text", "lost"] + ledger["page of headers and footers alone", "navigation"]
    return len(pages) + bare


def _rows(blocks: Sequence[Block]) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield page, header and cells of each row of the tables."""
    group, header = 0, list[str]()
    for block in blocks:
        if block.kind != "table":
            continue
        first, is_header, _ = block.text.partition("\n")
        if block.group != group:
            group, header = block.group, cells_of(first) if is_header else []
        if not is_header:
            yield block.page, header, cells_of(first)


def _has(header: Sequence[str], row: Sequence[str], cell: PdfTrueCell) -> bool:
    labels = [_bare(text) for text in row]
    if _bare(cell.label) not in labels:
        return False
    words = set(cell.header.split())
    for at, text in enumerate(row):
        above = set(header[at].split()) if at < len(header) else set()
        if _bare(text) == _bare(cell.value) and {_bare(word) for word in words} <= {_bare(word) for word in above}:
            return True
    return False


def _bare(text: str) -> str:
    return re.sub(r"[\s:¹²³⁰-⁹]|(?<=[a-z])\d$", "", text)
