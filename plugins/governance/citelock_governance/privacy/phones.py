"""Telephone numbers in a text. A number that begins with + or 00 is known by itself. Any other is read as one of the
configured regions, and must look like one: with the region's trunk prefix, in groups as people write them there, or
behind a word such as "Tel". Plain digits, dates, versions, addresses of machines and ids of chunks do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rag_serving.privacy import NUMBER, Span

if TYPE_CHECKING:
    from phonenumbers import PhoneNumber

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
        before = text[max(0, match.start() - _BEFORE_CHARS) : match.start()]
        if _is_international(match[0]) or _is_local(match[0], before, regions):
            yield match.span()


def _is_international(candidate: str) -> bool:
    """Return whether a number begins with + and has a country and as many digits as numbers there have, reserved ones
    included; or begins with 00 and is valid."""
    from phonenumbers import is_possible_number, is_valid_number

    digits = candidate.lstrip("( ")
    if digits.startswith("+"):
        return _is_number(digits, None, is_possible_number)
    return digits.startswith("00") and _is_number("+" + digits[2:].lstrip(" "), None, is_valid_number)


def _is_local(candidate: str, before: str, regions: Sequence[str]) -> bool:
    from phonenumbers import is_valid_number

    if not regions or _OTHER.match(candidate):
        return False
    is_told = _WORD.search(before) is not None
    if not is_told and (_NOT_BEFORE.search(before) or not _GROUPED.search(candidate)):
        return False
    valid = (region for region in regions if _is_number(candidate, region, is_valid_number))
    return any(is_told or _is_written_as(candidate, region) for region in valid)


def _is_written_as(candidate: str, region: str) -> bool:
    """Return whether a number has its region's trunk prefix, or is in groups as the region writes them."""
    from phonenumbers import Leniency, PhoneMetadata, PhoneNumberMatcher

    metadata = PhoneMetadata.metadata_for_region(region, None)
    if metadata and metadata.national_prefix == "0":
        return candidate.lstrip("( ").startswith("0")
    return any(PhoneNumberMatcher(candidate, region, Leniency.STRICT_GROUPING, 5))


def _is_number(number: str, region: str | None, holds: Callable[[PhoneNumber], bool]) -> bool:
    from phonenumbers import NumberParseException, parse

    try:
        return holds(parse(number, region))
    except NumberParseException:
        return False
