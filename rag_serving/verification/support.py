"""Whether a sentence says more than the passages it cites: figures or names they do not have, a "not" lost or added.

Belongs here: the comparison of a model's sentence with its passages.
Does not belong here: the quote (`verify`); what counts as a figure or negation of a quote (`claims`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rapidfuzz import fuzz

from rag_serving.verification.claims import NEGATING_CHARACTERS
from rag_serving.verification.typography import fold

_FIGURE = re.compile(r"(?<![\w.,])(\d+(?:[.,:]\d+)*)(?:\s?-?\s?([^\W\d_]+|[%‰°€$£]))?")
_INSIDE = re.compile(r"\d+(?:[.,:]\d+)*")
_GROUPED = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
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
_UNIT = {name: group.split()[0] for group in _UNITS for name in group.split()}
_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_SPELLED = {word: str(value) for value, word in enumerate(_WORDS.split())}
_SPELLED |= {"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90"}
_SPELLED |= {"hundred": "100", "thousand": "1000", "million": "1000000", "dozen": "12", "twice": "2"}
FIGURE_WORDS = frozenset({*_UNIT, *_SPELLED})
"""Names of units and of numbers, lower case."""
_LETTERS = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"[\"“„«»‘「『][^\n]*?(?:[\"”“»«’」』]|$)|(?<!\w)'[^'\n]*'(?!\w)", re.MULTILINE)

_NAME = re.compile(r"\b(?=\w*[A-Za-z]{2})\w+(?:[._]\w{2,})+\b|\b[A-Z]{2,}-\d+\b")
_STEM, _FEW = 4, 3
_COMMON_WORDS = """
that this these those with have from they them will must should would could when where which there their what your
into then than also each every does been only about answer page pages docs document passage according says said yes
"""
_COMMON = frozenset(word[:_STEM] for word in _COMMON_WORDS.split())
_ALIKE, _SHORTEST, _WORDS_BEFORE = 75.0, 12, 3

_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nothing|nobody|neither|nor|cannot|without|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais"
    r"|aucune?|sans|nunca|sin|não|nem|sem|non|mai|senza)\b|n't\b",
    re.IGNORECASE,
)
# Words that negate without being a "not": a sentence that has one may say the same as one with a "not".
_NEGATIVE = re.compile(
    r"\b(?:forbid\w*|forbad\w*|prohibit\w*|avoid\w*|refus\w*|fail\w*|prevent\w*|den(?:y|ie\w*)|disallow\w*|unable"
    r"|impossible|lack\w*|only|unless|except\w*|before|until|instead|refrain\w*|stop\w*|ceas\w*|wait\w*|block\w*|reject\w*"
    r"|disabl\w*|exclud\w*|absen\w*|missing|empty|verboten|un\w{4,}|non-?\w+|in(?:valid|correct|active|sufficient)\w*"
    r"|illegal|ignor\w*|skip\w*|drop\w*|remov\w*|delet\w*|expire\w*|limit\w*|less|fewer|at most|no longer)\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"^\W*(?:no|nein|non)\b\W*", re.IGNORECASE)


def unsupported(sentence: str, unit: str, near: str, passages: Iterable[str]) -> str | None:
    """Why a sentence is not borne out by the passages it cites, or None where nothing speaks against it.

    `unit` is the sentence of a passage that the verified quote stands in, `near` the quote with a few words before it.
    A sentence that almost repeats a part of the unit must agree with that part, another only with what it quotes, and
    its figures and names with the passages as a whole.
    """
    texts = list(passages)
    if any(sentence in text for text in texts):
        return None
    own = _ANSWER.sub("", sentence)
    said = _QUOTED.sub("", own)
    part = counterpart(said, unit)
    if strange := strange_figures(sentence, "\n".join(texts)) or (strange_figures(said, unit) if part else []):
        return f"the passage does not have the figure {strange[0]!r}"
    known = "\n".join(texts).lower()
    if name := next((name for name in _NAME.findall(sentence) if name.lower() not in known), None):
        return f"the passage does not have the name {name!r}"
    if shares_nothing(said, known):
        return "the sentence has nothing in common with the passage"
    told, compared = (said, part) if part else (own, near)
    if _negations(compared) > _negations(told) and not _negatives(told) - _negatives(compared):
        return "the sentence loses a negation of the passage"
    if _negations(said) > _negations(unit) and not _negatives(unit) - _negatives(said):
        return "the sentence negates what the passage says"
    return None


def counterpart(sentence: str, unit: str) -> str:
    """The part of the unit that a sentence almost repeats, with up to three words before it in its clause, or ""."""
    if len(sentence) < _SHORTEST:
        return ""
    match = fuzz.partial_ratio_alignment(sentence.strip(" .;:,!?-*").lower(), unit.lower(), score_cutoff=_ALIKE)
    if match is None:
        return ""
    start, end = match.dest_start, match.dest_end
    if clause := re.match(r".*[,;:.!?()]\s", unit[start : start + (end - start) // 3], re.DOTALL):
        start += clause.end()
    before = re.split(r"[,;:.!?()]\s", unit[:start])[-1].split(" ")
    while end < len(unit) and not unit[end].isspace():
        end += 1
    return " ".join(before[-_WORDS_BEFORE - 1 :]) + unit[start:end]


def shares_nothing(sentence: str, known: str) -> bool:
    """Whether a sentence has some words of its own, and no passage any of them, by their first letters.

    Not asked of sentences with letters beyond ASCII, whose words may be split or inflected otherwise.
    """
    if not sentence.isascii():
        return False
    words = {word[:_STEM] for word in _LETTERS.findall(sentence.lower()) if len(word) >= _STEM} - _COMMON
    return len(words) >= _FEW and words.isdisjoint(word[:_STEM] for word in _LETTERS.findall(known))


def _negations(text: str) -> int:
    return len(_NEGATION.findall(fold(text).text)) + sum(character in NEGATING_CHARACTERS for character in text)


def _negatives(text: str) -> set[str]:
    return {word.lower() for word in _NEGATIVE.findall(text)}


def strange_figures(sentence: str, text: str) -> list[str]:
    """The figures of a sentence that a text does not have, or has only with other units."""
    known = figures_with_units(text)
    return [
        f"{figure} {unit}".strip()
        for figure, units in figures_with_units(sentence).items()
        for unit in sorted(units)
        if figure not in known or (unit and unit not in known[figure] and "" not in known[figure])
    ]


def figures_with_units(text: str) -> dict[str, set[str]]:
    """Each figure with the units it has; "" where it has none that is known. Number words count as figures."""
    folded = fold(text).text.lower()
    found: dict[str, set[str]] = {}
    taken = set()
    for match in _FIGURE.finditer(folded):
        taken.add(match.start(1))
        found.setdefault(_value(match[1]), set()).add(_UNIT.get(match[2] or "", ""))
    for match in _INSIDE.finditer(folded):
        if match.start() not in taken:
            found.setdefault(_value(match[0]), set()).add("")
    for match in _LETTERS.finditer(folded):
        if match[0] in _SPELLED and match[0] != "one":
            following = _LETTERS.match(folded, min(match.end() + 1, len(folded)))
            found.setdefault(_SPELLED[match[0]], set()).add(_UNIT.get(following[0] if following else "", ""))
    return found


def _value(figure: str) -> str:
    """A figure without thousands separators and leading zeros."""
    plain = re.sub("[.,]", "", figure) if _GROUPED.fullmatch(figure) else figure.replace(",", ".")
    return plain.lstrip("0") or "0"
