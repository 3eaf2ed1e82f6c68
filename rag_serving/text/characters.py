"""Kinds of characters: those that no text may have, those of scripts without spaces, the mark of an omission.

Belongs here: finding faulty characters in a text, ranges that several rooms use. Does not belong here: lengths
(`api.bodies`), characters that a target must not be shown (`escaping.targets`).
"""

from __future__ import annotations

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
