"""The blocks of a document from the lines of its pages, in order, with continuation over a page break.

Repeated lines in the margins are recognized by their words. The last line of a page may be higher, if the page is not
filled: it is a footer if it ends with the page's number, as those of other pages do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from rag_assets.steps.files.pdf.headings import (
    LEVELS,
    HeadingCandidate,
    Outlined,
    document_name,
    heading_levels,
    page_heading,
    under_name,
    unseen_parents,
    usual_sizes,
)
from rag_assets.steps.files.pdf.rows import (
    Lines,
    NoteCandidate,
    WordVocabulary,
    around,
    beside_marks,
    ends_sentence,
    paragraphs_of,
    usual_gap,
)
from rag_assets.steps.files.pdf.tables import tables_of
from rag_assets.steps.files.pdf.words import Grid, PageRows, PdfRow
from rag_assets.steps.formats.blocks import STRUCK, Block, Cell, Content, Repeats, clean, row_blocks

_OUTER = 3  # lines at the top and at the bottom of a page that may be repeated
_MARGIN = 0.13  # of the page's height
_MARGIN_OF_TWO = 0.08  # of a file of two pages, where little shows what is repeated
_PAGES = 3  # that a line is repeated on
_CELLS = 4  # a line with more cells is a table's
_FOOTER_CHARS = 160
_DIGITS = re.compile(r"\d+")
_LAST = re.compile(r"(?<![\d.,])\d{1,4}$")
_NUMBER = re.compile(
    r"[-–—|\s]*(?:(?:page|seite|p\.)\s{0,3})?(?:\d{1,4}|[ivxl]{1,7}|[A-Z]-\d{1,3})"
    r"(?:\s{0,3}(?:of|/|von)\s{0,3}\d{1,4})?[-–—|\s]*",
    re.I,
)
_COUNTER = re.compile(r"(?<=page )\d{1,4}\b|(?<=seite )\d{1,4}\b|\b\d{1,4}(?= ?(?:of|von|/) ?\d)")
_OUTER_COUNTER = re.compile(rf"^\d{{1,4}}(?![\d.,])|(?<![\d.,])\d{{1,4}}$|{_COUNTER.pattern}")
_LARGER = 1.12  # times the size of the page's longest line
_Key = tuple[str, str, int]
_PAGE_OF = re.compile(
    r"(?:page|seite)\s{1,3}\d{1,4}(?:\s{1,3}(?:of|von|/)\s{1,3}\d{1,4})?|\d{1,4}\s{0,2}/\s{0,2}\d{1,4}", re.I
)


def without_furniture(pages: Sequence[PageRows]) -> tuple[list[PageRows], int]:
    """Return the pages without repeated lines and page numbers, and how many lines that were."""
    share = _MARGIN if _count(pages) >= _PAGES else _MARGIN_OF_TWO
    repeated, offsets = _repeated(pages, share)
    counting = _counting(pages)
    removed = 0
    kept: list[PageRows] = []
    for page in pages:
        places = {
            place
            for place, row, zone in _outer(page, share)
            if not repeated.isdisjoint(_keys(page, row, zone)) or _is_number(row, zone, page.page, offsets)
        }
        places |= {place for place, key in _ends(page) if key in counting}
        removed += len(places)
        kept.append(page._replace(rows=tuple(row for place, row in enumerate(page.rows) if place not in places)))
    return kept, removed


def _outer(page: PageRows, share: float) -> list[tuple[int, PdfRow, str]]:
    """Return the lines in the margins, a share of the height each: their places on the page, and the margin.

    The header of a continued table is none of them: it is directly above its rows.
    """
    order = sorted(range(len(page.rows)), key=lambda place: page.rows[place].y0)
    top = [place for place in order[:_OUTER] if page.rows[place].y1 < share * page.height]
    top = [place for place in top if not _heads_table(page.rows, place, order)]
    bottom = [place for place in order[-_OUTER:] if page.rows[place].y0 > (1 - share) * page.height]
    zones = dict.fromkeys(top, "top") | dict.fromkeys(bottom, "bottom")
    return [(place, page.rows[place], zone) for place, zone in zones.items()]


def _heads_table(rows: Sequence[PdfRow], place: int, order: Sequence[int]) -> bool:
    """Return whether a line of several cells, or of one over the later cells, is directly above another one."""
    at = order.index(place)
    if at + 1 == len(order):
        return False
    row, below = rows[place], rows[order[at + 1]]
    if len(below.cells) < 2 or below.y0 - row.y1 >= 0.8 * below.size:
        return False
    return len(row.cells) >= 2 or (row.x0 >= below.cells[0].x1 and row.x1 <= below.x1 + below.size)


def _counting(pages: Sequence[PageRows]) -> set[tuple[str, int]]:
    """Return the last lines of pages that end with a number that counts the pages: words, and its offset."""
    seen: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for page in pages:
        for _, key in _ends(page):
            seen[key].add(page.page)
    return {key for key, on in seen.items() if len(on) >= _PAGES}


def _ends(page: PageRows) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the place of the last line of a page, its words and the offset of its number from the page; nothing if it
    does not end with a number."""
    if not page.rows:
        return
    place = max(range(len(page.rows)), key=lambda place: page.rows[place].y1)
    row = page.rows[place]
    last = row.cells[-1].text
    if (match := _LAST.search(row.text)) is None or len(row.cells) > _CELLS or len(row.text) > _FOOTER_CHARS:
        return
    # A detached number counts alone, whatever the words before it are: they may name the chapter.
    is_detached = row.y0 > (1 - _MARGIN) * page.height and len(row.cells) > 1 and last.isdigit()
    yield place, ("" if is_detached else row.text[: match.start()].casefold(), int(match[0]) - page.page)


