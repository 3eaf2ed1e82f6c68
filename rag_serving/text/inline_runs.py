"""Marks inside of a line of Markdown: strong, emphasis, code, links, as character ranges.

Belongs here: finding them in time in proportion to the text, whatever it is.
Does not belong here: what a text is made of (`units`, `page_blocks`), how it is shown.

The rules are CommonMark's (https://spec.commonmark.org/0.31.2/#inlines) without those that need a whole document:
reference links, autolinks, raw HTML. A link is one only where it leads to http or https.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Style = Literal["strong", "em", "code", "link"]
Range = tuple[int, int]

_TOKEN = re.compile(r"\\[\\`*_\[\]|]|`+|\*+|_+|\[|\]")
_MARK = re.compile(r"[\\`*_\[]")
_TARGET = re.compile(
    r"\]\(<?(https?://[^\s()<>]{1,2000}+(?:\([^\s()<>]{0,200}+\)[^\s()<>]{0,200}+){0,4}+)>?(?: \"[^\"\n]{0,200}+\")?\)"
)
_MARKS: Mapping[str, Style] = MappingProxyType({"*": "em", "_": "em", "**": "strong", "__": "strong"})


@dataclass(frozen=True)
class Run:
    """A range of a text in one style; runs nest and never cross."""

    start: int
    end: int
    style: Style
    href: str | None = None

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        shape: dict[str, Any] = {"start": self.start, "end": self.end, "style": self.style}
        return {**shape, "href": self.href} if self.href else shape


class Inline(NamedTuple):
    """The runs of a range of text, by their start, and the ranges of the marks themselves, which are not shown."""

    runs: tuple[Run, ...]
    hidden: tuple[Range, ...]


_PLAIN = Inline((), ())


class _Opener(NamedTuple):
    mark: str  # `[`, or one of _MARKS
    start: int
    end: int


def inline_runs(text: str, start: int, end: int) -> Inline:
    """Return what is marked in `text[start:end]`."""
    if not _MARK.search(text, start, end):
        return _PLAIN
    reader = _Reader(text, start, end)
    reader.read()
    runs = sorted(reader.runs, key=lambda run: (run.start, -run.end))
    return Inline(tuple(runs), tuple(sorted(reader.hidden)))


class _Reader:
    """Reads one range from its beginning to its end; what is opened waits on a stack for what closes it."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.runs: list[Run] = []
        self.hidden: list[Range] = []
        self._text, self._start, self._end = text, start, end
        self._open: list[_Opener] = []
        self._counts: dict[str, int] = {}  # of each mark among those that are open
        self._read_to = start

    def read(self) -> None:
        tokens = [match.span() for match in _TOKEN.finditer(self._text, self._start, self._end)]
        closing = dict(self._code_spans(tokens))
        for begin, stop in tokens:
            if begin < self._read_to:
                continue
            mark = self._text[begin:stop]
            if mark[0] == "\\":
                if mark[1] == "|":
                    self.hidden.append((begin, begin + 1))
            elif mark[0] == "`":
                self._code(begin, stop, closing.get(begin))
            elif mark == "[":
                self._push(_Opener(mark, begin, stop))
            elif mark == "]":
                self._link(begin)
            elif mark in _MARKS:
                self._emphasis(mark, begin, stop)

    def _code_spans(self, tokens: list[Range]) -> Iterator[tuple[int, Range]]:
        """Yield for each row of backticks the next one that is as long."""
        following: dict[int, Range] = {}
        for begin, stop in reversed(tokens):
            if self._text[begin] == "`":
                if after := following.get(stop - begin):
                    yield begin, after
                following[stop - begin] = begin, stop

    def _code(self, begin: int, stop: int, closing: Range | None) -> None:
        if closing is None:
            return
        self.runs.append(Run(stop, closing[0], "code"))
        self.hidden += [(begin, stop), closing]
        self._read_to = closing[1]

    def _link(self, begin: int) -> None:
        if not self._counts.get("["):
            return
        opener = self._pop("[")
        target = _TARGET.match(self._text, begin, self._end)
        if target and opener.end < begin:
            self.runs.append(Run(opener.end, begin, "link", target[1]))
            self.hidden += [(opener.start, opener.end), target.span()]
            self._read_to = target.end()

    def _emphasis(self, mark: str, begin: int, stop: int) -> None:
        before = self._text[begin - 1] if begin > self._start else " "
        after = self._text[stop] if stop < self._end else " "
        closes, opens = not before.isspace(), not after.isspace()
        if mark[0] == "_":  # names_with_underscores
            closes, opens = closes and not after.isalnum(), opens and not before.isalnum()
        elif before.isalnum() and after.isalnum():  # 2*3*4
            closes = opens = False
        if closes and self._counts.get(mark):
            opener = self._pop(mark)
            self.runs.append(Run(opener.end, begin, _MARKS[mark]))
            self.hidden += [(opener.start, opener.end), (begin, stop)]
        elif opens:
            self._push(_Opener(mark, begin, stop))

    def _push(self, opener: _Opener) -> None:
        self._open.append(opener)
        self._counts[opener.mark] = self._counts.get(opener.mark, 0) + 1

    def _pop(self, mark: str) -> _Opener:
        """Return the last opener of a mark; those behind it open nothing any more."""
        while True:
            opener = self._open.pop()
            self._counts[opener.mark] -= 1
            if opener.mark == mark:
                return opener
