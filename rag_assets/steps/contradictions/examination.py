"""All that is wrong in a tenant's pages, or in a folder's; of what is known already only what changed is compared.

Belongs here: the tables that are looked at, which looks are taken, what is kept. Does not belong here: any look.

Kept are what each page states, by a digest of its passages, and the pairs that differ. A changed page is compared with
what shares a block or a rare word with it: the result is that of comparing everything.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from datetime import date
from hashlib import blake2b
from typing import NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.steps.contradictions import upkeep, values
from rag_assets.steps.contradictions.findings import LintFinding, Quote, in_order, records_of
from rag_assets.steps.contradictions.upkeep import Properties
from rag_assets.steps.contradictions.values import Pair, Side, StatedEntry
from rag_assets.steps.dedup import Fingerprints
from rag_serving.artifacts.schema import table_schema

VERSION = values.VERSION + upkeep.VERSION
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
    """The pages that are compared.

    Attributes:
        chunks: rows of CHUNKS with `source` and `kind`, those that are indexed, by page and place.
        fingerprints: of the text of each chunk.
        threshold: similarity from which a copy is not indexed.
        sections: rows of SECTIONS.
        pages: rows of PAGES.
        properties: what else is known of pages: front matter.
        files: names of all there is below the folder; none: that is not known.
    """

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
    """Return the findings.

    Args:
        corpus: all pages as they are now.
        today: which reviews are due.
        before: rows of EXAMINED of the last time, with the same `versions`.
        versions: also what differs between versions, which are expected to.
        advance: called with how many of the changed pages are read.
    """
    chunks = corpus.chunks
    page_ids, digests = chunks["page_id"].to_pylist(), _digests(chunks)
    page_of = dict(zip(digests, page_ids, strict=True))
    kept = _compared(chunks, digests, EXAMINED.empty() if before is None else before, versions, advance)
    past = frozenset(page_of[page] for page in _rows(kept, "past")["page"].to_pylist())
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    properties = _rows(kept, "property")
    for page, (name, value) in zip(properties["page"].to_pylist(), properties["terms"].to_pylist(), strict=True):
        said[page_of[page]].append((name, value))
    found = [
        *values.contradictions(_pair(terms[2]) for terms in _rows(kept, "pair")["terms"].to_pylist()),
        *upkeep.dead_links(corpus.sections, corpus.pages, corpus.files),
        *upkeep.neglected(chunks, said, corpus.properties, today),
        *upkeep.drifting_copies(chunks, corpus.fingerprints, corpus.threshold, past, versions=versions),
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
    """Return rows of EXAMINED of the pages as they are now."""
    is_kept = pc.is_in(before["page"], pa.array(digests, pa.string()))
    known, gone = before.filter(is_kept), before.filter(pc.invert(is_kept))
    is_pair = pc.equal(known["kind"], "pair")
    earlier, known = known.filter(is_pair), known.filter(pc.invert(is_pair))
    every = pa.concat_tables([known, _table(_read(chunks, digests, set(known["page"].to_pylist()), advance))])
    due, blocks = _due(_rows(every, *_STATEMENTS), len(_rows(known, *_STATEMENTS)), _rows(gone, "field"))
    page_of = dict(zip(chunks["chunk_id"].to_pylist(), digests, strict=True))
    is_there = set(digests)
    kept = (
        (row["page"], *row["terms"])
        for row in earlier.to_pylist()
        if row["terms"][0] in is_there and row["terms"][1] not in blocks
    )
    found = (
        (page_of[pair.one.chunk_id], page_of[pair.two.chunk_id], pair.block, _written(pair))
        for pair in values.pairs(_entries(due, blocks, chunks), versions=versions)
    )
    rows = ((one, "pair", "", 0, 0, rest) for one, *rest in dict.fromkeys((*kept, *found)))
    return pa.concat_tables([every, _table(rows)])


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
            yield from ((page, "property", "", 0, 0, pair) for pair in upkeep.properties_of(passage))
            for kind, terms, said in () if is_past else values.entries(passage):
                yield page, kind, passage.chunk_id, said.unit.start, said.unit.end, terms
        advance(done, len(rows))


def _due(statements: pa.Table, known: int, gone: pa.Table) -> tuple[pa.Table, set[str]]:
    """Return the statements that have to be compared, and the blocks that are compared whole.

    Two sets of nearly the same words share one of their rarest (prefix filtering: Bayardo, Ma, Srikant, WWW 2007).

    Args:
        statements: all there are, those known before first.
        known: how many these are.
        gone: those that gave a value of something and are no more.
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
    """Yield statements again, of fields those of the blocks that are compared."""
    of_due = pc.is_in(chunks["chunk_id"], due["chunk_id"].combine_chunks())
    by_id = {passage.chunk_id: passage for passage in records_of(chunks, pc.indices_nonzero(of_due).to_pylist())}
    for row in due.to_pylist():
        terms = [term for term in row["terms"] if row["kind"] != "field" or term in blocks]
        yield values.entry_at(row["kind"], terms, by_id[row["chunk_id"]], row["start"], row["end"])


def _rows(table: pa.Table, *kinds: str) -> pa.Table:
    return table.filter(pc.is_in(table["kind"], pa.array(kinds)))


def _table(rows: Iterable[_Row]) -> pa.Table:
    """Return rows of EXAMINED as a table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(EXAMINED.columns)
    return pa.table(dict(zip(EXAMINED.columns.names, columns, strict=True)), EXAMINED.arrow)


def _pair(written: str) -> Pair:
    """Return a pair from its JSON form, an array of the values of `Pair`."""
    *values_of, one, two = json.loads(written)
    return Pair(
        *values_of,
        *(Side(passage, start, end, value, Quote(*quote)) for passage, start, end, value, quote in (one, two)),
    )


def _written(pair: Pair) -> str:
    sides = ((*side[:-1], astuple(side.quote)) for side in (pair.one, pair.two))
    return json.dumps([*pair[:4], *sides], ensure_ascii=False)
