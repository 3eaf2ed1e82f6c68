"""The excerpt shown for a chosen unit: a short passage whole, else as much as makes the unit understandable. The closed
list: the introduction of a list, the columns of a row, the steps of a procedure, code with its sentence, the sentence
that a pronoun points back to, the exception that follows, the paragraph around. Whatever is shown is one verbatim range
of the passage wherever it can be, without units addressed to an assistant and without incomplete ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag_serving.answering.selection.layout import Excerpt, Layout
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.units import Unit, is_whole, word_count

BEFORE, AFTER = -1, 1
MOST_PASSAGES = 3  # of one list: an answer cites no more


def runs_on(chunk: Chunk, following: Chunk) -> bool:
    """Return whether the steps that end a passage go on in the one behind it in its section."""
    if _section(chunk) != _section(following) or following.chunk_idx != chunk.chunk_idx + 1:
        return False
    last, first = _step_at(chunk, -1), _step_at(following, 0)
    if last is None or first is None or last.list_number != first.list_number:
        return False
    return first.item - last.item in (0, 1)


def sharing(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> list[Chunk]:
    """Return the passages that share one list of steps with this one, in order and including it. `beside` returns the
    passage before or after another, or None."""
    found = [chunk]
    while len(found) < MOST_PASSAGES and (before := _passage_before(found[0], beside)):
        found.insert(0, before)
    while len(found) < MOST_PASSAGES and (after := _passage_after(found[-1], beside)):
        found.append(after)
    return found


def steps_across(lock: Lock, index: int, told: Excerpt) -> list[tuple[int, Excerpt]]:
    """Return the steps selected from a passage, with those that continue in neighbouring passages, in order."""
    own = lock.passages[index - 1].chunk
    places = {_place(candidate.chunk): at for at, candidate in enumerate(lock.passages, start=1)}
    units = Layout(own).units
    begins, ends = told.start <= units[0].start, told.end >= units[-1].end

    def beside(chunk: Chunk, direction: int) -> Chunk | None:
        if chunk is own and not (begins if direction == BEFORE else ends):
            return None
        at = places.get((*_section(chunk), chunk.chunk_idx + direction))
        return lock.passages[at - 1].chunk if at else None

    first, *others = sharing(own, beside)
    parts = [(first, told if first is own else _steps_in(first, -1)), *((each, _steps_in(each, 0)) for each in others)]
    return [(places[_place(chunk)], part) for chunk, part in parts]


def _passage_before(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> Chunk | None:
    """Return the passage that the list at the beginning of this one began in, or None; only such a one is fetched."""
    first = _step_at(chunk, 0)
    found = beside(chunk, BEFORE) if first and (first.item or first.marked < 0) else None
    return found if found and runs_on(found, chunk) else None


def _passage_after(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> Chunk | None:
    """Return the passage that the list at the end of this one runs on into, or None; only such a one is fetched."""
    found = beside(chunk, AFTER) if _step_at(chunk, -1) else None
    return found if found and runs_on(chunk, found) else None


def _steps_in(chunk: Chunk, at: int) -> Excerpt:
    """Return the steps at the end (-1) of the passage that they begin in, or those at the beginning (0) of another."""
    layout = Layout(chunk)
    steps = [unit for unit in layout.units if unit.kind == "list"]
    return layout.run(steps[at], is_led=at == -1)


def _step_at(chunk: Chunk, at: int) -> Unit | None:
    """Return the first (0) or the last (-1) unit of a passage if it is of steps, or None."""
    unit = chunk.parts.units[at] if chunk.parts.units else None
    return unit if unit and unit.list_number >= 0 and Layout(chunk).is_ordered(unit) else None


def _section(chunk: Chunk) -> tuple[str, int, tuple[str, ...], str]:
    return chunk.page_id, chunk.version, chunk.heading_path, chunk.anchor


def _place(chunk: Chunk) -> tuple[object, ...]:
    return (*_section(chunk), chunk.chunk_idx)


MOST_WHOLE = 120  # words of a passage that is shown whole
MOST_OF_A_PART = 90
_MOST_OF_A_LIST = 150
_HANGING = ("list", "table", "header", "code")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_LEANS = re.compile(
    r"\W{0,3}(?:it|they|this|these|those|that|he|she|such|there|then|otherwise|in (?:this|that|these|those) cases?"
    r"|if so|if not|the (?:former|latter|same)|es|sie|er|dies(?:e[rsn]?)?|dann|sonst|in diesem fall)\b",
    re.IGNORECASE,
)
_LIMITS = re.compile(
    r"\W{0,3}(?:however|but|except|exceptions?|unless|otherwise|only|instead|this (?:does not|only)|not if|if"
    r"|jedoch|aber|allerdings|außer|ausnahmen?|sonst|nur|wenn)\b",
    re.IGNORECASE,
)


def extent(layout: Layout, unit: Unit, most_words: int = MOST_WHOLE) -> Excerpt:
    """Return the excerpt for a unit: the whole passage if it has at most so many words, else the unit with its context.
    A passage that begins inside of a table or a list is never shown whole, and no fence is left open."""
    if whole := short_passage(layout, unit, most_words):
        return whole
    shown = _group(layout, unit, min(most_words, MOST_OF_A_PART))
    return shown if shown and _is_closed(shown) else layout.alone(unit)


def kept_together(layout: Layout, start: int, end: int) -> Excerpt:
    """Return the least that is shown of the units that a range of the passage touches."""
    units = layout.units
    places = [at for at, unit in enumerate(units) if unit.start < max(end, start + 1) and start < unit.end]
    if not places:
        return Excerpt(layout.text[start:end], Unit(start, end, "sentence"), (), start, end)
    first, last = places[0], places[-1] + 1
    if last - first == 1 and units[first].kind != "sentence":
        block = _code(layout, units[first]) if units[first].kind == "code" else None
        return block or layout.alone(units[first])
    shown = _range(layout, units[first], *_with_what_it_needs(layout, first, last))
    if not layout.is_for_readers(shown):
        shown = _range(layout, units[first], first, last)
    if lead := layout.lead_in(units[first]):
        shown = Excerpt(f"{lead}\n{shown.text}", shown.quoted, (lead, shown.text), shown.start, shown.end)
    return shown


def _with_what_it_needs(layout: Layout, first: int, last: int) -> tuple[int, int]:
    """Return the places of a run of units with the sentence that its pronoun points to and the exception behind it."""
    units, text = layout.units, layout.text
    first = _antecedent(layout, first)
    while first and _is_lead(layout, units[first - 1]):
        first -= 1
    if units[last - 1].leads(text) and last < len(units) and units[last].kind in _HANGING:
        last = _group_end(layout, last - 1)
    while last < len(units) and _is_beside(units[last - 1], units[last]) and not units[last].leads(text):
        if not _LIMITS.match(units[last].of(text)):
            break
        last += 1
    return first, last


def _antecedent(layout: Layout, at: int) -> int:
    """Return the place of the sentence that the pronoun at the beginning of a unit points to, else the unit's own."""
    units = layout.units
    leans = at > 0 and _LEANS.match(units[at].of(layout.text)) and _is_beside(units[at - 1], units[at])
    return at - 1 if leans and _may_join(layout, units[at - 1]) else at


