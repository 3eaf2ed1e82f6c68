"""How a chosen unit is told so that it is understood alone: a row with its columns, an item with what leads it in, a
step with all steps, a line of code with its block.

Belongs here: which verbatim parts of the passage are told together.
Does not belong here: which unit answers (`answering.extraction.extractor`), splitting Markdown (`sentences`), the
check of parts (`answering.verification.verifier`).

Whatever is told beside the quoted words is handed on as `parts`, which verification looks for one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rag_serving.answering.extraction.blocks import Blocks
from rag_serving.answering.verification.quotes import MIN_QUOTE_BYTES, weight
from rag_serving.text.directed import directed_units
from rag_serving.text.units import Unit, units

_BAR = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_MOST_LINES = 12  # of a block of code that is told whole
_MOST_ITEMS = 12


@dataclass(frozen=True)
class Excerpt:
    """What is said, the unit that is quoted for it, and the other verbatim parts of the passage it is made of."""

    text: str
    quoted: Unit
    parts: tuple[str, ...] = ()
    start: int = 0  # of what is told in the passage, lead-in and columns aside
    end: int = 0


@dataclass(frozen=True)
class Layout:
    """A passage whose units are told."""

    text: str
    heading: str = ""  # those that the passage stands under, a line each

    @cached_property
    def units(self) -> list[Unit]:
        """Its units in order."""
        return units(self.text)

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self.text, self.units)

    @cached_property
    def directed(self) -> frozenset[Unit]:
        """The units that are meant for an assistant that reads the passage, and tell a reader nothing."""
        return directed_units(self.text, self.heading)

    def alone(self, unit: Unit) -> Excerpt:
        """Return the unit by itself; a row with its columns, an item with its lead-in."""
        if unit.kind == "table":
            return self._row(unit)
        lead, item = self.lead_in(unit), self._item(unit)
        if lead is None and (unit == item[0] or not self._leads(item[0])):
            return Excerpt(unit.of(self.text), unit, (), unit.start, unit.end)
        parts = (*([lead.of(self.text)] if lead else []), self.text[item[0].start : item[-1].end])
        return Excerpt(" ".join(parts), unit, parts, item[0].start, item[-1].end)

    def lead_in(self, unit: Unit) -> Unit | None:
        """Return the sentence with a colon that the list of this unit hangs from, or None."""
        sentence = self._blocks.before_list(unit) if unit.kind == "list" else None
        return sentence if sentence and sentence.kind == "sentence" and self._leads(sentence) else None

    def steps(self, unit: Unit) -> Excerpt | None:
        """Return all steps of the ordered list that the unit is in or stands right before, with their lead-in, or
        None."""
        at = self._blocks.place(unit)
        text_at = self._blocks.text_at[at]
        first = unit if text_at is None else self.units[text_at]
        if unit.kind == "sentence":
            first = next(iter(self.units[at + 1 : at + 2]), unit)
        found = self._blocks.list_of(first)
        if unit.kind == "code" and self._blocks.item_of(first)[-1].end < unit.end:
            return None
        if len(found.items) < 2 or not found.is_ordered:
            return None
        return self._listed(found.items, unit if unit.kind == "sentence" else None)

    def procedure(self, unit: Unit) -> Excerpt | None:
        """Return what is done as a whole: the steps that a unit is one of, else its block of code where a sentence
        leads that in, else None.
        """
        steps = self.steps(unit) if unit.kind != "sentence" else None
        block = self.block(unit) if unit.kind == "code" else None
        return steps or (block if block and len(block.parts) > 1 else None)

    @property
    def first_step(self) -> int | None:
        """The number of the step that the passage begins with, or None."""
        return self._blocks.number(self.units[0]) if self.units else None

    @property
    def last_step(self) -> int | None:
        """The number of the last step of the list that ends the passage, or None."""
        last = self._blocks.text_at[-1] if self.units else None
        items = self._items(self.units[last]) if last is not None else []
        return self._blocks.number(items[-1][0]) if items and items[-1][-1] == self.units[-1] else None

    def run(self, unit: Unit) -> Excerpt:
        """Return the steps of this unit's list, be it a single one."""
        return self._listed(self._items(unit))

    def listed(self, unit: Unit) -> Excerpt | None:
        """Return the whole list of an item that a sentence leads in, with that sentence; None for a long list."""
        items = self._items(unit)
        return self._listed(items) if self.lead_in(unit) and len(items) <= _MOST_ITEMS else None

    def block(self, unit: Unit) -> Excerpt | None:
        """Return the lines of code around this one, in their fence where there are several, with the sentence that
        leads them in; None for a long block.
        """
        first, last = self._blocks.code_of(unit)
        if last - first > _MOST_LINES:
            return None
        lines = self.units[first:last]
        start, end = lines[0].start, lines[-1].end
        if len(lines) > 1:
            start, end = self._fenced(start, end)
        lead = self._lead_of_code(first)
        parts = (*([lead] if lead else []), self.text[start:end])
        quoted = unit if weight(unit.of(self.text)) >= MIN_QUOTE_BYTES else self._weighty(lines)
        return Excerpt("\n".join(parts), quoted, parts, start, end)

    def code_after(self, unit: Unit) -> Unit | None:
        """Return the first line of the code that stands right after a sentence, or None."""
        at = self._blocks.place(unit)
        after = next(iter(self.units[at + 1 : at + 2]), unit)
        return after if unit.kind == "sentence" and after.kind == "code" else None

    def _row(self, unit: Unit) -> Excerpt:
        """`column: value` of each cell that is not empty; where no columns are named, a pair of cells is one."""
        cells, columns = self._cells(unit), self._columns(unit)
        if columns is None and len(cells) == 2 and all(cells):
            return Excerpt(": ".join(cells), unit, tuple(cells), unit.start, unit.end)
        if columns is None or len(columns) != len(cells):
            return Excerpt(unit.of(self.text), unit, (), unit.start, unit.end)
        pairs = [(column, cell) for column, cell in zip(columns, cells, strict=True) if cell]
        text = "; ".join(f"{column}: {cell}" if column else cell for column, cell in pairs)
        parts = [part for pair in pairs for part in pair if part]
        return Excerpt(text, unit, tuple(dict.fromkeys(parts)), unit.start, unit.end)

    def _columns(self, unit: Unit) -> list[str] | None:
        """Return the cells of the row above the delimiter row of this row's table, or None."""
        head = self._blocks.head_of(unit)
        return self._cells(head) if head else None

    def _cells(self, unit: Unit) -> list[str]:
        row = self._blocks.line(unit).strip()
        return [cell.strip() for cell in _BAR.split(row.removeprefix("|").removesuffix("|"))]

    def _items(self, unit: Unit) -> list[list[Unit]]:
        """Return the units of the list that this one is in, item by item: nested items and code with theirs."""
        return self._blocks.list_of(unit).items

    def _listed(self, items: Sequence[Sequence[Unit]], sentence: Unit | None = None) -> Excerpt:
        """Return the items with their markers, a line each, below their lead-in or this sentence; made once."""
        key = items[0][0].start, sentence is not None
        if key not in self._lists:
            self._lists[key] = self._as_list(items, sentence)
        return self._lists[key]

    @cached_property
    def _lists(self) -> dict[tuple[int, bool], Excerpt]:
        return {}

    def _as_list(self, items: Sequence[Sequence[Unit]], sentence: Unit | None) -> Excerpt:
        lead = sentence or self.lead_in(items[0][0])
        spans = [(item[0].start - len(self._blocks.before(item[0]).lstrip()), self._end(item)) for item in items]
        parts = (*([lead.of(self.text)] if lead else []), *(self.text[start:end] for start, end in spans))
        start = sentence.start if sentence else spans[0][0]
        return Excerpt("\n".join(parts), self._weighty([item[0] for item in items]), parts, start, spans[-1][1])

    def _weighty(self, found: Sequence[Unit]) -> Unit:
        """Return the first of some units that is long enough to be quoted, else the first."""
        return next((each for each in found if weight(each.of(self.text)) >= MIN_QUOTE_BYTES), found[0])

    def _end(self, item: Sequence[Unit]) -> int:
        """Return where an item ends, the fence of code at its end included."""
        if item[-1].kind != "code":
            return item[-1].end
        return self._fenced(next(each for each in item if each.kind == "code").start, item[-1].end)[1]

    def _lead_of_code(self, at: int) -> str | None:
        """Return the sentence with a colon before the unit at `at`; a caption of one line may stand between."""
        before = [each for each in reversed(self.units[max(at - 2, 0) : at]) if each.kind == "sentence"]
        if len(before) == 2 and self.text[before[0].end - 1] in ".!?。":
            before = before[:1]
        return next((each.of(self.text) for each in before if self._leads(each)), None)

    def _leads(self, unit: Unit) -> bool:
        return self.text[unit.end - 1] in ":："

    def _item(self, unit: Unit) -> list[Unit]:
        return self._blocks.item_of(unit)

    def _fenced(self, start: int, end: int) -> tuple[int, int]:
        """Return the range with the lines of the fence around it, where both are there."""
        opening = self.text.rfind("\n", 0, max(self.text.rfind("\n", 0, start), 0)) + 1
        closing = self.text.find("\n", end) + 1
        fence = _FENCE.match(self.text, closing) if closing else None
        return (opening, fence.end()) if fence and _FENCE.match(self.text, opening) else (start, end)
