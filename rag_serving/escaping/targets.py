"""Foreign text for a terminal, a log line, HTML, JSON, CSV, and the target of a link.

Belongs here: what each of these targets must not be given as it is.
Does not belong here: Markdown (`escaping.markdown`), what is shown (its callers).
"""

from __future__ import annotations

import html
import json
import re
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


def for_html(text: str) -> str:
    """Return the text for an element or a quoted attribute of HTML."""
    return html.escape(printable(text))


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
