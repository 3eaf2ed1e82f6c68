"""Rows, items, headings and page properties in passages, and the values of their cells: numbers, money, durations,
sizes, dates and flags, exact or none."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from rag_serving.records.sets import SetError, SetValue, ValueKind
from rag_serving.text.structure import Structure, decode, line_of, structure_of
from rag_serving.text.units import Unit

EMPTY = frozenset({"", "-", "–", "—"})
"""Cells that hold no value."""
_EPOCH = date(1970, 1, 1).toordinal()
_SIGN = r"[+\-−]?"
_NUMBER = (
    r"(?:\d{1,3}(?:,\d{3}){2,}(?:\.\d+)?|\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:,\d{3})+\.\d+"
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:[ '’]\d{3})+(?:[.,]\d+)?|\d+[.,]\d+|\d+)"
)
_ONLY_NUMBER = re.compile(rf"({_SIGN}{_NUMBER})(?: ?(%|percent|per cent|prozent))?", re.IGNORECASE)
_AMBIGUOUS = re.compile(rf"{_SIGN}[1-9]\d{{0,2}}[.,]\d{{3}}")  # one thousand, or one and a fraction
_CODES = "EUR USD GBP NOK SEK DKK CHF PLN JPY CNY CZK HUF AUD CAD INR BRL KRW"
_CURRENCIES = {
    **{code.lower(): code for code in _CODES.split()},
    **dict.fromkeys(("€", "euro", "euros"), "EUR"), **dict.fromkeys(("$", "dollar", "dollars"), "$"), "us$": "USD",
    "£": "GBP", "¥": "¥", "zł": "PLN", **dict.fromkeys(("kr", "kr.", "kroner", "kronor"), "kr"),
}  # fmt: skip
_CURRENCY = "|".join(sorted(map(re.escape, _CURRENCIES), key=len, reverse=True))
_MONEY = re.compile(rf"(?:({_CURRENCY}) ?({_SIGN}{_NUMBER})|({_SIGN}{_NUMBER}) ?({_CURRENCY}))", re.IGNORECASE)
_SECONDS = {
    "ns nanosecond nanoseconds": "1e-9", "μs us microsecond microseconds": "1e-6",
    "ms msec millisecond milliseconds millisekunde millisekunden": "0.001",
    "s sec secs second seconds sekunde sekunden": "1", "min mins minute minutes minuten": "60",
    "h hr hrs hour hours stunde stunden": "3600", "d day days tag tage tagen": "86400",
    "week weeks woche wochen": "604800",
}  # fmt: skip
_DURATIONS = {name: Decimal(seconds) for names, seconds in _SECONDS.items() for name in names.split()}
_MONTHS_IN = dict.fromkeys(("month", "months", "monat", "monate", "monaten", "mo"), 1)
_MONTHS_IN |= dict.fromkeys(("year", "years", "jahr", "jahre", "jahren"), 12)
_PART = re.compile(
    rf"({_NUMBER}) ?({'|'.join(sorted([*_DURATIONS, *_MONTHS_IN], key=len, reverse=True))}|m)(?![^\W\d])"
)
_ISO_DURATION = re.compile(
    r"P(?=[\dT])(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_ISO_SECONDS = (604800, 86400, 3600, 60, 1)
_SIZES = {f"{letter}{unit}": Decimal(base) ** power for power, letter in enumerate("kMGTP", 1) for unit, base in
          (("B", 1000), ("iB", 1024))}  # fmt: skip
_SIZE_NAMES = {
    **{name.lower(): size for name, size in _SIZES.items()}, "b": Decimal(1), "byte": Decimal(1), "bytes": Decimal(1),
    **{f"{word}byte{plural}": Decimal(1000) ** power for power, word in
       enumerate(("kilo", "mega", "giga", "tera", "peta"), 1) for plural in ("", "s")},
}  # fmt: skip
_SIZE = re.compile(rf"({_NUMBER}) ?([A-Za-z]+)")
_MONTHS = """
january januar jan; february februar feb; march märz mars mar mär; april apr; may mai; june juni jun; july juli jul;
august aug; september sep sept; october oktober oct okt; november nov; december dezember desember dec dez
"""
_MONTH = {name: number for number, names in enumerate(_MONTHS.split(";"), 1) for name in names.split()}
_DATES = (
    re.compile(r"(?P<y>\d{4})[-/](?P<m>\d\d)[-/](?P<d>\d\d)"),
    re.compile(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})"),
    re.compile(r"(?P<d>\d{1,2})(?:st|nd|rd|th|\.)? (?P<n>[^\W\d_]{3,9})\.?,? (?P<y>\d{4})"),
    re.compile(r"(?P<n>[^\W\d_]{3,9})\.? (?P<d>\d{1,2})(?:st|nd|rd|th)?,? (?P<y>\d{4})"),
)
_FLAGS = dict.fromkeys(("yes", "true", "ja", "✓", "✔", "✅"), 1)
_FLAGS |= dict.fromkeys(("no", "false", "nein", "✗", "✘", "❌"), 0)
_CENT = Decimal("0.01")
_DIGITS = 100  # no sum or product needs more
_LONGEST = 40  # characters of a value
_MARK = re.compile(r"[<\[`*_\\]")
_SHOWN = (  # in this order
    (re.compile(r"<br ?/?>", re.IGNORECASE), " "),
    (re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: \"[^\"]*\")?\)"), r"\1"),
    (re.compile(r"(?<!`)(`{1,3})(?!`)([^`]+)\1(?!`)"), r"\2"),
    (re.compile(r"(?<![\w*\\])(\*{1,3})(?=[^\s*])([^*]*[^\s*\\])\1(?![\w*])"), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])([^_]*[^\s_\\])\1(?!\w)"), r"\2"),
    (re.compile(r"\\([\\`*_\[\]|<>#~-])"), r"\1"),
)
_BAR = re.compile(r"(?<!\\)\|")
_KEYED = re.compile(r"([^:|]{1,60}?)\s*:\s+(\S.*)")
_MARKER = re.compile(r"\s*(?:>\s?)*(?:(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?)?")


def normalized(text: str) -> str:
    """Return the text as it is compared: NFKC, case folded, without `*` and backquotes, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("*", "").replace("`", "").split())


