"""The phrases of questions about sets, and the ways to cover a question by them.

Belongs here: finding a phrase, covers. Does not belong here: the phrases (`text/phrases/sets.txt`), what they say
together (`reading`, `row_reading`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from rag_serving.text.patterns import patterns

Fact = tuple[str, Any]
"""What a phrase says: a name and a value."""

_MOST_COVERS = 2_000


class Step(NamedTuple):
    """A phrase at a place of the question: its end, its facts, and its free words."""

    end: int
    facts: tuple[Fact, ...] = ()
    free: int = 0


def phrase(name: str) -> re.Pattern[str]:
    """Return the pattern of a phrase, which ends with a word."""
    return _phrases()[name]


@cache
def _phrases() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(rf"(?:{'|'.join(parts)})(?= |\Z)") for name, parts in patterns("sets").items()}


@cache
def words_of_phrases(shortest: int = 1) -> frozenset[str]:
    """Return the words of so many letters that phrases have."""
    plain = (re.sub(r"\(\?[:=!]|\\\w|[()\[\]?*+|]", " ", text) for those in patterns("sets").values() for text in those)
    return frozenset(word for text in plain for word in re.findall(rf"[^\W\d_]{{{shortest},}}", text))


def covers(count: int, steps: Callable[[int], Iterable[Step]]) -> list[tuple[int, tuple[Fact, ...]]]:
    """Return the facts of phrases that cover so many words, with the number of free words; none if there are too many
    readings."""
    known: dict[int, tuple[Step, ...]] = {}
    ends: dict[int, bool] = {count: True}

    def at(start: int) -> tuple[Step, ...]:
        if start not in known:
            known[start] = tuple(dict.fromkeys(step for step in steps(start) if arrives(step.end)))
        return known[start]

    def arrives(start: int) -> bool:
        if start not in ends:
            ends[start] = bool(at(start))
        return ends[start]

    def every(start: int, free: int, said: tuple[Fact, ...]) -> Iterator[tuple[int, tuple[Fact, ...]]]:
        if start == count:
            yield free, said
        for step in at(start) if start < count else ():
            yield from every(step.end, free + step.free, said + step.facts)

    found = list(islice(every(0, 0, ()), _MOST_COVERS + 1))
    return found if len(found) <= _MOST_COVERS else []
