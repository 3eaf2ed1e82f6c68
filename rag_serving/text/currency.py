"""A page's own statement on its currency: whether it is marked as no longer in force, and its version. A page speaks
about itself alone: "This page is obsolete" counts, "All other pages are obsolete" does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

Version = tuple[int, ...]  # the numbers of a version or, alone, of a year: (5, 4), (2024,)

_OVER = (
    r"superseded|replaced|deprecated|obsoleted?|outdated|out[- ]of[- ]date|archived|discarded|rejected|declined"
    r"|withdrawn|abandoned|retired|cancell?ed|not up[- ]to[- ]date"
    r"|no longer (?:maintained|valid|current|in force|up[- ]to[- ]date|relevant)"
)
_STEMS = (
    "supersed", "replaced", "deprecat", "obsolet", "outdated", "out of", "out-of", "archiv", "discard", "reject",
    "declin", "withdraw", "abandon", "retired", "cancel", "up to", "up-to", "no longer",
)  # fmt: skip
_SELF = (
    r"(?:page|document(?:ation)?|article|section|proposal|design|guide|runbook|record|policy|faq|tutorial|specification"
    r"|wiki|KIP|FLIP|RFC|ADR)(?:-\d+)?"
)
_FILLER = r"(?:(?:now|currently|already|since|officially|largely|completely|considered|marked|as|an?|the) +){0,3}"
_ENDS = r"(?![\w-])(?! +(?:if|when|once|after|unless|every|until|each|only)\b)"
_SAYS_SO = re.compile(
    rf"\bthis +(?:wiki +)?(?P<subject>{_SELF}) +(?:is|was|has been|became) +{_FILLER}(?P<word>{_OVER}){_ENDS}"
    rf"|\bthis +is +an? +(?P<adjective>{_OVER}) +(?P<noun>{_SELF})\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:if|when|whether|once|unless|until|should|says?|said|asks?|about|in case|every|all|except|unlike)\b|[\"“?]",
    re.IGNORECASE,
)
_LONGEST_PREFIX = 60  # characters of a sentence before it comes to itself
_STATUS = re.compile(
    r"[*_`|\s]{0,6}(?:current +|page +|document +|proposal +)?(?:state|status)[*_`\s]{0,6}[:|=][*_`\s:|=\[(\"“']{0,9}"
    rf"(?P<word>{_OVER}){_ENDS}",
    re.IGNORECASE,
)
_STATUS_HEADING = re.compile(r"(?:current +)?(?:state|status)", re.IGNORECASE)
_FIRST = re.compile(rf"[\[(\"“'*_`\s]{{0,9}}(?P<word>{_OVER}){_ENDS}", re.IGNORECASE)
_LONGEST_STATUS = 120
_IN_TITLE = re.compile(
    rf"[\[(]\s*(?P<word>{_OVER}|old|unreleased)\b[^\])]{{0,40}}[\])]"
    rf"|^\s*(?P<first>{_OVER}|old)\s*[:–—-]\s"
    rf"|\s[:–—-]\s*(?P<last>{_OVER})\s*$",
    re.IGNORECASE,
)
# Headings that disown their text: `Wrong answers in the quiz`, `Old rules`, `Common mistakes`.
_DISOWNED = re.compile(
    r"(?P<word>rejected|discarded|wrong|incorrect|invalid|false|bad|old|former|previous|obsolete|expired|proposed|planned"
    r"|abandoned|unanswered|draft) (?:\w+ ){0,2}?(?:alternatives?|options?|proposals?|approach(?:es)?|designs?|ideas?"
    r"|answers?|rules?|examples?|prices?|polic(?:y|ies)|procedures?|process(?:es)?|settings?|limits?|practices?|solutions?"
    r"|assumptions?|changes?|values?|usage)\b"
    r"|(?:common )?(?P<noun>mistakes?|misconceptions?|myths?|anti-?patterns?|pitfalls?)\b"
    r"|(?P<do>what not to do|don['’]?ts|do not do this|not (?:yet )?(?:in force|valid|approved|implemented|decided))\b",
    re.IGNORECASE,
)
_LABEL = re.compile(rf"{_OVER}|archive|old", re.IGNORECASE)
_NUMBERED = r"[A-Z][A-Z0-9]{1,9}-\d{1,6}"
_BY = re.compile(
    rf"[\"”')\]*_`]{{0,9}},? *(?:by|in favou?r of|with) +(?:the +)?"
    rf"(?P<names>{_NUMBERED}(?:(?:,| and|, and) +{_NUMBERED}){{0,3}})"
)

_VERSION = re.compile(
    r"(?<![\w.,:/#+-])(?:v|version +|release +)?(?P<number>\d{1,3}(?:\.\d{1,3}){1,2})(?:\.x)?(?![\w%]|[.,:-]\d)"
    r"|(?<![\w.-])(?:v|version +|release +)(?P<whole>\d{1,3})(?![\w%]|[.,:-]\d)"
    r"|(?<![\w.,:/#+-])(?P<year>(?:19|20)\d\d)(?![\w%]|[.,:/-]\d)",
    re.IGNORECASE,
)

_DOCS_VERSION = re.compile(r" \((?:unreleased )?version ([^()\s][^()]{0,60})\)\Z")
_NUMBERING = re.compile(r"^\s*\d{1,3}(?:\.\d{1,3})*\.?\s+(?!(?:release|version|beta|alpha|rc)\b)(?=\S)", re.IGNORECASE)
_FIRST_YEAR = 1900
_DIGITS = re.compile(r"\d{1,9}")


class Mark(NamedTuple):
    """A word by which a page, or a section, says that it is no longer in force."""

    word: str  # lower case: superseded, out of date
    by: str = ""  # what took its place, where that has a number: KIP-112
    of: Literal["page", "section"] = "page"

    @property
    def told(self) -> str:
        return (
            f"{self.word} by {self.by}"
            if self.by and self.word in ("superseded", "replaced")
            else (f"{self.word} in favour of {self.by}" if self.by else self.word)
        )


def mark_of_title(title: str) -> Mark | None:
    """Return the mark in a page's title: `Release process (outdated)`, `[Deprecated] Login`; None if it has none."""
    found = _IN_TITLE.search(title)
    return _mark(next(filter(None, found.groups())), title[found.end() :]) if found else None


