"""Where a question in natural language says to look: "in space OPS", "labelled howto", "in the Deploy guide".

Belongs here: finding such words, and believing them only where they name something that exists.
Does not belong here: operators (`operators`), who may know what exists (`indexes.view`), searching there
(`retrieval.hybrid`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rag_serving.query.vocabulary import Names
from rag_serving.records.queries import Filters
from rag_serving.text.normalization import caseless

_LONGEST_TITLE = 10  # words
_NAME = r"[\"“'‘]?(?P<name>[\w][\w.~-]{0,100})[\"”'’]?"
_SPACE = re.compile(
    rf"(?<!\s)\s*\b(?:in|from|within|of|on)\s+(?:the\s+)?"
    rf"(?:space\s+{_NAME}|(?P<before>[\w][\w.~-]{{0,100}})\s+space\b)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    rf"(?<!\s)\s*\b(?:labell?ed|tagged|with\s+(?:the\s+)?label)\s+(?:as\s+|with\s+)?{_NAME}", re.IGNORECASE
)
_PLACE = re.compile(
    r"\b(?:in|on|from|per|under|according\s+to)\s+(?:(?:the|our|a)\s+)?(?:page\s+)?(?=(?P<rest>\S.{0,400}))", re.I
)
_WORDS = re.compile(r"\S+")
_BESIDE = " .,;:?!\"“”'‘’()[]"


@dataclass(frozen=True)
class Scope:
    """A text without the words that named a space or label, and what was named."""

    text: str
    filters: Filters = field(default_factory=Filters)
    page: str | None = None  # a title; its words stay in the text


def read_scope(text: str, names: Names) -> Scope:
    """Return the space, label and page that a text names in words, where these names exist."""
    left, spaces = _named(text, _SPACE, names.spaces)
    left, labels = _named(left, _LABEL, names.labels)
    left = left.strip()
    return Scope(left or text, Filters(space=spaces, labels=labels), _page(left, names.titles))


def may_name(text: str) -> bool:
    """Return whether a text has words that could name something: only then names need be known."""
    return any(pattern.search(text) for pattern in (_SPACE, _LABEL, _PLACE))


def _named(text: str, pattern: re.Pattern[str], names: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the text without the first mention of an existing name, and that name."""
    for match in pattern.finditer(text):
        groups = match.groupdict()
        written = (groups["name"] or groups.get("before") or "").rstrip(".-")
        if name := names.get(caseless(written)):
            return text[: match.start()] + text[match.end() :], (name,)
    return text, ()


def _page(text: str, titles: Mapping[str, str]) -> str | None:
    """Return the longest title that follows a word of place."""
    named = [titles[one] for place in _PLACE.finditer(text) for one in _beginnings(place["rest"]) if one in titles]
    return max(named, key=len, default=None)


def _beginnings(text: str) -> Iterator[str]:
    """Yield the first words, the first two, …, without signs around them."""
    for word in list(_WORDS.finditer(text))[:_LONGEST_TITLE]:
        yield caseless(text[: word.end()].strip(_BESIDE))
