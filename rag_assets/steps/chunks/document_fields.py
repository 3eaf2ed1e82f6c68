"""A chunk's fields from its page and its book: slug, category, language, passage id, chapter, order.

These columns may change with a site's navigation or other pages of a source while the page stays as it is; they are
made anew with each build.

A passage id is `ch3-sec2-p45`: chapter, section of the chapter (0: the chapter's own page), and the place of the
passage in that section. It is counted within the section, and deeper pages count as part of it, so an edit moves no
passage of another section. The sections of a chapter without pages below it are those of its first headings. Chapters
without a number (a foreword, a colophon) are sections of chapter 0.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.steps.chunks.chunking import APART

_COLUMNS = ["page_id", "title", "ancestors", "position", "chapter", "source_file", "status"]
Number = tuple[int, ...]
Row = Mapping[str, Any]
Headed = Mapping[int, tuple[int, str]]
"""Number and heading of the section of a chapter that a row stands in, by the row's place in the table."""
_NUMBERED = re.compile(
    r"(?:(?:chapter|kapitel|section|abschnitt|part|teil)\s{1,9}(?=\d)|(?=\d{1,4}[.:)]))"
    r"(\d{1,4}(?:\.\d{1,4}){0,3})[.:)]?\s{0,9}(?:[–—-]\s{1,9})?",
    re.IGNORECASE,
)
"""What a title begins with that has a number of its own."""


def with_book_places(chunks: pa.Table, pages: pa.Table, *, is_book: bool) -> pa.Table:
    """Return rows of CHUNKS with their places in the book. `chunks`: rows of CHUNKS; `pages`: rows of PAGES, all of the
    source; `is_book`: whether pages without a number of their own are numbered by their position in the tree."""
    rows = {row["page_id"]: row for row in pages.select(_COLUMNS).to_pylist()}
    if not is_book and not any(row["chapter"] or row["source_file"] for row in rows.values()):
        return chunks
    order = reading_order(rows)
    numbers = _numbers(rows, order, is_book)
    headed = _headed(chunks, numbers)
    places = {page_id: place for place, page_id in enumerate(order, start=1)}
    titles = {number: rows[page_id]["title"] for page_id, number in numbers.items()}
    columns: dict[str, list[Any]] = {
        "passage_id": _passage_ids(chunks, places, numbers, headed),
        "chapter": [], "section": [], "page_order": [], "source_file": [],
    }  # fmt: skip
    for at, page_id in enumerate(chunks["page_id"].to_pylist()):
        number = numbers.get(page_id)
        section, heading = headed.get(at, (0, ""))
        columns["chapter"].append(_chapter(number, titles) if number else None)
        told = None  # of the chapter's own page
        if number and section:
            told = _told((*number, section), heading)
        elif number and len(number) > 1 and number[0]:
            told = _told(number, titles[number])
        columns["section"].append(told)
        columns["page_order"].append(places[page_id] if number else None)
        columns["source_file"].append(rows[page_id]["source_file"])
    for name, values in columns.items():
        field = chunks.schema.field(name)
        chunks = chunks.set_column(chunks.column_names.index(name), field, pa.array(values, field.type))
    return chunks


def _headed(chunks: pa.Table, numbers: Mapping[str, Number]) -> Headed:
    """Return the sections of chapters that have no pages below them: their first headings below the title."""
    divided = {number[0] for number in numbers.values() if len(number) > 1}
    paths, indices = chunks["heading_path"].to_pylist(), chunks["chunk_idx"].to_pylist()
    rows: dict[str, list[int]] = defaultdict(list)
    for at, page_id in enumerate(chunks["page_id"].to_pylist()):
        if indices[at] < APART and len(number := numbers.get(page_id, ())) == 1 and number[0] not in divided:
            rows[page_id].append(at)
    headed: dict[int, tuple[int, str]] = {}
    for places in rows.values():
        below = {at: (paths[at] or [])[1:] for at in sorted(places, key=indices.__getitem__)}
        if all(below.values()) and len({path[0] for path in below.values()}) == 1:  # the file's own title
            below = {at: path[1:] for at, path in below.items()}
        numbered: dict[str, int] = {}
        for at, path in below.items():
            if path:
                headed[at] = numbered.setdefault(path[0], len(numbered) + 1), path[0]
    return headed


def reading_order(rows: Mapping[str, Row]) -> list[str]:
    """Return the ids of pages as one reads them: each before those below it, these by position, then by title."""
    below: dict[str, list[str]] = defaultdict(list)
    for page_id, row in rows.items():
        above = [name for name in row["ancestors"] or () if name in rows and name != page_id]
        below[above[-1] if above else ""].append(page_id)
    order: dict[str, None] = {}
    stack = sorted(below[""], key=lambda page_id: _place(rows[page_id]), reverse=True)
    while stack:
        page_id = stack.pop()
        order[page_id] = None
        stack += sorted(below[page_id], key=lambda one: _place(rows[one]), reverse=True)
    return [*order, *sorted(rows.keys() - order.keys())]  # those of a circle come last