def shown(text: str) -> str:
    """Return a cell without Markdown's marks: emphasis, code, links, line breaks and escapes."""
    if _MARK.search(text):
        for pattern, by in _SHOWN:
            text = pattern.sub(by, text)
    return " ".join(text.split())


@lru_cache(maxsize=4096)
def value_of(text: str) -> SetValue | None:
    """Return the value that a text is as a whole; None if it is none, or may be two."""
    plain = " ".join(text.split())
    if not plain or len(plain) > _LONGEST:
        return None
    with localcontext(prec=_DIGITS):
        return next(_readings(plain), None)


def value_shown(amount: Decimal, kind: ValueKind, unit: str) -> str:
    """Return an amount in base units as it is shown, with at most two decimals in them."""
    if kind == "date":
        return date.fromordinal(int(amount) + _EPOCH).isoformat()
    if kind == "size":  # in the largest unit in which two decimals say all
        for name, size in sorted(_SIZES.items(), key=lambda item: -item[1]):
            if amount >= size and amount / size == (amount / size).quantize(_CENT):
                return f"{_digits(amount / size)} {name}"
        return f"{_digits(amount)} B"
    if kind != "duration" or unit != "s":
        return f"{_digits(amount)} {unit}".strip()
    if 0 < amount < 1:
        return f"{_digits(amount * 1000)} ms"
    rest, parts = amount, []
    for name, seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole := rest // seconds:
            parts.append(f"{_digits(whole)} {name}")
            rest -= whole * seconds
    return " ".join([*parts, *([f"{_digits(rest)} s"] if rest or not parts else [])])


