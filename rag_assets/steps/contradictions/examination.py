"""All that is wrong in a tenant's pages, or in a folder's: contradictions, and neglect; what changed is compared alone.

Kept are what each page states, by a digest of its passages, and the pairs that differ. A changed page is compared with
what shares a block or a rare word with it: the result is that of comparing everything.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import date
from hashlib import blake2b
from itertools import combinations
from typing import Any, NamedTuple, get_args
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.contradictions import values
from rag_assets.steps.contradictions.findings import Kind, LintFinding, Quote, in_order, records_of
from rag_assets.steps.contradictions.values import Pair, Side, StatedEntry, are_comparable
from rag_assets.steps.dedup import Fingerprints, bands_of, jaccard, shingles_of, words_of
from rag_assets.steps.sections.anchors import PageTargets, landings
from rag_serving.artifacts.schema import table_schema
from rag_serving.records.passages import Chunk
from rag_serving.sets.phrases import date_at
from rag_serving.text.structure import line_of
from rag_serving.text.units import cells_of

_UPKEEP_VERSION = 1  # raised when other findings are made of the same tables
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

    def dead(page: Mapping[str, Any], link: Mapping[str, Any], target: str) -> LintFinding:
        quote = Quote(page["page_id"], page["title"], link["text"] or "", page["url"] or "", page["source_file"])
        return LintFinding("dead_link", page["space"], target, (quote,))

    for row in sections.select(["page_id", "included_from", "links"]).to_pylist():
        page = page_of[row["page_id"]]
        for link in row["links"] if not row["included_from"] else ():
            path = unquote(link["target"].partition("#")[0].partition("?")[0])
            if link["kind"] == "page":
                is_meant = bool(link["target"]) and (link["space"] or page["space"]) in spaces
            elif link["kind"] == "url" and page["source_file"] and _PAGE_FILE.fullmatch(path):
                file = posixpath.normpath(posixpath.join(posixpath.dirname(page["source_file"]), path))
                is_meant = posixpath.dirname(file) in folders and file not in files
            else:
                is_meant = False
            if is_meant:
                finding = dead(page, link, link["target"]) if targets.of(link, page["space"]) is None else None
                judged[link["space"] or page["space"]].append(finding)
    for links in judged.values():
        gone = [finding for finding in links if finding]
        if files or len(gone) <= max(_MOST_DEAD * len(links), _FEW_DEAD):
            yield from gone
    places = dict(zip(sections["section_id"].to_pylist(), sections["page_id"].to_pylist(), strict=True))
    for landing in landings(sections, pages):
        if landing.target is None:
            link = landing.link
            target, _, fragment = link["target"].partition("#")
            anchor = link["anchor"] if link["kind"] == "page" or link["anchor"] else fragment
            yield dead(page_of[places[landing.section_id]], link, f"{target}#{anchor}")


def neglected(chunks: pa.Table, said: Properties, given: Properties, today: date) -> Iterator[LintFinding]:
    """Yield pages past their review date, and pages without an owner where most pages of the space name one. `chunks`:
    those of the pages, by page and place; `said`: properties that pages say of themselves in their text; `given`: what
    else is known of pages: front matter."""
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
            words = " ".join(re.findall(r"\w+", value.lower())) if _REVIEW.fullmatch(key) else ""
            if (at := date_at(words, 0, today, today)) and at[1] < today.isoformat()[: len(at[1])]:
                found.append((row, "overdue_review", at[1], f"{key}: {value}"))
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
    """Yield names and values about a page's owner or review: rows of two cells, lines such as `key: value`."""
    for unit in chunk.parts.units if chunk.kind not in ("comments", "attachment") else ():
        name = value = ""
        if unit.kind == "table" and len(cells := cells_of(line_of(unit, chunk.text))) == 2:
            name, value = cells[0].strip("*_` :"), cells[1]
        elif unit.kind in ("list", "sentence") and (pair := _PROPERTY.fullmatch(unit.of(chunk.text))):
            name, value = pair[1].strip(), pair[2].strip()
        if _REVIEW.fullmatch(name) or _OWNER.fullmatch(name):
            yield name, value


def drifting_copies(
    chunks: pa.Table, known: Fingerprints, threshold: float, past: frozenset[str], *, versions: bool = False
) -> Iterator[LintFinding]:
    """Yield passages of two pages that are nearly the same, and not near enough to be indexed once. `chunks`: those
    that are indexed, so that what is a copy to the word is not among them; `known`: the fingerprint of each one's text;
    `threshold`: similarity from which a copy with the same figures is not indexed; `past`: pages that are not in force;
    `versions`: whether versions of one page are compared, too."""
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


