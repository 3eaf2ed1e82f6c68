"""What nobody looks after: links that lead nowhere, reviews that are due, pages without an owner, drifting copies.

Belongs here: finding them in tables of sections, pages and chunks. Does not belong here: where links land
(`sections.anchors`), which copies are not indexed at all (`steps.dedup`).
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import combinations
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from rag_assets.steps.contradictions.findings import LintFinding, Quote
from rag_assets.steps.contradictions.values import are_comparable, past_pages
from rag_assets.steps.dedup import Fingerprints, bands_of, jaccard, shingles_of, words_of
from rag_assets.steps.sections.anchors import PageTargets, landings
from rag_serving.records.passages import Chunk
from rag_serving.sets.dates import date_at
from rag_serving.text.structure import line_of
from rag_serving.text.units import cells_of

VERSION = 1
"""Raised when other findings are made of the same tables."""
Properties = Mapping[str, Mapping[str, str]]
"""What pages say of themselves, by page id: `review by: 2026-01-31`."""
_REVIEW = re.compile(r"(?:next[ _-])?review(?:[ _-](?:by|date|due|until))?|valid[ _-]until|expires(?:[ _-]on)?", re.I)
_OWNER = re.compile(r"(?:(?:page|document|doc|content)[ _-])?owners?|owned[ _-]by|maintainers?", re.I)
_NOBODY = re.compile(r"[-–—?\s.]*|tb[acd]|none|n/?a|nobody|vacant|unknown|to be (?:decided|defined|named)", re.I)
_PROPERTY = re.compile(r"[*_`]{0,4}([^\W\d_][\w -]{1,40}?)[*_`]{0,4}\s?:[*_`]{0,4}\s*(.{0,80})", re.DOTALL)
_DATED_LABEL = re.compile(r"(review[ _-]by|valid[ _-]until|expires)[ _-](.+)", re.I)
_PAGE_FILE = re.compile(r"(?![\w+.-]+:|/)[^:]*\.(?:mdx?|html?|rst|adoc)", re.I)
_MOST_DEAD, _FEW_DEAD = 0.2, 10  # share of the links to pages of a space from which on its pages are not all known
_COPY, _WORDS, _MOST_COPIES = 0.8, 40, 3  # least similarity of a copy; its fewest words; more are a template


def dead_links(sections: pa.Table, pages: pa.Table, files: Collection[str] = ()) -> Iterator[LintFinding]:
    """Yield links to pages that are not there, and to anchors that their page does not have.

    Pages are missed in spaces that are known, and known whole: of a part of a space many links lead out. `files`: names
    of all there is below the folder.
    """
    rows = pages.select(["page_id", "space", "title", "url", "source_file"]).to_pylist()
    page_of = {row["page_id"]: row for row in rows}
    targets, spaces = PageTargets(rows), {row["space"] for row in rows}
    folders = {posixpath.dirname(row["source_file"]) for row in rows if row["source_file"]}
    judged: dict[str, list[LintFinding | None]] = defaultdict(list)
    places = dict(zip(sections["section_id"].to_pylist(), sections["page_id"].to_pylist(), strict=True))
    own = (
        row for row in sections.select(["page_id", "included_from", "links"]).to_pylist() if not row["included_from"]
    )
    for row in own:
        page = page_of[row["page_id"]]
        for link in row["links"]:
            if link["kind"] == "page":
                is_meant = bool(link["target"]) and (link["space"] or page["space"]) in spaces
            else:
                file = _file(link, page["source_file"])
                is_meant = file is not None and posixpath.dirname(file) in folders and file not in files
            if is_meant:
                dead = targets.of(link, page["space"]) is None
                judged[link["space"] or page["space"]].append(_dead(page, link, link["target"]) if dead else None)
    for links in judged.values():
        gone = [finding for finding in links if finding]
        if files or len(gone) <= max(_MOST_DEAD * len(links), _FEW_DEAD):
            yield from gone
    for landing in landings(sections, pages):
        if landing.target is None:
            link = landing.link
            anchor = link["anchor"] if link["kind"] == "page" or link["anchor"] else link["target"].partition("#")[2]
            yield _dead(page_of[places[landing.section_id]], link, f"{link['target'].partition('#')[0]}#{anchor}")


def _file(link: Mapping[str, Any], source_file: str | None) -> str | None:
    """Return the file below the source's folder that a link names as a page; None where it names none."""
    path = unquote(link["target"].partition("#")[0].partition("?")[0])
    if link["kind"] != "url" or not source_file or not _PAGE_FILE.fullmatch(path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source_file), path))


def _dead(page: Mapping[str, Any], link: Mapping[str, Any], target: str) -> LintFinding:
    quote = Quote(page["page_id"], page["title"], link["text"] or "", page["url"] or "", page["source_file"])
    return LintFinding("dead_link", page["space"], target, (quote,))


