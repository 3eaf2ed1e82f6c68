"""Payment cards and bank accounts in a text.

Belongs here: shapes, and checking them by their check digits. Does not belong here: what takes their place
(`redactor`).

Cards are grouped as they are embossed, or not at all, begin with a known issuer's digits (ISO/IEC 7812) and fulfil
Luhn's formula; accounts are IBANs (ISO 13616) whose check digits and country's length hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_CARD = re.compile(
    r"(?<![\w.])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}(?:\1\d{3})?|\d{4}[ -]\d{6}[ -]\d{4,5}|\d{13,19})(?![\w-]|\.\d)"
)
_ISSUER = re.compile(
    r"4|5[0-8]|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[47]|6(?:011|4[4-9]|5|2|304|7|390)|35(?:2[89]|[3-8]\d)"
    r"|30[0-5]|3[68]|81|220[0-4]"
)
_IBAN = re.compile(r"(?<!\w)[A-Za-z]{2}\d{2}(?:[ \u00a0-]?[A-Za-z0-9]{4}){2,7}(?:[ \u00a0-]?[A-Za-z0-9]{1,3})?(?!\w)")
_GAP = re.compile(r"[ \u00a0-]")
_LEAST_IBAN = 15


def card_spans(text: str) -> Iterator[Span]:
    """Yield where the card numbers of a text begin and end."""
    from stdnum import luhn

    for match in _CARD.finditer(text):
        digits = re.sub(r"[ -]", "", match[0])
        if 13 <= len(digits) <= 19 and _ISSUER.match(digits) and luhn.is_valid(digits) and len(set(digits)) > 1:
            yield match.span()


def iban_spans(text: str) -> Iterator[Span]:
    """Yield where the account numbers of a text begin and end."""
    for match in _IBAN.finditer(text):
        if (end := _end_of_iban(match[0])) is not None:
            yield match.start(), match.start() + end


def _end_of_iban(candidate: str) -> int | None:
    """Return where an IBAN at the beginning of a candidate ends: words may follow that look like a group of it."""
    from stdnum import iban

    ends = [len(candidate), *(gap.start() for gap in reversed([*_GAP.finditer(candidate)]))]
    for end in ends:
        compact = _GAP.sub("", candidate[:end]).upper()
        if len(compact) >= _LEAST_IBAN and iban.is_valid(compact, check_country=False):
            return end
    return None