VERSION = values.VERSION + _UPKEEP_VERSION
"""Raised when other findings are made of the same corpus."""
EXAMINED = table_schema(
    "examined",
    VERSION,
    [
        ("page", pa.string(), "digest of the passages of a page"),
        ("kind", pa.string(), "of a statement; page, past (not in force), property, pair"),
        ("chunk_id", pa.string(), "passage of a statement"),
        ("start", pa.int32(), "of a statement in its passage"),
        ("end", pa.int32(), "of a statement"),
        ("terms", pa.list_(pa.string()), "what is compared; name and value; the other page, its block and the pair"),
    ],
)
Advance = Callable[[int, int], object]
_Row = tuple[str, str, str, int, int, Sequence[str]]
_DIGESTED = (
    *("page_id", "chunk_id", "chunk_idx", "space", "title", "heading_path", "url", "labels", "kind", "source_file"),
    *("text_hash", "structure"),
)
_STATEMENTS: tuple[values.Kind, ...] = get_args(values.Kind)


@dataclass(frozen=True)
class ExaminedPages:
    """The pages that are compared. `chunks`: rows of CHUNKS with `source` and `kind`, those that are indexed, by page
    and place. `fingerprints`: of the text of each chunk. `threshold`: similarity from which a copy is not indexed.
    `sections`: rows of SECTIONS. `pages`: rows of PAGES. `properties`: what else is known of pages: front matter.
    `files`: names of all there is below the folder; none: that is not known."""

    chunks: pa.Table
    fingerprints: Fingerprints
    threshold: float
    sections: pa.Table
    pages: pa.Table
    properties: Properties = field(default_factory=dict)
    files: Collection[str] = ()


class Examination(NamedTuple):
    """What is wrong, as it is shown, and rows of EXAMINED for the next time."""

    findings: list[LintFinding]
    kept: pa.Table


def examined(
    corpus: ExaminedPages,
    today: date,
    before: pa.Table | None = None,
    *,
    versions: bool = False,
    advance: Advance = lambda _done, _total: None,
) -> Examination:
    """Return the findings. `corpus`: all pages as they are now; `today`: which reviews are due; `before`: rows of
    EXAMINED of the last time, with the same `versions`; `versions`: also what differs between versions, which are
    expected to; `advance`: called with how many of the changed pages are read."""
    chunks = corpus.chunks
    page_ids, digests = chunks["page_id"].to_pylist(), _digests(chunks)
    page_of = dict(zip(digests, page_ids, strict=True))
    kept = _compared(chunks, digests, EXAMINED.empty() if before is None else before, versions, advance)
    past = frozenset(page_of[page] for page in _rows(kept, "past")["page"].to_pylist())
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    properties = _rows(kept, "property")
    for page, (name, value) in zip(properties["page"].to_pylist(), properties["terms"].to_pylist(), strict=True):
        said[page_of[page]].append((name, value))
    pairs = []
    for _, _, written in _rows(kept, "pair")["terms"].to_pylist():
        *told, one, two = json.loads(written)
        pairs.append(
            Pair(
                *told,
                *(Side(chunk, start, end, value, Quote(*quote)) for chunk, start, end, value, quote in (one, two)),
            )
        )
    found = [
        *values.contradictions(pairs),
        *dead_links(corpus.sections, corpus.pages, corpus.files),
        *neglected(chunks, said, corpus.properties, today),
        *drifting_copies(chunks, corpus.fingerprints, corpus.threshold, past, versions=versions),
    ]
    return Examination(in_order({finding.id: finding for finding in found}.values()), kept)


