"""Characters that no text may have: those that a database or an encoding refuses.

Belongs here: telling what is wrong with the characters of a text. Does not belong here: lengths (`api.bodies`),
characters that a target must not be shown (`escaping.targets`).
"""

from __future__ import annotations


def fault_of(text: str) -> str | None:
    """Return what is wrong with the characters of a text, or None."""
    if "\0" in text:
        return "the text has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text has half of a surrogate pair, which is no character"
    return None
