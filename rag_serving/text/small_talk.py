"""Remarks that are no questions about the pages: greetings, thanks, complaints, commands, calls for help, tests. A text
is a remark only if all of it is made of such phrases, in English, German, French or Spanish, so that "hi, how long is
the notice period?" stays a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Literal

from rag_serving.text.patterns import patterns

Remark = Literal["greeting", "thanks", "farewell", "complaint", "command", "help", "test", "noise"]

_LONGEST = 160  # characters: a longer text is more than a remark
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SIGNS = re.compile(r"[_/\\=<>@#$%`\[\]{}|]|\d[^\W\d]|[^\W\d]\d|\w\.\w")  # of names, numbers and code

_KINDS: tuple[Remark, ...] = ("command", "complaint", "help", "thanks", "farewell", "greeting", "test")
"""Of several kinds in one remark, the first one is what it is."""
_OPENING = re.compile(
    r"\s*+(?:hi+|hello(?!\W{1,3}world)|hey|hiya|hallo|moin|bonjour|salut|hola|good (?:morning|afternoon|evening)"
    r"|guten (?:tag|morgen|abend)|thanks(?: a lot| so much)?|thank you(?: so much| very much)?|thx|danke|merci|gracias)"
    r"(?:,? (?:there|everyone|everybody|all|team|folks|guys|again|zusammen|leute|à tous))?"
    r"(?:\s*+(?:[,.!:;]++|(?<=\s)[–-](?=\s)|(?<=\n))\s*+|\s++(?=(?:how|what|who|when|where|why|which|can|could|do|does|is"
    r"|are|and|but|wie|was|wer|wann|wo|warum|und|comment|que|qui|quand|où|pourquoi|et)\b))(?:(?:and|but|und|et)\b,?\s++)?",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?<=[.?!])\s*+(?:many )?(?:thanks|thank you|thx|cheers|danke|vielen dank|merci|gracias)"
    r"(?: (?:a lot|so much|very much|in advance|im voraus|d'avance|everyone|all))?\W{0,9}\Z",
    re.IGNORECASE,
)
_OPENINGS = 3  # "Hi! Good morning, ..."
_ROWS = ("qwertyuiop", "qwertzuiopü", "azertyuiop", "asdfghjklöä", "qsdfghjklm", "zxcvbnm", "yxcvbnm", "wxcvbn")
_REPEATED = re.compile(r"(\w{1,3}?)\1{2,}\w?")


def remark_of(text: str) -> Remark | None:
    """Return the kind of remark that a text is; None if any part of it could be about the pages."""
    if len(text) > _LONGEST or _SIGNS.search(text):
        return None
    said, found, at = plain_words(text), set[Remark](), 0
    while at < len(said):
        kind, end = _longest_phrase(said, at)
        if end == at:
            return None
        if kind:
            found.add(kind)
        at = end + 1
    return next((kind for kind in _KINDS if kind in found), None)


def without_greeting(text: str) -> str:
    """Return a question without greetings and thanks before it and thanks behind it."""
    bare = _CLOSING.sub("", text)
    for _ in range(_OPENINGS):
        bare = bare[opening.end() :] if (opening := _OPENING.match(bare)) else bare
    return bare if _WORD.search(bare) else text


def is_noise(text: str, is_word: Callable[[str], bool]) -> bool:
    """Return whether a text is keys hit at random: letters of one row, or one syllable again and again. Some words look
    so (`property`, `alfalfa`): `is_word` says of words in lower case which of them are some."""
    words = plain_words(text[: _LONGEST + 1]).split()
    if not words or len(text) > _LONGEST or _SIGNS.search(text):
        return False
    return all(map(_is_mashed, words)) and not any(map(is_word, words))


def _is_mashed(word: str) -> bool:
    return len(word) > 3 and (any(_is_typed_along(word, row) for row in _ROWS) or bool(_REPEATED.fullmatch(word)))


def _is_typed_along(word: str, row: str) -> bool:
    """Return whether a word has only letters of one row of keys, three of them in their order there."""
    return set(word) <= set(row) and any(word[at : at + 3] in row for at in range(len(word) - 2))


def plain_words(text: str) -> str:
    """Return the words of a text in lower case without accents, a space between them."""
    bare = unicodedata.normalize("NFKD", text.casefold().replace("’", "'"))
    letters = "".join(char for char in bare if not unicodedata.combining(char))
    return " ".join(_WORD.findall(letters))


def _longest_phrase(said: str, at: int) -> tuple[Remark | None, int]:
    """Return the kind and the end of the longest phrase that begins at a place; if none does, that place."""
    kind: Remark | None = None
    end = at
    for of, pattern in _patterns():
        if (match := pattern.match(said, at)) and match.end() > end:
            kind, end = of, match.end()
    return kind, end


@cache
def _patterns() -> tuple[tuple[Remark | None, re.Pattern[str]], ...]:
    every: list[tuple[Remark | None, str]] = [*((kind, kind.upper()) for kind in _KINDS), (None, "FILLER")]
    phrases = patterns("small_talk")
    return tuple((kind, re.compile(rf"(?:{phrases[name][0]})(?= |\Z)")) for kind, name in every)