def _is_beside(one: Unit, other: Unit) -> bool:
    return one.kind == other.kind == "sentence" and one.block == other.block


def short_passage(layout: Layout, unit: Unit, most_words: int = MOST_WHOLE) -> Excerpt | None:
    """Return a whole passage that is short, or None."""
    units = layout.units
    if not units or _begins_inside(layout) or not _is_short(layout, 0, len(units), most_words):
        return None
    whole = _range(layout, unit, 0, len(units))
    return whole if _is_closed(whole) and is_whole(whole.text) else None


def _begins_inside(layout: Layout) -> bool:
    """Return whether a passage begins inside of a table or a list that the one before it began."""
    parts, first = layout.chunk.parts, layout.units[0]
    return bool(parts.table_header or parts.introduction) or (first.kind in ("list", "table") and first.marked < 0)


def _is_closed(shown: Excerpt) -> bool:
    return len(_FENCE.findall(shown.text)) % 2 == 0


def _group(layout: Layout, unit: Unit, most_words: int) -> Excerpt | None:
    """Return a unit of a long passage with its context, or None."""
    if unit.kind in ("table", "header"):
        units = layout.units
        first, last = _run(layout, unit, lambda other: other.block == unit.block)
        if units[first].kind != "header" or not _is_short(layout, first, last, most_words):
            return None
        first -= bool(first) and _is_lead(layout, units[first - 1])
        return _range(layout, unit, _antecedent(layout, first), last)
    if unit.kind == "list":
        return _list(layout, unit)
    if unit.kind == "code":
        return _code(layout, unit)
    return _around(layout, unit, most_words)