def _digits(amount: Decimal) -> str:
    rounded = amount if amount == amount.quantize(_CENT) else amount.quantize(_CENT, ROUND_HALF_EVEN)
    digits = f"{rounded:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _readings(text: str) -> Iterator[SetValue]:
    lower = text.casefold()
    if lower in _FLAGS:
        yield SetValue("flag", Decimal(_FLAGS[lower]), "", text)
    if (days := _date(lower)) is not None:
        yield SetValue("date", Decimal(days), "", text)
    if (match := _ONLY_NUMBER.fullmatch(text)) and (number := _number(match[1])) is not None:
        yield SetValue("number", number, "%" if match[2] else "", text)
    if (match := _MONEY.fullmatch(text)) and (amount := _number(match[2] or match[3])) is not None:
        yield SetValue("money", amount, _CURRENCIES[(match[1] or match[4]).lower()], text)
    if duration := _duration(text, lower):
        yield SetValue("duration", *duration, text)
    if (match := _SIZE.fullmatch(text)) and (size := _SIZE_NAMES.get(match[2].lower())) is not None:
        is_in_bits = match[2].endswith("b") and match[2] != match[2].lower()  # `Mb`
        if not is_in_bits and (number := _number(match[1])) is not None:
            yield SetValue("size", number * size, "B", text)


def _number(written: str) -> Decimal | None:
    """Return a number; None if its one separator may part thousands or a fraction."""
    if _AMBIGUOUS.fullmatch(written):
        return None
    plain = re.sub("[ '’+]", "", written).replace("−", "-")
    last = max(plain.rfind(","), plain.rfind("."))
    if last < 0:
        return Decimal(plain)
    whole, mark, fraction = plain[:last], plain[last], plain[last + 1 :]
    if plain.count(mark) > 1:
        return Decimal(plain.replace(mark, ""))
    return Decimal(f"{re.sub('[.,]', '', whole)}.{fraction}")


def _date(text: str) -> int | None:
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            month = _MONTH.get(parts["n"], 0) if "n" in parts else int(parts["m"])
            try:
                return date(int(parts["y"]), month, int(parts["d"])).toordinal() - _EPOCH
            except ValueError:
                return None
    return None


def _duration(text: str, lower: str) -> tuple[Decimal, str] | None:
    """Return seconds, or months, which have no length of their own; None for a mixture."""
    if match := _ISO_DURATION.fullmatch(text):
        years, months, *rest = (Decimal(part or 0) for part in match.groups())
        seconds = sum((size * part for size, part in zip(_ISO_SECONDS, rest, strict=True)), Decimal(0))
        long = years * 12 + months
        return None if long and seconds else (long, "months") if long else (seconds, "s")
    total, unit, position, last = Decimal(0), "", 0, Decimal("Infinity")
    while match := _PART.match(lower, position):
        number, name = _number(match[1]), match[2]
        step = Decimal(_MONTHS_IN.get(name, 0)) or _DURATIONS.get(name, Decimal(60))
        kind = "months" if name in _MONTHS_IN else "s"
        if number is None or step >= last or unit not in ("", kind) or (name == "m" and last != _DURATIONS["h"]):
            return None
        total, unit, last, position = total + number * step, kind, step, match.end()
        position += lower.startswith(" ", position)
    minutes = re.fullmatch(r"[0-5]?\d", lower[position:]) if last == _DURATIONS["h"] else None
    if minutes:
        return total + int(minutes[0]) * 60, unit
    return (total, unit) if unit and position >= len(lower) else None


class MemberPassage(NamedTuple):
    """The parsed contents of a passage."""

    chunk_id: str
    page_id: str
    title: str
    url: str
    anchor: str
    heading_path: tuple[str, ...]
    text: str
    structure: str | None

    def units(self) -> Structure:
        return decode(self.structure) if self.structure else structure_of(self.text)


class Part(NamedTuple):
    """A row, item, heading or property: its cells by name, and its quote `passage.text[start:end]`."""

    passage: MemberPassage
    start: int
    end: int
    cells: tuple[tuple[str, str], ...]


