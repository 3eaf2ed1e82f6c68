"""Which units of a passage belong together: the lists, the blocks of code and the tables that each one is in.

Everything is found in one pass over the units, so that a passage of thousands of lines takes no longer a line than a
short one.

Belongs here: where lists, items, blocks of code and tables begin and end.
Does not belong here: splitting a text into units (`sentences`), what of a block is told (`telling`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.text.units import Unit

_MARKER = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?$")
_ORDERED = re.compile(r"\s*(\d{1,3})[.)]\s+(?:\[[ xX]\]\s+)?$")
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LONGEST_MARKER = 200


@dataclass(frozen=True)
class Items:
    """A list: the units of each item, nested items and code with theirs."""

    items: list[list[Unit]]
    is_ordered: bool  # each item is numbered


@dataclass(frozen=True)
class Blocks:
    """The units of a text by what they belong to."""

    text: str
    units: Sequence[Unit]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {unit.start: place for place, unit in enumerate(self.units)}

    def place(self, unit: Unit) -> int:
        """Return the place of a unit among all."""
        return self._places[unit.start]

    @cached_property
    def text_at(self) -> list[int | None]:
        """For each place that of the last unit up to there that is no code."""
        return self._last("code")

    @cached_property
    def _unlisted_at(self) -> list[int | None]:
        return self._last("list")

    def _last(self, kind: str) -> list[int | None]:
        """Return for each place that of the last unit up to there that is of another kind."""
        found: list[int | None] = []
        for place, unit in enumerate(self.units):
            found.append(place if unit.kind != kind else found[-1] if found else None)
        return found

    def before_list(self, unit: Unit) -> Unit | None:
        """Return the last unit before one of a list that is in none."""
        at = self._unlisted_at[self.place(unit)]
        return None if at is None else self.units[at]

    # Lists

    @cached_property
    def _runs(self) -> list[tuple[int, int]]:
        """For each place the range of units around it that are of lists or code, as far as they can be of one list."""
        runs: list[tuple[int, int]] = []
        place = 0
        while place < len(self.units):
            end = place + 1
            if self.units[place].kind == "list":
                while end < len(self.units) and self.units[end].kind in ("list", "code"):
                    end += 1
            runs += [(place, end)] * (end - place)
            place = end
        return runs

    @cached_property
    def _lists(self) -> dict[int, Items]:
        return {}

    def list_of(self, unit: Unit) -> Items:
        """Return the list that this unit is an item of, or a part of one; none for any other unit."""
        start, end = self._runs[self.place(unit)]
        if unit.kind != "list":
            return Items([], False)
        if start not in self._lists:
            items = self._split(self.units[start:end])
            is_ordered = all(_ORDERED.match(self.before(item[0])) for item in items)
            self._lists[start] = Items(items, is_ordered)
        return self._lists[start]

    def item_of(self, unit: Unit) -> list[Unit]:
        """Return the units of the item that this one is in; itself where it is in none."""
        if unit.kind != "list":
            return [unit]
        return self._items_by_place.get(self.place(unit)) or self._with_items(unit)

    @cached_property
    def _items_by_place(self) -> dict[int, list[Unit]]:
        return {}

    def _with_items(self, unit: Unit) -> list[Unit]:
        for item in self.list_of(unit).items:
            self._items_by_place.update((self.place(each), item) for each in item)
        return self._items_by_place.setdefault(self.place(unit), [unit])

    def _split(self, found: Sequence[Unit]) -> list[list[Unit]]:
        last = max(place for place, each in enumerate(found) if each.kind == "list")
        if not self.leads(found[last]):
            found = found[: last + 1]
        outermost = min(self.indent(each) for each in found if each.kind == "list")
        items: list[list[Unit]] = []
        for each in found:
            begins = each.kind == "list" and self.indent(each) == outermost and _MARKER.match(self.before(each))
            if begins or not items:
                items.append([])
            items[-1].append(each)
        return items

    def number(self, unit: Unit) -> int | None:
        """Return the number that an item of an ordered list begins with."""
        marker = _ORDERED.match(self.before(unit)) if unit.kind == "list" else None
        return int(marker[1]) if marker else None

    # Code

    @cached_property
    def _fences(self) -> list[tuple[int, int]]:
        """For each place the range of units of code that one fence holds; of any other unit itself."""
        ranges: list[tuple[int, int]] = []
        place = 0
        while place < len(self.units):
            end = place + 1
            while end < len(self.units) and self._is_fenced_on(end):
                end += 1
            ranges += [(place, end)] * (end - place)
            place = end
        return ranges

    def _is_fenced_on(self, place: int) -> bool:
        before, unit = self.units[place - 1], self.units[place]
        if before.kind != "code" or unit.kind != "code":
            return False
        return not _FENCE_LINE.search(self.text, before.end, unit.start)

    def code_of(self, unit: Unit) -> tuple[int, int]:
        """Return the places of the first line of code in the fence of this one, and behind the last."""
        return self._fences[self.place(unit)]

    # Tables

    @cached_property
    def _heads(self) -> list[Unit | None]:
        """For each row of a table its head: the row above the delimiter row."""
        heads: list[Unit | None] = []
        for place, unit in enumerate(self.units):
            before = self.units[place - 1] if place else None
            head = None
            if before and unit.kind == "table" and before.kind == "heading":
                head = before if self.line(before).lstrip().startswith("|") else None
            elif before and unit.kind == before.kind == "table" and "\n\n" not in self.text[before.end : unit.start]:
                head = heads[-1]
            heads.append(head)
        return heads

    def head_of(self, row: Unit) -> Unit | None:
        """Return the head of the table that a row is in."""
        return self._heads[self.place(row)]

    # Lines

    def line(self, unit: Unit) -> str:
        """Return the lines that a unit stands in."""
        end = self.text.find("\n", unit.end)
        return self.text[self._line_start(unit) : end if end >= 0 else None]

    def before(self, unit: Unit) -> str:
        """Return what stands before the unit in its line, as far as a marker can reach."""
        return self.text[max(self._line_start(unit), unit.start - _LONGEST_MARKER) : unit.start]

    def indent(self, unit: Unit) -> int:
        """Return how far the line of a unit is indented."""
        return self._indents[self.place(unit)]

    @cached_property
    def _indents(self) -> list[int]:
        found: list[int] = []
        line_start, indent = -1, 0
        for unit in self.units:
            if (start := self._line_start(unit)) != line_start:
                line = self.text[start : unit.end]
                line_start, indent = start, len(line) - len(line.lstrip())
            found.append(indent)
        return found

    def leads(self, unit: Unit) -> bool:
        """Return whether a unit ends with a colon."""
        return self.text[unit.end - 1] in ":："

    def _line_start(self, unit: Unit) -> int:
        return self._line_starts[self.place(unit)]

    @cached_property
    def _line_starts(self) -> list[int]:
        """For each place where its line begins; looked for no further back than to the unit before."""
        found: list[int] = []
        for place, unit in enumerate(self.units):
            least = self.units[place - 1].start if place else 0
            at = self.text.rfind("\n", least, unit.start) + 1
            found.append(at or (found[-1] if found else 0))
        return found