def _place(row: Row) -> tuple[bool, int, str, str]:
    position = row["position"]
    return position is None, position or 0, row["title"] or "", row["page_id"]


def _numbers(rows: Mapping[str, Row], order: Sequence[str], is_book: bool) -> dict[str, Number]:
    """Return the number of each page: its own, or in a book without numbers that of its place in the tree."""
    own = {page_id: number for page_id in order if (number := _parsed(rows[page_id]["chapter"]))}
    if own or not is_book:
        return own
    counts, numbers = Counter[Number](), dict[str, Number]()
    for page_id in order:
        above = [name for name in rows[page_id]["ancestors"] or () if name in numbers]
        parent = numbers[above[-1]] if above else ()
        counts[parent] += 1
        numbers[page_id] = (*parent, counts[parent])
    return numbers


def _parsed(chapter: str | None) -> Number | None:
    parts = (chapter or "").split(".")
    is_number = all(part.isascii() and part.isdigit() and len(part) < 7 for part in parts)
    return tuple(map(int, parts)) if is_number else None


def _passage_ids(
    chunks: pa.Table, places: Mapping[str, int], numbers: Mapping[str, Number], headed: Headed
) -> list[str | None]:
    """Return the passage id of every chunk. Text with readers of its own has none, so that no number reveals it."""
    indices, page_ids = chunks["chunk_idx"].to_pylist(), chunks["page_id"].to_pylist()
    inside = [place for place, page_id in enumerate(page_ids) if page_id in numbers and indices[place] < APART]
    counts = Counter[Number]()
    ids: list[str | None] = [None] * len(chunks)
    for place in sorted(inside, key=lambda place: (places[page_ids[place]], indices[place])):
        chapter, section = (*numbers[page_ids[place]], headed.get(place, (0, ""))[0])[:2]
        counts[chapter, section] += 1
        ids[place] = f"ch{chapter}-sec{section}-p{counts[chapter, section]}"
    return ids


def _chapter(number: Number, titles: Mapping[Number, str]) -> str:
    """Return `Chapter 3: Common Concepts`, or the title of one without a number."""
    if number[0] == 0:
        return titles[number]
    title = titles.get(number[:1]) or ""
    own = _NUMBERED.match(title)
    if own and own[1] != str(number[0]):
        return title  # its own number counts
    title = title[own.end() :] if own else title
    return f"Chapter {number[0]}: {title}" if title else f"Chapter {number[0]}"


def _told(number: Number, title: str) -> str:
    """Return a title with its number; one that begins with a number keeps it alone."""
    return title if _NUMBERED.match(title) else f"{'.'.join(map(str, number))} {title}"


_OF_PAGES = ("slug", "category")


def with_document_fields(chunks: pa.Table, pages: pa.Table) -> pa.Table:
    """Return rows of CHUNKS with slug and category of their pages. `chunks`: rows of CHUNKS; `pages`: rows of PAGES,
    all of the source."""
    rows = {row["page_id"]: row for row in pages.select(["page_id", *_OF_PAGES]).to_pylist()}
    page_ids = chunks["page_id"].to_pylist()
    for name in _OF_PAGES:
        field = chunks.schema.field(name)
        values = pa.array([rows[page_id][name] for page_id in page_ids], field.type)
        chunks = chunks.set_column(chunks.column_names.index(name), field, values)
    return chunks


LOOKED_AT = 5
"""Chunks of a page whose language is looked for: 60 µs each."""
Detect = Callable[[Sequence[str]], str | None]
"""Returns the language of the texts of a page, ISO 639-1; None where it cannot be told."""


def with_languages(chunks: pa.Table, detect: Detect) -> pa.Table:
    """Return rows of CHUNKS with the column `lang` filled: the page's own, else that of most of its texts."""
    pages = chunks["page_id"].to_pylist()
    told = dict(zip(pages, chunks["lang"].to_pylist(), strict=True))
    texts: dict[str, list[str]] = defaultdict(list)
    kinds = chunks["content_type"].to_pylist()
    for page, text, kind in zip(pages, chunks["text"].to_pylist(), kinds, strict=True):
        if told[page] is None and kind != "code" and len(texts[page]) < LOOKED_AT:
            texts[page].append(text)
    languages = {page: told[page] or detect(texts[page]) for page in told}
    column = pa.array([languages[page] for page in pages], pa.string())
    return chunks.set_column(chunks.column_names.index("lang"), chunks.schema.field("lang"), column)
