"""A query as it was read, and the filters that narrow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

from rag_serving.text.small_talk import Remark
from rag_serving.text.stemming import Analyze, analyzer_of, passage_analyzer

QuestionMode = Literal["corpus", "book-wide"]
"""All pages of the tenant that its asker may read, or its books alone."""


@dataclass(frozen=True)
class Occasion:
    """The circumstances of a question."""

    mode: QuestionMode = "corpus"  # the kind of pages that answer it
    application: str = ""  # the application's state as shown to its asker, in lines of text, for a language model
    widgets: tuple[tuple[str, str], ...] = ()  # the application's widgets, each with its state
    questions: tuple[str, ...] = ()  # those before it in the conversation, the last one first
    as_of: str = ""  # an earlier generation that answers it, or the date of one; empty: the published one


PLAIN = Occasion()


@dataclass(frozen=True)
class Filters:
    """A chunk matches if it is of one of the spaces, sources, kinds and categories, has all labels, and its page title
    has every word."""

    space: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    title: tuple[str, ...] = ()
    source: tuple[str, ...] = ()  # keys of the configuration
    kind: tuple[str, ...] = ()  # page, comments, attachment, document
    category: tuple[str, ...] = ()  # of its document

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def payload(self) -> dict[str, list[str]]:
        """Return the JSON shape, without empty lists."""
        return {key: list(values) for key, values in vars(self).items() if values}


@dataclass(frozen=True)
class Facets:
    """The possible values of filters, with the number of pages that have each, the most frequent first."""

    spaces: Mapping[str, int]
    labels: Mapping[str, int]
    sources: Mapping[str, int]
    kinds: Mapping[str, int]
    categories: Mapping[str, int]

    def payload(self) -> dict[str, list[dict[str, Any]]]:
        """Return the JSON shape."""
        names = {"spaces": "key", "labels": "name", "sources": "key", "kinds": "kind", "categories": "name"}
        return {
            facet: [{name: value, "count": count} for value, count in getattr(self, facet).items()]
            for facet, name in names.items()
        }


@dataclass(frozen=True)
class Query:
    """A question or search words, as understood."""

    original: str
    text: str  # what is embedded
    terms: Mapping[str, float]  # weights by analyzed term, for the lexical index
    phrases: tuple[str, ...] = ()  # quoted: passages that contain them literally are preferred
    identifiers: tuple[str, ...] = ()
    filters: Filters = field(default_factory=Filters)  # from operators: nothing else comes back
    scope: Filters = field(default_factory=Filters)  # from natural language: a guess
    page: str | None = None  # the title of a page that the words name, whose passages are preferred
    corrections: Mapping[str, str] = field(default_factory=dict)  # words of the pages by words that were misspelt
    language: str = "en"  # of the question, if it is one; `en` if that is not certain
    stemmed: tuple[str, ...] = ()  # languages whose stems its words have beside the English ones
    remark: Remark | None = None  # its kind if it is no question about the pages
    notes: tuple[str, ...] = ()  # a line for each decision

    @property
    def analyze(self) -> Analyze:
        """The analyzer that yields terms as this query's words have them."""
        return analyzer_of(self.stemmed)

    @property
    def analyze_passage(self) -> Callable[[str], Sequence[str]]:
        """The same of a text that many queries find, remembered."""
        return passage_analyzer(self.stemmed)

    @cached_property
    def text_terms(self) -> frozenset[str]:
        """The terms of its text, each once."""
        return frozenset(self.analyze(self.text))

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape, without the notes."""
        read = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "notes"}
        return {**read, "filters": self.filters.payload(), "scope": self.scope.payload()}

    def noting(self, *lines: str) -> Query:
        """Return the same with more notes."""
        return replace(self, notes=(*self.notes, *lines))
