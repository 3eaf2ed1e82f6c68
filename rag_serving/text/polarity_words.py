"""The parts that two texts must share verbatim to say the same: figures and negating words."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

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
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
SPELLED = {word: str(value) for value, word in enumerate(_NUMBER_WORDS.split())}
SPELLED |= {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90"}
SPELLED |= {"hundred": "100", "thousand": "1000", "million": "1000000", "dozen": "12", "twice": "2"}
"""The value of each number word, lower case."""
FIGURE_WORDS = frozenset({*UNIT_NAMES, *SPELLED})  # names of units and of numbers, lower case


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


_PIECE = re.compile(r"\S+")
_TRIM = "\"'`*_()[]{}.,;:!?"
_COMPARISON = re.compile(r"[<>≤≥≠=±]|!=")
_WORDS = re.compile(r"[^\W\d_]+")
_CONTRACTED = re.compile(r"(?<!ca)n't\b|(?<=can)'t\b|(?<=\bcan)not\b")
_PREFIXED = re.compile(r"^(?:non|un|dis|ir|il|im|in|de)-?(?=\w{4})")

# Chinese and Japanese negate by one character, not by a word.
NEGATING_CHARACTERS = frozenset("不没無无未非勿否")

NEGATIONS = frozenset(["no", "not", "never", "none", "nothing", "nobody", "neither", "nor", "without"])
"""The words that negate in English."""

# Words of which none may be lost, added or exchanged: negation, exception, modality, order, opposites, counts.
_OTHER_NEGATIONS = """
cant unless except
nicht kein keine keinen nie niemals ohne ne pas jamais aucun aucune sans nunca sin não nem sem non mai senza
"""
_OTHERS = """
nowhere hardly barely excluding but only must shall should may might can could will would
optional required mandatory recommended deprecated before after until since above below over under left right
first last earlier later older newer all any every some few many most more less fewer least at up down
true false yes on off enable enabled enables disable disabled disables allow allowed allows deny denied denies
forbid forbidden include included includes exclude excluded excludes accept accepted reject rejected
minimum maximum min max lower upper increase increases increased decrease decreases decreased
start starts stop stops add remove open close read write synchronous asynchronous always sometimes
zero one two three four five six seven eight nine ten hundred thousand million half twice
"""
_NEGATING = NEGATIONS | frozenset(_OTHER_NEGATIONS.split())
_TURNING = _NEGATING | frozenset(_OTHERS.split())


def figures(text: str) -> Counter[str]:
    """Return each piece with a digit together with the word after it (its unit), and each comparison sign."""
    pieces = [piece.strip(_TRIM) for piece in _PIECE.findall(folded(text))]
    pairs = zip(pieces, [*pieces[1:], ""], strict=True)
    counts = Counter(f"{piece} {after}" for piece, after in pairs if any(c.isdigit() for c in piece))
    return counts + Counter(_COMPARISON.findall(text))


def polarity_words(text: str) -> Counter[str]:
    """Return the words that turn a sentence round, lower case."""
    return turns_of_folded(folded(text).lower())


def turns_of_folded(text: str) -> Counter[str]:
    """Return the same for a text in lower case whose typography was folded away."""
    counts = Counter(word for word in _WORDS.findall(_CONTRACTED.sub(" not", text)) if word in _TURNING)
    if not text.isascii():
        counts.update(character for character in text if character in NEGATING_CHARACTERS)
    return counts


def negations(text: str) -> int:
    """Return how many words or characters of the text negate."""
    characters = 0 if text.isascii() else sum(character in NEGATING_CHARACTERS for character in text)
    return sum(map(_NEGATING.__contains__, _words(text))) + characters


def contradict(first: str, second: str) -> bool:
    """Return whether one text has a word and the other the same with a negating prefix: `supported`, `unsupported`."""
    one, two = set(_words(first)), set(_words(second))
    return _negated(one - two) & (two - one) != set() or _negated(two - one) & (one - two) != set()


def _negated(vocabulary: set[str]) -> set[str]:
    return {_PREFIXED.sub("", word) for word in vocabulary if _PREFIXED.match(word)}


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    """Return the words in lower case, `cannot` and `can't` as `can not`; cached, as callers repeat a sentence."""
    return tuple(_WORDS.findall(_CONTRACTED.sub(" not", folded(text).lower())))