def _repeated(pages: Sequence[PageRows], share: float) -> tuple[set[_Key], set[tuple[str, int]]]:
    """Return the lines repeated in a margin of several pages, and the offsets of numbers there from the pages' own."""
    seen: defaultdict[_Key, set[int]] = defaultdict(set)
    offsets = Counter[tuple[str, int]]()
    for page in pages:
        for _, row, zone in _outer(page, share):
            for key in _keys(page, row, zone) if len(row.cells) <= _CELLS else ():
                seen[key].add(page.page)
            if _NUMBER.fullmatch(row.text) and (digits := _DIGITS.search(row.text)):
                offsets[zone, int(digits[0]) - page.page] += 1
    needed = max(min(_PAGES, _count(pages)), 2)
    repeated = {key for key, on in seen.items() if len(on) >= needed and any(map(str.isalpha, key[0]))}
    return repeated, {offset for offset, count in offsets.items() if count >= 2}


def _keys(page: PageRows, row: PdfRow, zone: str) -> Iterator[_Key]:
    """Yield the repeatable forms of a line: all of it, or all but the page number, with its offset from the page.
    Headings, which are larger, are counted by numbers of their own."""
    text = row.text.casefold()
    yield text, zone, 0
    is_larger = row.size >= _LARGER * max(page.rows, key=lambda other: len(other.text)).size
    for match in (_COUNTER if is_larger else _OUTER_COUNTER).finditer(text):
        yield f"{text[: match.start()]}#{text[match.end() :]}", zone, int(match[0]) - page.page


def _count(pages: Sequence[PageRows]) -> int:
    """Return how many pages there are: words that are turned otherwise are a part of one."""
    return len({page.page for page in pages})


def _is_number(row: PdfRow, zone: str, page: int, offsets: set[tuple[str, int]]) -> bool:
    if _PAGE_OF.fullmatch(row.text):
        return True
    digits = _DIGITS.search(row.text) if _NUMBER.fullmatch(row.text) else None
    return digits is not None and ((zone, int(digits[0]) - page) in offsets or int(digits[0]) == page)


_UNIT = re.compile(
    r"\(?(?:(?:dollars|amounts|figures|angaben|beträge) )?in (?:us )?[$€£]?\s?"
    r"(?:millions|thousands|billions|percent|dollars|euros|tonnes|tons|mio\.?|tsd\.?|millionen|tausend|prozent|%)\b.{0,120}",
    re.I,
)
_UNSURE = 1.1  # times its size: what text that OCR read counts as, for heights of its lines are guessed
_NOTE_SIZE = 0.92  # times the size of running text: footnotes are smaller
Place = tuple[float, float, float, float]


class _Part(NamedTuple):
    """A paragraph, an item or a table, before it is known which paragraphs are headings."""

    page: int
    text: str
    lines: Lines | None = None
    grid: Grid | None = None
    place: Place = (0, 0, 0, 0)


