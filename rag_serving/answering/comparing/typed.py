"""The typed values of a statement: figures with their unit or what they count, dates, times, versions, weekdays,
frequencies, flags and addresses."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from rag_serving.records.passages import Chunk
from rag_serving.text.analyzer import SEPARATED_NAME, analyze
from rag_serving.text.currency import (
    Mark,
    Version,
    are_comparable,
    can_mark,
    family_of,
    is_of_version,
    mark_of_headings,
    mark_of_labels,
    mark_of_sentences,
    mark_of_title,
    version_of,
)
from rag_serving.text.normalization import folded
from rag_serving.text.polarity_words import SPELLED, UNIT_NAMES, figure_value, figures_with_units, negations
from rag_serving.text.structure import columns_of, line_of
from rag_serving.text.units import Unit, cells_of

_ALONE = re.compile(r"(?<![\w.,:/-])\d+(?:[.,]\d+)*(?![\w:/-]|[.,]\d)")

_PAIR = re.compile(
    r"[`*_]{0,4}(?P<key>[^\W\d_](?:[\w.$/-]| (?! )){1,50}?)[`*_]{0,4}\s?[:=]\s+(?P<value>\S.{0,60})$", re.DOTALL
)

_DEFAULT = re.compile(r"[*_` ]{0,4}default(?: value)?[*_` ]{0,4}:?[*_` ]{0,4}", re.IGNORECASE)
_SETTING = re.compile(SEPARATED_NAME)
_LISTED = re.compile(rf"{SEPARATED_NAME}|[a-z]\w+")  # a setting, whose attributes are capitalized: `retries: …`
_ITEMS_ABOVE = 8  # units that a setting's name is looked for in

Measures = dict[str, set[float]]
"""Figures by kind: times in seconds, sizes in bytes, others in their own unit; "" has those alone."""


class Field(NamedTuple):
    """A cell of a row, or the text after a colon."""

    key: str  # what it is a value of: the row's first cell, the words before the colon
    name: str  # which of its values: the column; empty for a pair
    value: str


def measures(text: str) -> Measures:
    """Return the figures of a text; versions, times of the day and figures inside names are none."""
    alone = {figure_value(figure) for figure in _ALONE.findall(text)}
    found: Measures = {}
    for figure, names in figures_with_units(text).items():
        for unit in names if names != {""} or figure in alone else ():
            kind = next((kind for kind, scale in SCALES.items() if unit in scale), unit)
            with suppress(ValueError):
                value = float(figure) * SCALES.get(kind, {}).get(unit, 1.0)
                found.setdefault(kind, set()).add(value)
    return found


def differ(one: Measures, two: Measures) -> bool:
    """Return whether both give one figure of the same kind, and not the same one."""
    pairs = ((one[kind], two[kind]) for kind in one.keys() & two.keys())
    return any(len(a) == len(b) == 1 and not is_close(*a, *b) for a, b in pairs)


def fields(unit: Unit, chunk: Chunk) -> Iterator[Field]:
    """Yield what a row says in each of its columns, or an item or sentence behind its colon. A line such as `Default:
    5` is of the setting that its heading names, or the item above it."""
    if unit.kind == "table":
        key, *values = cells_of(line_of(unit, chunk.text))
        names = columns_of(chunk.parts.header_of(unit, chunk.text))[1:] or [""] * len(values)
        if len(names) == len(values):
            found = (Field(key, name, value) for name, value in zip(names, values, strict=True) if value)
            yield from (_of_setting(field, unit, chunk) for field in found)
    elif unit.kind in ("list", "sentence") and (pair := _PAIR.fullmatch(unit.of(chunk.text))):
        yield _of_setting(Field(pair["key"], "", pair["value"]), unit, chunk)


def _of_setting(field: Field, unit: Unit, chunk: Chunk) -> Field:
    """Return `Default: 5` as the default of the setting in its heading; other fields as they are."""
    if field.name or not _DEFAULT.fullmatch(field.key):
        return field
    above = chunk.heading_path[-1] if chunk.heading_path else ""
    if is_setting(above):
        return Field(above, "default", field.value)
    place = chunk.parts.place_at(unit.start) or 0
    for other in reversed(chunk.parts.units[max(place - _ITEMS_ABOVE, 0) : place]):
        text = other.of(chunk.text).lstrip("`*_")
        if (named := _LISTED.match(text)) and text[named.end() :].lstrip("`*_").startswith(":"):
            return Field(named[0], "default", field.value) if is_setting(named[0]) else field
    return field


def is_setting(heading: str) -> bool:
    """Return whether a heading is nothing but the name of a setting: `max.poll.records`."""
    plain = heading.strip(" `*")
    named = _SETTING.match(plain)
    return named is not None and named.end() == len(plain)


Opening = Callable[[Chunk], Sequence[Chunk]]  # the first chunks of a passage's page that the asker may read
Reason = Literal["asked", "mark", "change", "version", "date"]

_OPENING = 3  # chunks at the beginning of a page that may have its state


class Precedence(NamedTuple):
    """Whether the first of two passages is the more current, and why."""

    is_first: bool
    reason: Reason


@dataclass(frozen=True)
class Standing:
    """The signs for or against a passage being current."""

    mark: Mark | None
    version: Version | None  # of its headings, its title, or its space
    family: tuple[str, str]  # passages of one family can be compared by version
    updated_at: datetime | None


def standing(chunk: Chunk, opening: Sequence[Chunk] = ()) -> Standing:
    """Return how current a passage is, by itself and by how its page begins."""
    version = version_of(chunk.heading_path, chunk.title, chunk.space)
    return Standing(mark_of(chunk, opening), version, family_of(chunk.title, chunk.space), chunk.updated_at)


def beginning(beside: Callable[[Chunk, int], Chunk | None], chunk: Chunk) -> list[Chunk]:
    """Return the first chunks of a passage's page; `beside` gives the one so many places on that the asker may read."""
    found = (beside(chunk, place - chunk.chunk_idx) for place in range(_OPENING) if place != chunk.chunk_idx)
    return [each for each in found if each]


