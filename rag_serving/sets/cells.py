"""Cells as they are shown and compared: numbers, money, durations, sizes, dates and flags.

Belongs here: the value of a cell's words, exact or none, and a value in words. Does not belong here: the cells of a
page (`tables`), queries over them (`execute`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache

from rag_serving.records.sets import SetValue, ValueKind

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
_MONTHS_IN = {"month": 1, "months": 1, "monat": 1, "monate": 1, "monaten": 1, "mo": 1} | dict.fromkeys(
    ("year", "years", "jahr", "jahre", "jahren"), 12
)
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
_FLAGS = dict.fromkeys(("yes", "true", "ja", "✓", "✔", "✅"), 1) | dict.fromkeys(
    ("no", "false", "nein", "✗", "✘", "❌"), 0
)
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
    if kind == "duration" and unit == "s":
        return _duration_shown(amount)
    if kind == "size":
        return _size_shown(amount)
    return f"{_digits(amount)} {unit}".strip()


def _readings(text: str) -> Iterator[SetValue]:
    lower = text.casefold()
    if lower in _FLAGS:
        yield SetValue("flag", Decimal(_FLAGS[lower]), "", text)
    if (days := _date(lower)) is not None:
        yield SetValue("date", Decimal(days), "", text)
    if (match := _ONLY_NUMBER.fullmatch(text)) and (number := _number(match[1])) is not None:
        yield SetValue("number", number, "%" if match[2] else "", text)
    if match := _MONEY.fullmatch(text):
        amount = _number(match[2] or match[3])
        if amount is not None:
            yield SetValue("money", amount, _CURRENCIES[(match[1] or match[4]).lower()], text)
    if duration := _duration(text, lower):
        yield SetValue("duration", *duration, text)
    if (match := _SIZE.fullmatch(text)) and (size := _size(match[1], match[2])) is not None:
        yield SetValue("size", size, "B", text)


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


def _size(number: str, unit: str) -> Decimal | None:
    """Return bytes; None for bits (`Mb`) and what is no unit."""
    amount, size = _number(number), _SIZE_NAMES.get(unit.lower())
    if amount is None or size is None or (unit.endswith("b") and unit != unit.lower()):
        return None
    return amount * size


def _digits(amount: Decimal) -> str:
    rounded = amount if amount == amount.quantize(_CENT) else amount.quantize(_CENT, ROUND_HALF_EVEN)
    digits = f"{rounded:f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _duration_shown(seconds: Decimal) -> str:
    if 0 < seconds < 1:
        return f"{_digits(seconds * 1000)} ms"
    rest, parts = seconds, []
    for name, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole := rest // size:
            parts.append(f"{_digits(whole)} {name}")
            rest -= whole * size
    return " ".join([*parts, *([f"{_digits(rest)} s"] if rest or not parts else [])])


def _size_shown(size: Decimal) -> str:
    """Return bytes in the largest unit in which two decimals say all."""
    for name, unit in sorted(_SIZES.items(), key=lambda item: -item[1]):
        if size >= unit and size / unit == (size / unit).quantize(_CENT):
            return f"{_digits(size / unit)} {name}"
    return f"{_digits(size)} B"
