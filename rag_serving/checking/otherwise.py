"""Whether a unit of a page says something else of what a claim speaks of: a closed comparison of typed values.

Belongs here: reading figures, dates, versions, names and turns of a statement, and comparing two statements. Does not
belong here: which units are compared (`verdicts`), units that conflict for a question (`answering.comparing`).

A false alarm is worse than a miss: both have to speak of the same in nearly the same words, and exactly one value may
differ. Another setting, product or end of a range is no difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from rag_serving.answering.comparing.conflicts import BOUNDS
from rag_serving.answering.comparing.values import SCALES, is_close, settled
from rag_serving.text.analyzer import SEPARATED_NAME, analyze
from rag_serving.text.figures import SPELLED, UNIT_NAMES, figure_value
from rag_serving.text.normalization import folded
from rag_serving.text.polarity_words import NEGATIONS, contradict, negations

Relation = Literal["same", "other"]

_ABOUT, _LEAST_ABOUT = 0.72, 0.6  # of the claim's weight that a unit and what it hangs from must have

_ABOUT_HERE, _ABOUT_SECTION = 0.55, 0.8  # of a unit, and of the section around it, in place of that
_ALL, _NEARLY_ALL = 0.95, 0.85
_LOW, _HIGH = (
    frozenset({"minimum", "min", "least", "lower", "lowest"}),
    frozenset({"maximum", "max", "most", "highest"}),
)
_SCOPE = re.compile(r"[^:.;]{2,60}:(?=\s)")
_OF_ANY_SUBJECT = """
cannot about accord according all ask asks also any anybody anyone back came come comes count counts each even everybody
everyone find found gave get gets give given gives go goes happen happens have keep keeps kept know last lasts long make
makes more most much need needs now once one only out person possible put say says see set somebody someone start starts
stay stays take takes tell tells thing through time use used uses up want way work works yet still just currently
"""
_LIGHT = NEGATIONS.union(stem for word in _OF_ANY_SUBJECT.split() for stem in analyze(word))
_EXPLAINED = re.compile(r"(?<![\w,])\d[\d,]*\s?\((?=\d[\d.,]* [a-z])")  # 45000 (45 seconds) is one value
_CLAUSE = re.compile(r"(?:it|they|this|these) \w", re.IGNORECASE)
_TURNED = 0.7  # Jaccard similarity of two statements of which one denies the other
_FEWEST = 2  # words of what says one of something
_NAME = r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})"
_NAMED_LAST = re.compile(rf"\b(?P<how>is|are|was|were|by|to|in|at|from|with)(?: the)? {_NAME}(?: \([^()]*\))?\W*$")
_NAMED_FIRST = re.compile(rf"^\W*{_NAME} (?P<how>is|are|was) (?:the|our)\b")
_NAMES_OF_MONTHS = "january february march april may june july august september october november december"
_MONTHS = tuple(_NAMES_OF_MONTHS.split())
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_EXCLUSIVE = tuple(
    frozenset(group.split())
    for group in (
        _DAYS, "hourly daily weekly monthly quarterly yearly", "enabled disabled", "enables disables",
        "allowed forbidden prohibited denied", "required optional", "mandatory optional", "synchronous asynchronous",
        "synchronously asynchronously", "automatic manual", "automatically manually", "includes excludes",
        "included excluded", "accepts rejects", "accepted rejected", "true false", "always never", "before after",
        "public private", "internal external", "encrypted unencrypted", "ascending descending", "above below",
        "increases decreases reduces", "online offline", "starts stops", "first last", "morning afternoon evening",
        "north south east west", "left right", "primary secondary", "upper lower", "inside outside",
    )
)  # fmt: skip
"""Words of which a statement can have one alone."""
_PIECE = re.compile(
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
_MARKUP = re.compile(r"\*{1,3}|`+|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|!?\[([^\]\[]{0,300})\]\([^()\s]{0,2000}\)")


class Value(NamedTuple):
    """A figure, date, time or version of a statement."""

    kind: str  # time, size, another unit, date, clock, version; `#` and the noun of what is counted
    value: str
    unit: str = ""
    beside: str = ""  # the stem of the word before it

    def is_same(self, other: Value) -> bool:
        """Return whether both are one value; figures of other units may be rounded."""
        if self.kind != other.kind:
            return False
        if self.value == other.value and self.unit == other.unit:
            return True
        scale = SCALES.get(self.kind)
        if scale is None or self.unit == other.unit:
            return _number(self.value) is not None and _number(self.value) == _number(other.value)
        one, two = _number(self.value), _number(other.value)
        return one is not None and two is not None and is_close(one * scale[self.unit], two * scale[other.unit])


@dataclass(frozen=True)
class ComparedStatement:
    """What a claim, a unit or a cell says, read once. `beside`: headings and what else it may speak of unnamed."""

    text: str
    beside: str = ""
    section: str = ""  # all that stands around it

    @cached_property
    def tokens(self) -> tuple[tuple[str, str], ...]:
        """Return kind and text of each piece that is no function word, in order; words by their stems."""
        return tuple(_tokens(self.plain))

    @cached_property
    def plain(self) -> str:
        return settled(folded(_MARKUP.sub(lambda match: match[1] or "", self.text)))[0]

    @cached_property
    def values(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys(_values(_EXPLAINED.sub("(", self.plain))))

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the stems of its words, names with them, without values and negations."""
        return frozenset(text for kind, text in self.tokens if kind in ("word", "name", "cap")) - _LIGHT

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(text for kind, text in self.tokens if kind in ("name", "cap"))

    @cached_property
    def around(self) -> frozenset[str]:
        """Return its words with those of what it hangs from, and the parts of all names."""
        return self.words.union(_terms_beside(self.beside), (part for name in self.names for part in analyze(name)))

    @cached_property
    def bounds(self) -> frozenset[str]:
        found = BOUNDS.intersection(re.findall(r"[a-z]+", self.plain.lower()))
        return frozenset("low" if word in _LOW else "high" if word in _HIGH else word for word in found)

    @cached_property
    def is_negative(self) -> bool:
        return negations(self.plain) % 2 == 1


