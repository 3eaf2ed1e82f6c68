"""Text with white space and typography folded away, and the way back to the original characters."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
"""Thai to Khmer, kana, Han, Hangul, for a set of a pattern: written without spaces between words, or with endings glued
on."""

OMISSION = "\ufffc"
"""Stands in the text of a page where it shows something that the text lacks: an unread include, an unknown value."""


def fault_of(text: str) -> str | None:
    """Return the fault of a text's characters, or None."""
    if "\0" in text:
        return "the text has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text has half of a surrogate pair, which is no character"
    return None


_QUOTES = dict.fromkeys("‘’‚‛′＇", "'") | dict.fromkeys("“”„‟″«»＂", '"')
_DASHES = dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "ft", "ﬆ": "st"}
_INVISIBLE = dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")
_FOLDS = _QUOTES | _DASHES | _LIGATURES | _INVISIBLE | {"…": "..."}

_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(r"[!-~]++(?: [!-~]++)*")  # no possessive group: up to Python 3.11.4 it keeps what did not match
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_SIGNS = frozenset("-+±<>≤≥=~$€£#")
_UNITS = frozenset("%‰°")


@dataclass(frozen=True)
class Folded:
    """A folded text; character `i` of it represents `[starts[i], ends[i])` of the original."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the range of the original behind a non-empty range of the folded text."""
        return self.starts[start], self.ends[end - 1]


def fold(text: str) -> Folded:
    """White-space runs become one space, quotes, dashes, ellipses and ligatures plain; letters keep their case. Base
    characters are composed with their combining marks (NFC), so that both spellings of an accent are one."""
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    while position < len(text):
        if (end := _plain_end(text, position)) > position:
            folded.append(text[position:end])
            starts += range(position, end)
            ends += range(position + 1, end + 1)
            position = end
            continue
        end = _cluster_end(text, position)
        cluster = text[position:end]
        plain = " " if cluster.isspace() else _FOLDS.get(cluster, cluster)
        if not cluster.isascii() and plain == cluster:
            plain = unicodedata.normalize("NFC", cluster)
        if plain == " " and folded and folded[-1] == " ":
            ends[-1] = end
        else:
            folded += plain
            starts += [position] * len(plain)
            ends += [end] * len(plain)
        position = end
    return Folded("".join(folded), tuple(starts), tuple(ends))


def folded(text: str) -> str:
    """Return the text that `fold` makes, without the mapping back."""
    return _SPACES.sub(" ", text) if text.isascii() else fold(text).text


def _plain_end(text: str, position: int) -> int:
    """Return the end of the words here that folding leaves unchanged; the position if there are none."""
    words = _PLAIN.match(text, position)
    end = words.end() if words else position
    return end - 1 if end > position and text[end : end + 1] > "\x7f" else end  # that may be a mark of the last letter


def _cluster_end(text: str, position: int) -> int:
    """Return the end of a base character with the combining marks that follow it."""
    end = position + 1
    while end < len(text) and text[end] >= "\u0300" and unicodedata.combining(text[end]):
        end += 1
    return end


def is_border(text: str, position: int) -> bool:
    """Return whether a quote may begin or end here: not in a word, a compound (`non-root`), a number, sign or unit."""
    if position <= 0 or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if _UNSPACED.match(before) or _UNSPACED.match(after):
        return True
    if _is_word(before) and _is_word(after):
        return False
    if (after.isdigit() and before in _SIGNS) or _parts_unit(text, position):
        return False
    return not (_joins(text, position - 1) or _joins(text, position))


def _parts_unit(text: str, position: int) -> bool:
    """Return whether a number is before and its sign after: `5%` and `5 %`."""
    behind = text[position : position + 2].lstrip()
    return behind[:1] in _UNITS and text[max(0, position - 2) : position].rstrip()[-1:].isdigit()


def caseless(text: str) -> str:
    """Without regard to case and white space."""
    return " ".join(text.casefold().split())


def holds(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase as whole words, both `caseless`."""
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        if not _goes_on(text[:at][-1:], phrase[0]) and not _goes_on(phrase[-1], text[at + len(phrase) :][:1]):
            return True
        at = text.find(phrase, at + 1)
    return False


def _goes_on(before: str, after: str) -> bool:
    return bool(before and after) and _is_word(before) and _is_word(after)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _joins(text: str, position: int) -> bool:
    """Return whether the character here glues its neighbours into one word: `3.5`, `non-root`, `doesn't`."""
    if not 0 < position < len(text) - 1:
        return False
    before, glue, after = text[position - 1], text[position], text[position + 1]
    if glue in ".-'’‐‑":
        return _is_word(before) and _is_word(after)
    return glue in ",:" and before.isdigit() and after.isdigit()