def mark_of(chunk: Chunk, opening: Sequence[Chunk] = ()) -> Mark | None:
    """Return the mark of a passage: its page's or its section's; None if nothing says that it is out of force."""
    found = mark_of_title(chunk.title) or mark_of_labels(chunk.labels) or mark_of_headings(chunk.heading_path[1:])
    found = found or _mark_in(chunk)
    if found:
        return found
    marks = (_mark_in(other) for other in opening)
    return next((mark for mark in marks if mark and mark.of == "page"), None)


def _mark_in(chunk: Chunk) -> Mark | None:
    """Return the mark that a passage gives its page or its section in its own headings and sentences."""
    found = mark_of_sentences(chunk.heading_path)
    if found or not can_mark(chunk.text):
        return found
    sentences = [unit.of(chunk.text) for unit in chunk.parts.units if unit.kind != "code"]
    return mark_of_sentences(sentences, chunk.heading_path[-1] if chunk.heading_path else "")


def precedence(one: Standing, two: Standing, asked: Sequence[Version], changes: int = 0) -> Precedence | None:
    """Return whether the first of two passages is the more current, and why; None if nothing decides: by the requested
    version, a mark of being out of force, the version that the page is about, the date of its last change. `asked` are
    the versions in the question; `changes` is 1 if the first says that it replaces the second's statement, -1 if the
    second does."""
    for reason, first, second in _signs(one, two, asked, changes):
        if first != second:
            return Precedence(first > second, reason)
    return None


def _signs(one: Standing, two: Standing, asked: Sequence[Version], changes: int) -> Iterator[tuple[Reason, Any, Any]]:
    """Yield each reason with what the passages have of it; more is more current."""
    yield "asked", _is_asked(one, asked), _is_asked(two, asked)
    yield "mark", one.mark is None, two.mark is None
    if one.version and two.version and one.family == two.family and are_comparable(one.version, two.version):
        yield "version", one.version, two.version
    yield "change", changes, 0
    if one.updated_at and two.updated_at:
        yield "date", one.updated_at.date(), two.updated_at.date()


