"""Whether a unit of a page says something else of what a claim speaks of: a closed comparison of typed values. A false
alarm is worse than a miss: both have to speak of the same, in nearly the same words or as their vectors tell, and
exactly one value may differ. Another setting, product or end of a range is no difference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from rag_serving.answering.comparing.conflicts import BOUNDS
from rag_serving.answering.comparing.typed import PIECE, Value, is_value, plain_of, values_of
from rag_serving.text.analyzer import analyze
from rag_serving.text.polarity_words import NEGATIONS, SPELLED, UNIT_NAMES, contradict, negations

Relation = Literal["same", "other"]
OtherValue = tuple[Value, Value]  # the value of a claim, and that of a page
Weights = Mapping[str, float]  # inverse document frequencies of terms

_ABOUT = 0.72  # of the claim's weight that a unit and what it hangs from must have
_ABOUT_HERE, _ABOUT_SECTION = 0.55, 0.8  # of a unit, and of the section around it, in place of that
_UNNAMED = 0.3  # of the claim's weight that names may have which a section lacks
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
_CLAUSE = re.compile(r"(?:it|they|this|these) \w", re.IGNORECASE)
_TURNED, _COVERED = 0.7, 0.85  # of a statement of which a claim denies the other
_FEWEST = 2  # words of what says one of something
_NAME = r"(?P<name>[A-Z][\w'-]*(?: [A-Z][\w'-]*){0,2})"
_NAMED_AFTER = re.compile(rf"\b(?P<how>is|are|was|were|by|to|in|at|from|with)(?: the)? {_NAME}(?! of\b)")
_NAMED_FIRST = re.compile(rf"^\W*{_NAME} (?P<how>is|are|was) (?:the|our)\b")
_EXCLUSIVE = tuple(
    frozenset(group.split())
    for group in (
        "enables disables",
        "allowed forbidden prohibited denied", "required optional", "mandatory optional", "synchronous asynchronous",
        "synchronously asynchronously", "automatic manual", "automatically manually", "includes excludes",
        "included excluded", "accepts rejects", "accepted rejected", "always never", "before after",
        "public private", "internal external", "encrypted unencrypted", "ascending descending", "above below",
        "increases decreases reduces", "online offline", "starts stops", "first last", "morning afternoon evening",
        "north south east west", "left right", "primary secondary", "upper lower", "inside outside",
    )
)  # fmt: skip
"""Words of which a statement can have one alone."""


@dataclass(frozen=True)
class ComparedStatement:
    """What a claim, a unit or a cell says, read once. `beside`: headings and what else it may speak of unnamed."""

    text: str
    beside: str = ""
    section: str = ""  # all text around it

    @cached_property
    def tokens(self) -> tuple[tuple[str, str], ...]:
        """Return kind and text of each piece that is no function word, in order; words by their stems."""
        return tuple(_tokens(self.plain))

    @cached_property
    def plain(self) -> str:
        return plain_of(self.text)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        return tuple(values_of(self.plain))

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
    def whole(self) -> frozenset[str]:
        """Return its words with those of all its section."""
        return self.around | _terms_beside(self.section)

    @cached_property
    def scope(self) -> tuple[Value, ...]:
        """Return the values of what it hangs from."""
        return ComparedStatement(self.beside.replace("\n", "; ")).values

    @cached_property
    def bounds(self) -> frozenset[str]:
        found = BOUNDS.intersection(re.findall(r"[a-z]+", self.plain.lower()))
        return frozenset("low" if word in _LOW else "high" if word in _HIGH else word for word in found)

    @cached_property
    def is_negative(self) -> bool:
        return negations(self.plain) % 2 == 1


def relation(claim: ComparedStatement, page: ComparedStatement, weights: Weights) -> Relation | None:
    """Return whether a page says what a claim says in one of its values, or another value; None if it speaks of
    something else, or where that is not certain."""
    if not claim.words & page.words or _identifiers(claim) - page.around or not _is_in_scope(claim, page):
        return None
    if claim.names - page.whole:
        return "other" if _is_renamed(claim, page, weights) else None
    share = _share(claim.words, page.around, weights)
    is_near = share >= _ABOUT or (share >= _ABOUT_HERE and _share(claim.words, page.whole, weights) >= _ABOUT_SECTION)
    if found := relation_of(compared(claim, page)) if is_near else None:
        return found
    if share < _ABOUT:
        return None
    # a clause such as `it cannot be booked`
    is_denied = bool(_CLAUSE.match(page.plain)) and page.words <= claim.words and claim.is_negative != page.is_negative
    if _is_turned(claim, page) or _is_renamed(claim, page, weights) or (share > _ALL and is_denied):
        return "other"
    is_all = not claim.values and claim.words <= page.words
    return "same" if is_all and claim.is_negative == page.is_negative else None


def relation_of(found: OtherValue | Literal["same"] | None) -> Relation | None:
    return "other" if isinstance(found, tuple) else found


def compared(claim: ComparedStatement, page: ComparedStatement) -> OtherValue | Literal["same"] | None:
    """Return the one value of a claim that a page has another of, and that; "same" if it has them all; None if
    there are several, or where it is not clear which of the page's it would be."""
    pairs, same, missing = list[tuple[Value, list[Value]]](), 0, False
    for value in claim.values:
        theirs = [other for other in page.values if value.is_of_kind(other, claim.around, page.around)]
        if any(value.is_same(other) and value.denied == other.denied for other in theirs):
            same += 1
            continue
        scope = [each for each in page.scope if each.kind == value.kind] if value.kind in ("date", "version") else []
        theirs = [other for other in theirs if not any(other.is_same(own) for own in claim.values)]
        if any(map(value.is_same, scope)):
            continue
        if any(map(value.overlaps, theirs)):
            missing = True
        elif theirs:
            pairs.append((value, theirs))
        elif scope:
            return None
        else:
            missing = True
    if not pairs:
        return "same" if same and not missing else None
    if len(pairs) != 1 or _turned(claim, page):
        return None
    [(value, theirs)] = pairs
    if len({other.value for other in theirs}) > 1:
        theirs = [other for other in theirs if other.beside and other.beside == value.beside]
    if len({other.value for other in theirs}) != 1 or {"low", "high"} <= claim.bounds ^ page.bounds:
        return None
    return (value, theirs[0]) if value.denied == theirs[0].denied else None


