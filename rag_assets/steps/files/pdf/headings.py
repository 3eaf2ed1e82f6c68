"""Headings of a file without markup, by the outline, else by size, weight and numbering; and the name of a document.

A file's name often says little ("10q-2023Q1-AAPL"), and so does a passage of a report whose words are in every other
report, too: questions name the document. So its name is above all of its headings: by its metadata, by its pages'
repeated lines, else by its cover.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rag_assets.steps.files.pdf.words import PageRows, PdfRow
from rag_assets.steps.formats.blocks import Block, clean

_MOST = 120  # characters of a name
_LONG = 300  # characters of a paragraph that is no part of a cover
_SHARE, _PAGES = 1 / 3, 3  # of the pages that repeat a line
_WORD = re.compile(r"[^\W\d_]{3,}")
_WRITTEN_BY = re.compile(
    r"^(?:microsoft (?:word|powerpoint|excel)|untitled|slide|document)\b[\s\-–:]{0,4}\d{0,3}", re.I
)
_FILE = re.compile(r"\.[a-z]{2,5}$", re.I)
_COUNTED = re.compile(r"(?:\b(?:page|seite|p\.)\s{0,2})?\b\d{1,4}(?:\s{0,2}(?:of|von|/)\s{0,2}\d{1,4})?$", re.I)
_COUNTED_FIRST = re.compile(
    r"^(?:(?:page|seite|p\.)\s{0,2})?\d{1,4}(?:\s{0,2}(?:of|von|/)\s{0,2}\d{1,4})?\b(?!\S)", re.I
)
_BORDER = " |·•-–—/,"
_NAVIGATION = frozenset({"table of contents", "contents", "back to contents", "index", "confidential", "draft"})
_DIGITS = re.compile(r"\d+")
_BARE = re.compile(r"[\W_]+")


def document_name(title: str, pages: Sequence[PageRows], shown: Sequence[PageRows], blocks: Sequence[Block]) -> str:
    """Return a document's own name; empty if it has none. `title`: that of its metadata; `pages`: its lines; `shown`:
    the same without repeated ones; `blocks`: its blocks."""
    name = clean(_WRITTEN_BY.sub("", clean(title)))
    is_name = len(name) <= _MOST and len(_WORD.findall(name)) >= 2 and not _FILE.search(name)
    parts = [*([name] if is_name else []), *_running(pages, shown)]
    if not any(len(_WORD.findall(part)) >= 2 for part in parts):
        parts += _of_cover(pages, blocks)
    names: list[str] = []
    for part in parts:
        told = {word for name in names for word in _words(name)}
        if not _words(part) <= told and len(" · ".join([*names, part])) <= _MOST:
            names.append(part)
    return " · ".join(names)


def under_name(name: str, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a document below its name; a cover that says the same says it once."""
    if not name:
        return list(blocks)
    named = [page_heading(name, 1, page=1)]
    for block in blocks:
        if block.kind != "heading":
            named.append(block)
        elif block.page != 1 or _bare(block.text) != _bare(name):
            named.append(block._replace(level=block.level + 1))
    return named


def page_heading(text: str, level: int, page: int, confidence: int | None = None) -> Block:
    """Return a heading that is cited by its page."""
    return Block("heading", text, level=level, anchors=(f"page={page}",), page=page, confidence=confidence)


def _running(pages: Sequence[PageRows], shown: Sequence[PageRows]) -> Iterator[str]:
    """Yield the lines that many pages repeat, without the numbers that count them, most often repeated first."""
    on: defaultdict[str, set[int]] = defaultdict(set)
    names: dict[str, str] = {}
    for page, rest in zip(pages, shown, strict=True):
        kept = set(map(id, rest.rows))
        for row in page.rows:
            if id(row) not in kept:
                text = clean(row.text).strip(_BORDER)
                name = _COUNTED_FIRST.sub("", _COUNTED.sub("", text).strip(_BORDER)).strip(_BORDER)
                on[name.casefold()].add(page.page)
                names.setdefault(name.casefold(), name)
    needed = max(_PAGES, _SHARE * len(pages))
    for key in sorted(on, key=lambda key: (-len(on[key]), key)):
        if len(on[key]) >= needed and key not in _NAVIGATION and _WORD.search(key):
            yield names[key]


