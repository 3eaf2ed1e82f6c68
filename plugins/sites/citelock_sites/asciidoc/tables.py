"""Tables of AsciiDoc.

Belongs here: columns, cells with spans and styles, rows, tables of delimited values. Does not belong here: what stands
in a cell.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from citelock_sites.asciidoc.blocks import BlockAttributes, Blocks

_SPAN = r"(?:(\d{1,3}(?:\.\d{0,3})?|\.\d{1,3})([*+]))?(?:[<^>](?:\.[<^>])?|\.[<^>])?([a-z])?"
_SPEC_END = re.compile(rf"(?:^|[ \t]){_SPAN}$")
_COLUMN = re.compile(r"(?:(\d{1,3})\*)?[<^>.\d%~]*([adehlmsv])?$")
_COLUMNS_MAX = 64
_SPAN_MAX = 64
_ESCAPED = "\x06"  # stands for an escaped separator; no line has it


class _Cell(NamedTuple):
    text: str
    columns: int
    rows: int
    style: str


def table_html(blocks: Blocks, lines: list[str], mark: str, about: BlockAttributes) -> str:
    """Return a table; `mark` is the character that begins its delimiter."""
    styles = _columns(about.named.get("cols", ""))
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    is_parted = first == 0 and len(lines) > 1 and not lines[1].strip()
    kind = about.named.get("format", {",": "csv", ":": "dsv"}.get(mark, "psv"))
    separator = about.named.get("separator", "")
    if kind == "psv":
        separator = separator or ("!" if mark == "!" else "|")
        cells, in_first = _cells(lines, separator)
        width = len(styles) or in_first
    else:
        separator = separator or {"csv": ",", "dsv": ":", "tsv": "\t"}.get(kind, ",")
        records = _records(lines, separator.replace("\\t", "\t"))
        width = len(styles) or max(map(len, records), default=1)
        cells = [_Cell(text, 1, 1, "") for row in records for text in [*row, *[""] * width][:width]]
    rows = _rows(cells, max(width, 1))
    has_head = "header" in about.options or (is_parted and "noheader" not in about.options and len(rows) > 1)
    return _html(blocks, rows, has_head, styles)


def _columns(spec: str) -> list[str]:
    found: list[str] = []
    for part in re.split(r"[,;]", spec) if spec.strip() else []:
        match = _COLUMN.match(part.strip())
        count = int(match[1] or 1) if match else 1
        found += [(match[2] or "") if match else ""] * min(count, _COLUMNS_MAX)
    return found[:_COLUMNS_MAX]


def _records(lines: list[str], separator: str) -> list[list[str]]:
    try:
        rows = csv.reader((line for line in lines if line.strip()), delimiter=separator[:1] or ",")
        return [[cell.strip() for cell in row] for row in rows]
    except csv.Error:
        return [line.split(separator) for line in lines if line.strip()]


def _cells(lines: list[str], separator: str) -> tuple[list[_Cell], int]:
    """Return the cells of a table, and how many columns its first line has."""
    cells: list[_Cell] = []
    spec = (1, 1, 1, "")  # how often, columns, rows, style
    text: list[str] = []
    in_first = 0
    has_begun = False
    for line in lines:
        parts = line.replace(f"\\{separator}", _ESCAPED).split(separator)
        parts = [part.replace(_ESCAPED, separator) for part in parts]
        for place, part in enumerate(parts):
            is_last = place == len(parts) - 1
            if is_last:
                text.append(part)
                break
            match = _SPEC_END.search(part)
            following = _spec(match) if match else (1, 1, 1, "")
            text.append(part[: match.start()] if match else part)
            if has_begun:
                cells += [_Cell("\n".join(text).strip("\n"), *spec[1:])] * spec[0]
            has_begun, spec, text = True, following, []
        if not in_first and has_begun:
            in_first = sum(cell.columns for cell in cells) + spec[0] * spec[1]
    if has_begun:
        cells += [_Cell("\n".join(text).strip("\n"), *spec[1:])] * spec[0]
    return cells, min(in_first, _COLUMNS_MAX)


def _spec(found: re.Match[str]) -> tuple[int, int, int, str]:
    numbers, sign, style = found.groups()
    columns, _, rows = (numbers or "").partition(".")
    across, down = min(int(columns or 1), _SPAN_MAX), min(int(rows or 1), _SPAN_MAX)
    return (across, 1, 1, style or "") if sign == "*" else (1, across, down, style or "")


def _rows(cells: list[_Cell], width: int) -> list[list[_Cell]]:
    """Return the cells in rows: each takes the columns that cells above it leave free."""
    rows: list[list[_Cell]] = []
    taken: dict[int, int] = {}  # column -> rows still covered from above
    row: list[_Cell] = []
    column = 0
    for cell in cells:
        while column < width and taken.get(column):
            column += 1
        if column >= width:
            rows.append(row)
            row, column = [], 0
            taken = {at: left - 1 for at, left in taken.items() if left > 1}
            while column < width and taken.get(column):
                column += 1
        row.append(cell)
        if cell.rows > 1:
            taken |= dict.fromkeys(range(column, min(column + cell.columns, width)), cell.rows)
        column += cell.columns
    return [*rows, row] if row else rows


def _html(blocks: Blocks, rows: list[list[_Cell]], has_head: bool, styles: list[str]) -> str:
    parts = []
    for number, row in enumerate(rows):
        is_head = has_head and number == 0
        cells = (_cell(blocks, cell, is_head, styles[at] if at < len(styles) else "") for at, cell in enumerate(row))
        parts.append(f"<tr>{''.join(cells)}</tr>")
    head = f"<thead>{parts[0]}</thead>" if has_head and parts else ""
    return f"<table>{head}<tbody>{''.join(parts[1:] if head else parts)}</tbody></table>"


def _cell(blocks: Blocks, cell: _Cell, is_head: bool, column_style: str) -> str:
    style = "" if is_head else cell.style or column_style
    tag = "th" if is_head or style == "h" else "td"
    spans = (f' colspan="{cell.columns}"' if cell.columns > 1 else "") + (
        f' rowspan="{cell.rows}"' if cell.rows > 1 else ""
    )
    if style == "a":
        inner = blocks.html(cell.text.strip().split("\n"), False)
    elif style == "l":
        inner = blocks.literal(cell.text.split("\n"))
    else:
        texts = [part.strip() for part in re.split(r"\n\s*\n", cell.text.strip())]
        wrap = {"m": "code", "s": "strong", "e": "em"}.get(style)
        opening, closing = (f"<p><{wrap}>", f"</{wrap}></p>") if wrap else ("<p>", "</p>")
        inner = "".join(f"{opening}{blocks.inline.html(text)}{closing}" for text in texts if text)
    return f"<{tag}{spans}>{inner}</{tag}>"
