"""Whether a sentence is the page's own words.

It is where its tokens are those of what is shown of the page (a unit with what it holds under), in the same order, once
typography and markup are folded away. Four edits at its edges are allowed, none of which can change what the words
between say: the case of the first letter, the stop at the end, a frame in front (`According to the handbook,`), a
connective in front (`However,`). What readers see is the page's words in any case.

Belongs here: the comparison. Does not belong here: which unit a sentence is compared with (`verifier`), quotes
(`quotes`).
"""

from __future__ import annotations

import re

from rag_serving.text.normalization import folded

_SOURCE = r"(?:docs?|documentation|handbook|runbook|guide|wiki|pages?|passages?|sources?)"
_FRAME = re.compile(
    rf"(?:(?:according to|based on|as per|per) (?:the |this |these )?{_SOURCE}(?: ?\[\d{{1,2}}\])?[ ,:]{{1,3}}"
    rf"|(?:the |this )?{_SOURCE}(?: ?\[\d{{1,2}}\])? (?:says?|states?|notes?|mentions?|explains?)(?: that)?[ ,:]{{1,3}}"
    r"|(?:please )?note that\s)",
    re.IGNORECASE,
)
_CONNECTIVE = re.compile(
    r"(?:however|also|additionally|in addition|moreover|furthermore|therefore|thus|finally|in short|in summary|and|but"
    r"|außerdem|zudem|jedoch|allerdings|daher|kurz gesagt)\b[ ,:]{1,3}",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[([^\]\[]{0,300})\]\([^()\s]{0,2000}\)")
_MARKER = re.compile(r"^\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)+")
_CITED = re.compile(r"\s?\[\d{1,3}\]")
_MARKUP = re.compile(r"\*{1,3}|`+|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_TOKEN = re.compile(r"\w+(?:[.,:'/+-]+\w+)*|[^\w\s]")
_OUTER = " \"'.:;,!"


def is_own(sentence: str, shown: str) -> bool:
    """Return whether a sentence is word for word what is shown of the page."""
    wanted = [_tokens(_plain(text)) for text in (shown, _LINK.sub(r"\1", shown))]  # links may be missing, none be new
    return any(tokens and tokens in wanted for tokens in map(_tokens, _readings(sentence)))


def _readings(sentence: str) -> list[str]:
    """Return a sentence as it is, and without the frame, the connective, or both, in front of it."""
    plain = _plain(sentence)
    framed = _FRAME.sub("", plain, count=1) if _FRAME.match(plain) else plain
    return [plain, framed, *(_CONNECTIVE.sub("", each, count=1) for each in (plain, framed) if _CONNECTIVE.match(each))]


def _plain(text: str) -> str:
    return _MARKUP.sub("", folded(_MARKER.sub("", _CITED.sub("", text)))).strip(_OUTER)


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    return [tokens[0][:1].lower() + tokens[0][1:], *tokens[1:]] if tokens else []
