"""What a document calls itself: by its metadata, by what its pages repeat, else by its cover.

Belongs here: which of these is a name. Does not belong here: the title of a page of a source, which is the file's name
(`rag_assets.sources.documents`), finding repeated lines (`furniture`).

A file's name often says little ("10q-2023Q1-AAPL"), and so does a passage of a report whose words stand in every other
report, too: who asks names the document. So its name stands above all of its headings.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rag_assets.steps.files.pdf.records import PageRows
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
    """Return what a document calls itself; empty where it does not.

    Args:
        title: that of its metadata.
        pages: its lines.
        shown: the same without those that are repeated.
        blocks: its blocks.
    """
    parts = [*_of_metadata(title), *_running(pages, shown)]
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
    first = Block("heading", name, level=1, anchors=("page=1",), page=1)
    return [
        first,
        *(
            block._replace(level=block.level + 1) if block.kind == "heading" else block
            for block in blocks
            if not (block.kind == "heading" and block.page == 1 and _bare(block.text) == _bare(name))
        ),
    ]


def _of_metadata(title: str) -> Iterator[str]:
    name = clean(_WRITTEN_BY.sub("", clean(title)))
    if len(name) <= _MOST and len(_WORD.findall(name)) >= 2 and not _FILE.search(name):
        yield name


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
    """Yield the headings of the first page of a document of several, up to its first table or longer text."""
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