def _of_cover(pages: Sequence[PageRows], blocks: Sequence[Block]) -> Iterator[str]:
    if len(pages) < _PAGES:
        return
    alike = Counter(_DIGITS.sub("#", block.text) for block in blocks if block.kind == "heading")
    for block in blocks:
        if block.page > 1 or block.kind == "table" or (block.kind != "heading" and len(block.text) > _LONG):
            return
        if block.kind == "heading" and _WORD.search(block.text) and alike[_DIGITS.sub("#", block.text)] == 1:
            yield block.text


def _words(text: str) -> set[str]:
    return set(_BARE.sub(" ", text.casefold()).split())


def _bare(text: str) -> str:
    return _BARE.sub("", text.casefold())


LEVELS = 6
_WORDS_MAX = 24
_CHARS_MAX = 180
_LINES_MAX = 4
_LARGER = 1.12  # times the size of running text
_PAGE_CHARS = 400  # letters that show the size of text
_AROUND = 2  # pages on either side that a page's sizes are compared with
_PATTERNS = (
    re.compile(r"(?:part|chapter|teil|kapitel)\s{1,3}(?:[ivxlc]+|\d+)\b", re.I),
    re.compile(r"(?:item|section|article|appendix|annex|schedule)\s{1,3}(?:[ivxlc]+|\d+[a-z]?|[a-z])\b", re.I),
    re.compile(r"note\s{1,3}\d+\b", re.I),
)
_DECIMAL = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})[.:)]?\s")
_CAPTION = re.compile(r"(?:table|figure|fig\.|exhibit|chart|abbildung|tabelle)\s{1,3}\d", re.I)
_LETTER = re.compile(r"[^\W\d_]{2,}")
_DATE = re.compile(
    r"(?:(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s\d{1,2},?\s\d{4}"
    r"|(?:(?:three|six|nine|twelve)\s(?:months|weeks)|(?:fiscal\s)?years?|quarters?)\s(?:ended|ending)\b.{0,40}"
    r"|\(?in\s(?:millions|thousands|billions)\b.{0,90})",
    re.I,
)

_VALUE = re.compile(r"[$€£]\s?\d|\d,\d{3}\b|\(\d")
_LEADER = "....."  # to the number of a page in a table of contents


class Outlined(NamedTuple):
    """An entry of a file's outline."""

    level: int  # from 1
    title: str
    page: int  # from 1
    up: float = math.inf  # points from the bottom of the page to where it leads; infinite: to the top


class HeadingCandidate(NamedTuple):
    """A paragraph that may be a heading."""

    text: str
    page: int
    rows: Sequence[PdfRow]
    usual: float  # size of running text on its page


class _Style(NamedTuple):
    """The common style of headings of one level; smaller ones rank higher."""

    size: float  # negative, as a share of that of running text
    pattern: int
    is_light: bool
    is_small: bool  # not in capitals


def heading_levels(candidates: Sequence[HeadingCandidate], outline: Sequence[Outlined]) -> list[int]:
    """Return the level of each paragraph; 0: it is no heading."""
    bold = _is_mostly_bold(candidates)
    outlined = {at: min(max(entry.level, 1), LEVELS) for at, entry in _matched(candidates, outline).items()}
    styles = [
        _style(candidate) if at in outlined or _looks_like_heading(candidate, bold) else None
        for at, candidate in enumerate(candidates)
    ]
    by_style = _levels(candidates, styles, outlined)
    return [outlined.get(at) or (by_style[style] if style else 0) for at, style in enumerate(styles)]


def usual_sizes(pages: Sequence[PageRows]) -> dict[int, float]:
    """Return the size of running text by page.

    It is that of most letters of the document. Pages that hardly use it are scaled as a whole: theirs is the one of
    their own sizes that most letters of the pages around have, for a page of tables may have few of running text.
    """
    every = [Counter[float]() for _ in pages]
    for counts, page in zip(every, pages, strict=True):
        for row in page.rows:
            counts[round(row.size, 1)] += len(row.text)
    total: Counter[float] = sum(every, Counter[float]())
    usual = max(total, key=lambda size: (total[size], -size), default=10.0)
    sizes: dict[int, float] = {}
    for at, (page, own) in enumerate(zip(pages, every, strict=True)):
        around: Counter[float] = sum(every[max(at - _AROUND, 0) : at + _AROUND + 1], Counter[float]())
        used = [size for size, letters in own.items() if letters >= 0.05 * own.total()]
        most = max(used, key=lambda size: (around[size], -size), default=usual)
        is_scaled = own[usual] < 0.1 * own.total() and around[most] >= _PAGE_CHARS
        sizes[page.page] = most if is_scaled and abs(most - usual) <= 0.2 * usual else usual
    return sizes