def rows_of(passages: Sequence[MemberPassage]) -> Iterator[Part]:
    """Yield the body rows of the tables with a header; a table that goes on in the next passage keeps its header.
    Raises SetError: a row is cut between two passages."""
    for passage in passages:
        read = passage.units()
        for unit in read.units:
            if unit.kind != "table" or not (header := read.header_of(unit, passage.text)):
                continue
            line = line_of(unit, passage.text)
            if unit.marked < 0 or not line.endswith("|"):
                raise SetError(f"a row of a table in {passage.chunk_id} is cut between two passages")
            cells = _cells(line)
            names = _names(_cells(header), len(cells))
            cells += [""] * (len(names) - len(cells))
            yield Part(passage, unit.begin, unit.begin + len(line), tuple(zip(names, cells, strict=True)))


def items_of(passages: Sequence[MemberPassage]) -> Iterator[Part]:
    """Yield the items of lists that are in no other item, without what is nested in them."""
    for passage in passages:
        units = passage.units().units
        for place, unit in enumerate(units):
            if unit.kind == "list" and unit.marked >= 0 and unit.depth == 0:
                end = max(each.end for each in units[place:] if each.block == unit.block)
                yield Part(passage, unit.start, end, (("text", shown(passage.text[unit.start : end])),))


def headings_of(passages: Sequence[MemberPassage], path: Sequence[str]) -> Iterator[Part]:
    """Yield the headings one level below a heading path, in the order of a page's passages."""
    depth, last, anchor = len(path), "", ""
    for passage in passages:
        if len(passage.heading_path) <= depth or list(passage.heading_path[:depth]) != list(path):
            last = ""
            continue
        name, is_own = passage.heading_path[depth], len(passage.heading_path) == depth + 1
        if name != last or (is_own and anchor not in ("", passage.anchor)):
            first = next(iter(passage.units().units), Unit(0, 0, "sentence"))
            yield Part(passage, first.begin, first.end, (("text", name),))
            anchor = ""
        last, anchor = name, passage.anchor if is_own else anchor


def properties_of(passage: MemberPassage, key: str) -> Iterator[Part]:
    """Yield the values that a passage gives a key, normalized: rows of two cells without a header, `Key: value`."""
    text = passage.text
    if ":" not in text and "|" not in text:
        return
    read = passage.units()
    for unit in read.units:
        if unit.kind == "table" and unit.marked >= 0 and not read.header_of(unit, text):
            line = line_of(unit, text)
            cells = _cells(line)
            if line.endswith("|") and len(cells) == 2 and normalized(cells[0]) == key:
                yield Part(passage, unit.begin, unit.begin + len(line), ((cells[0], cells[1]),))
    for start, end in _prose_lines(read, text):
        match = _KEYED.fullmatch(shown(text[start:end])) if ":" in text[start:end] else None
        if match and normalized(match[1]) == key:
            yield Part(passage, start, end, ((match[1], match[2]),))


def _prose_lines(read: Structure, text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines of sentences and items, without their markers."""
    start, units = 0, iter([*read.units, Unit(len(text) + 1, len(text) + 1, "code")])
    unit = next(units)
    for line in text.split("\n"):
        end = start + len(line)
        while unit.end <= start:
            unit = next(units)
        if unit.start < end and unit.kind in ("sentence", "list"):
            marker = _MARKER.match(text, start, end)
            yield marker.end() if marker else start, start + len(line.rstrip())
        start = end + 1


def _cells(row: str) -> list[str]:
    """Return the shown cells of a row with a bar on both sides."""
    return [shown(cell) for cell in _BAR.split(row.strip())[1:-1]]


def _names(header: Sequence[str], width: int) -> tuple[str, ...]:
    """Return a name for each column, no two alike: those of a header, and numbers if it has none."""
    names, seen = [], Counter[str]()
    for place in range(max(len(header), width)):
        name = header[place] if place < len(header) and header[place] else f"Column {place + 1}"
        seen[normalized(name)] += 1
        names.append(name if seen[normalized(name)] == 1 else f"{name} ({seen[normalized(name)]})")
    return tuple(names)
