"""The state of a page of reStructuredText during parsing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from citelock_sites.markup import PageSurroundings

INCLUDED_MAX = 2_000_000
"""Characters that the files of one page may bring in; one that asks for more is hostile."""


@dataclass(frozen=True)
class RstSettings:
    """The settings in `conf.py` that change how pages read."""

    language: str = "python"  # of code whose language is not said
    default_role: str | None = None
    domain: str = "py"
    prolog: str = ""
    epilog: str = ""
    substitutions: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)  # extlinks: role -> address, caption


@dataclass
class RstContext:
    """One page, as it is read."""

    name: str
    around: PageSurroundings
    settings: RstSettings
    lost: Counter[str] = field(default_factory=Counter)
    read: list[str] = field(default_factory=list)
    toctrees: list[list[str]] = field(default_factory=list)
    included_by: dict[str, str] = field(default_factory=dict)  # file -> the one that included it first
    module: str = ""  # of the domain's objects
    program: str = ""
    language: str = ""
    left: int = INCLUDED_MAX

    def file(self, name: str, source: str = "") -> tuple[str, str] | None:
        """Return name and text of a file that the page includes; None if there is none or it would not end.

        Args:
            name: as the page names it.
            source: name of the file with the line, if its lines are read as markup.
        """
        found = self.around.file(name, self.name)
        if found is None or found[0] == self.name or found[0] in self._above(source):
            return None
        if source:
            self.included_by.setdefault(found[0], source)
        self.left -= len(found[1])
        if self.left < 0:
            return None
        if found[0] not in self.read:
            self.read.append(found[0])
        return found

    def _above(self, source: str) -> set[str]:
        found: set[str] = set()
        while source and source not in found:
            found.add(source)
            source = self.included_by.get(source, "")
        return found


def names(text: str) -> tuple[str, ...]:
    """Return the words of a text: names of options, roles and directives."""
    return tuple(text.split())


def context_of(document: Any) -> RstContext:
    """Return the context of a docutils document."""
    context: RstContext = document.settings.page_context
    return context
