"""Dates as people say them, as prefixes of ISO dates.

Belongs here: `2026`, `February`, `9 February 2026`, `last month`. Does not belong here: what happened then (`reading`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache

from rag_serving.text.patterns import patterns

_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>\d{1,2})(?: ?(?:st|nd|rd|th))?"
_FORMS = (
    rf"{_YEAR} (?P<number>\d\d) (?P<day>\d\d)",
    rf"{_YEAR} (?P<number>0\d|1[0-2])(?! \d)",
    rf"(?P<day>\d{{1,2}}) (?P<number>\d{{1,2}}) {_YEAR}",  # 9.2.2026: the German order
    rf"{_DAY} (?:of )?(?P<month>MONTH)(?: {_YEAR})?",
    rf"(?P<month>MONTH) {_DAY}(?!\d)(?: {_YEAR})?",
    rf"(?:(?:the )?(?:beginning|start) of |anfang )?(?P<month>MONTH)(?: {_YEAR})?",
    rf"(?:(?:the )?(?:beginning|start) of |anfang )?(?:the year )?{_YEAR}",
    r"(?P<relative>today|yesterday|heute|gestern|(?:this|diese[nms]) (?:month|year|monat|jahr))",
)


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    month = "|".join(patterns("sets")["MONTHS"])
    return tuple(re.compile(form.replace("MONTH", month) + r"(?= |\Z)") for form in _FORMS)


def date_at(said: str, start: int, latest: date, today: date) -> tuple[int, str] | None:
    """Return the end and the ISO prefix of the date at a place in words with one space between them.

    A month without a year is its last one before `latest`, the newest date of the pages.
    """
    for form in _forms():
        if match := form.match(said, start):
            prefix = _prefix(match.groupdict(), latest, today)
            return None if prefix is None else (match.end(), prefix)
    return None


def _prefix(parts: Mapping[str, str | None], latest: date, today: date) -> str | None:
    if relative := parts.get("relative"):
        return _relative(relative, today)
    month, day = _month(parts.get("month")) or int(parts.get("number") or 0), int(parts.get("day") or 0)
    year = int(parts.get("year") or 0) or latest.year - ((month, day or 1) > (latest.month, latest.day))
    try:
        date(year, month or 1, day or 1)
    except ValueError:
        return None
    return "-".join([str(year), *(f"{part:02}" for part in (month, day) if part)])


def _month(said: str | None) -> int | None:
    if said is None:
        return None
    return next(n for n, names in enumerate(patterns("sets")["MONTHS"], start=1) if re.fullmatch(names, said))


def _relative(said: str, today: date) -> str:
    """Return the prefix of a day, a month or a year."""
    if said in ("today", "heute"):
        return today.isoformat()
    if said in ("yesterday", "gestern"):
        return (today - timedelta(days=1)).isoformat()
    return today.isoformat()[: 4 if said.endswith(("year", "jahr")) else 7]