def _is_asked(found: Standing, asked: Sequence[Version]) -> bool:
    return found.version is not None and any(is_of_version(found.version, version) for version in asked)


_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_SECONDS |= {"week": 604_800.0, "month": 2_592_000.0, "year": 31_536_000.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15}
SCALES = {"time": _SECONDS, "size": _BYTES}
_SAME = 0.05  # 31 days are a month, 1,024 MB a gigabyte
_NAMES_OF_MONTHS = "january february march april may june july august september october november december"
_MONTHS = tuple(_NAMES_OF_MONTHS.split())
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)
PIECE = re.compile(
    rf"(?P<date>\b\d{{4}}-\d\d(?:-\d\d)?\b|\b\d{{1,2}}\.\d{{1,2}}\.\d{{4}}\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b\.?(?:,? \d{{4}}\b)?"
    rf"|\b(?:{_MONTH})\b\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?:,? \d{{4}}\b)?|\b(?:{_MONTH}) \d{{4}}\b)"
    r"|(?P<clock>\b\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m\b)?|\b\d{1,2} ?[ap]\.?m\b)"
    rf"|(?P<name>{SEPARATED_NAME}|(?<![\w-])--?[a-z][\w-]+|(?<![\w.+-])[\w.+-]++@[\w.-]+\w|https?://[^\s)>\]]+|/[\w./-]{{3,}})"
    r"|(?P<version>\bv?\d+(?:\.(?:\d+|x)){2,}\b|\bv\d+(?:\.\d+)*\b|(?<=version )\d+(?:\.\d+)*"
    r"|(?<=release )\d+(?:\.\d+)+)"
    r"|(?P<figure>(?:(?<![\w.,])-)?\d+(?:[.,]\d+)*)(?P<unit>[ -]?(?:%|°[cf]?|[€$£]|[^\W\d_]+))?"
    r"|(?P<word>\w+(?:[-'’]\w+)*)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"\b(tier|level|version|release|port|berth|room|step|phase|severity|floor|line|page|number|column|chapter) $", re.I
)
_YEAR = re.compile(r"(?:199|20[0-3])\d")
_ENDS_CLAUSE = re.compile(r"[;:()] |, | (?:if|when|unless|because|where|while|and|but|so|or|without|except) ")
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_FREQUENCIES = (
    "hourly hour|daily day|weekly week|biweekly bi-weekly|monthly month|quarterly quarter|yearly annually year"
)
_OFTEN = {name: group.split()[0] for group in _FREQUENCIES.split("|") for name in group.split()}
_VALUES_IN_WORDS: Mapping[str, tuple[str, str]] = {
    **{name: ("weekday", day) for day in _DAYS.split() for name in (day, f"{day}s")},
    **{name: ("frequency", often) for name, often in _OFTEN.items() if name.endswith("ly")},
    **dict.fromkeys(("true", "enabled"), ("flag", "true")),
    **dict.fromkeys(("false", "disabled"), ("flag", "false")),
}
_GIVEN = r"[`*_\"]*\d+(?:[.,]\d+)*[`*_\"]*(?:\s?[^\W\d_]+|\s?%)?"
_CHANGES = re.compile(
    r"\b(?:ris|rose|rais|increas|gr[eo]w|dropp|drops|f[ae]ll|decreas|reduc|lower|chang|mov|switch|bump|went|goes|short|extend)\w*",
    re.IGNORECASE,
)
_FROM = re.compile(rf"\bfrom\s+{_GIVEN}(?=\s+to\b)", re.IGNORECASE)
_BEFORE = re.compile(
    rf"(?:\b(?:it\s+)?used\s+to\s+be|\bpreviously|\bformerly|\binstead\s+of|\brather\s+than|\b(?:up|down)\s+from"
    rf"|[(,;]\s*(?:it\s+)?(?:was|were|before)|\bno\s+longer)(?:\s+only)?(?:\s+after)?\s+{_GIVEN}",
    re.IGNORECASE,
)
_UNIT_OF_TIME = "hour|day|week|month|quarter|year"
_EVERY = re.compile(rf"\b(?:once (?:an?|every|per|each)|every|each|per) ({_UNIT_OF_TIME})\b", re.IGNORECASE)
_ONE_UNIT = re.compile(rf"\b(within|after|about|least|most|than|for) an? (?=(?:second|minute|{_UNIT_OF_TIME})\b)")
_BOUND = re.compile(
    r"\b(?:no|not) (?:(?P<low>less|fewer|lower)|more|later|higher|longer|larger|greater) than\b|\bup to(?= \S*\d)", re.I
)
_MARKUP = re.compile(r"\*{1,3}|`+|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|!?\[([^\]\[]{0,300})\]\([^()\s]{0,2000}\)")
_EXPLAINED = re.compile(r"(?<![\w,])\d[\d,]*\s?\((?=\d[\d.,]* [a-z])")  # 45000 (45 seconds) is one value
_NEAR, _WINDOW = 8, 40  # pieces and characters before a value that tell what it is
_ITEM = re.compile(r"(?:^\s*|: )\d{1,2}[.)](?=\s|$)")


