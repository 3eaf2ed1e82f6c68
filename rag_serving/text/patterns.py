"""Regular expressions that are lists of words, read from the data files in `phrases`. `[NAME]` begins an expression,
`#` a comment. Lines are joined without anything between them, `- ` begins one of several alternatives, `{NAME}` inserts
an expression above, and a space matches one space."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_HEADER = re.compile(r"\[([A-Za-z_]+)\]")
_NAMED = re.compile(r"\{([A-Za-z]\w*)\}")


@cache
def patterns(name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the expressions of a data file by name, each as its alternatives. Raises KeyError: an expression refers to
    one that is not defined above it."""
    read: dict[str, list[str]] = {}
    alternatives: list[str] = []
    for line in files("rag_serving.text").joinpath("phrases", f"{name}.txt").read_text("utf-8").splitlines():
        if header := _HEADER.fullmatch(line):
            alternatives = read[header[1]] = []
        elif line and not line.startswith("#"):
            part = _NAMED.sub(lambda named: "".join(read[named[1]]), line.removeprefix("- "))
            if line.startswith("- ") or not alternatives:
                alternatives.append(part)
            else:
                alternatives[-1] += part
    return MappingProxyType({key: tuple(parts) for key, parts in read.items()})
