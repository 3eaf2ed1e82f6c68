"""What stands on every page: headers, footers and page numbers.

Belongs here: which lines at the top and bottom of pages are repeated, or only number the page.
Does not belong here: what the other lines are.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from rag_assets.steps.files.pdf.records import PageRows, Row

_OUTER = 3  # lines at the top and at the bottom of a page that may be repeated
_MARGIN = 0.13  # of the page's height
_MARGIN_OF_TWO = 0.08  # of a file of two pages, where little shows what is repeated
_PAGES = 3  # that a line is repeated on
_CELLS = 4  # a line with more cells is a table's
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(
    r"[-–—|\s]*(?:(?:page|seite|p\.)\s{0,3})?(?:\d{1,4}|[ivxl]{1,7}|[A-Z]-\d{1,3})"
    r"(?:\s{0,3}(?:of|/|von)\s{0,3}\d{1,4})?[-–—|\s]*",
    re.I,
)
_PAGE_OF = re.compile(
    r"(?:page|seite)\s{1,3}\d{1,4}(?:\s{1,3}(?:of|von|/)\s{1,3}\d{1,4})?|\d{1,4}\s{0,2}/\s{0,2}\d{1,4}", re.I
)


def without_furniture(pages: Sequence[PageRows]) -> tuple[list[PageRows], int]:
    """Return the pages without repeated lines and page numbers, and how many lines that were."""
    share = _MARGIN if len(pages) >= _PAGES else _MARGIN_OF_TWO
    repeated, offsets = _repeated(pages, share)
    removed = 0
    kept: list[PageRows] = []
    for page in pages:
        places = {
            place
            for place, row, zone in _outer(page, share)
            if _key(row, zone) in repeated or _is_number(row, zone, page.page, offsets)
        }
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
    """Return whether a line of several cells stands right above another one."""
    at = order.index(place)
    if at + 1 == len(order) or len(rows[place].cells) < 2:
        return False
    below = rows[order[at + 1]]
    return len(below.cells) >= 2 and below.y0 - rows[place].y1 < 0.8 * below.size


def _repeated(pages: Sequence[PageRows], share: float) -> tuple[set[tuple[str, str]], set[tuple[str, int]]]:
    """Return the lines that stand in the same margin of several pages, and by how much numbers there differ from the
    pages that they count."""
    seen: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    offsets = Counter[tuple[str, int]]()
    for page in pages:
        for _, row, zone in _outer(page, share):
            if len(row.cells) <= _CELLS:
                seen[_key(row, zone)].add(page.page)
            if _NUMBER.fullmatch(row.text) and (digits := _DIGITS.search(row.text)):
                offsets[zone, int(digits[0]) - page.page] += 1
    needed = max(min(_PAGES, len(pages)), 2)
    repeated = {key for key, on in seen.items() if len(on) >= needed and any(map(str.isalpha, key[0]))}
    return repeated, {offset for offset, count in offsets.items() if count >= 2}


def _key(row: Row, zone: str) -> tuple[str, str]:
    return _DIGITS.sub("#", row.text.casefold()), zone


def _is_number(row: Row, zone: str, page: int, offsets: set[tuple[str, int]]) -> bool:
    """Return whether a line is only the page's number."""
    if _PAGE_OF.fullmatch(row.text):
        return True
    if not _NUMBER.fullmatch(row.text):
        return False
    digits = _DIGITS.search(row.text)
    return digits is not None and ((zone, int(digits[0]) - page) in offsets or int(digits[0]) == page)