def is_close(one: float, two: float) -> bool:
    """Return whether two figures are the same but for rounding."""
    return abs(one - two) <= _SAME * max(abs(one), abs(two))


class Value(NamedTuple):
    """A value of a statement, with the words that say it."""

    kind: str  # time, size, another unit, date, clock, version, weekday, frequency, flag, address; `#`: a count
    value: tuple[float | str, ...]  # in seconds and bytes; both ends of a range; year, month and day
    said: str
    start: int  # of what says it
    nouns: frozenset[str] = frozenset()  # stems of what is counted
    beside: str = ""  # the stem of the word before it
    denied: bool = False  # by the clause that it stands in

    @property
    def end(self) -> int:
        return self.start + len(self.said)

    def is_same(self, other: Value) -> bool:
        """Return whether both are one value, but for rounding and for parts of a date that one lacks."""
        if self.kind != other.kind or len(self.value) != len(other.value):
            return False
        pairs = [*zip(self.value, other.value, strict=True)]
        if self.kind == "date":
            return all(not one or not two or one == two for one, two in pairs)
        return self.value == other.value or (
            self.kind in SCALES and all(is_close(float(one), float(two)) for one, two in pairs)
        )

    def overlaps(self, other: Value) -> bool:
        """Return whether one is a range that has the other."""
        single, ends = sorted((self.value, other.value), key=len)
        return self.kind != "date" and (len(single), len(ends)) == (1, 2) and ends[0] <= single[0] <= ends[1]  # type: ignore[operator]

    def is_of_kind(self, other: Value, around: frozenset[str], around_other: frozenset[str]) -> bool:
        """Return whether both may be values of one thing: of counts, what is counted has to be. `around`: what their
        statements speak of."""
        if self.kind != other.kind:
            return False
        if self.kind != "#" or self.nouns & other.nouns:
            return True
        if self.beside and self.beside == other.beside and not (self.nouns and other.nouns):
            return True
        is_counted = not other.nouns or bool(other.nouns & around)
        return is_counted and (not self.nouns or bool(self.nouns & around_other))


def settled(text: str) -> tuple[str, str]:
    """Return a sentence without the value that it says is past, and that value: `from 16`, `it used to be 60`."""
    past: list[str] = []

    def cut(match: re.Match[str]) -> str:
        past.append(match[0])
        return " "

    text = _BEFORE.sub(cut, text)
    if _CHANGES.search(text):
        text = _FROM.sub(cut, text)
    return text, " ; ".join(past)