def relation(claim: ComparedStatement, page: ComparedStatement, weights: Mapping[str, float]) -> Relation | None:
    """Return whether a page says what a claim says in one of its values, or another value; None where it speaks of
    something else, or where that is not certain."""
    if not claim.words & page.words or _identifiers(claim) - page.around:
        return None
    if (scope := _SCOPE.match(claim.plain)) and not frozenset(analyze(scope[0])) <= page.around:
        return None
    whole = page.around | _terms_beside(page.section)
    if claim.names - whole:
        return "other" if _is_renamed(claim, page, weights) else None
    share = _share(claim.words, page.around, weights)
    is_near = share >= _ABOUT or (share >= _ABOUT_HERE and _share(claim.words, whole, weights) >= _ABOUT_SECTION)
    if (is_near or share >= _LEAST_ABOUT) and (found := _by_values(claim, page, is_near)):
        return found
    if share < _ABOUT:
        return None
    if _is_turned(claim, page) or _is_renamed(claim, page, weights) or (share > _ALL and _denies(claim, page)):
        return "other"
    is_all = not claim.values and claim.words <= page.words
    return "same" if is_all and claim.is_negative == page.is_negative else None


def _by_values(claim: ComparedStatement, page: ComparedStatement, is_near: bool) -> Relation | None:
    """Return what the values tell: those that both have are the same, or exactly one is another; of statements that are
    less near another value has to be the same."""
    others, same = 0, 0
    for kind in dict.fromkeys(value.kind for value in claim.values):
        ours, theirs = ([value for value in side.values if value.kind == kind] for side in (claim, page))
        left = [value for value in ours if not any(value.is_same(other) for other in theirs)]
        right = [value for value in theirs if not any(value.is_same(other) for other in ours)]
        if theirs and left:
            if len(ours) != len(theirs):
                right = [value for value in right if value.beside and value.beside == left[0].beside]
            if len(left) != 1 or len(right) != 1:
                return None
            others += 1
        same += len(ours) - len(left) if theirs else 0
    if others == 1 and (is_near or same) and claim.bounds == page.bounds and not _turned(claim, page):
        return "other" if claim.is_negative == page.is_negative else None
    return "same" if same and is_near and not others else None


def _denies(claim: ComparedStatement, page: ComparedStatement) -> bool:
    """Return whether a clause such as `it cannot be booked` denies what a claim says."""
    return bool(_CLAUSE.match(page.plain)) and page.words <= claim.words and claim.is_negative != page.is_negative


def _is_renamed(claim: ComparedStatement, page: ComparedStatement, weights: Mapping[str, float]) -> bool:
    """Return whether both say the same but for the name that they end with, behind one word such as `is` or `by`, or
    that they begin with, before `is the`."""
    for pattern in (_NAMED_LAST, _NAMED_FIRST):
        ours, theirs = pattern.search(claim.plain), pattern.search(page.plain)
        if ours and theirs and ours["how"].lower() == theirs["how"].lower():
            one, two = (frozenset(analyze(match["name"])) for match in (ours, theirs))
            rest = claim.words - one
            is_near = len(rest) >= _FEWEST and _share(rest, page.around - two, weights) >= _NEARLY_ALL
            if is_near and not one & page.around and not two & claim.around and claim.is_negative == page.is_negative:
                return len(page.words - two - claim.around) <= len(rest) // 2
    return False


def _is_turned(claim: ComparedStatement, page: ComparedStatement) -> bool:
    """Return whether one denies the other, or has the opposite of one of its words."""
    ours, theirs = claim.words - _OPPOSED, page.words - _OPPOSED
    if len(ours & theirs) < _TURNED * len(ours | theirs) or len(ours & theirs) < 2:
        return False
    if any(not any(value.is_same(other) for other in page.values) for value in claim.values):
        return False
    opposites = _turned(claim, page)
    denied = claim.is_negative != page.is_negative
    return denied != opposites


