"""Figures with their units, in digits or in words, as values that can be compared.

Belongs here: what counts as a figure and as a unit of measure, and when two spellings mean the same value.
Does not belong here: whether a sentence may contain a figure (`answering.verification`).
"""

from __future__ import annotations

import re

from rag_serving.text.normalization import folded

_FIGURE = re.compile(r"(?<![\w.,])(\d+(?:[.,:]\d+)*)(?:\s?-?\s?([^\W\d_]+|[%‰°€$£]))?")
_INSIDE = re.compile(r"\d+(?:[.,:]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_LETTERS = re.compile(r"[^\W\d_]+")
_UNITS = (
    "ms msec millisecond milliseconds millisekunden", "us µs microsecond microseconds", "ns nanosecond nanoseconds",
    "s sec secs second seconds sekunde sekunden secondes", "min mins minute minutes minuten",
    "h hr hrs hour hours stunde stunden heure heures", "d day days tag tage tagen jour jours",
    "week weeks woche wochen semaine semaines", "month months monat monate monaten mois",
    "year years jahr jahre jahren an ans",
    "b byte bytes", "kb kib kilobyte kilobytes", "mb mib megabyte megabytes", "gb gib gigabyte gigabytes",
    "tb tib terabyte terabytes", "pb pib petabyte petabytes", "bit bits",
    "% percent prozent pourcent", "€ eur euro euros", "$ usd dollar dollars", "£ gbp pound pounds",
    "m meter meters metre metres", "km kilometer kilometers kilometre kilometres", "kg", "g", "hz", "khz", "mhz", "ghz",
)  # fmt: skip
UNIT_NAMES = {name: group.split()[0] for group in _UNITS for name in group.split()}
"""The standard name of each unit of measure by every name it has, lower case."""
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
SPELLED = {word: str(value) for value, word in enumerate(_WORDS.split())}
SPELLED |= {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90"}
SPELLED |= {"hundred": "100", "thousand": "1000", "million": "1000000", "dozen": "12", "twice": "2"}
"""The value of each number word, lower case."""
FIGURE_WORDS = frozenset({*UNIT_NAMES, *SPELLED})
"""Names of units and of numbers, lower case."""


def figures_with_units(text: str) -> dict[str, set[str]]:
    """Return each figure of a text with the units it has; "" if it has none that is known."""
    plain = folded(text).lower()
    units: dict[str, set[str]] = {}
    taken = set()
    for match in _FIGURE.finditer(plain):
        taken.add(match.start(1))
        units.setdefault(figure_value(match[1]), set()).add(UNIT_NAMES.get(match[2] or "", ""))
    for match in _INSIDE.finditer(plain):
        if match.start() not in taken:
            units.setdefault(figure_value(match[0]), set()).add("")
    for match in _LETTERS.finditer(plain):
        if match[0] in SPELLED and match[0] != "one":
            following = _LETTERS.match(plain, min(match.end() + 1, len(plain)))
            unit = UNIT_NAMES.get(following[0] if following else "", "")
            units.setdefault(SPELLED[match[0]], set()).add(unit)
    return units


def figure_value(figure: str) -> str:
    """Return a figure without thousands separators and leading zeros."""
    plain = re.sub("[.,]", "", figure) if _GROUPED.fullmatch(figure) else figure.replace(",", ".")
    return plain.lstrip("0") or "0"
