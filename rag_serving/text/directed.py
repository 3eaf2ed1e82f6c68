"""Which units of a passage are meant for an assistant that reads it, and tell a reader nothing.

An order to an assistant is one, whatever goes on with it in its paragraph is, and so is a paragraph that imitates the
marks of a conversation or of a prompt. Code is shown as it is: pages about chat templates have such marks there.

Belongs here: which parts of a passage. Does not belong here: what an order is (`orders`), marks (`marks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rag_serving.text.marks import has_fence, has_mark, is_role
from rag_serving.text.orders import announces, directed, may_order, orders_assistant
from rag_serving.text.units import Unit, units

MASK = "\ufffc"
"""Stands for each character of what a page says to an assistant; no quote and no sentence has it."""


@lru_cache(maxsize=256)
def directed_units(text: str, heading: str = "") -> frozenset[Unit]:
    """Return the units of a passage that are meant for an assistant.

    `heading` has the headings that the passage stands under, a line each: below an order what tells somebody to say
    something goes on with it.
    """
    return frozenset((*ordering_units(text, heading), *_marked_units(text)))


def ordering_units(text: str, heading: str = "") -> Iterator[Unit]:
    """Yield the units that order an assistant about, and those that go on with it, be it in the next paragraph."""
    is_below = any(map(_orders, heading.splitlines()))
    before: Unit | None = None  # the last unit of the paragraph before, where that is one of them
    for paragraph in _paragraphs(text):
        if paragraph[0].kind == "heading":
            is_below, before = _orders(paragraph[0].of(text)), None
        is_ordered = is_below or before is not None
        places: set[int] = set()
        if before is not None and announces(before.of(text)):
            kind = paragraph[0].kind
            places |= {0, *(place for place, unit in enumerate(paragraph) if unit.kind == kind != "sentence")}
        if is_ordered or may_order(text[paragraph[0].start : paragraph[-1].end]):
            places |= directed([unit.of(text) for unit in paragraph], is_ordered)
        yield from (paragraph[place] for place in sorted(places))
        before = paragraph[-1] if len(paragraph) - 1 in places else None


def _orders(heading: str) -> bool:
    return orders_assistant(heading) or is_role(heading)


def _marked_units(text: str) -> Iterator[Unit]:
    """Yield the units behind a mark of a conversation in its paragraph, and all behind one that imitates a fence."""
    if not has_mark(text):
        return
    is_fenced = False
    for paragraph in _paragraphs(text):
        prose = "\n".join(_line(text, unit) for unit in paragraph if unit.kind != "code")
        if is_fenced:
            yield from paragraph
        elif has_mark(prose):
            yield from paragraph[_first_marked(text, paragraph) :]
        is_fenced = is_fenced or has_fence(prose)


def without_directed(text: str, heading: str = "") -> str:
    """Return the text, as long as it is, with `MASK` for what is meant for an assistant; how sentences end stays."""
    masked = list(text)
    for unit in directed_units(text, heading):
        last = unit.end - 1 if text[unit.end - 1] in ".!?。" else unit.end
        masked[unit.start : last] = [char if char == "\n" else MASK for char in text[unit.start : last]]
    return "".join(masked)


def _paragraphs(text: str) -> Iterator[list[Unit]]:
    paragraph: list[Unit] = []
    for unit in units(text):
        if paragraph and "\n\n" in text[paragraph[-1].end : unit.start]:
            yield paragraph
            paragraph = []
        paragraph.append(unit)
    if paragraph:
        yield paragraph


def _first_marked(text: str, paragraph: list[Unit]) -> int:
    """Return the place of the unit in which the first mark of a paragraph stands; 0 where none has it."""
    prose = ""
    for place, unit in enumerate(paragraph):
        prose += "" if unit.kind == "code" else f"{_line(text, unit)}\n"
        if has_mark(prose):
            return place
    return 0


def _line(text: str, unit: Unit) -> str:
    """Return a unit with what stands before it in its line: markers, and signs of a heading or a quotation."""
    return text[text.rfind("\n", 0, unit.start) + 1 : unit.end]
