"""Whether a sentence says more than the passages it cites: figures they do not have, a "not" that was lost or added.

Belongs here: the comparison of a model's sentence with its passages.
Does not belong here: the quote (`verify`); what counts as a figure or negation of a quote (`claims`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rag_serving.claims import negations
from rag_serving.typography import fold

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
_LETTERS = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"[\"“„«].*?[\"”“»]")

# Words that negate without being a "not": a sentence that has one may say the same as one with a "not".
_NEGATIVE = re.compile(
    r"\b(?:forbid\w*|forbad\w*|prohibit\w*|avoid\w*|refus\w*|fail\w*|prevent\w*|den(?:y|ie\w*)|disallow\w*|unable"
    r"|impossible|lack\w*|only|unless|except\w*|before|until|instead|refrain\w*|stop\w*|ceas\w*|wait\w*|block\w*|reject\w*"
    r"|disabl\w*|exclud\w*|absen\w*|missing|empty|verboten|un\w{4,}|non-?\w+|in(?:valid|correct|active|sufficient)\w*"
    r"|illegal|ignor\w*|skip\w*|drop\w*|remov\w*|delet\w*|expire\w*|limit\w*|less|fewer|at most|no longer)\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"^\W*(?:no|nein|non)\b\W*", re.IGNORECASE)


def unsupported(sentence: str, quoted: str, passages: Iterable[str]) -> str | None:
    """Why a sentence is not borne out by the passages it cites, or None where nothing speaks against it.

    `quoted` is the sentence of a passage that the verified quote stands in.
    """
    texts = list(passages)
    if any(sentence in text for text in texts):
        return None
    if strange := strange_figures(sentence, "\n".join(texts)):
        return f"the passage does not have the figure {strange[0]!r}"
    own, negated = _ANSWER.sub("", sentence), negations(quoted) > 0
    if negated and not negations(own) and not _NEGATIVE.search(own):
        return "the sentence loses a negation of the passage"
    if negations(_QUOTED.sub("", own)) and not negated and not _NEGATIVE.search(quoted):
        return "the sentence negates what the passage says"
    return None


def strange_figures(sentence: str, text: str) -> list[str]:
    """The figures of a sentence that a text does not have, or has only with other units."""
    known = _figures(text)
    return [
        f"{figure} {unit}".strip()
        for figure, units in _figures(sentence).items()
        for unit in sorted(units)
        if figure not in known or (unit and unit not in known[figure] and "" not in known[figure])
    ]


def _figures(text: str) -> dict[str, set[str]]:
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
