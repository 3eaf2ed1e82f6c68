"""Steps that run on from one passage into the next: a long list that the chunks of a section share.

Belongs here: which passages hold one list, what of each is told.
Does not belong here: fetching passages (`pipeline`), freezing them (`answering.lock`), one passage's layout
(`layout`).
"""

from __future__ import annotations

from collections.abc import Callable

from rag_serving.answering.selection.layout import Excerpt, Layout
from rag_serving.records.passages import Chunk, Lock
from rag_serving.text.units import Unit

BEFORE, AFTER = -1, 1
MOST_PASSAGES = 3  # of one list: an answer cites no more


def runs_on(chunk: Chunk, following: Chunk) -> bool:
    """Return whether the steps that end a passage go on in the one behind it in its section."""
    if _section(chunk) != _section(following) or following.chunk_idx != chunk.chunk_idx + 1:
        return False
    last, first = _last(chunk), _first(following)
    if last is None or first is None or last.list_number != first.list_number:
        return False
    return first.item - last.item in (0, 1)


def sharing(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> list[Chunk]:
    """Return the passages that hold one list of steps with this one, in order, itself among them.

    `beside` gives the passage before or after another, None where there is none.
    """
    found = [chunk]
    while len(found) < MOST_PASSAGES and (before := _before(found[0], beside)):
        found.insert(0, before)
    while len(found) < MOST_PASSAGES and (after := _after(found[-1], beside)):
        found.append(after)
    return found


def steps_across(lock: Lock, index: int, told: Excerpt) -> list[tuple[int, Excerpt]]:
    """Return the steps that are told of a passage of the lock, with those before and after them in others, in order."""
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
    parts = [(first, told if first is own else _part(first, -1)), *((each, _part(each, 0)) for each in others)]
    return [(places[_place(chunk)], part) for chunk, part in parts]


def _before(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> Chunk | None:
    """Return the passage that the list at the beginning of this one began in, or None; only such a one is fetched."""
    first = _first(chunk)
    found = beside(chunk, BEFORE) if first and (first.item or first.marked < 0) else None
    return found if found and runs_on(found, chunk) else None


def _after(chunk: Chunk, beside: Callable[[Chunk, int], Chunk | None]) -> Chunk | None:
    """Return the passage that the list at the end of this one runs on into, or None; only such a one is fetched."""
    found = beside(chunk, AFTER) if _last(chunk) else None
    return found if found and runs_on(chunk, found) else None


def _part(chunk: Chunk, at: int) -> Excerpt:
    """Return the steps at the end (-1) of the passage that they begin in, or those at the beginning (0) of another."""
    layout = Layout(chunk)
    steps = [unit for unit in layout.units if unit.kind == "list"]
    return layout.run(steps[at], is_led=at == -1)


def _first(chunk: Chunk) -> Unit | None:
    """Return the first unit of a passage that begins with steps or inside of one, or None."""
    first = next(iter(chunk.parts.units), None)
    return first if first and first.list_number >= 0 and Layout(chunk).is_ordered(first) else None


def _last(chunk: Chunk) -> Unit | None:
    """Return the last unit of a passage that ends with steps, or None."""
    last = next(reversed(chunk.parts.units), None)
    return last if last and last.list_number >= 0 and Layout(chunk).is_ordered(last) else None


def _section(chunk: Chunk) -> tuple[str, int, tuple[str, ...], str]:
    return chunk.page_id, chunk.version, chunk.heading_path, chunk.anchor


def _place(chunk: Chunk) -> tuple[object, ...]:
    return (*_section(chunk), chunk.chunk_idx)
