"""A caller's filters: spaces, sources, kinds of page, categories, labels, words of the title."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rag_serving.records.queries import Filters

_ALIASES = {"label": "labels"}


class FilterError(ValueError):
    """The filters cannot be used; the message says which key and why."""


def parse_filters(content: Mapping[str, Any] | None) -> Filters | None:
    """Filters from JSON: `{"space": ["ENG"], "labels": [...], "title": "words"}`; a single string is a list of one.
    Raises FilterError: a key is unknown or a value is not text."""
    known = [field.name for field in fields(Filters)]
    content = {_ALIASES.get(key, key): value for key, value in (content or {}).items()}
    for key, value in content.items():
        if key not in known:
            raise FilterError(f"unknown filter {key!r}; known are {', '.join(known)}")
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise FilterError(f"filter {key!r} must be a text or a list of texts")
    filters = Filters(**{key: _words(key, value) for key, value in content.items()})
    return filters or None


def _words(key: str, value: str | list[str]) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    return tuple(word for text in values for word in (text.split() if key == "title" else [text]) if word)
