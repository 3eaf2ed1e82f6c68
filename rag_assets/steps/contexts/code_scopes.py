"""The definitions that enclose a passage of code: the class, the function, the namespace that its lines stand in.

Belongs here: telling definitions by keyword and indentation, in any of the usual languages.
Does not belong here: parsing one language, what is done with the lines (`lexical_fields`).

Indentation is what nearly all code has in common. Above a line, the definitions that enclose it are those with less and
less indentation; a definition of the outermost level also speaks for what follows it there.
"""

from __future__ import annotations

import re

DEPTH = 3
"""Innermost definitions that are told."""
MAX_LINE_CHARS = 200

_FENCE = re.compile(r"\s*(?:```|~~~)")
_MODIFIERS = (
    r"(?:(?:pub(?:\([^)]*\))?|public|private|protected|internal|static|final|abstract|sealed|export|default|async|unsafe"
    r"|extern|inline|virtual|const|constexpr|override|open|data|partial|declare|template\s*<[^>]*>|@\w+)\s+)*"
)
_KEYWORDS = (
    r"(?:class|struct|enum|union|trait|impl|interface|mod|module|namespace|def|fn|func|fun|function|object|record|type"
    r"|protocol|extension|macro_rules!)"
)
_NO_TYPES = (
    r"(?:if|for|while|switch|return|else|do|catch|case|new|throw|delete|using|typedef|goto|sizeof|await|assert|print"
    r"|not|and|or|in|with|match|let|var|val|use|import|from|elif|yield|raise|except)"
)
# `static Pool *open(int size)`: types, a name, an opened parenthesis, and no end of a statement.
_SIGNATURE = re.compile(rf"\s*(?!{_NO_TYPES}\b)(?:[\w:<>,&*\[\]~@?]+[ \t]+)+[*&]?[\w:~]+\([^;.]*$")
_DEFINITION = re.compile(rf"\s*{_MODIFIERS}{_KEYWORDS}\b.*[\w(){{}}\[\]<>:;,=]\s*$")


class Enclosing:
    """Reads the text of a section part by part, and tells what encloses the next part."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []  # indentation and line, outermost first

    def definitions(self, text: str) -> tuple[str, ...]:
        """Return the lines of the definitions that enclose the beginning of `text`, outermost first; then it is
        read."""
        first = next((line for line in text.split("\n") if line.strip()), "")
        depth = _indentation(first)
        definitions = [line for indentation, line in self._open if indentation < depth or indentation == 0]
        enclosing = () if _FENCE.match(first) else tuple(definitions[: 1 if depth == 0 else None][-DEPTH:])
        for line in text.split("\n"):
            self._read(line)
        return enclosing

    def _read(self, line: str) -> None:
        if _FENCE.match(line):
            self._open.clear()
        elif _DEFINITION.match(line) or _SIGNATURE.match(line):
            indentation = _indentation(line)
            while self._open and self._open[-1][0] >= indentation:
                self._open.pop()
            self._open.append((indentation, line.strip()[:MAX_LINE_CHARS]))


def _indentation(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
