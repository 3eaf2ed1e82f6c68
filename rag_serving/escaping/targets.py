"""Foreign text for a terminal, a log line, HTML, JSON, CSV, Markdown (CommonMark, GitHub's), and a link's target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from rag_serving.escaping.redaction import redacted

_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSEEN = f"{_BIDI}\U000e0000-\U000e007f"
"""Characters that reorder what stands beside them, and tag characters: nobody sees them."""
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
"""C0 without tab and newline, DEL, C1, and halves of surrogate pairs, which no encoding can write."""
_BREAKS = "\u2028\u2029"

_HIDDEN = re.compile(f"[{_UNSEEN}]")
_CONTROL = re.compile(f"[{_CONTROLS}]")
_BREAK = re.compile(f"\r\n?|[{_BREAKS}]")
_NOT_IN_A_LINE = re.compile(f"[\t\n{_CONTROLS}{_BREAKS}{_UNSEEN}]")
_NOT_IN_JSON = re.compile(f"[\x7f-\x9f\ud800-\udfff{_BREAKS}{_UNSEEN}]")
_NOT_IN_A_TARGET = re.compile(rf"[\s()<>\[\]\\\"'`{{}}|^{_CONTROLS}{_BREAKS}{_UNSEEN}]")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_SAFE_SCHEMES = frozenset({"http:", "https:", "mailto:", "file:"})
_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")


def printable(text: str) -> str:
    """Return the text with tabs and newlines, and without other controls and characters that reorder it."""
    return _CONTROL.sub("\ufffd", _HIDDEN.sub("", _BREAK.sub("\n", text)))


def for_terminal(text: str) -> str:
    """Return the text for a terminal: newlines stay, nothing in it moves the cursor, colours or reorders."""
    return printable(text).replace("\t", "    ")


def for_terminal_line(text: str) -> str:
    """Return the text for a terminal on one line, so that no title can imitate a line of ours."""
    return printable(text).replace("\t", " ").replace("\n", " ")


def for_log(text: str) -> str:
    r"""Return the text on one line with every control and break spelled out, such as `\x1b`, and no URL's password."""
    return _NOT_IN_A_LINE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), redacted(text))


def one_line(said: object, most: int = 200) -> str:
    """Return the first characters of a server's or library's message, on one line."""
    return " ".join(str(said).split())[:most]


def for_json(value: Any, indent: int | None = None) -> str:
    """Return the value as JSON that is safe in a terminal, a log or a script: parsed, it is the same value."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], text)


def for_csv(value: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if _FORMULA.match(value) or _FORMULA.match(text) else text


def for_link(url: str) -> str:
    """Return an address as the target of a link; one that would run code leads nowhere."""
    scheme = _SCHEME.match(url.strip())
    if scheme and scheme[0].lower() not in _SAFE_SCHEMES:
        return "#"
    return _NOT_IN_A_TARGET.sub(lambda match: quote(match[0], safe="", errors="replace"), url)


_MARKUP = re.compile(r"([\\`*~\[\]<>&|]|(?<!\w)_|_(?!\w))")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
_SPECIAL = re.compile(r"\\.?|`+|~{3,}|<(?=[A-Za-z/!?])|\[(?!\d{1,3}\](?![(:]))|&(?=#?\w{1,40};)")
_TICKS = re.compile("`+")


def for_markdown(text: str) -> str:
    """Return the text on one line, shown as it is (CommonMark, 2.4 Backslash escapes)."""
    return _MARKUP.sub(r"\\\1", " ".join(printable(text).split()))


def markdown_text(text: str) -> str:
    """Return an answer as Markdown that keeps its paragraphs, lists, code and markers (`[1]`). Blocks of code that a
    fence at the border of the page opens stay to the letter, and are closed if they are not. In other lines HTML,
    images, links and definitions are shown as they are written. Fences elsewhere are, too: a fence in a list ends with
    the list, and what follows would be markup again."""
    return "\n".join(_lines(printable(text).split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    has_cells, fence = any(map(_is_under_heads, lines)), ""
    for line in lines:
        if fence:
            yield line
            fence = "" if _closes(line, fence) else fence
        elif opening := _FENCE.match(line):
            fence = opening[1] or opening[2]
            yield line
        else:
            yield _line(line, has_cells)
    if fence:
        yield fence


def _closes(line: str, fence: str) -> bool:
    inside = line.rstrip(" \t")
    marks = inside.lstrip(" ")
    return len(inside) - len(marks) <= 3 and len(marks) >= len(fence) and not marks.strip(fence[0])


def _is_under_heads(line: str) -> bool:
    return "-" in line and not line.strip(" \t>*+-.)|:0123456789")


def _line(line: str, has_cells: bool) -> str:
    """Return a line outside fences. Spans of code stay; a backtick without its partner in the line opens none."""
    ends = _ends(line)
    parts, position = [], 0
    while match := _SPECIAL.search(line, position):
        parts.append(line[position : match.start()])
        position = match.end()
        mark = match[0]
        if mark[0] == "`" and (end := _end_of_code(line, match, ends, has_cells)):
            parts.append(line[match.start() : end])
            position = end
        elif mark[0] == "\\":
            parts.append(mark)
        else:
            parts.append("".join(f"\\{character}" for character in mark))
    return "".join([*parts, line[position:]])


def _ends(line: str) -> dict[int, list[int]]:
    """Return where runs of so many backticks end, the last first."""
    ends: dict[int, list[int]] = {}
    for run in _TICKS.finditer(line):
        ends.setdefault(len(run[0]), []).append(run.end())
    return {length: positions[::-1] for length, positions in ends.items()}


def _end_of_code(line: str, opening: re.Match[str], ends: dict[int, list[int]], has_cells: bool) -> int | None:
    """Return the end of the code that these backticks open; None if they open none. Three and more may be taken for a
    fence, and a cell of a table (`has_cells`) ends at a bar even inside of code."""
    length = len(opening[0])
    left = ends.get(length, [])
    while left and left[-1] <= opening.end():
        left.pop()
    if length > 2 or not left:
        return None
    return None if has_cells and "|" in line[opening.end() : left[-1]] else left[-1]
