"""What is searched for: a query as it was read, and the filters that narrow it.

Belongs here: plain immutable records and their JSON shapes. Does not belong here: reading a query (`query.parsing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rag_serving.text.small_talk import Remark


@dataclass(frozen=True)
class Filters:
    """A chunk matches if it is of one of the spaces, has all labels, and its page title holds every word."""

    space: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    title: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.space or self.labels or self.title)

    def payload(self) -> dict[str, list[str]]:
        """Return the JSON shape, without empty lists."""
        return {key: list(values) for key, values in vars(self).items() if values}


@dataclass(frozen=True)
class Query:
    """What was understood of a question or of words to search for."""

    original: str
    text: str  # what is embedded
    terms: Mapping[str, float]  # weights by analyzed term, for the lexical index
    phrases: tuple[str, ...] = ()  # quoted: passages that hold them to the letter are preferred
    identifiers: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)  # from operators: nothing else comes back
    scope: Filters = field(default_factory=Filters)  # from natural language: a guess
    page: str | None = None  # the title of a page that the words name, whose passages are preferred
    corrections: Mapping[str, str] = field(default_factory=dict)  # words of the pages by words that were misspelt
    language: str = "en"  # of the question, where it is one; `en` where that is not certain
    remark: Remark | None = None  # what it is where it asks nothing of the pages
    notes: tuple[str, ...] = ()  # a line for each decision

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape: what was read, without the notes."""
        read = {name: value for name, value in vars(self).items() if name != "notes"}
        return {**read, "filters": self.filters.payload(), "scope": self.scope.payload()}

    def noting(self, *lines: str) -> Query:
        """Return the same with more notes."""
        return replace(self, notes=(*self.notes, *lines))