def blocks_of(pages: Sequence[PageRows], outline: Sequence[Outlined], confidence: Confidences, title: str) -> Content:
    """Return the blocks of a document, and the counted losses of its pages. `title`: that of its metadata."""
    ledger = Counter[tuple[str, str]]()
    flat, removed = without_furniture([part for page in pages for part in (page, *page.turned)])
    rest = iter(flat)
    shown = [next(rest)._replace(turned=tuple(islice(rest, len(page.turned)))) for page in pages]
    ledger["header or footer", "navigation"] += removed
    for page in pages:
        ledger["figure", "lost"] += page.images
        ledger["page without text", "lost"] += not page.letters
        ledger["word too small to read", "hidden"] += sum(part.tiny for part in (page, *page.turned))
        ledger[STRUCK, "hidden"] += sum(part.struck for part in (page, *page.turned))
    vocabulary, usual = WordVocabulary(shown), usual_gap(shown)
    parts = [part for page in shown for part in _parts(page, usual, vocabulary)]
    bare = {page.page for page in pages if page.letters} - {part.page for part in parts}
    ledger["page of headers and footers alone", "navigation"] += len(bare)
    blocks = _Blocks(vocabulary, confidence)
    sizes = usual_sizes(shown)
    usual_of = {page: size * (_UNSURE if page in confidence.pages else 1.0) for page, size in sizes.items()}
    candidates = [
        HeadingCandidate(part.text, part.page, part.lines.rows, usual_of[part.page]) for part in parts if part.lines
    ]
    levels = iter(heading_levels(candidates, outline))
    heights = {page.page: page.height for page in pages}
    parents = unseen_parents(candidates, outline)[::-1]
    unseen = [((entry.page, heights.get(entry.page, 0.0) - entry.up), entry) for entry in parents]  # with its place
    for part in parts:
        level = next(levels) if part.lines else 0
        while unseen and unseen[-1][0] < (part.page, part.place[3]):
            entry = unseen.pop()[1]
            if not 0 < level <= entry.level:  # else it is the entry in other words
                blocks.add_outlined(entry)
        blocks.add(part, level)
    name = document_name(title, pages, shown, blocks.done)
    return Content(under_name(name, _with_headings(blocks.done)), +ledger)


def _with_headings(blocks: list[Block]) -> list[Block]:
    """Return the blocks of a document that has no heading with one for each page, if there are several."""
    if any(block.kind == "heading" for block in blocks) or len({block.page for block in blocks}) < 2:
        return blocks
    found: list[Block] = []
    for block in blocks:
        if not found or block.page != found[-1].page:
            found.append(page_heading(f"Page {block.page}", 1, block.page))
        found.append(block)
    return found


class Confidences:
    """The confidence of OCR at a place; pages without OCR have none."""

    def __init__(self, pages: Mapping[int, Sequence[tuple[float, float, int]]]) -> None:
        self.pages = pages

    def at(self, page: int, place: Place) -> int | None:
        """Return the mean confidence of the words with their middle in a rectangle; 0 without any."""
        words = self.pages.get(page)
        if words is None:
            return None
        x0, y0, x1, y1 = place
        inside = [confidence for x, y, confidence in words if x0 <= x <= x1 and y0 <= y <= y1]
        return round(sum(inside) / len(inside)) if inside else 0


def _parts(page: PageRows, usual: float, vocabulary: WordVocabulary) -> Iterator[_Part]:
    """Yield the paragraphs and tables of a page in reading order, then rotated text, then its form's values."""
    parts: list[_Part] = []
    place = 0
    for table in page.ruled:  # read before the first line of the page below it
        x0, _, x1, y1 = table.box
        below = (at for at, row in enumerate(page.rows) if row.y0 >= y1 - row.size and row.x0 < x1 and row.x1 > x0)
        before, place = place, max(place, next(below, len(page.rows)))
        parts += _unruled(page, page.rows[before:place], usual, vocabulary)
        parts.append(_Part(page.page, "", grid=table.grid, place=table.box))
    parts += _unruled(page, page.rows[place:], usual, vocabulary)
    notable = []
    for part in parts:
        rows = (part.grid.header, *part.grid.rows) if part.grid else ()
        text = " | ".join(text for row in rows for text in row) if part.grid else part.text
        notable.append(NoteCandidate(text, part.lines.rows[0].size if part.lines else 0.0))
    yield from (parts[at] for at in beside_marks(notable))
    whole = (0.0, 0.0, page.width, page.height)
    for turned in page.turned:
        yield from (part._replace(lines=None, place=whole) for part in _parts(turned, usual, vocabulary))
    for text in filter(None, (page.aslant, *page.fields)):
        yield _Part(page.page, clean(text), place=whole)


def _unruled(page: PageRows, rows: Sequence[PdfRow], usual: float, vocabulary: WordVocabulary) -> Iterator[_Part]:
    place = 0
    for table in [*tables_of(rows), None]:
        for lines in paragraphs_of(rows[place : table.start if table else None], usual):
            if text := clean(vocabulary.joined([row.text for row in lines.rows])):
                yield _Part(page.page, text, lines, place=around(lines.rows))
        if table:
            yield _Part(page.page, "", grid=table.grid, place=around(rows[table.start : table.stop]))
            place = table.stop


