"""Measure how much is read of office files that LibreOffice and libraries made: `python -m evals.bench.office`.

Belongs here: recall of words in their order, cells under their headers, by file.
Does not belong here: what the files say (`office_truth`).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evals.bench.office_truth import TRUTH, TrueCell
from rag_assets.steps.files.file_text import kind_text
from rag_assets.steps.formats.block_json import blocks_content
from rag_assets.steps.formats.blocks import Block, Content
from rag_assets.steps.formats.budget import without_note

SAMPLES = Path(__file__).parents[2] / "tests" / "office" / "samples"
_WORD = re.compile(r"\w+|[€$%]")


class Figures(NamedTuple):
    """Shares from 0 to 1."""

    words: int
    recall: float
    cells: int
    placed: float


def content_of(kind: str, file: bytes) -> Content:
    """Return the blocks of a file of a kind."""
    body, _ = without_note(kind_text(kind, "", file).body)
    return blocks_content(body) if body else Content([], Counter())


def figures(blocks: Sequence[Block], text: str, cells: Sequence[TrueCell]) -> Figures:
    """Return the share of the words that stand in the blocks in their order, and of the cells in their place."""
    from rapidfuzz.distance import LCSseq

    words = _WORD.findall(text)
    read = _WORD.findall("\n".join(block.text for block in blocks))
    recall = LCSseq.similarity(words, read) / len(words) if words else 1.0
    placed = cells_of(blocks)
    share = sum(cell in placed for cell in cells) / len(cells) if cells else 1.0
    return Figures(len(words), recall, len(cells), share)


def cells_of(blocks: Sequence[Block]) -> set[TrueCell]:
    """Return every cell of the tables under its header, in the row that its first cell names."""
    cells: set[TrueCell] = set()
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
                TrueCell(header, texts[0], text) for header, text in zip(headers[block.group], texts, strict=False)
            )
    return cells


def main() -> int:
    """Print the figures of every sample."""
    print(f"{'file':24} {'words':>6} {'recall':>8} {'cells':>6} {'placed':>8}")
    for path in sorted(SAMPLES.iterdir()):
        truth = TRUTH[path.stem]
        found = figures(content_of(path.suffix[1:], path.read_bytes()).blocks, truth.text, truth.cells)
        print(f"{path.name:24} {found.words:6} {found.recall:8.2%} {found.cells:6} {found.placed:8.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
