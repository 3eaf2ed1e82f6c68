"""Neglect: dead links, due reviews, pages without an owner, drifting copies.

Belongs here: detecting them in tables of sections, pages and chunks. Does not belong here: targets of links
(`sections.anchors`), copies that are not indexed (`steps.dedup`).
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

from rag_assets.steps.contradictions.findings import Kind, LintFinding, Quote, records_of
from rag_assets.steps.contradictions.values import are_comparable
from rag_assets.steps.dedup import Fingerprints, bands_of, jaccard, shingles_of, words_of
from rag_assets.steps.sections.anchors import PageTargets, landings
from rag_serving.records.passages import Chunk
from rag_serving.sets.phrases import date_at
from rag_serving.text.structure import line_of
from rag_serving.text.units import cells_of

VERSION = 1
"""Raised when other findings are made of the same tables."""
Properties = Mapping[str, Sequence[tuple[str, str]]]
"""What pages say of themselves, by page id: `review by`, `2026-01-31`."""
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
    """Return the file below the source's folder that a link names as a page; None if it names none."""
    path = unquote(link["target"].partition("#")[0].partition("?")[0])
    if link["kind"] != "url" or not source_file or not _PAGE_FILE.fullmatch(path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source_file), path))


def _dead(page: Mapping[str, Any], link: Mapping[str, Any], target: str) -> LintFinding:
    quote = Quote(page["page_id"], page["title"], link["text"] or "", page["url"] or "", page["source_file"])
    return LintFinding("dead_link", page["space"], target, (quote,))


def neglected(chunks: pa.Table, said: Properties, given: Properties, today: date) -> Iterator[LintFinding]:
    """Yield pages past their review date, and pages without an owner where most pages of the space name one.

    Args:
        chunks: those of the pages, by page and place.
        said: properties that pages say of themselves in their text.
        given: what else is known of pages: front matter.
    """
    columns = (chunks[name].to_pylist() for name in ("page_id", "space", "kind", "labels"))
    first: dict[str, int] = {}
    owners: dict[str, dict[str, list[tuple[str, str]]]] = defaultdict(dict)
    found: list[tuple[int, Kind, str, str]] = []  # the page's first row, what is shown of it
    for row, (page_id, space, kind, labels) in enumerate(zip(*columns, strict=True)):
        if kind in ("comments", "attachment") or first.setdefault(page_id, row) != row:
            continue
        dated = (_DATED_LABEL.fullmatch(label) for label in labels or ())
        pairs = [(match[1], match[2]) for match in dated if match]
        pairs += [pair for known in (given, said) for pair in known.get(page_id, ())]
        owners[space][page_id] = [pair for pair in pairs if _OWNER.fullmatch(pair[0])]
        for key, value in pairs:
            if _REVIEW.fullmatch(key) and (due := _date(value, today)) and due < today.isoformat()[: len(due)]:
                found.append((row, "overdue_review", due, f"{key}: {value}"))
    for of_space in owners.values():
        named = sum(any(not _NOBODY.fullmatch(value) for _, value in pairs) for pairs in of_space.values())
        for page_id, pairs in of_space.items():
            nobody = all(_NOBODY.fullmatch(value) for _, value in pairs)
            if nobody and (pairs or 2 * named >= len(of_space) > 1):
                said_so = f"{pairs[0][0]}: {pairs[0][1]}".strip() if pairs else ""
                found.append((first[page_id], "no_owner", "", said_so))
    shown = zip(records_of(chunks, [row for row, *_ in found]), found, strict=True)
    for chunk, (_, what, about, text) in shown:
        yield LintFinding(what, chunk.space, about or chunk.title, (Quote.of(chunk, text),))


def properties_of(chunk: Chunk) -> Iterator[tuple[str, str]]:
    """Yield the names and values in a passage's lines about its page's owner or review."""
    if chunk.kind not in ("comments", "attachment"):
        yield from (pair for pair in _pairs_of(chunk) if _REVIEW.fullmatch(pair[0]) or _OWNER.fullmatch(pair[0]))


def _pairs_of(chunk: Chunk) -> Iterator[tuple[str, str]]:
    """Yield rows of two cells, and lines such as `key: value`."""
    for unit in chunk.parts.units:
        if unit.kind == "table" and len(cells := cells_of(line_of(unit, chunk.text))) == 2:
            yield cells[0].strip("*_` :"), cells[1]
        elif unit.kind in ("list", "sentence") and (pair := _PROPERTY.fullmatch(unit.of(chunk.text))):
            yield pair[1].strip(), pair[2].strip()


def _date(value: str, today: date) -> str | None:
    """Return a date as the beginning of its ISO form; None if there is none."""
    words = " ".join(re.findall(r"\w+", value.lower()))
    found = date_at(words, 0, today, today)
    return found[1] if found else None


def drifting_copies(
    chunks: pa.Table, known: Fingerprints, threshold: float, past: frozenset[str], *, versions: bool = False
) -> Iterator[LintFinding]:
    """Yield passages of two pages that are nearly the same, and not near enough to be indexed once.

    Args:
        chunks: those that are indexed, so that what is a copy to the word is not among them.
        known: the fingerprint of each one's text.
        threshold: similarity from which a copy with the same figures is not indexed.
        past: pages that are not in force.
        versions: whether versions of one page are compared, too.
    """
    page_of = chunks["page_id"].to_pylist()
    words = known["digest"]
    other = ((one, two) for one, two in _pairs(known) if words[one] != words[two])
    pairs = [(one, two) for one, two in other if past.isdisjoint((page_of[one], page_of[two]))]
    rows = sorted({row for pair in pairs for row in pair})
    record = dict(zip(rows, records_of(chunks, rows), strict=True))
    near = [(one, two) for one, two in pairs if are_comparable(record[one], record[two], versions)]
    rows = sorted({row for pair in near for row in pair})
    shingles = dict(zip(rows, shingles_of([words_of(record[row].text) for row in rows]).sets(), strict=True))
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
            quotes = tuple(Quote.of(record[row], record[row].text) for row in (one, two))
            yield LintFinding("drifting_copy", record[one].space, f"{alike:.0%} the same", quotes, alike)


def _pairs(known: Fingerprints) -> Iterable[tuple[int, int]]:
    """Return pairs of long texts whose signatures agree in a band: nearly all of _COPY and more."""
    bands, length = bands_of(_COPY)
    rows = np.flatnonzero(known["words"] >= _WORDS)
    numbers = known["signature"][rows, : bands * length].reshape(len(rows), bands, length).astype(np.uint64)
    factors = np.random.default_rng(0).integers(1 << 63, size=length, dtype=np.uint64) | np.uint64(1)
    found: set[tuple[int, int]] = set()
    for band in (numbers * factors).sum(axis=2).T:
        order = np.argsort(band, kind="stable")
        begins = np.flatnonzero(np.diff(band[order], prepend=~band[order[:1]]))
        sizes = np.diff(begins, append=len(order))
        is_few = (sizes > 1) & (sizes <= 2 * _MOST_COPIES)
        for begin, size in zip(begins[is_few].tolist(), sizes[is_few].tolist(), strict=True):
            found.update(combinations(rows[order[begin : begin + size]].tolist(), 2))
    return sorted(found)