def _code(layout: Layout, unit: Unit) -> Excerpt | None:
    """Return a short block of code with the sentence that introduces it, or None."""
    block = layout.block(unit)
    return block if block and layout.is_for_readers(block) else None


def _list(layout: Layout, unit: Unit) -> Excerpt | None:
    """Return a whole list with the sentence that introduces it, or None of a long one."""
    units = layout.units
    first, last = _run(layout, unit, lambda other: other.list_number == unit.list_number)
    if not _is_short(layout, first, last, _MOST_OF_A_LIST):
        return None
    if not first and layout.chunk.parts.introduction:
        return None
    first -= bool(first) and units[first - 1].kind == "sentence" and _may_join(layout, units[first - 1])
    return _range(layout, unit, _antecedent(layout, first), last)


def _run(layout: Layout, unit: Unit, belongs: Callable[[Unit], bool]) -> tuple[int, int]:
    """Return the places of the first of the units beside this one that belong to it, and behind the last."""
    units, first = layout.units, layout.units.index(unit)
    last = first + 1
    while first and belongs(units[first - 1]):
        first -= 1
    while last < len(units) and belongs(units[last]):
        last += 1
    return first, last


def _around(layout: Layout, unit: Unit, most_words: int) -> Excerpt:
    """Return a sentence with those after it and before it, and with the list, table or code that it leads in."""
    units, at = layout.units, layout.units.index(unit)
    first, last = at, _group_end(layout, at)
    while first and _is_lead(layout, units[first - 1]):
        first -= 1
    while last < len(units) and _is_short(layout, first, after := _group_end(layout, last), most_words):
        if units[last].kind == "heading":
            break
        last = after
    while last - 1 > at and _is_lead(layout, units[last - 1]):
        last -= 1
    while first and units[first - 1].kind == "sentence" and _is_short(layout, first - 1, last, most_words):
        first -= 1
    shown = _range(layout, unit, *_with_what_it_needs(layout, first, last))
    if not is_whole(shown.text):  # an exception lacks a part: that of another sentence is not needed
        shown = _range(layout, unit, *_with_what_it_needs(layout, at, _group_end(layout, at)))
    return shown


def _group_end(layout: Layout, at: int) -> int:
    """Return the position after a unit, the rest of its list, table or code, and a short one that it introduces."""
    units, end = layout.units, at + 1
    if units[at].kind != "sentence":
        while end < len(units) and _is_same_group(units[at], units[end]):
            end += 1
    elif units[at].leads(layout.text) and end < len(units) and units[end].kind in _HANGING:
        hanging = _group_end(layout, end)
        if _is_short(layout, at, hanging, _MOST_OF_A_LIST):
            end = hanging
    return end


def _is_same_group(one: Unit, other: Unit) -> bool:
    return one.block == other.block or (one.list_number >= 0 and one.list_number == other.list_number)


def _is_lead(layout: Layout, unit: Unit) -> bool:
    return unit.kind == "sentence" and unit.leads(layout.text) and _may_join(layout, unit)


def _may_join(layout: Layout, unit: Unit) -> bool:
    return unit.kind != "heading" and unit not in layout.directed


def _is_short(layout: Layout, first: int, last: int, most_words: int) -> bool:
    """Return whether a range of units has so few words, and none that is meant for an assistant."""
    inside = layout.units[first:last]
    units = layout.units
    return (
        word_count(layout.text, units[first].start, units[last - 1].end) <= most_words
        and layout.directed.isdisjoint(inside)
        and is_whole(layout.text[inside[0].start : inside[-1].end])
    )


def _range(layout: Layout, unit: Unit, first: int, last: int) -> Excerpt:
    """Return the range of the passage from the unit at `first` to the one before `last`."""
    units: Sequence[Unit] = layout.units
    start, end = units[first].begin, layout.end_of(units[last - 1])
    return Excerpt(layout.text[start:end], layout.weighty([unit, *units[first:last]]), (), start, end)
