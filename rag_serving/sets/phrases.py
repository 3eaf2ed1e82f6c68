"""The phrases of questions about sets (`text/phrases/sets.txt`), the ways to cover a question by them, and dates as
people say them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from rag_serving.text.patterns import patterns

Fact = tuple[str, Any]
"""What a phrase says: a name and a value."""

_MOST_COVERS = 2_000
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?: ?(?:st|nd|rd|th))?"
_DATES = (
    rf"{_YEAR} (?P<number>\d\d) (?P<day>\d\d)",
    rf"{_YEAR} (?P<number>0\d|1[0-2])(?! \d)",
    rf"(?P<day>\d{{1,2}}) (?P<number>\d{{1,2}}) {_YEAR}",  # 9.2.2026: the German order
    rf"{_DAY} (?:of )?(?P<month>MONTH)(?: {_YEAR})?",
    rf"(?P<month>MONTH) {_DAY}(?!\d)(?: {_YEAR})?",
    rf"(?:(?:the )?(?:beginning|start) of |anfang )?(?P<month>MONTH)(?: {_YEAR})?",
    rf"(?:(?:the )?(?:beginning|start) of |anfang )?(?:the year )?{_YEAR}",
    r"(?P<relative>today|yesterday|heute|gestern|(?:this|diese[nms]) (?:month|year|monat|jahr))",
)


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
    """Return the facts of phrases that cover so many words, with the count of free words; none of too many readings."""
    arriving: dict[int, tuple[Step, ...]] = {}

    def at(start: int) -> tuple[Step, ...]:
        """Return the steps from a word that lead to the end."""
        if start not in arriving:
            arriving[start] = tuple(dict.fromkeys(step for step in steps(start) if step.end == count or at(step.end)))
        return arriving[start]

    def every(start: int, free: int, said: tuple[Fact, ...]) -> Iterator[tuple[int, tuple[Fact, ...]]]:
        if start == count:
            yield free, said
            return
        for step in at(start):
            yield from every(step.end, free + step.free, said + step.facts)

    found = list(islice(every(0, 0, ()), _MOST_COVERS + 1))
    return found if len(found) <= _MOST_COVERS else []


@cache
def _dates() -> tuple[re.Pattern[str], ...]:
    month = "|".join(patterns("sets")["MONTHS"])
    return tuple(re.compile(form.replace("MONTH", month) + r"(?= |\Z)") for form in _DATES)


def date_at(said: str, start: int, latest: date, today: date) -> tuple[int, str] | None:
    """Return the end and the ISO prefix of the date at a place in words with one space between them. A month without a
    year is its last one before `latest`, the newest date of the pages."""
    match = next(filter(None, (form.match(said, start) for form in _dates())), None)
    prefix = _prefix(match.groupdict(), latest, today) if match else None
    return (match.end(), prefix) if match and prefix else None


def _prefix(parts: Mapping[str, str | None], latest: date, today: date) -> str | None:
    if relative := parts.get("relative"):
        day_said = today - timedelta(days=relative in ("yesterday", "gestern"))
        length = 4 if relative.endswith(("year", "jahr")) else 7 if relative.endswith(("month", "monat")) else 10
        return day_said.isoformat()[:length]
    months = (n for n, names in enumerate(patterns("sets")["MONTHS"], 1) if re.fullmatch(names, parts["month"] or ""))
    month = next(months) if parts.get("month") else int(parts.get("number") or 0)
    day = int(parts.get("day") or 0)
    year = int(parts.get("year") or 0) or latest.year - ((month, day or 1) > (latest.month, latest.day))
    try:
        date(year, month or 1, day or 1)
    except ValueError:
        return None
    return "-".join([str(year), *(f"{part:02}" for part in (month, day) if part)])
