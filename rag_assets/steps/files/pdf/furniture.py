"""What stands on every page: headers, footers and page numbers.

Belongs here: which lines at the top and bottom of pages are repeated, or only number the page.
Does not belong here: what the other lines are.

Lines in the margins are told by their words. The last line of a page may stand higher, where the page is not filled: it
is a footer where it ends with the page's number, as those of other pages do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rag_assets.steps.files.pdf.records import PageRows, Row

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


def _outer(page: PageRows, share: float) -> list[tuple[int, Row, str]]:
    """Return the lines in the margins, a share of the height each: their places on the page, and which margin it is.

    The header of a table that goes on is none of them: it stands right above its rows.
    """
    order = sorted(range(len(page.rows)), key=lambda place: page.rows[place].y0)
    top = [place for place in order[:_OUTER] if page.rows[place].y1 < share * page.height]
    top = [place for place in top if not _heads_table(page.rows, place, order)]
    bottom = [place for place in order[-_OUTER:] if page.rows[place].y0 > (1 - share) * page.height]
    zones = dict.fromkeys(top, "top") | dict.fromkeys(bottom, "bottom")
    return [(place, page.rows[place], zone) for place, zone in zones.items()]


def _heads_table(rows: Sequence[Row], place: int, order: Sequence[int]) -> bool:
    """Return whether a line of several cells, or of one over the later cells, stands right above another one."""
    at = order.index(place)
    if at + 1 == len(order):
        return False
    row, below = rows[place], rows[order[at + 1]]
    if len(below.cells) < 2 or below.y0 - row.y1 >= 0.8 * below.size:
        return False
    return len(row.cells) >= 2 or (row.x0 >= below.cells[0].x1 and row.x1 <= below.x1 + below.size)


def _counting(pages: Sequence[PageRows]) -> set[tuple[str, int]]:
    """Return the last lines of pages that end with a number which counts the pages: words, and by how much it differs
    from the page."""
    seen: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for page in pages:
        for _, key in _ends(page):
            seen[key].add(page.page)
    return {key for key, on in seen.items() if len(on) >= _PAGES}


def _ends(page: PageRows) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the place of the last line of a page, its words and by how much its number differs from the page; nothing
    where it ends with none.

    A number that stands apart counts alone, whatever the words before it are: they may name the chapter.
    """
    if not page.rows:
        return
    place = max(range(len(page.rows)), key=lambda place: page.rows[place].y1)
    row = page.rows[place]
    last = row.cells[-1].text
    if (match := _LAST.search(row.text)) is None or len(row.cells) > _CELLS or len(row.text) > _FOOTER_CHARS:
        return
    is_low = row.y0 > (1 - _MARGIN) * page.height
    words = "" if is_low and len(row.cells) > 1 and last.isdigit() else row.text[: match.start()].casefold()
    yield place, (words, int(match[0]) - page.page)


def _repeated(pages: Sequence[PageRows], share: float) -> tuple[set[_Key], set[tuple[str, int]]]:
    """Return the lines that stand in the same margin of several pages, and by how much numbers there differ from the
    pages that they count."""
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


def _keys(page: PageRows, row: Row, zone: str) -> Iterator[_Key]:
    """Yield what may be repeated of a line: all of it, or all but the number that counts the pages, with by how much it
    differs from the page. Headings, which are larger, are counted by numbers of their own."""
    text = row.text.casefold()
    yield text, zone, 0
    is_larger = row.size >= _LARGER * max(page.rows, key=lambda other: len(other.text)).size
    for match in (_COUNTER if is_larger else _OUTER_COUNTER).finditer(text):
        yield f"{text[: match.start()]}#{text[match.end() :]}", zone, int(match[0]) - page.page


def _count(pages: Sequence[PageRows]) -> int:
    """Return how many pages there are: words that are turned otherwise are a part of one."""
    return len({page.page for page in pages})


def _is_number(row: Row, zone: str, page: int, offsets: set[tuple[str, int]]) -> bool:
    """Return whether a line is only the page's number."""
    if _PAGE_OF.fullmatch(row.text):
        return True
    if not _NUMBER.fullmatch(row.text):
        return False
    digits = _DIGITS.search(row.text)
    return digits is not None and ((zone, int(digits[0]) - page) in offsets or int(digits[0]) == page)