def _digests(chunks: pa.Table) -> list[str]:
    """Return for each row a digest of all passages of its page, as far as they are read here."""
    contents: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for row in zip(*(chunks[name].to_pylist() for name in _DIGESTED), strict=True):
        contents[row[0]].append(row)
    digests = {
        page_id: blake2b(repr(rows).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        for page_id, rows in contents.items()
    }
    return [digests[page_id] for page_id in chunks["page_id"].to_pylist()]


def _compared(chunks: pa.Table, digests: Sequence[str], before: pa.Table, versions: bool, advance: Advance) -> pa.Table:
    is_kept = pc.is_in(before["page"], pa.array(digests, pa.string()))
    known, gone = before.filter(is_kept), before.filter(pc.invert(is_kept))
    is_pair = pc.equal(known["kind"], "pair")
    earlier, known = known.filter(is_pair), known.filter(pc.invert(is_pair))
    every = pa.concat_tables([known, _table(_read(chunks, digests, set(known["page"].to_pylist()), advance))])
    due, blocks = _due(_rows(every, *_STATEMENTS), len(_rows(known, *_STATEMENTS)), _rows(gone, "field"))
    page_of = dict(zip(chunks["chunk_id"].to_pylist(), digests, strict=True))
    is_there = set(digests)
    kept = {
        (row["page"], *row["terms"]): None
        for row in earlier.to_pylist()
        if row["terms"][0] in is_there and row["terms"][1] not in blocks
    }
    for pair in values.pairs(_entries(due, blocks, chunks), versions=versions):
        sides = ((*side[:-1], astuple(side.quote)) for side in (pair.one, pair.two))
        written = json.dumps([*pair[:4], *sides], ensure_ascii=False)
        kept[page_of[pair.one.chunk_id], page_of[pair.two.chunk_id], pair.block, written] = None
    rows = ((one, "pair", "", 0, 0, rest) for one, *rest in kept)
    return pa.concat_tables([every, _table(rows)])


def _table(rows: Iterable[_Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(EXAMINED.columns)
    return pa.table(dict(zip(EXAMINED.columns.names, columns, strict=True)), EXAMINED.arrow)


def _read(chunks: pa.Table, digests: Sequence[str], known: Collection[str], advance: Advance) -> Iterator[_Row]:
    """Yield rows of EXAMINED of the pages that are not known, but for pairs."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, page in enumerate(digests):
        if page not in known:
            rows[page].append(row)
    for done, (page, of_page) in enumerate(rows.items(), start=1):
        passages = records_of(chunks, of_page)
        is_past = values.is_past(passages)
        yield page, "past" if is_past else "page", "", 0, 0, ()
        for passage in passages:
            yield from ((page, "property", "", 0, 0, pair) for pair in properties_of(passage))
            for kind, terms, said in () if is_past else values.entries(passage):
                yield page, kind, passage.chunk_id, said.unit.start, said.unit.end, terms
        advance(done, len(rows))


def _due(statements: pa.Table, known: int, gone: pa.Table) -> tuple[pa.Table, set[str]]:
    """Return the statements that have to be compared, and the blocks that are compared whole.

    Two sets of nearly the same words share one of their rarest (prefix filtering: Bayardo, Ma, Srikant, WWW 2007).
    `statements`: all there are, those known before first; `known`: how many these are; `gone`: those that gave a value
    of something and are no more.
    """
    fields = pa.concat_tables([gone, _rows(statements.slice(known), "field")])
    blocks = set(pc.list_flatten(fields["terms"]).to_pylist())
    words = pc.list_flatten(statements["terms"]).combine_chunks().dictionary_encode()
    names, counts = words.dictionary, np.bincount(words.indices, minlength=len(words.dictionary))
    rank = np.argsort(np.argsort(counts, kind="stable"))  # of a term, the rarest first
    sizes = pc.list_value_length(statements["terms"]).to_numpy()
    least = np.array([values.LEAST.get(kind, 0) for kind in statements["kind"].to_pylist()])
    rows = np.repeat(np.arange(len(sizes)), sizes)
    terms = np.sort(rows * len(names) + rank[words.indices]) % max(len(names), 1)
    place = np.arange(len(terms)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_rarest = place < np.repeat(sizes - np.ceil(least * sizes) + (least > 0), sizes)
    terms, rows = terms[is_rarest], rows[is_rarest]
    is_due = np.zeros(len(names), np.bool_)
    is_due[terms[rows >= known]] = True
    is_due[rank[pc.index_in(pa.array(blocks, pa.string()), names).drop_null()]] = True
    is_due &= np.bincount(terms, minlength=len(names)) > 1
    return statements.take(np.unique(rows[is_due[terms]])), blocks


def _entries(due: pa.Table, blocks: Collection[str], chunks: pa.Table) -> Iterator[StatedEntry]:
    of_due = pc.is_in(chunks["chunk_id"], due["chunk_id"].combine_chunks())
    by_id = {passage.chunk_id: passage for passage in records_of(chunks, pc.indices_nonzero(of_due).to_pylist())}
    for row in due.to_pylist():
        terms = [term for term in row["terms"] if row["kind"] != "field" or term in blocks]
        yield values.entry_at(row["kind"], terms, by_id[row["chunk_id"]], row["start"], row["end"])


def _rows(table: pa.Table, *kinds: str) -> pa.Table:
    return table.filter(pc.is_in(table["kind"], pa.array(kinds)))
