"""Units of a passage that address an assistant rather than a reader. Such units are orders to an assistant, their
continuation in the paragraph, and paragraphs that imitate the marks of a conversation or of a prompt. Code is exempt:
pages about chat templates have such marks there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rag_serving.text.marks import has_fence, has_mark, is_role, without_fences, without_marks
from rag_serving.text.orders import announces, directed, may_order, mentions_of_orders, orders_assistant
from rag_serving.text.structure import Structure
from rag_serving.text.units import Unit, units

REPLACED = "[instruction removed]"

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
# A line that continues in the next one; the replacement of the break is as long.
_BROKEN_LINE = re.compile(r"(?<=[\w,])\n(?=[^\W\d_A-Z])")
# Text that no reader sees: Unicode tag characters and bidirectional overrides.
_HIDDEN = re.compile(r"[\U000E0000-\U000E007F\u202a-\u202e\u2066-\u2069]+")


def neutralized(text: str) -> tuple[str, int]:
    """Return the text without anything that could pass for a turn or an order of the conversation, and the number
    removed. A sentence that orders is replaced as a whole; of one that only mentions an order, the order."""
    kept, end = [], 0
    ordering = ordering_units(text, units(text))
    for unit in ordering:
        kept += [text[end : unit.start], REPLACED]
        end = unit.end
    text, ordered = "".join((*kept, text[end:])), len(ordering)
    text, hidden = _HIDDEN.subn("", text)
    text, fences = without_fences(text)
    text, marks = without_marks(text)
    text, orders = _without_orders(text)
    return text, ordered + hidden + fences + marks + orders


def _without_orders(text: str) -> tuple[str, int]:
    """Return the text with `REPLACED` for orders, and how many these were."""
    kept, end, count = [], 0, 0
    joined = _BROKEN_LINE.sub(" ", text)
    for sentence in _SENTENCE.finditer(joined):
        if orders_assistant(sentence[0]):
            spans = [(len(sentence[0]) - len(sentence[0].lstrip()), len(sentence[0]))]
        else:
            spans = list(mentions_of_orders(sentence[0]))
        for start, last in spans:
            kept += [text[end : sentence.start() + start], REPLACED]
            end = sentence.start() + last
        count += len(spans)
    return "".join((*kept, text[end:])), count


MASK = "\ufffc"  # stands for each character of what a page says to an assistant; no quote and no sentence has it


def directed_units(text: str, structure: Structure, heading: str = "") -> frozenset[Unit]:
    """Return the units of a passage addressed to an assistant. `heading` has the passage's headings, one per line:
    below an order, an instruction to say something continues it."""
    is_below = any(map(_orders, (*heading.splitlines(), structure.introduction)))
    return _directed(text, structure.units, is_below)


@lru_cache(maxsize=1024)
def _directed(text: str, every: Sequence[Unit], is_below: bool) -> frozenset[Unit]:
    return frozenset((*ordering_units(text, every, is_below), *_marked_units(text, every)))


def ordering_units(text: str, every: Sequence[Unit], is_below: bool = False) -> list[Unit]:
    """Return those of a text's units that give an assistant orders, and their continuations, even in the next
    paragraph. Of a list, a table or code no part is left without its introduction."""
    ordering: set[int] = set()
    for start, end in _paragraphs(text, every):
        first = every[start]
        if is_heading := first.kind == "heading":
            is_below = _orders(first.of(text))
        is_ordered = is_below or (not is_heading and start - 1 in ordering)
        if not is_ordered and not may_order(text[first.start : every[end - 1].end]):
            continue
        for place in directed([unit.of(text) for unit in every[start:end]], is_ordered):
            ordering.add(start + place)
            if announces(every[start + place].of(text)):
                ordering.update(_hanging(every, start + place + 1))
    return [every[place] for place in sorted(ordering)]


def _hanging(every: Sequence[Unit], at: int) -> Iterator[int]:
    """Yield the places of the units that a sentence before `at` introduces: a sentence, a whole list, table or code."""
    kind: str | None = None
    if at < len(every) and every[at].kind == "header":
        yield at
        kind, at = "table", at + 1
    while (
        at < len(every)
        and (unit := every[at]).kind != "heading"
        and (not kind or (unit.kind == kind or (kind == "list" and unit.kind == "code")))
    ):
        yield at
        kind, at = kind or unit.kind, at + 1
        if kind == "sentence":
            return


@lru_cache(maxsize=1024)
def _orders(heading: str) -> bool:
    return orders_assistant(heading) or is_role(heading)


def _marked_units(text: str, every: Sequence[Unit]) -> Iterator[Unit]:
    """Yield the units behind a mark of a conversation in its paragraph, and all behind one that imitates a fence."""
    if not has_mark(text):
        return
    is_fenced = False
    for start, end in _paragraphs(text, every):
        paragraph = every[start:end]
        prose = "\n".join(_line(text, unit) for unit in paragraph if unit.kind != "code")
        if is_fenced:
            yield from paragraph
        elif has_mark(prose):
            yield from paragraph[_first_marked(text, paragraph) :]
        is_fenced = is_fenced or has_fence(prose)


def without_directed(text: str, structure: Structure, heading: str = "") -> str:
    """Return the text, of the same length, with `MASK` for parts addressed to an assistant; sentence ends stay."""
    orders = directed_units(text, structure, heading)
    masked = list(text) if orders else []
    for unit in orders:
        last = unit.end - 1 if text[unit.end - 1] in ".!?。" else unit.end
        masked[unit.start : last] = [char if char == "\n" else MASK for char in text[unit.start : last]]
    return "".join(masked) or text


def _paragraphs(text: str, every: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    start = 0
    for place in range(1, len(every) + 1):
        if place == len(every) or "\n\n" in text[every[place - 1].end : every[place].start]:
            yield start, place
            start = place


def _first_marked(text: str, paragraph: Sequence[Unit]) -> int:
    """Return the index of the unit with a paragraph's first mark; 0 without one."""
    prose = ""
    for place, unit in enumerate(paragraph):
        prose += "" if unit.kind == "code" else f"{_line(text, unit)}\n"
        if has_mark(prose):
            return place
    return 0


def _line(text: str, unit: Unit) -> str:
    """Return a unit with the start of its line: markers, and signs of a heading or a quotation."""
    return text[text.rfind("\n", 0, unit.start) + 1 : unit.end]