class _Blocks:
    """The blocks so far, and what of them the next page may go on with."""

    def __init__(self, vocabulary: WordVocabulary, confidence: Confidences) -> None:
        self.done: list[Block] = []
        self._vocabulary = vocabulary
        self._confidence = confidence
        self._repeats = Repeats()
        self._group = 0
        self._in_list = False
        self._open: tuple[int, float] | None = None  # place and size of the last paragraph of running text
        self._table: tuple[int, Grid] | None = None  # page and header of the last table

    def add(self, part: _Part, level: int) -> None:
        sure = self._confidence.at(part.page, part.place)
        if part.grid is not None:
            self._add_table(part, part.grid)
        elif part.lines is None:
            self._append(Block("paragraph", part.text, page=part.page, confidence=sure))
        elif level:
            self._append(page_heading(part.text, level, part.page, sure))
            self._open = None
        elif part.lines.is_item:
            self._group += not self._in_list
            text = f"- {part.text[1:].strip()}"
            self._append(Block("list", text, self._group, page=part.page, confidence=sure), in_list=True)
            self._open = len(self.done) - 1, part.lines.rows[0].size
        else:
            self._add_paragraph(part, part.lines, sure)

    def add_outlined(self, entry: Outlined) -> None:
        """Append a heading that only the outline has."""
        self._append(page_heading(clean(entry.title), min(max(entry.level, 1), LEVELS), entry.page))

    def _append(self, block: Block, in_list: bool = False) -> None:
        self.done.append(block)
        self._in_list = in_list
        self._table = None

    def _add_paragraph(self, part: _Part, lines: Lines, sure: int | None) -> None:
        size = lines.rows[0].size
        if self._open is not None and self._goes_on(part, size):
            place = self._open[0]
            before = self.done[place]
            text = self._vocabulary.joined([before.text, part.text])
            at = len(text) - len(part.text)
            surest = sure if before.confidence is None or sure is None else min(before.confidence, sure)
            self.done[place] = before._replace(text=text, breaks=(*before.breaks, (at, part.page)), confidence=surest)
            return
        self._append(Block("paragraph", part.text, page=part.page, confidence=sure))
        if self._open is None or size >= _NOTE_SIZE * self._open[1] or self.done[self._open[0]].page < part.page:
            self._open = len(self.done) - 1, size

    def _goes_on(self, part: _Part, size: float) -> bool:
        assert self._open is not None
        before = self.done[self._open[0]]
        last = before.breaks[-1][1] if before.breaks else before.page
        if last != part.page - 1 or abs(size - self._open[1]) > 0.08 * size or ends_sentence(before.text):
            return False
        return part.text[:1].islower() or before.text[-1:] in ",-\u00ad" or not part.text[:1].isalnum()

    def _add_table(self, part: _Part, grid: Grid) -> None:
        """Append the rows of a table; one that goes on from the page before repeats no header."""
        page, before = self._table or (0, grid)
        is_next = self._table is not None and page == part.page - 1 and before.bands and grid.rows
        is_like = bool(is_next) and len(before.rows[0]) == len(grid.rows[0])
        goes_on = is_like and (not grid.header or grid.header == before.header)
        self._group += not goes_on
        header = [Cell(clean(text), header=True) for text in self._with_unit(part, grid, goes_on)]
        rows = [[Cell(clean(text)) for text in row] for row in grid.rows]
        bands = list(grid.bands)
        if header and not goes_on:
            rows.insert(0, header)
            bands.insert(0, (part.place[1], bands[0][0] if bands else part.place[3]))
        for cells, (top, bottom) in zip(rows, bands, strict=True):
            sure = self._confidence.at(part.page, (part.place[0], top, part.place[2], bottom))
            for block in row_blocks([cells], self._group, self._repeats):
                self.done.append(block._replace(page=part.page, confidence=sure))
        self._table = part.page, before if goes_on and not grid.header else grid
        self._in_list = False

    def _with_unit(self, part: _Part, grid: Grid, goes_on: bool) -> Sequence[str]:
        """Return the header of a table; if it does not name the rows, take the unit from the line above."""
        above = self.done[-1] if self.done else None
        if not grid.header or grid.header[0] or goes_on or above is None or above.page != part.page:
            return grid.header
        if above.kind != "paragraph" or above.breaks or not _UNIT.fullmatch(above.text):
            return grid.header
        self.done.pop()
        if self._open is not None and self._open[0] == len(self.done):
            self._open = None
        return [above.text, *grid.header[1:]]
