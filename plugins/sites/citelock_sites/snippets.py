"""Files that pages of MkDocs include: snippets (`--8<--`) and the include plugin's (`{% include "…" %}`).

Belongs here: finding the files in the tree, their lines and sections, bounds. Does not belong here: Markdown.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_assets.sources.sites.site import SourceTree, text_of
from rag_assets.sources.sites.trees import resolved
from rag_assets.steps.files.records import FileError

_LINE = re.compile(r"( *)(;*)-{1,}8<-{1,}(?:[ \t]+(?:\"([^\"\n]+)\"|'([^'\n]+)'))?[ \t]*$")
_SECTION = re.compile(r"8<-{1,20}[ \t]{1,9}\[[ \t]{0,9}(start|end)[ \t]{0,9}:[ \t]{0,9}([\w-]{1,200})[ \t]{0,9}\]")
_INCLUDE = re.compile(r"( *)\{%-?[ ]*include(?:-markdown)?[ ]+[\"']([^\"'\n]+)[\"'][^%\n]{0,300}%\}[ \t]*$")
_DEPTH_MAX, CHARS_MAX = 10, 5_000_000


@dataclass
class Snippets:
    """Includes of one page; `read` and `lost` list included and missing ones."""

    tree: SourceTree
    bases: Sequence[str]  # folders that snippets are looked for in
    read: list[str] = field(default_factory=list)
    lost: int = 0
    _chars: int = 0

    def included(self, name: str, text: str) -> str:
        """Return the text of a page with the files that it includes in their places.

        Raises:
            FileError: they include each other, or are longer than 5,000,000 characters together.
        """
        if "8<-" not in text and "{%" not in text:
            return text
        return "\n".join(self._lines(text.split("\n"), (name,)))

    def _lines(self, lines: Sequence[str], above: tuple[str, ...]) -> list[str]:
        out: list[str] = []
        is_block = False
        for line in lines:
            match = _LINE.match(line) if "8<-" in line else None
            if match and match[2]:
                out.append(f"{match[1]}{match[2][1:]}{line[match.end(2) :]}")
            elif match:
                path = match[3] or match[4]
                if path is None:
                    is_block = not is_block
                else:
                    out += self._file(path, self.bases, match[1], above)
            elif is_block:
                path = line.strip()
                if path and not path.startswith((";", "#")):
                    indent = line[: len(line) - len(line.lstrip(" "))]
                    out += self._file(path, self.bases, indent, above)
            elif "{%" in line and (include := _INCLUDE.match(line)):
                out += self._file(include[2], (posixpath.dirname(above[-1]),), include[1], above)
            elif not ("8<-" in line and _SECTION.search(line)):
                out.append(line)
        return out

    def _file(self, path: str, bases: Sequence[str], indent: str, above: tuple[str, ...]) -> list[str]:
        path, _, part = path.partition(":")
        found = None if part.startswith("//") else self._found(path, bases)
        if found is None:
            self.lost += 1
            return []
        name, text = found
        if name in above or len(above) > _DEPTH_MAX:
            raise FileError(f"its includes lead back to themselves: {' -> '.join([*above, name])[:300]}")
        self.read.append(name)
        lines = self._lines(_part(text.removesuffix("\n").split("\n"), part), (*above, name))
        self._chars += sum(map(len, lines)) + len(lines) * (len(indent) + 1)
        if self._chars > CHARS_MAX:
            raise FileError(f"what it includes is longer than {CHARS_MAX} characters")
        return [f"{indent}{line}" if line else "" for line in lines]

    def _found(self, path: str, bases: Sequence[str]) -> tuple[str, str] | None:
        for base in bases:
            name = resolved(posixpath.join(base, "page"), path)
            if name is not None:
                try:
                    return name, text_of(self.tree.read(name))
                except KeyError:
                    continue
        return None


def _part(lines: list[str], part: str) -> list[str]:
    """Return the lines that `:4:6`, `:4` or `:name` names; all of them without."""
    if not part:
        return lines
    numbers = part.split(":")
    if all(number.lstrip("-").isdigit() or not number for number in numbers[:2]):
        first = int(numbers[0] or 1)
        last = int(numbers[1]) if len(numbers) > 1 and numbers[1] else len(lines)
        return lines[max(first, 1) - 1 : last]
    kept: list[str] = []
    is_inside = False
    for line in lines:
        mark = _SECTION.search(line)
        if mark and mark[2] == part:
            is_inside = mark[1] == "start"
        elif is_inside:
            kept.append(line)
    return kept
