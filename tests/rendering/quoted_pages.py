"""Quotes of real PDF files as ingest reads them, and the words that their rectangles cover."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.section_pages import sections

from rag_assets.steps.files.file_text import file_text
from rag_serving.rendering.layer import Box, Char, PageLayer, compared
from rag_serving.rendering.worker import _layer
from rag_serving.text.units import units, words


def layer_of(content: bytes, page: int) -> PageLayer:
    """The text layer of a page, made in this process."""
    facts = _layer({"page": page}, content).facts
    chars = tuple(Char(sign, *box) for sign, *box in facts["chars"])
    return PageLayer(facts["label"], facts["width"], facts["height"], chars)


def quotes_of(content: bytes, pages: int, each: int, seed: int = 1) -> Iterator[tuple[int, str]]:
    """Yield page numbers and quotes of 10 to 15 words from sentences of some pages."""
    chosen = random.Random(seed)
    text = file_text("a.pdf", content)
    found = [one for one in sections(text.body, body_format="blocks", anchor_flavor="html") if one["text"].strip()]
    for section in chosen.sample(found, min(pages, len(found))):
        spans = [words(section["text"], unit.start, unit.end) for unit in units(section["text"])]
        spans = [span for span in spans if len(span) >= 10]
        for _ in range(each if spans else 0):
            span = chosen.choice(spans)
            count = chosen.randint(10, min(15, len(span)))
            first = chosen.randrange(len(span) - count + 1)
            quote = section["text"][span[first][0] : span[first + count - 1][1]]
            page = page_at(section["blocks"], span[first][0], span[first + count - 1][1])
            if page is not None:
                yield page, quote


def page_at(blocks: Sequence[Mapping[str, Any]], start: int, end: int) -> int | None:
    """The page that a range of a section stands on; None where it stands on two."""
    block = next(block for block in blocks if block["start"] <= start < block["end"])
    page: int = block["page"]
    for at, later in block["breaks"]:
        if start < at < end:
            return None
        page = later if at <= start else page
    return page


def covered(layer: PageLayer, boxes: Sequence[Box]) -> str:
    """The signs whose middle lies in one of the rectangles, without white space."""
    return "".join(char.sign for char in layer.chars if char.x1 > char.x0 and any(_inside(char, box) for box in boxes))


def is_covered(layer: PageLayer, boxes: Sequence[Box], quote: str) -> bool:
    """Whether rectangles cover the words of a quote and no others: in its order, or of a table in that of the page."""
    cells = quote.replace("\\|", "\0").replace("|", " ").replace("\0", "|")
    text = covered(layer, boxes)
    if compared(text) == compared(cells):
        return True
    found = {compared(word) for word, box in layer.words if any(_inside(Char("", *box), around) for around in boxes)}
    return bool(boxes) and found - {""} == {compared(word) for word in cells.split()} - {""}


def _inside(char: Char, box: Box) -> bool:
    x, y = (char.x0 + char.x1) / 2, (char.y0 + char.y1) / 2
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


def pdfs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pdf"))
