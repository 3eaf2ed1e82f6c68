"""The value that a unit of a passage gives, and of what: a figure in a sentence, a cell of a row, `key: value`.

Belongs here: reading one unit. Does not belong here: which units give different values (`conflicts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from rag_serving.answering.comparing.typed import SCALES, is_close
from rag_serving.records.passages import Chunk
from rag_serving.text.analyzer import SEPARATED_NAME
from rag_serving.text.figures import figure_value, figures_with_units
from rag_serving.text.structure import columns_of, line_of
from rag_serving.text.units import Unit, cells_of

_ALONE = re.compile(r"(?<![\w.,:/-])\d+(?:[.,]\d+)*(?![\w:/-]|[.,]\d)")

_PAIR = re.compile(
    r"[`*_]{0,4}(?P<key>[^\W\d_](?:[\w.$/-]| (?! )){1,50}?)[`*_]{0,4}\s?[:=]\s+(?P<value>\S.{0,60})$", re.DOTALL
)

_DEFAULT = re.compile(r"[*_` ]{0,4}default(?: value)?[*_` ]{0,4}:?[*_` ]{0,4}", re.IGNORECASE)
_SETTING = re.compile(SEPARATED_NAME)
_LISTED = re.compile(rf"{SEPARATED_NAME}|[a-z]\w+")  # a setting, whose attributes are capitalized: `retries: …`
_ITEMS_ABOVE = 8  # units that a setting's name is looked for in

Measures = dict[str, set[float]]
"""Figures by kind: times in seconds, sizes in bytes, others in their own unit; "" has those alone."""


class Field(NamedTuple):
    """A cell of a row, or the text after a colon."""

    key: str  # what it is a value of: the row's first cell, the words before the colon
    name: str  # which of its values: the column; empty for a pair
    value: str


def measures(text: str) -> Measures:
    """Return the figures of a text; versions, times of the day and figures inside names are none."""
    alone = {figure_value(figure) for figure in _ALONE.findall(text)}
    found: Measures = {}
    for figure, names in figures_with_units(text).items():
        for unit in names if names != {""} or figure in alone else ():
            kind = next((kind for kind, scale in SCALES.items() if unit in scale), unit)
            with suppress(ValueError):
                value = float(figure) * SCALES.get(kind, {}).get(unit, 1.0)
                found.setdefault(kind, set()).add(value)
    return found


def differ(one: Measures, two: Measures) -> bool:
    """Return whether both give one figure of the same kind, and not the same one."""
    pairs = ((one[kind], two[kind]) for kind in one.keys() & two.keys())
    return any(len(a) == len(b) == 1 and not is_close(*a, *b) for a, b in pairs)


def fields(unit: Unit, chunk: Chunk) -> Iterator[Field]:
    """Yield what a row says in each of its columns, or an item or sentence behind its colon.

    A line such as `Default: 5` is of the setting that its heading names, or the item above it.
    """
    if unit.kind == "table":
        key, *values = cells_of(line_of(unit, chunk.text))
        names = columns_of(chunk.parts.header_of(unit, chunk.text))[1:] or [""] * len(values)
        if len(names) == len(values):
            found = (Field(key, name, value) for name, value in zip(names, values, strict=True) if value)
            yield from (_of_setting(field, unit, chunk) for field in found)
    elif unit.kind in ("list", "sentence") and (pair := _PAIR.fullmatch(unit.of(chunk.text))):
        yield _of_setting(Field(pair["key"], "", pair["value"]), unit, chunk)


def _of_setting(field: Field, unit: Unit, chunk: Chunk) -> Field:
    """Return `Default: 5` as the default of the setting in its heading; other fields as they are."""
    if field.name or not _DEFAULT.fullmatch(field.key):
        return field
    above = chunk.heading_path[-1] if chunk.heading_path else ""
    if is_setting(above):
        return Field(above, "default", field.value)
    place = chunk.parts.place_at(unit.start) or 0
    for other in reversed(chunk.parts.units[max(place - _ITEMS_ABOVE, 0) : place]):
        text = other.of(chunk.text).lstrip("`*_")
        if (named := _LISTED.match(text)) and text[named.end() :].lstrip("`*_").startswith(":"):
            return Field(named[0], "default", field.value) if is_setting(named[0]) else field
    return field


def is_setting(heading: str) -> bool:
    """Return whether a heading is nothing but the name of a setting: `max.poll.records`."""
    plain = heading.strip(" `*")
    named = _SETTING.match(plain)
    return named is not None and named.end() == len(plain)
