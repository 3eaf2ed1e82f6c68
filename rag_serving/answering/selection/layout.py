"""Excerpts in which a chosen unit is understandable alone: a row with its columns, an item with its lead-in, a step
with all steps, a line of code with its block. All text beside the quoted words is passed on as `parts`, which
verification checks one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from rag_serving.answering.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.records.passages import Chunk
from rag_serving.text.directed import directed_units
from rag_serving.text.structure import FENCES, columns_of, line_of, units_above
from rag_serving.text.units import Unit, cells_of

_MOST_LINES = 12  # of a block of code that is quoted whole


@dataclass(frozen=True)
class Excerpt:
    """The text, the unit quoted for it, and its other verbatim parts of the passage."""

    text: str
    quoted: Unit
    parts: tuple[str, ...] = ()
    start: int = 0  # of the quoted part of the passage, lead-in and columns aside
    end: int = 0


@dataclass(frozen=True)
class Layout:
    """A passage and the layout of its units."""

    chunk: Chunk

    @property
    def text(self) -> str:
        return self.chunk.text

    @property
    def units(self) -> Sequence[Unit]:
        """Its units in order."""
        return self.chunk.parts.units

    @cached_property
    def directed(self) -> frozenset[Unit]:
        """The units addressed to an assistant, which are of no use to a reader."""
        return directed_units(self.text, self.chunk.parts, self.chunk.headings)

    def alone(self, unit: Unit) -> Excerpt:
        """Return the unit by itself; a row with its columns, an item with its lead-in, and only up to the unit where a
        part of it is meant for an assistant."""
        lead, item = self.lead_in(unit), self._item(unit)
        if unit.kind == "table":
            row = self._row(unit)
            parts = (lead, *(row.parts or (row.text,)))
            return replace(row, text=f"{lead} {row.text}", parts=parts) if lead else row
        if not self.directed.isdisjoint(item):
            item = item[: item.index(unit) + 1]
        if not lead and (unit == item[0] or not item[0].leads(self.text)):
            return Excerpt(unit.of(self.text), unit, (), unit.start, unit.end)
        end = self.end_of(item[-1])
        parts = (*([lead] if lead else []), self.text[item[0].start : end])
        return Excerpt(" ".join(parts), unit, parts, item[0].start, end)

    def lead_in(self, unit: Unit) -> str:
        """Return the sentence with a colon that the list, table or code of this unit hangs from; empty without one."""
        if unit.kind not in ("list", "table", "code"):
            return ""
        above = self._above[self._place(unit)]
        if above is None:
            return self.chunk.parts.introduction
        return above.of(self.text) if above.kind == "sentence" and above.leads(self.text) else ""

    def steps(self, unit: Unit) -> Excerpt | None:
        """Return all steps of the ordered list that has, or directly follows, the unit, with their lead-in, or None."""
        at = self._place(unit)
        first = unit
        if unit.kind == "sentence":
            first = next(iter(self.units[at + 1 : at + 2]), unit)
        elif unit.kind == "code":
            before = (self.units[place] for place in range(at - 1, -1, -1))
            first = next((other for other in before if other.kind != "code"), unit)
            if self._item(first)[-1].end < unit.end:
                return None
        items = self._items(first)
        if len(items) < 2 or not self.is_ordered(first):
            return None
        return self._listed(items, unit if unit.kind == "sentence" else None)

    def procedure(self, unit: Unit) -> Excerpt | None:
        """Return the procedure of a unit: all steps of its list, else its block of code if a sentence introduces it,
        else None."""
        steps = self.steps(unit) if unit.kind != "sentence" else None
        block = self.block(unit) if unit.kind == "code" else None
        return steps or (block if block and len(block.parts) > 1 else None)

    def is_ordered(self, unit: Unit) -> bool:
        """Return whether the items of a unit's list begin with numbers."""
        return unit.list_number in self._ordered

    def run(self, unit: Unit, is_led: bool = True) -> Excerpt:
        """Return the steps of this unit's list, be it a single one, with or without their lead-in."""
        return self._as_list(self._items(unit), self.lead_in(unit) if is_led else "")

    def block(self, unit: Unit) -> Excerpt | None:
        """Return the lines of code around this one, in their fence if there are several, with the sentence that leads
        them in; None for a long block."""
        lines = self._code[unit.block] if unit.kind == "code" else [unit]
        if len(lines) > _MOST_LINES:
            return None
        start, end = self._fenced(lines[0], lines[-1]) if len(lines) > 1 else (lines[0].start, lines[-1].end)
        lead = self._lead_of_code(self._place(lines[0]))
        parts = (*([lead] if lead else []), self.text[start:end])
        quoted = unit if weight(unit.of(self.text)) >= MIN_QUOTE_BYTES else self.weighty(lines)
        return Excerpt("\n".join(parts), quoted, parts, start, end)

    def code_after(self, unit: Unit) -> Unit | None:
        """Return the line to quote from the code directly after a sentence; None if it says too little or addresses an
        assistant."""
        at = self._place(unit)
        after = next(iter(self.units[at + 1 : at + 2]), unit)
        if unit.kind != "sentence" or after.kind != "code" or not self.directed.isdisjoint(self._code[after.block]):
            return None
        line = self.weighty(self._code[after.block])
        return line if weight(line.of(self.text)) >= MIN_QUOTE_BYTES else None

    def is_for_readers(self, shown: Excerpt) -> bool:
        """Return whether no part of an excerpt is meant for an assistant."""
        return not any(shown.start <= unit.start < shown.end for unit in self.directed)

    def weighty(self, found: Sequence[Unit]) -> Unit:
        """Return the first of some units that is long enough to be quoted, else the first."""
        return next((each for each in found if weight(each.of(self.text)) >= MIN_QUOTE_BYTES), found[0])

    def _row(self, unit: Unit) -> Excerpt:
        """`column: value` of each cell that is not empty; if no columns are named, a pair of cells is one."""
        cells = cells_of(line_of(unit, self.text))
        columns = columns_of(self.chunk.parts.header_of(unit, self.text))
        if not columns and len(cells) == 2 and all(cells):
            return Excerpt(": ".join(cells), unit, tuple(cells), unit.start, unit.end)
        if len(columns) != len(cells):
            return Excerpt(unit.of(self.text), unit, (), unit.start, unit.end)
        pairs = [(column, cell) for column, cell in zip(columns, cells, strict=True) if cell]
        text = "; ".join(f"{column}: {cell}" if column else cell for column, cell in pairs)
        parts = [part for pair in pairs for part in pair if part]
        return Excerpt(text, unit, tuple(dict.fromkeys(parts)), unit.start, unit.end)

    def _item(self, unit: Unit) -> list[Unit]:
        """Return the units of the item that this one is in, nested items and code with them; itself in none."""
        if unit.kind != "list":
            return [unit]
        items = self._items(unit)
        return items[bisect_left(items, unit.item, key=lambda item: item[0].item)]

    def _items(self, unit: Unit) -> list[list[Unit]]:
        """Return the units of the list that this one is in, item by item: nested items and code with theirs."""
        return self._lists[unit.list_number] if unit.kind == "list" else []

    def _place(self, unit: Unit) -> int:
        return self._places[unit.start]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {unit.start: place for place, unit in enumerate(self.units)}

    @cached_property
    def _above(self) -> list[Unit | None]:
        return list(units_above(self.units))

    @cached_property
    def _lists(self) -> dict[int, list[list[Unit]]]:
        lists: dict[int, list[list[Unit]]] = {}
        for (number, _), item in groupby(self.units, lambda unit: (unit.list_number, unit.item)):
            lists.setdefault(number, []).append(list(item))
        return lists

    @cached_property
    def _ordered(self) -> frozenset[int]:
        """The lists in which each item that begins in the passage begins with a number."""
        return frozenset(
            number
            for number, items in self._lists.items()
            if number >= 0 and {item[0].number >= 0 for item in items if item[0].marked >= 0} == {True}
        )

    @cached_property
    def _code(self) -> dict[int, list[Unit]]:
        lines = (unit for unit in self.units if unit.kind == "code")
        return {block: list(its) for block, its in groupby(lines, lambda unit: unit.block)}

    def _listed(self, items: Sequence[Sequence[Unit]], sentence: Unit | None = None) -> Excerpt:
        """Return the items with their markers, a line each, below their lead-in or this sentence; made once."""
        key = items[0][0].start, sentence is not None
        if key not in self._made:
            lead = sentence.of(self.text) if sentence else self.lead_in(items[0][0])
            told = self._as_list(items, lead)
            self._made[key] = replace(told, start=sentence.start) if sentence else told
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[int, bool], Excerpt]:
        return {}

    def _as_list(self, items: Sequence[Sequence[Unit]], lead: str) -> Excerpt:
        spans = [(item[0].begin, self.end_of(item[-1])) for item in items]
        parts = (*([lead] if lead else []), *(self.text[start:end] for start, end in spans))
        quoted = self.weighty([item[0] for item in items])
        return Excerpt("\n".join(parts), quoted, parts, spans[0][0], spans[-1][1])

    def end_of(self, unit: Unit) -> int:
        """Return where a unit ends, the fence behind code and the bar behind a row included."""
        if unit.kind == "code":
            return self._fenced(unit, unit)[1]
        if unit.kind not in ("table", "header"):
            return unit.end
        line = self.text.find("\n", unit.end)
        return line if line >= 0 else len(self.text)

    def _lead_of_code(self, at: int) -> str:
        """Return the sentence with a colon before the unit at `at`; a one-line caption may come between."""
        if not at:
            return self.chunk.parts.introduction
        before = [each for each in reversed(self.units[max(at - 2, 0) : at]) if each.kind == "sentence"]
        if len(before) == 2 and self.text[before[0].end - 1] in ".!?。":
            before = before[:1]
        return next((each.of(self.text) for each in before if each.leads(self.text)), "")

    def _fenced(self, first: Unit, last: Unit) -> tuple[int, int]:
        """Return the range of lines of code with the fence around it, where both of its lines are in the passage."""
        opening = self._code[first.block][0].marked
        closing = self.text.find("\n", last.end) + 1
        end = self.text.find("\n", closing)
        line = self.text[closing : end if end >= 0 else None].rstrip()
        if opening < 0 or not closing or not line.lstrip().startswith(FENCES):
            return first.start, last.end
        return opening, closing + len(line)
