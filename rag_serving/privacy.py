"""Texts without personal data: each finding is replaced by the name of its kind. If the search for names fails, the
text is withheld as a whole. Addresses: no list of domains is used; those on reserved names (RFC 2606) and in a
company's own network are addresses, too. Cards are grouped as they are embossed, or not at all, begin with a known
issuer's digits (ISO/IEC 7812) and fulfil Luhn's formula; accounts are IBANs (ISO 13616) whose check digits and
country's length are right."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

from rag_serving.escaping.redaction import RedactedError
from rag_serving.escaping.targets import for_log
from rag_serving.plugins import HOOKS, loaded, missing

_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LineFormatter(logging.Formatter):
    """One line for each record, whatever its message holds; the lines of a traceback are indented below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the record's line with breaks and controls spelled out, and without personal data."""
        return log_redacted(for_log(super().formatMessage(record)))

    def formatException(self, ei: _Raised) -> str:  # noqa: N802
        """Return the traceback with every line indented, so that none looks like a record."""
        return "\n".join(f"  {log_redacted(for_log(line))}" for line in super().formatException(ei).splitlines())


def log_to_stderr() -> None:
    """Warnings and errors of this process, ours and those of libraries, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("citelock: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def complain(text: str) -> None:
    """Print one line on standard error."""
    print(f"citelock: {for_log(text)}", file=sys.stderr)


PersonalKind = Literal["email", "iban", "card", "national_id", "phone", "names"]
KINDS: tuple[PersonalKind, ...] = get_args(PersonalKind)
"""In the order in which they are looked for: of two that overlap, the first one counts."""
_MARKS: dict[PersonalKind, str] = {"names": "name"}
"""What takes the place of a kind, where that is not called like it."""
_DIGIT = re.compile(r"\d")
Span = tuple[int, int]
Finder = Callable[[str], Iterator[Span]]

NUMBER = re.compile(
    r"(?<![\w+])(?:\+ ?|\(\+?)?\d(?:(?! 00\d{1,3} )[ \u00a0().\u2010-\u2014/-]{0,3}\d){6,16}(?![\w]|[.,:/-]\d)"
)
"""What may be a telephone number."""
_AT = re.compile(r"@|＠|%40")
_LOCAL_MARKS = frozenset("._%+'-&=~!#$*/?^`{|}")
_TRIMMED = "._'-=/?&|`{}!#$*^~+%"
_LOCAL_CHARS, _DOMAIN_CHARS, _LABEL_CHARS = 64, 253, 63
_LITERAL = re.compile(r"\[(?:IPv6:)?[0-9A-Fa-f.:]{3,45}\]")
_BARE = frozenset({"localhost", "example", "test", "invalid", "local", "internal", "intranet", "lan", "localdomain"})
"""Names without a dot that are domains all the same."""
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


class NamesError(RedactedError):
    """Names of people cannot be looked for; the message says why."""


@dataclass(frozen=True)
class PersonalData:
    """Something personal in a text, from `start` to `end`."""

    kind: PersonalKind
    start: int
    end: int


@dataclass(frozen=True)
class Redactor:
    """Finds personal data of some kinds."""

    kinds: tuple[PersonalKind, ...] = ("email", "iban", "card", "national_id", "phone")
    regions: tuple[str, ...] = ()  # countries (ISO 3166) whose telephone numbers and ids are known
    names_model: Path | None = None  # the folder of the model that finds names; None: none are looked for

    def find(self, text: str) -> list[PersonalData]:
        """Return the personal data in a text, in order, without overlaps; all of it if names cannot be searched."""
        try:
            return self._found(text)
        except NamesError:
            return [PersonalData("names", 0, len(text))]

    def redacted(self, text: str) -> str:
        """Return a text with `[email]`, `[phone]`, `[card]`, `[iban]`, `[national_id]` or `[name]` in place of personal
        data; where names cannot be looked for, the reason in place of the text."""
        try:
            found = self._found(text)
        except NamesError as error:
            return f"[withheld: {error}]"
        parts, end = [], 0
        for one in found:
            parts += [text[end : one.start], f"[{_MARKS.get(one.kind, one.kind)}]"]
            end = one.end
        return "".join([*parts, text[end:]]) if parts else text

    def _found(self, text: str) -> list[PersonalData]:
        ruled = _without_overlaps([PersonalData(kind, start, end) for kind, start, end in self._spans(text)])
        if "names" not in self.kinds or self.names_model is None or not text or text.isspace():
            return ruled
        if (plugged := _plugged("names")) is None:
            raise NamesError(str(missing("names", "governance")))
        names = plugged.name_finder(self.names_model).spans(text)
        return sorted([*ruled, *_beside(names, ruled, text)], key=lambda one: one.start)

    def _spans(self, text: str) -> Iterator[tuple[PersonalKind, int, int]]:
        finders: dict[PersonalKind, Finder] = {
            "email": email_spans,
            "iban": iban_spans,
            "card": card_spans,
            "national_id": partial(_national_id_spans, regions=self.regions),
            "phone": partial(_phone_spans, regions=self.regions),
        }
        has_digits = _DIGIT.search(text) is not None
        for kind in KINDS:
            if kind in finders and kind in self.kinds and (has_digits or kind == "email"):
                for start, end in finders[kind](text):
                    yield kind, start, end


def _without_overlaps(found: Sequence[PersonalData]) -> list[PersonalData]:
    rank = {kind: number for number, kind in enumerate(KINDS)}
    kept: list[PersonalData] = []
    for one in sorted(found, key=lambda one: (one.start, rank[one.kind], -one.end)):
        if kept and one.start < kept[-1].end:
            if rank[one.kind] < rank[kept[-1].kind]:
                kept[-1] = one
            continue
        kept.append(one)
    return kept


def _beside(names: Sequence[tuple[int, int]], found: Sequence[PersonalData], text: str) -> Iterator[PersonalData]:
    """Yield the parts of names outside the data matched by rules: part of an address may be a name."""
    for start, end in names:
        for one in [*found, PersonalData("names", end, end)]:
            part = text[start : min(one.start, end)]
            if part.strip():
                yield PersonalData("names", start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
            start = max(start, one.end)


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
    """Return where the part before an `@` begins; `at` if there is none."""
    if at > least and text[at - 1] == '"':  # a quoted name
        opening = text.rfind('"', max(least, at - _LOCAL_CHARS), at - 1)
        return opening if opening >= 0 and "\n" not in text[opening:at] else at
    begin = at
    while begin > max(least, at - _LOCAL_CHARS) and (text[begin - 1].isalnum() or text[begin - 1] in _LOCAL_MARKS):
        begin -= 1
    while begin < at and text[begin] in _TRIMMED:
        begin += 1
    equals = max(text.rfind(mark, begin, at) for mark in "=?&|/")  # of the parameter that has the address as its value
    return equals + 1 if begin <= equals < at - 1 else begin


def _end_of_domain(text: str, begin: int) -> int | None:
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


def _phone_spans(text: str, regions: Sequence[str]) -> Iterator[Span]:
    """Yield the ranges of telephone numbers; without the plug-in every number in international format is one."""
    if NUMBER.search(text) is None:
        return
    if plugged := _plugged("phones"):
        yield from plugged.phone_spans(text, regions)
        return
    for match in NUMBER.finditer(text):
        if regions or match[0].lstrip("( ").startswith(("+", "00")):
            yield match.span()


def _national_id_spans(text: str, regions: Sequence[str]) -> Iterator[Span]:
    if regions and (plugged := _plugged("national_ids")):
        yield from plugged.national_id_spans(text, regions)


def _plugged(hook: str) -> Any:
    entry = loaded(HOOKS).get(hook)
    return entry and entry.load()


_of_logs: Redactor | None = None


def redact_logs(redactor: Redactor | None) -> None:
    """Take personal data out of every line that this process logs from now on; None: leave it."""
    global _of_logs
    _of_logs = redactor


def log_redacted(text: str) -> str:
    """Return a text as the log may have it."""
    return _of_logs.redacted(text) if _of_logs else text