def plain_of(text: str) -> str:
    """Return a text without typography, markup and what it says is past, its bounds, frequencies and single units said
    in one way: `no more than` as `at most`."""
    text = settled(folded(_MARKUP.sub(lambda match: match[1] or "", text)))[0]
    text = _EVERY.sub(lambda match: _OFTEN[match[1].lower()], text)
    text = _BOUND.sub(lambda match: "at least" if match["low"] else "at most", _ONE_UNIT.sub(r"\1 1 ", text))
    return _ITEM.sub("", text)


def values_of(plain: str) -> list[Value]:
    """Return the values of a statement in their order."""
    plain = _EXPLAINED.sub(lambda match: f"{' ' * (len(match[0]) - 1)}(", plain)
    pieces, found = list(PIECE.finditer(plain)), list[Value]()
    for place, match in enumerate(pieces):
        if value := _value(match, pieces[place + 1 : place + 4]):
            found.append(value._replace(beside=_beside(pieces[max(place - _NEAR, 0) : place])))
    return _with_ranges(_with_denials(found, plain), plain) if found else []


def _beside(before: Sequence[re.Match[str]]) -> str:
    return next((stem for match in reversed(before) if match["word"] for stem in analyze(match[0])[:1]), "")


def _with_denials(found: Sequence[Value], plain: str) -> list[Value]:
    ends = [*(match.end() for match in _ENDS_CLAUSE.finditer(plain)), len(plain)]
    denied = [negations(plain[begin:end]) % 2 == 1 for begin, end in pairwise([0, *ends])]
    return [value._replace(denied=denied[bisect_right(ends[:-1], value.start)]) for value in found]


def _before(match: re.Match[str]) -> str:
    """Return what stands before a piece, as far as it tells what the piece is."""
    return match.string[max(match.start() - _WINDOW, 0) : match.start()]


def other_values(one: str, two: str) -> Iterator[dict[str, Any]]:
    """Yield the values of one kind that two texts have and that differ, with where they stand in each as it is read."""
    theirs = values_of(plain_of(two))
    for value in values_of(plain_of(one)):
        for other in theirs:
            if value.kind == other.kind and not value.is_same(other):
                places = ((each.said, each.start, each.end) for each in (value, other))
                claim, page = (dict(zip(("said", "start", "end"), place, strict=True)) for place in places)
                yield {"kind": value.kind, "claim": claim, "page": page}


def is_value(match: re.Match[str]) -> bool:
    """Return whether a word, as PIECE finds it, is a value: a weekday, a month, `monthly`."""
    return match[0].lower() in _VALUES_IN_WORDS or _month(match) > 0


def _value(match: re.Match[str], following: Sequence[re.Match[str]]) -> Value | None:
    kind, said = match.lastgroup or "", match[0]
    lower, start = said.lower(), match.start()
    word = lower if kind == "word" else ""
    if kind == "date":
        return Value(kind, _date(lower), said, start)
    if kind == "clock":
        return Value(kind, (_clock(lower),), said, start)
    if kind == "version":
        return Value(kind, (lower.lstrip("v"),), said, start)
    if kind == "name" and "@" in lower:
        return Value("address", (lower,), said, start)
    if match["figure"] or (word in SPELLED and _counts(match, following)):
        return _figure(match, following)
    if word in _VALUES_IN_WORDS:
        kind, value = _VALUES_IN_WORDS[word]
        return Value(kind, (value,), said, start)
    return Value("date", ("", f"{month:02}", ""), said, start) if (month := _month(match)) else None


def _month(match: re.Match[str]) -> int:
    """Return the number of a month that is named alone; 0 for another word."""
    word = match[0].lower()
    is_named = word in _MONTHS and match[0][0].isupper()
    is_named = is_named and (word != "may" or _before(match).endswith((" of ", " in ")))
    return _MONTHS.index(word) + 1 if is_named else 0


