"""Operators of a query: `space:ENG`, `label:howto`, `title:"…"`, and quoted phrases.

Belongs here: finding and removing them. Does not belong here: their meaning for a search (`filters`,
`retrieval.hybrid`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_serving.records.queries import Filters

# Code is skipped: a question about `label:foo` wants no filter. A bare value ends where a sentence could.
_SIGNS = re.compile(
    r"(?P<code>`[^`\n]*`)"
    r"|(?<![\w:/.])(?P<key>space|label|title):(?:\"(?P<straight>[^\"\n]+)\"|“(?P<curly>[^“”\n]+)”"
    r"|(?P<bare>[^\s\"“”`,;?!)]+))"
    r"|(?<!\w)\"(?=\S)(?P<phrase>[^\"\n]{2,200})(?<=\S)\"(?!\w)"
    r"|“(?P<typeset>[^“”\n]{2,200})”",
    re.IGNORECASE,
)
_BEGINNINGS = frozenset('`:"“')  # most queries have none of them


@dataclass(frozen=True)
class Signs:
    """A query without its operators and quotation marks, and what they said."""

    text: str
    filters: Filters
    phrases: tuple[str, ...]


def read_signs(query: str) -> Signs:
    """Return the operators and quoted phrases of any text; the words of a phrase stay in the text.

    Operators alone leave their values as words, so that there is something to rank by.
    """
    if _BEGINNINGS.isdisjoint(query):
        return Signs(query, Filters(), ())
    given: dict[str, list[str]] = {"space": [], "label": [], "title": []}
    phrases: list[str] = []
    rest: list[str] = []
    position = 0
    for sign in _SIGNS.finditer(query):
        rest.append(query[position : sign.start()])
        position = sign.end()
        if key := sign["key"]:
            given[key.lower()].append(_value(sign))
            rest.append(" ")
        elif phrase := (sign["phrase"] or sign["typeset"] or "").strip():
            phrases.append(" ".join(phrase.split()))
            rest.append(phrase)
        else:
            rest.append(sign[0])
    rest.append(query[position:])
    filters = Filters(tuple(given["space"]), tuple(given["label"]), tuple(" ".join(given["title"]).split()))
    text = " ".join("".join(rest).split()) if filters else "".join(rest)
    return Signs(text or " ".join(_values(filters)), filters, tuple(dict.fromkeys(filter(None, phrases))))


def _value(sign: re.Match[str]) -> str:
    return (sign["straight"] or sign["curly"] or (sign["bare"] or "").rstrip(".:")).strip()


def _values(filters: Filters) -> Iterator[str]:
    for values in vars(filters).values():
        yield from values