def _turned(claim: ComparedStatement, page: ComparedStatement) -> bool:
    """Return whether one has the opposite of a word of the other."""
    mine, its = (set(re.findall(r"[^\W\d_]+", side.plain.lower())) for side in (claim, page))
    if contradict(claim.plain, page.plain):
        return True
    for group in _EXCLUSIVE:
        one, two = mine & group, its & group
        if len(one) == len(two) == 1 and one != two:
            return True
    return False


_OPPOSED = frozenset(stem for group in _EXCLUSIVE for word in group for stem in analyze(word))


def _identifiers(side: ComparedStatement) -> frozenset[str]:
    return frozenset(text for kind, text in side.tokens if kind == "name")


@lru_cache(maxsize=4096)
def _terms_beside(text: str) -> frozenset[str]:
    """Return the terms of headings and lead-ins, which many statements have."""
    return ComparedStatement(text).words.union(analyze(text))


def _share(words: frozenset[str], of: frozenset[str], weights: Mapping[str, float]) -> float:
    total = sum(weights.get(word, 1.0) for word in words)
    return sum(weights.get(word, 1.0) for word in words & of) / (total or 1.0)


def _tokens(plain: str) -> Sequence[tuple[str, str]]:
    found = list[tuple[str, str]]()
    for match in _PIECE.finditer(plain):
        kind = match.lastgroup or ""
        if match["figure"]:
            noun = (match["unit"] or "").strip(" -")
            is_unit = noun.lower() in UNIT_NAMES or not noun.isalpha()
            found.append(("value", match[0].lower() if is_unit else match["figure"]))
            found += () if is_unit else [("word", stem) for stem in analyze(noun)[:1]]
        elif kind == "word":
            word = match[0]
            stems = analyze(word)
            is_name = word[0].isupper() and match.start() > 0 and plain[: match.start()].rstrip()[-1:] not in ".:!?;|"
            if word.lower() in SPELLED:
                found.append(("value", SPELLED[word.lower()]))
            elif stems:
                found.append(("cap" if is_name else "word", stems[0]))
        elif kind == "name":
            found.append(("name", match[0].lower()))
        else:
            found.append(("value", match[0].lower()))
    return found


def _values(plain: str) -> Sequence[Value]:
    found, last = list[Value](), ""
    pieces = list(_PIECE.finditer(plain))
    for place, match in enumerate(pieces):
        if match["date"]:
            found.append(Value("date", _date(match["date"].lower())))
        elif match["clock"]:
            found.append(Value("clock", _clock(match["clock"].lower())))
        elif match["version"]:
            found.append(Value("version", match["version"].lower().lstrip("v")))
        elif match["figure"] or (match["word"] or "").lower() in SPELLED:
            following = pieces[place + 1] if place + 1 < len(pieces) else None
            found.append(_figure(match, plain, following)._replace(beside=last))
        last = next(iter(analyze(match[0])), last) if match["word"] else last
    return [value for value in found if value.value]


def _figure(match: re.Match[str], plain: str, following: re.Match[str] | None) -> Value:
    """Return a figure with its unit, or the noun of what it counts."""
    said = match["figure"] or SPELLED[match["word"].lower()]
    value = figure_value(said.lstrip("-"))
    value = f"-{value}" if said.startswith("-") else value
    unit = (match["unit"] or "").strip(" -").lower()
    before = plain[: match.start()].rstrip()[-1:]
    if not unit and following and following["word"] and not match["figure"]:
        unit = following["word"].lower()
    unit = {"$": "$", "€": "€", "£": "£"}.get(before, unit)
    if name := UNIT_NAMES.get(unit):
        kind = next((kind for kind, scale in SCALES.items() if name in scale), name)
        return Value(kind, value, name)
    counted = "" if unit.isalpha() and not analyze(unit) else unit
    numbered = _NUMBERED.search(plain[: match.start()])
    noun = analyze(numbered[1] if numbered else counted)[:1]
    return Value(f"#{noun[0] if noun else ''}", value)


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _date(said: str) -> str:
    """Return a date as ISO, as far as it is told."""
    if match := re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", said):
        return f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}"
    month = re.search(_MONTH, said)
    if month is None:
        return said
    number = next(n for n, name in enumerate(_MONTHS, start=1) if name.startswith(month[0][:3]))
    figures = re.findall(r"\d+", said)
    year = next((figure for figure in figures if len(figure) == 4), "")
    day = next((f"{int(figure):02}" for figure in figures if len(figure) < 3), "")
    return "-".join(filter(None, (year, f"{number:02}", day)))


def _clock(said: str) -> str:
    hours, _, rest = said.partition(":")
    hour = int(re.match(r"\d+", hours)[0])  # type: ignore[index]
    minutes = (re.match(r"\d\d", rest) or ["00"])[0]
    if "p" in said and hour < 12:
        hour += 12
    elif "a" in said and hour == 12:
        hour = 0
    return f"{hour:02}:{minutes}"
