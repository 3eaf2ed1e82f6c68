"""Tokens of RTF: groups, control words, text in its code pages.

Belongs here: the syntax of RTF 1.9. Does not belong here: what control words mean for a document (`rtf`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?[0-9]{1,10})? ?"  # a control word with its number
    rb"|\\'([0-9a-fA-F]{2})"  # a byte of the code page
    rb"|\\([^a-zA-Z'])"  # a control symbol
    rb"|([{}])"
    rb"|([^\\{}\r\n]{1,65536})"
    rb"|[\r\n]{1,65536}|\\"
)
_CHARSETS = {
    0: "cp1252", 77: "mac-roman", 128: "cp932", 129: "cp949", 134: "gbk", 136: "big5", 161: "cp1253", 162: "cp1254",
    163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250",
}  # fmt: skip


class Token(NamedTuple):
    """One token: `{`, `}`, a control word (its number None where it has none), `text`, or `byte`."""

    kind: str
    word: str = ""
    number: int | None = None
    raw: bytes = b""


def tokens(content: bytes) -> Iterator[Token]:
    """Yield the tokens of an RTF file; pictures and other data between them are skipped by their length (`bin`)."""
    position = 0
    while position < len(content):
        match = _TOKEN.match(content, position)
        if match is None:
            return
        position = match.end()
        word, number, byte, symbol, brace, text = match.groups()
        if word is not None:
            value = None if number is None else int(number)
            if word == b"bin":
                position += min(max(value or 0, 0), len(content))
            else:
                yield Token("word", word.decode("ascii"), value)
        elif byte is not None:
            yield Token("byte", raw=bytes([int(byte, 16)]))
        elif symbol is not None:
            yield Token("symbol", symbol.decode("latin-1"))
        elif brace is not None:
            yield Token(brace.decode("ascii"))
        elif text is not None:
            yield Token("byte", raw=text)


def code_page(number: int | None) -> str:
    """Return the codec of a Windows code page; that of Western Europe where it is not known."""
    return _known(f"cp{number}") if number else "cp1252"


def charset(number: int | None) -> str | None:
    """Return the codec of a font's character set; None where it is that of the document."""
    return _CHARSETS.get(number or 0) if number not in (None, 1, 2) else None


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"