def mark_of_headings(headings: Iterable[str]) -> Mark | None:
    """Return the mark in a passage's headings; `Rejected alternatives` is one, too."""
    for heading in headings:
        if found := mark_of_title(heading):
            return found._replace(of="section")
        if disowned := _DISOWNED.match(_NUMBERING.sub("", heading).strip(" *_")):
            return Mark(next(filter(None, disowned.groups())).lower(), of="section")
    return None


def mark_of_labels(labels: Iterable[str]) -> Mark | None:
    """Return the mark among a page's labels, the first by name."""
    for label in sorted(labels):
        if _LABEL.fullmatch(label.replace("-", " ").replace("_", " ").strip()):
            return _mark(label, "")
    return None


def mark_of_sentences(sentences: Sequence[str], heading: str = "") -> Mark | None:
    """Return the first mark that a page gives itself in its sentences or rows; `heading` is the one above them."""
    for place, sentence in enumerate(sentences):
        if can_mark(sentence) and (found := _said(sentence, heading if place == 0 else "")):
            return found
    return None


def can_mark(text: str) -> bool:
    """Return whether a text has a word that could be part of a mark."""
    lower = text.lower()
    return any(stem in lower for stem in _STEMS)


def _said(sentence: str, heading: str) -> Mark | None:
    status = _STATUS.match(sentence) or (_FIRST.match(sentence) if _STATUS_HEADING.fullmatch(heading.strip()) else None)
    if status and len(sentence) <= _LONGEST_STATUS + status.end():
        return _mark(status["word"], sentence[status.end() :])
    found = _SAYS_SO.search(sentence[: 4 * _LONGEST_PREFIX])
    if not found or found.start() > _LONGEST_PREFIX or _SUPPOSED.search(sentence[: found.start()]):
        return None
    mark = _mark(found["word"] or found["adjective"], sentence[found.end() :])
    is_section = (found["subject"] or found["noun"]).lower() == "section"
    return mark._replace(of="section") if is_section else mark


def _mark(word: str, rest: str) -> Mark:
    plain = " ".join(word.lower().replace("-", " ").replace("_", " ").split())
    named = _BY.match(rest)
    return Mark({"obsoleted": "obsolete", "canceled": "cancelled"}.get(plain, plain), named["names"] if named else "")


def versions_in(text: str) -> list[Version]:
    """Return the versions and years that a title, heading or question names: `5.4`, `v2`, `Release 3`, `2024`."""
    found = (match["number"] or match["whole"] or match["year"] for match in _VERSION.finditer(text))
    return [tuple(int(part) for part in number.split(".")) for number in found]


def without_versions(text: str) -> str:
    """Return a title or heading without the versions that it names, in lower case."""
    return " ".join(_VERSION.sub(" ", _DOCS_VERSION.sub("", text)).lower().split())


def docs_version(title: str) -> str | None:
    """Return the version of a documentation that the end of a title names: `Limits (version 2.0)`; None without one."""
    found = _DOCS_VERSION.search(title)
    return found[1] if found else None


def names_version(text: str, name: str) -> bool:
    """Return whether a question names a version that has no number: `in the next version`."""
    words = text.lower()
    return f"version {name.lower()}" in words or f"{name.lower()} version" in words


def version_of(headings: Sequence[str], title: str, space: str) -> Version | None:
    """Return the version that a passage is about: the last that its innermost heading names, else its title, else the
    number of its space (`DOCS-39`); None without one."""
    for heading in (*reversed(headings), title):
        if found := versions_in(_NUMBERING.sub("", heading)):
            return found[-1]
    number = _DIGITS.findall(space)
    return (int(number[-1]),) if number else None


@lru_cache(maxsize=4096)
def family_of(title: str, space: str) -> tuple[str, str]:
    """Return title and space without versions: pages of one family can be compared by their versions."""
    return without_versions(title), _DIGITS.sub("", space).strip("-_. ").lower()


def are_comparable(one: Version, two: Version) -> bool:
    """Return whether two versions count in the same way: no year with a release, no 54 with 5.4."""
    return (len(one) == 1) == (len(two) == 1) and (one[0] >= _FIRST_YEAR) == (two[0] >= _FIRST_YEAR)


def is_of_version(version: Version, wanted: Version) -> bool:
    """Return whether a version is the one that is wanted, one of its releases (5.4.1 is one of 5.4), or the same in a
    name that has no dots (54)."""
    return version[: len(wanted)] == wanted or version == (int("".join(map(str, wanted))),)
