"""A caller's filters: spaces, sources, kinds of page, categories, labels, words of the title.

Belongs here: parsing and matching of filters. Does not belong here: access (`access.principals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import mask_of, numbers_of, rows_in
from rag_serving.records.queries import Filters

_ALIASES = MappingProxyType({"label": "labels"})


class FilterError(ValueError):
    """The filters cannot be used; the message says which key and why."""


def parse_filters(content: Mapping[str, Any] | None) -> Filters | None:
    """Filters from JSON: `{"space": ["ENG"], "labels": [...], "title": "words"}`; a single string is a list of one.

    Raises:
        FilterError: a key is unknown or a value is not text.
    """
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


def matching_rows(chunks: pa.Table, filters: Filters) -> NDArray[np.bool_]:
    """Return which rows of a chunk table (columns space, labels, title, source, kind, and category where its rows have
    one) match, as a mask [rows]."""
    matches = np.ones(len(chunks), dtype=np.bool_)
    for name in ("space", "source", "kind", "category"):
        if values := getattr(filters, name):
            matches &= rows_in(chunks[name], values) if name in chunks.column_names else False
    for word in filters.title:
        matches &= mask_of(pc.match_substring(pc.utf8_lower(chunks["title"]), word.lower()))
    for label in filters.labels:
        matches &= _with_label(chunks["labels"], label)
    return matches


def _with_label(labels: pa.ChunkedArray, label: str) -> NDArray[np.bool_]:
    rows = numbers_of(pc.list_parent_indices(labels))
    having = np.zeros(len(labels), dtype=np.bool_)
    having[rows[rows_in(pc.list_flatten(labels), [label])]] = True
    return having


def _words(key: str, value: str | list[str]) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value
    return tuple(word for text in values for word in (text.split() if key == "title" else [text]) if word)
