"""What an mdBook puts into a chapter before it is read as Markdown: `{{#include …}}` and its kin.

Belongs here: the directives of mdBook's preprocessor `links`, lines and anchors of files, hidden lines of code.
Does not belong here: Markdown (`mdbook`), which files a book has (`mdbook_summary`).

The rules are those of mdbook-driver 0.5 (`builtin_preprocessors/links.rs`, `take_lines.rs`) and mdbook-html
(`hide_lines.rs`). But where a file is not there, mdBook leaves the directive in the text; here it is an omission.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rag_serving.text.characters import OMISSION

DEPTH = 10  # includes inside of includes, as mdBook allows
INCLUDED_MAX = 2_000_000  # characters that one chapter may include
_DIRECTIVE = re.compile(r"\\\{\{#.{0,500}\}\}|\{\{\s{0,99}#([a-zA-Z0-9_]{1,99})\s+([^}]{1,2000})\}\}")
_ANCHOR_START = re.compile(r"ANCHOR:\s*([\w-]+)")
_ANCHOR_END = re.compile(r"ANCHOR_END:\s*([\w-]+)")
_BORING = re.compile(r"(\s*)#(.?)(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")

ReadText = Callable[[str], str]
"""Return the text of a file of the tree; raises LookupError where there is none, or it cannot be read."""


@dataclass
class Includes:
    """Puts files into the text of one chapter."""

    read: ReadText
    title: str | None = None  # that `{{#title …}}` gives
    files: list[str] = field(default_factory=list)  # that were included
    lost: Counter[str] = field(default_factory=Counter)
    _chars: int = 0

    def expanded(self, text: str, folder: str, depth: int = 0) -> str:
        """Return the text with what its directives ask for; `folder` is where its file stands in the tree."""
        parts, end, line = list[str](), 0, ""  # the line so far: it stands before each line that is put there
        for match in _DIRECTIVE.finditer(text):
            put = self._put(match, folder, depth)
            if put is None:
                continue
            between = text[end : match.start()]
            line = between.rpartition("\n")[2] if "\n" in between else line + between
            lines = _lines(put)
            if len(lines) * len(line) > INCLUDED_MAX:
                line = ""
            parts += (between, f"\n{line}".join(lines))
            line += lines[-1] if lines else ""
            end = match.end()
        return "".join([*parts, text[end:]])

    def _put(self, match: re.Match[str], folder: str, depth: int) -> str | None:
        """Return what stands in the place of a directive; None: it stays as it is written."""
        name, rest = match[1], (match[2] or "").strip()
        if name is None:
            return match[0][1:]
        if name == "title":
            self.title = rest
            return ""
        target, *properties = rest.split() or [""]
        if name in ("playground", "playpen"):
            content, file = self._file(folder, target)
            if content is None:
                return OMISSION
            end = "" if content.endswith("\n") else "\n"
            fence = f"```rust{',' if properties else ''}{','.join(properties)}\n{content}{end}```\n"
            return self._nested(fence, file, depth)
        if name not in ("include", "rustdoc_include"):
            return None
        path, _, part = target.partition(":")
        content, file = self._file(folder, path)
        if content is None:
            return OMISSION
        taken = taken_lines(content, part) if name == "include" else with_hidden_lines(content, part)
        return self._nested(taken, file, depth)

    def _nested(self, content: str, file: str, depth: int) -> str:
        return self.expanded(content, posixpath.dirname(file), depth + 1) if depth < DEPTH else ""

    def _file(self, folder: str, path: str) -> tuple[str | None, str]:
        """Return the text of a file and its name; None where there is none, or too much was included already."""
        file = posixpath.normpath(posixpath.join(folder, path))
        try:
            content = self.read(file)
        except LookupError:
            self.lost["include"] += 1
            return None, file
        self._chars += len(content)
        if self._chars > INCLUDED_MAX:
            self.lost["include"] += 1
            return None, file
        self.files.append(file)
        return content, file


def taken_lines(text: str, part: str) -> str:
    """Return the lines of a text that `part` names: `5`, `2:10`, `:10`, `2:`, or an anchor; empty: all of them."""
    lines = _lines(text)
    wanted = _range(part, len(lines))
    return "\n".join(_anchored(lines, part) if wanted is None else lines[wanted[0] : wanted[1]])


def with_hidden_lines(text: str, part: str) -> str:
    """Return all lines of a text, those that `part` does not name as Rust's hidden ones."""
    lines = _lines(text)
    wanted = _range(part, len(lines))
    if wanted is None:
        return "\n".join(_hidden_around(lines, part))
    first, end = wanted
    return "\n".join(line if first <= place < end else f"# {line}" for place, line in enumerate(lines))


def shown_code(code: str, info: str, prefixes: Mapping[str, str]) -> str:
    """Return the lines of a code block that readers see before they ask for the hidden ones.

    `info`: the words behind its fence; `prefixes`: what begins a hidden line, by language (`hidelines` in book.toml).
    """
    words = [word for word in re.split(r"[ \t,]", info) if word]
    if words[:1] == ["rust"]:
        lines = [_rust_line(line) for line in _lines(code)]
        return "".join(f"{line}\n" for line in lines if line is not None)
    own = (word.removeprefix("hidelines=") for word in words if word.startswith("hidelines="))
    prefix = next(own, prefixes.get(words[0], "") if words else "")
    if not prefix:
        return code
    return "".join(f"{line}\n" for line in _lines(code) if not line.lstrip().startswith(prefix))


def _rust_line(line: str) -> str | None:
    """Return a line of Rust as it is shown; None: it is hidden. `##` stands for a `#` that hides nothing."""
    match = _BORING.fullmatch(line)
    if match is None:
        return line
    if match[2] == "#":
        return f"{match[1]}{match[2]}{match[3]}"
    return None if match[2] in ("", " ") else line


def _range(part: str, count: int) -> tuple[int, int] | None:
    """Return the first line, from 0, and the one after the last; None where the part is the name of an anchor."""
    first, *more = part.split(":", 2)
    if first and not _NUMBER.fullmatch(first):
        return None
    start = max(int(first) - 1, 0) if first else 0
    if not more:
        return (start, start + 1) if first else (0, count)
    return start, int(more[0]) if _NUMBER.fullmatch(more[0]) else count


def _anchored(lines: Sequence[str], anchor: str) -> list[str]:
    name, kept, inside = anchor.partition(":")[0], list[str](), False
    for line in lines:
        if not inside:
            start = _ANCHOR_START.search(line)
            inside = start is not None and start[1] == name
        elif end := _ANCHOR_END.search(line):
            if end[1] == name:
                break
        elif not _ANCHOR_START.search(line):
            kept.append(line)
    return kept


def _hidden_around(lines: Sequence[str], anchor: str) -> list[str]:
    name, kept, inside = anchor.partition(":")[0], list[str](), False
    for line in lines:
        start, end = _ANCHOR_START.search(line), _ANCHOR_END.search(line)
        if inside and end:
            inside = end[1] != name
        elif start and not inside:
            inside = start[1] == name
        elif not start and not end:
            kept.append(line if inside else f"# {line}")
    return kept


def _lines(text: str) -> list[str]:
    """Return lines as Rust's `str::lines` has them: parted at line feeds, without the carriage return before one."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