def _is_mostly_bold(candidates: Iterable[HeadingCandidate]) -> bool:
    total = bold = 0
    for candidate in candidates:
        for row in candidate.rows:
            if abs(row.size - candidate.usual) < 0.5:
                total += len(row.text)
                bold += len(row.text) * row.bold
    return 2 * bold > total


def _looks_like_heading(candidate: HeadingCandidate, all_bold: bool) -> bool:
    text, rows = candidate.text, candidate.rows
    if len(rows) > _LINES_MAX or len(text) > _CHARS_MAX or len(text.split()) > _WORDS_MAX or not _LETTER.search(text):
        return False
    if _DATE.fullmatch(text) or _CAPTION.match(text) or text[:1].islower() or text[-1] in ",;" or text[0] in "(*†$€£■":
        return False
    if _LEADER in text or len(_VALUE.findall(text)) > 1:
        return False
    is_sentence = text[-1] in ".!?" and len(text.split()) > 6
    is_larger = min(row.size for row in rows) >= _LARGER * candidate.usual
    stands_out = all(row.bold for row in rows) and not all_bold and rows[0].size >= 0.93 * candidate.usual
    is_numbered = _pattern(text) < len(_PATTERNS) and text.isupper()
    return (is_larger and not is_sentence) or (stands_out and not is_sentence) or is_numbered


def _style(candidate: HeadingCandidate) -> _Style:
    text, row = candidate.text, candidate.rows[0]
    is_small = not text.isupper() or len(_LETTER.findall(text)) < 2  # a name alone may be an abbreviation
    return _Style(-round(row.size / candidate.usual, 1), _pattern(text), not row.bold, is_small)


def _pattern(text: str) -> int:
    for rank, pattern in enumerate(_PATTERNS):
        if pattern.match(text):
            return rank
    decimal = _DECIMAL.match(text)
    return len(_PATTERNS) + (decimal[1].count(".") if decimal else 6)


def _levels(
    candidates: Sequence[HeadingCandidate], styles: Sequence[_Style | None], outlined: Mapping[int, int]
) -> Mapping[_Style, int]:
    """Return the level of each style: that of its entries in the outline, else its rank below larger ones.

    Styles that only the first page has are a cover's: they are on the first level.
    """
    by_outline: defaultdict[_Style, list[int]] = defaultdict(list)
    pages: defaultdict[_Style, set[int]] = defaultdict(set)
    for at, style in enumerate(styles):
        if style is not None:
            pages[style].add(candidates[at].page)
            if at in outlined:
                by_outline[style].append(outlined[at])
    last = max((candidate.page for candidate in candidates), default=1)
    levels: dict[_Style, int] = {}
    deepest = 0
    for style in sorted(pages):
        if by_outline[style]:
            levels[style] = sorted(by_outline[style])[(len(by_outline[style]) - 1) // 2]
            deepest = max(deepest, levels[style])
        elif pages[style] == {1} and last > 3:
            levels[style] = 1
        else:
            deepest = levels[style] = min(deepest + 1, LEVELS)
    return levels


def unseen_parents(candidates: Sequence[HeadingCandidate], outline: Sequence[Outlined]) -> list[Outlined]:
    """Return the outline's parent entries that no paragraph has: parts of the document without a heading."""
    seen = set(map(id, _matched(candidates, outline).values()))
    parents = (entry for entry, below in pairwise(outline) if below.level > entry.level)
    return [entry for entry in parents if id(entry) not in seen]


def _matched(candidates: Sequence[HeadingCandidate], outline: Sequence[Outlined]) -> dict[int, Outlined]:
    """Return the entries of the outline by the places of their paragraphs, one for each. Titles in the outline may be
    shortened, or lack the number."""
    by_page: defaultdict[int, list[tuple[str, Outlined]]] = defaultdict(list)
    for entry in outline:
        if name := _bare(entry.title):
            by_page[entry.page].append((name, entry))
    matched: dict[int, Outlined] = {}
    for at, candidate in enumerate(candidates):
        waiting = by_page.get(candidate.page)
        if not waiting or len(candidate.rows) > _LINES_MAX or len(candidate.text) > _CHARS_MAX:
            continue
        name = _bare(candidate.text)
        for title, entry in [*waiting] if name else ():
            is_part = min(len(name), len(title)) >= 8 and (name.endswith(title) or title.endswith(name))
            if name == title or is_part:
                waiting.remove((title, entry))
                matched[at] = entry
                break
    return matched
