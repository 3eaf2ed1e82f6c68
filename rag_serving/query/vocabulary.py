"""The names of pages: their spaces, labels and titles.

Belongs here: collecting them from tables. Does not belong here: rows visible to a caller (`indexes.generation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.text.normalization import caseless

NAMED = ["space", "title", "labels"]


@dataclass(frozen=True)
class Names:
    """Names as pages write them, each by its `caseless` form."""

    spaces: Mapping[str, str]
    labels: Mapping[str, str]
    titles: Mapping[str, str]


def names_of(tables: Iterable[pa.Table]) -> Names:
    """Return the names in tables with the columns `NAMED`; of two with the same form the first in order."""
    names: dict[str, set[str | None]] = {column: set() for column in NAMED}
    for table in tables:
        names["space"].update(pc.unique(table["space"]).to_pylist())
        names["title"].update(pc.unique(table["title"]).to_pylist())
        names["labels"].update(pc.unique(pc.list_flatten(table["labels"])).to_pylist())
    return Names(_by_form(names["space"]), _by_form(names["labels"]), _by_form(names["title"]))


def _by_form(names: Iterable[str | None]) -> dict[str, str]:
    return {caseless(name): name for name in sorted(filter(None, names), reverse=True)}
