"""Page properties: the keys and values that a page's `details` macros hold, for reports on other pages.

Belongs here: reading them from a body.
Does not belong here: which pages a report shows (`page_lists`), what the macro leaves on its own page
(`formats.macros`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rag_assets.steps.formats.blocks import clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.macros import shown_macros
from rag_assets.steps.formats.storage import parse_storage
from rag_assets.steps.formats.storage_elements import one_line, table_rows


class Properties(NamedTuple):
    """One `details` macro: its id, often empty, and its values by key; of a repeated key the first."""

    id: str
    values: dict[str, str]


def page_properties(body: str) -> list[Properties]:
    """Return the page properties of a storage-format body, in order.

    A table has its keys in the first column or, where all of its first row are headers and no other cell is, there;
    then the second row has the values. Raises PageError where the body cannot be read.
    """
    tables = []
    for macro in shown_macros(parse_storage(body)):
        if macro.name == "details" and macro.rich is not None:
            values: dict[str, str] = {}
            for key, value in _pairs(macro.rich):
                values.setdefault(key, value)
            tables.append(Properties(macro.parameters.get("id", ""), values))
    return tables


def _pairs(rich: Element) -> Iterator[tuple[str, str]]:
    for table in rich.iter("table"):
        if any(above.tag == "table" for above in table.iterancestors()):
            continue
        rows = [[cell for cell in row if cell.tag in ("th", "td")] for row in table_rows(table)]
        rows = [row for row in rows if row]
        across = len(rows) > 1 and _all(rows[0], "th") and all(_all(row, "td") for row in rows[1:])
        pairs = zip(rows[0], rows[1], strict=False) if across else (row[:2] for row in rows if len(row) > 1)
        for key, value in pairs:
            if name := clean(one_line(key)):
                yield name, one_line(value)


def _all(row: list[Element], tag: str) -> bool:
    return all(cell.tag == tag for cell in row)