def neglected(chunks: Sequence[Chunk], given: Properties, today: date) -> Iterator[LintFinding]:
    """Yield pages past their review date, and pages without an owner where most pages of the space name one.

    Args:
        chunks: those of the pages, by page and place.
        given: what else is known of pages: front matter.
    """
    first: dict[str, Chunk] = {}
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for chunk in chunks:
        if chunk.kind not in ("comments", "attachment"):
            if chunk.page_id not in first:
                labels = (_DATED_LABEL.fullmatch(label) for label in chunk.labels)
                said[chunk.page_id] += [(match[1], match[2]) for match in labels if match]
                said[chunk.page_id] += given.get(chunk.page_id, {}).items()
            first.setdefault(chunk.page_id, chunk)
            said[chunk.page_id] += _properties(chunk)
    owners: dict[str, dict[str, list[tuple[str, str]]]] = defaultdict(dict)
    for page_id, chunk in first.items():
        owners[chunk.space][page_id] = [pair for pair in said[page_id] if _OWNER.fullmatch(pair[0])]
        for key, value in said[page_id]:
            if _REVIEW.fullmatch(key) and (due := _date(value, today)) and due < today.isoformat()[: len(due)]:
                yield LintFinding("overdue_review", chunk.space, due, (Quote.of(chunk, f"{key}: {value}"),))
    for of_space in owners.values():
        named = sum(any(not _NOBODY.fullmatch(value) for _, value in pairs) for pairs in of_space.values())
        for page_id, pairs in of_space.items():
            nobody = all(_NOBODY.fullmatch(value) for _, value in pairs)
            if nobody and (pairs or 2 * named >= len(of_space) > 1):
                said_so = f"{pairs[0][0]}: {pairs[0][1]}".strip() if pairs else ""
                yield LintFinding(
                    "no_owner", first[page_id].space, first[page_id].title, (Quote.of(first[page_id], said_so),)
                )


def _properties(chunk: Chunk) -> Iterator[tuple[str, str]]:
    """Yield what a passage says in lines of a name and a value: rows of two cells, `key: value`."""
    for unit in chunk.parts.units:
        if unit.kind == "table" and len(cells := cells_of(line_of(unit, chunk.text))) == 2:
            yield cells[0].strip("*_` :"), cells[1]
        elif unit.kind in ("list", "sentence") and (pair := _PROPERTY.fullmatch(unit.of(chunk.text))):
            yield pair[1].strip(), pair[2].strip()


def _date(value: str, today: date) -> str | None:
    """Return a date as the beginning of its ISO form; None where there is none."""
    words = " ".join(re.findall(r"\w+", value.lower()))
    found = date_at(words, 0, today, today)
    return found[1] if found else None


def drifting_copies(
    chunks: Sequence[Chunk], known: Fingerprints, threshold: float, *, versions: bool = False
) -> Iterator[LintFinding]:
    """Yield passages of two pages that are nearly the same, and not near enough to be indexed once.

    Args:
        chunks: those that are indexed, so that what is a copy to the word is not among them.
        known: the fingerprint of each one's text.
        threshold: similarity from which a copy with the same figures is not indexed.
        versions: whether versions of one page are compared, too.
    """
    past = past_pages(chunks)
    pairs = ((one, two) for one, two in _pairs(known) if past.isdisjoint((chunks[one].page_id, chunks[two].page_id)))
    near = [(one, two) for one, two in pairs if are_comparable(chunks[one], chunks[two], versions)]
    rows = sorted({row for pair in near for row in pair})
    shingles = dict(zip(rows, shingles_of([words_of(chunks[row].text) for row in rows]).sets(), strict=True))
    partners: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for one, two in near:
        alike = jaccard(shingles[one], shingles[two])
        is_kept_apart = alike < threshold or known["literals"][one] != known["literals"][two]
        if _COPY <= alike < 1 and is_kept_apart:
            partners[one].append((two, alike))
            partners[two].append((one, alike))
    for one, found in sorted(partners.items()):
        two, alike = found[0]
        if len(found) < _MOST_COPIES and len(partners[two]) < _MOST_COPIES and one < two:
            quotes = tuple(Quote.of(chunks[row], chunks[row].text) for row in (one, two))
            yield LintFinding("drifting_copy", chunks[one].space, f"{alike:.0%} the same", quotes, alike)


def _pairs(known: Fingerprints) -> Iterable[tuple[int, int]]:
    """Return pairs of long texts whose signatures agree in a band: nearly all of _COPY and more."""
    bands, size = bands_of(_COPY)
    rows = np.flatnonzero(known["words"] >= _WORDS)
    found: set[tuple[int, int]] = set()
    for band in range(bands):
        part = np.ascontiguousarray(known["signature"][rows, band * size : (band + 1) * size])
        _, inverse, counts = np.unique(part, axis=0, return_inverse=True, return_counts=True)
        buckets: dict[int, list[int]] = defaultdict(list)
        for place in np.flatnonzero((counts[inverse.ravel()] > 1) & (counts[inverse.ravel()] <= 2 * _MOST_COPIES)):
            buckets[int(inverse.ravel()[place])].append(int(rows[place]))
        for members in buckets.values():
            found.update(combinations(members, 2))
    return sorted(found)