def may_speak_of_the_same(claim: ComparedStatement, page: ComparedStatement, weights: Weights) -> bool:
    """Return whether a page has what a claim names, or names nothing else and hardly lacks anything."""
    if not claim.words & page.around or _identifiers(claim) - page.around:
        return False
    absent = claim.names - page.whole
    if absent and (page.names - claim.around or 1 - _share(claim.words - absent, claim.words, weights) > _UNNAMED):
        return False
    return _is_in_scope(claim, page)


def _is_in_scope(claim: ComparedStatement, page: ComparedStatement) -> bool:
    """Return whether a page has the words before a claim's colon."""
    scope = _SCOPE.match(claim.plain)
    return not scope or frozenset(analyze(scope[0])) <= page.around


def likeness(claim: ComparedStatement, page: ComparedStatement, weights: Weights, cosine: float, rank: int) -> float:
    """Return how likely both speak of the same, as a logit; `cosine`: of their vectors, `rank`: of the page's passage.
    Logistic regression over what 644 questions about twelve handbooks have for an answer, or nearly."""
    shared = _share(claim.words, page.around, weights)
    brevity = 1 / (1 + len(page.words - claim.words))
    return 2.5 * shared + 8.0 * cosine + 3.5 / rank + 3.0 * brevity - 6.9


def known(claim: ComparedStatement, page: ComparedStatement, weights: Weights) -> float:
    """Return the share of a claim's weight that the section of a page has."""
    return _share(claim.words, page.whole, weights)


def _is_renamed(claim: ComparedStatement, page: ComparedStatement, weights: Weights) -> bool:
    """Return whether both say the same but for a name behind one word such as `is` or `by`, or that they begin with,
    before `is the`."""
    return any(
        ours["how"].lower() == theirs["how"].lower()
        and _is_exchanged(ours["name"], theirs["name"], claim, page, weights)
        for pattern in (_NAMED_AFTER, _NAMED_FIRST)
        for ours in pattern.finditer(claim.plain)
        for theirs in pattern.finditer(page.plain)
    )


def _is_exchanged(name: str, other: str, claim: ComparedStatement, page: ComparedStatement, weights: Weights) -> bool:
    """Return whether two statements say the same but for these names, which both have alone."""
    one, two = frozenset(analyze(name)), frozenset(analyze(other))
    rest = claim.words - one
    if one & page.around or two & claim.around or claim.is_negative != page.is_negative or len(rest) < _FEWEST:
        return False
    is_near = _share(rest, page.around - two, weights) >= _NEARLY_ALL
    return is_near and len(page.words - two - claim.around) <= len(rest) // 2


def _is_turned(claim: ComparedStatement, page: ComparedStatement) -> bool:
    """Return whether one denies the other in nearly the same words, or has the opposite of one of its words."""
    ours, theirs = claim.words - _OPPOSED, page.words - _OPPOSED
    least = max(_TURNED * len(ours), _TURNED * len(theirs), 2)
    if len(ours & page.around) < _COVERED * len(ours) or len(ours & theirs) < least:
        return False
    if any(not any(value.is_same(other) for other in page.values) for value in claim.values):
        return False
    return (claim.is_negative != page.is_negative) != _turned(claim, page)


def _turned(claim: ComparedStatement, page: ComparedStatement) -> bool:
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


def _share(words: frozenset[str], of: frozenset[str], weights: Weights) -> float:
    total = sum(weights.get(word, 1.0) for word in words)
    return sum(weights.get(word, 1.0) for word in words & of) / (total or 1.0)


def _tokens(plain: str) -> Sequence[tuple[str, str]]:
    found = list[tuple[str, str]]()
    for match in PIECE.finditer(plain):
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
            if word.lower() in SPELLED or is_value(match):
                found.append(("value", word.lower()))
            elif stems:
                found.append(("cap" if is_name else "word", stems[0]))
        elif kind == "name":
            found.append(("value" if "@" in match[0] else "name", match[0].lower()))
        else:
            found.append(("value", match[0].lower()))
    return found