def _counts(match: re.Match[str], following: Sequence[re.Match[str]]) -> bool:
    """Return whether a number word counts something: `one` does before a unit, and behind `only`."""
    if match[0].lower() != "one":
        return True
    is_of_unit = bool(following) and following[0][0].lower() in UNIT_NAMES
    return is_of_unit or _before(match).lower().endswith(("only ", "exactly "))


def _figure(match: re.Match[str], following: Sequence[re.Match[str]]) -> Value:
    plain, start, end = match.string, match.start(), match.end()
    written = match["figure"] or SPELLED[match["word"].lower()]
    said, before = match["figure"] or match[0], _before(match)
    try:
        number = float(figure_value(written.lstrip("-"))) * (-1 if written.startswith("-") else 1)
    except ValueError:
        return Value("version", (written,), said, start)
    unit = (match["unit"] or "").strip(" -")
    if match["word"] and following and following[0]["word"]:
        unit, end, following = following[0][0], following[0].end(), following[1:]
    if name := UNIT_NAMES.get({"$": "$", "€": "€", "£": "£"}.get(before.rstrip()[-1:], unit).lower()):
        kind = next((kind for kind, scale in SCALES.items() if name in scale), name)
        return Value(kind, (number * SCALES.get(kind, {}).get(name, 1.0),), plain[start:end], start)
    nouns = set(analyze(unit) if unit.isalpha() else ())
    if _YEAR.fullmatch(written) and not (nouns and unit.islower() and unit.endswith("s")):
        return Value("date", (written, "", ""), said, start)
    if numbered := _NUMBERED.search(before):
        return Value("#", (number,), said, start, frozenset(analyze(numbered[1])))
    for piece in following if nouns or not unit else ():
        stems = analyze(piece[0]) if piece["word"] and not plain[end : piece.start()].strip() else ()
        if not stems or len(nouns) > 2:
            break
        nouns.update(stems)
        end = piece.end()
    return Value("#", (number,), said, start, frozenset(nouns))


def _with_ranges(found: Sequence[Value], plain: str) -> list[Value]:
    """Return the values with `4 to 6 hours` as one."""
    left = list[Value]()
    for value in found:
        low = left[-1] if left and isinstance(value.value[0], float) and len(value.value) == 1 else None
        if low and low.kind == "#" and not low.nouns and _is_range(plain, low, value.start):
            unit = UNIT_NAMES.get(value.said.lower().split(" ")[-1].lstrip("0123456789.,-"), "")
            first = float(low.value[0]) * SCALES.get(value.kind, {}).get(unit, 1.0)
            said, ends = plain[low.start : value.end], (first, *value.value)
            left[-1] = value._replace(value=ends, said=said, start=low.start)
        else:
            left.append(value)
    return left


def _is_range(plain: str, low: Value, high: int) -> bool:
    """Return whether a value and one that begins at `high` are the ends of a range."""
    word, before = plain[low.end : high].strip().lower(), plain[max(low.start - _WINDOW, 0) : low.start]
    return word in ("-", "to") or (word == "and" and before.lower().endswith("between "))


def _date(said: str) -> tuple[str, str, str]:
    if match := re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", said):
        return match[3], f"{int(match[2]):02}", f"{int(match[1]):02}"
    if (named := re.search(_MONTH, said)) is None:
        year, month, day = [*said.split("-"), ""][:3]
        return year, month, day
    figures = re.findall(r"\d+", said)
    year = next((figure for figure in figures if len(figure) == 4), "")
    day = next((f"{int(figure):02}" for figure in figures if len(figure) < 3), "")
    return year, f"{next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(named[0][:3])):02}", day


def _clock(said: str) -> str:
    hours, _, rest = said.partition(":")
    hour = int(re.match(r"\d+", hours)[0])  # type: ignore[index]
    minutes = (re.match(r"\d\d", rest) or ["00"])[0]
    if "p" in said and hour < 12:
        hour += 12
    elif "a" in said and hour == 12:
        hour = 0
    return f"{hour:02}:{minutes}"
