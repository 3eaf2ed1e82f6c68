"""The parts that two texts must share verbatim to say the same: figures and negating words.

Belongs here: numbers with their units, negations, opposites. Does not belong here: locating quotes
(`answering.verification`).
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from rag_serving.text.normalization import folded

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
