"""Telephone numbers in a text.

A number that begins with + or 00 is known by itself. Any other is read as one of the configured regions, and must look
like one: with the region's trunk prefix, in groups as people write them there, or behind a word such as "Tel". Plain
digits, dates, versions, addresses of machines and ids of chunks do not.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from rag_serving.privacy import NUMBER, Span

_WORD = re.compile(
    r"(?:tel(?:e[fp]h?on[eo]?)?|phone|mobile?|cell|call|fax|fon|ring|handy|rufnummer|nummer|number|whatsapp|sms|dial"
    r"|m[oó]vil|t[eé]l[eé]phone|portable)\W{0,3}(?:(?:is|ist|est|es|no|nr)\W{1,3})?\Z",
    re.IGNORECASE,
)
_BEFORE_CHARS = 24
_NOT_BEFORE = re.compile(r"[.:#/=@_&-]\Z")
_OTHER = re.compile(
    r"(?:19|20)\d\d[-./](?:0?[1-9]|1[0-2])[-./](?:0?[1-9]|[12]\d|3[01])(?: |\Z)"  # a day, year first
    r"|(?:0?[1-9]|[12]\d|3[01])[-./](?:0?[1-9]|[12]\d|3[01])[-./](?:19|20)?\d\d(?: |\Z)"  # a day, year last
    r"|\d{1,3}(?:\.\d{1,3}){3}\Z"  # an IPv4 address
    r"|\d+(?:\.\d+){1,2}\Z"  # a version, or a decimal number
    r"|(?:19|20)\d\d ?[-\u2010-\u2014/] ?(?:19|20)\d\d\Z"  # years
)
_GROUPED = re.compile(r"\d[ \u00a0().\u2010-\u2014/-]+\d")


def regions() -> Collection[str]:
    """Return the countries with telephone numbers, by ISO 3166."""
    from phonenumbers import SUPPORTED_REGIONS

    return frozenset(SUPPORTED_REGIONS)


def phone_spans(text: str, regions: Sequence[str]) -> Iterator[Span]:
    """Yield where the telephone numbers of a text begin and end. `regions`: ISO 3166 codes of countries."""
    for match in NUMBER.finditer(text):
        candidate = match[0]
        if _is_international(candidate) or _is_local(candidate, _before(text, match.start()), regions):
            yield match.span()


def _before(text: str, at: int) -> str:
    return text[max(0, at - _BEFORE_CHARS) : at]


def _is_international(candidate: str) -> bool:
    digits = candidate.lstrip("( ")
    if digits.startswith("+"):
        return _is_possible(digits)
    return digits.startswith("00") and _is_valid("+" + digits[2:].lstrip(" "), None)


def _is_local(candidate: str, before: str, regions: Sequence[str]) -> bool:
    if not regions or _OTHER.match(candidate):
        return False
    is_told = _WORD.search(before) is not None
    if not is_told and _NOT_BEFORE.search(before):
        return False
    return any(_is_of_region(candidate, region, is_told) for region in regions)


def _is_of_region(candidate: str, region: str, is_told: bool) -> bool:
    if not _is_valid(candidate, region):
        return False
    return is_told or (_GROUPED.search(candidate) is not None and _is_written_as(candidate, region))


def _is_written_as(candidate: str, region: str) -> bool:
    """Return whether a number has its region's trunk prefix, or is in groups as the region writes them."""
    from phonenumbers import Leniency, PhoneMetadata, PhoneNumberMatcher

    metadata = PhoneMetadata.metadata_for_region(region, None)
    prefix = metadata.national_prefix if metadata else None
    if prefix == "0":
        return candidate.lstrip("( ").startswith("0")
    return any(PhoneNumberMatcher(candidate, region, Leniency.STRICT_GROUPING, 5))


def _is_possible(number: str) -> bool:
    """Return whether a number that begins with + has a country and as many digits as numbers there have; numbers
    reserved for examples count, too."""
    from phonenumbers import NumberParseException, is_possible_number, parse

    try:
        return is_possible_number(parse(number, None))
    except NumberParseException:
        return False


def _is_valid(number: str, region: str | None) -> bool:
    from phonenumbers import NumberParseException, is_valid_number, parse

    try:
        parsed = parse(number, region)
    except NumberParseException:
        return False
    return is_valid_number(parsed)
