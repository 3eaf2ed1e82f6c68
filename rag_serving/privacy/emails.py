"""E-mail addresses in a text.

Belongs here: where an address begins and ends. Does not belong here: what takes its place (`redactor`).

No list of domains is asked: addresses on reserved names (RFC 2606) and in a company's own network are addresses, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_AT = re.compile(r"@|＠|%40")
_LOCAL_MARKS = frozenset("._%+'-&=~!#$*/?^`{|}")
_TRIMMED = "._'-=/?&|`{}!#$*^~+%"
_LOCAL_CHARS, _DOMAIN_CHARS, _LABEL_CHARS = 64, 253, 63
_LITERAL = re.compile(r"\[(?:IPv6:)?[0-9A-Fa-f.:]{3,45}\]")
_BARE = frozenset({"localhost", "example", "test", "invalid", "local", "internal", "intranet", "lan", "localdomain"})
"""Names without a dot that are domains all the same."""

Span = tuple[int, int]


def email_spans(text: str) -> Iterator[Span]:
    """Yield where the addresses of a text begin and end; in time linear in its length."""
    end = 0
    for at in _AT.finditer(text):
        begin = _begin_of_local(text, at.start(), end)
        if begin == at.start():
            continue
        domain_end = _end_of_domain(text, at.end())
        if domain_end:
            yield begin, domain_end
            end = domain_end


def _begin_of_local(text: str, at: int, least: int) -> int:
    """Return where the part before an `@` begins; `at` where there is none."""
    if at > least and text[at - 1] == '"':  # a quoted name
        opening = text.rfind('"', max(least, at - _LOCAL_CHARS), at - 1)
        return opening if opening >= 0 and "\n" not in text[opening:at] else at
    begin = at
    while begin > max(least, at - _LOCAL_CHARS) and _is_local(text[begin - 1]):
        begin -= 1
    while begin < at and text[begin] in _TRIMMED:
        begin += 1
    equals = max(text.rfind(mark, begin, at) for mark in "=?&|/")  # of the parameter that has the address as its value
    return equals + 1 if begin <= equals < at - 1 else begin


def _is_local(character: str) -> bool:
    return character.isalnum() or character in _LOCAL_MARKS


def _end_of_domain(text: str, begin: int) -> int | None:
    """Return where the domain that begins here ends, or None where there is none."""
    if literal := _LITERAL.match(text, begin):
        return literal.end()
    end = begin
    while end < min(len(text), begin + _DOMAIN_CHARS) and (text[end].isalnum() or text[end] in ".-"):
        end += 1
    while end > begin and text[end - 1] in ".-":
        end -= 1
    labels = text[begin:end].split(".")
    if not all(0 < len(label) <= _LABEL_CHARS for label in labels):
        return None
    if len(labels) == 1:
        return end if labels[0].lower() in _BARE else None
    top = labels[-1]
    is_name = len(top) > 1 and (top.isalpha() or top.lower().startswith("xn--"))
    return end if is_name else None
