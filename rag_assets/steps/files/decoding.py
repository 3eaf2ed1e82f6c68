"""Bytes to text: which encoding a file is in.

Belongs here: UTF-8, UTF-16, what a file declares, and cutting a text at the budget.
Does not belong here: what the text means.
"""

from __future__ import annotations

from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.budget import Budget, first_chars, noted

_SEVEN_BITS = "iso-2022"
"""Encodings whose bytes are all valid UTF-8, so that only what is declared tells them."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def decoded(content: bytes, declared: str | None = None) -> str:
    """Return the text of bytes: UTF-8, UTF-16 where it says so, else as declared or Windows-1252 (what older files are
    in).

    UTF-8 comes before what is declared: text in another encoding is hardly ever valid UTF-8, and pages lie.
    """
    if content.startswith(_UTF16):
        return content.decode("utf-16", "replace")
    if b"\x00" in content:
        raise FileError("it is not text, whatever its name says")
    try:
        if b"\x1b" in content and (declared or "").lower().startswith(_SEVEN_BITS):
            return content.decode(declared or "", "replace")
    except (LookupError, UnicodeError):
        pass
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return content.decode(declared or "cp1252", "replace")
    except (LookupError, UnicodeError):
        return content.decode("cp1252", "replace")


def shortened(text: str, budget: Budget) -> str:
    """Return a text up to the budget, with the reason after it where it was cut."""
    kept, cut = first_chars(text, budget)
    return noted(kept, cut) if cut else kept
