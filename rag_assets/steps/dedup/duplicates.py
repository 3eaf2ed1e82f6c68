"""Near-duplicates: which chunk is dropped for which, and who may be told where its text stands as well.

Belongs here: the rules for dropping, rows of DEDUP_MAP, the places that a kept chunk remembers.
Does not belong here: shingles and signatures (`shingles`, `minhash`), labels and boilerplate (`chunks.select`).

A chunk is dropped for a newer one only when all of this holds:

- The Jaccard similarity of their shingles, computed exactly, reaches the threshold.
- Their literals are equal: numbers in order, comparison signs, names, words that turn a sentence round, code.
- Everyone who may read the dropped one may read the kept one.
- A short text has the same title and headings: "Nightly, at two." means what its heading says.

The newest is kept: by `updated_at`, then `version`, then the smaller id. Text that a page takes in from another counts
as older than all else: it is cited where it was written. A kept chunk is never dropped itself, so every similarity in
the map is that of the two chunks it names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.steps.dedup.minhash import PERMUTATIONS, Fingerprints, number, open_index, sketches_of
from rag_assets.steps.dedup.shingles import code_of, codes_of, jaccard, shingles_of, words_of
from rag_serving.access.principals import may_all_read
from rag_serving.artifacts.schema import DEDUP_MAP, SELECTED_CHUNKS

VERSION = 2
"""Raised when other chunks of the same table would be dropped."""

SELF_CONTAINED_WORDS = 25
"""A text of fewer words says little without its headings."""

SCOPES = ("within_page", "across_versions", "across_spaces")

_NOT_A_LETTER = re.compile(r"[\W\d_]+")
_DOUBT = 4 * 0.5 / PERMUTATIONS**0.5  # four standard errors of an estimate, at their largest


def scope_of(dropped: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """Return where two chunks stand to each other: rows with page_id, version, space.

    `within_page`: the same page. `across_versions`: another version of the page, or another page of the same space or
    of a version or copy of it, whose key differs in digits and signs alone (`KAFKA-3`, `KAFKA-39`). `across_spaces`:
    all else.
    """
    if dropped["page_id"] == kept["page_id"] and dropped["version"] == kept["version"]:
        return "within_page"
    same = dropped["page_id"] == kept["page_id"] or _family(dropped["space"]) == _family(kept["space"])
    return "across_versions" if same else "across_spaces"


def find_duplicates(chunks: pa.Table, known: Fingerprints, threshold: float) -> pa.Table:
    """Return rows of DEDUP_MAP, by the dropped chunk's place in the table.

    Args:
        chunks: rows of CHUNKS.
        known: the fingerprint of each row's text.
        threshold: Jaccard similarity from which a chunk is a duplicate.
    """
    facts = chunks.select(_FACTS).to_pylist()
    search = _Search(chunks, known, threshold)
    pairs: dict[int, tuple[int, float]] = {}
    for row in sorted(range(len(facts)), key=lambda row: _newest_first(facts[row])):
        readers = facts[row]["readers"]
        match = search.kept_for(row, readers) if known["words"][row] else None
        if match is None:
            search.keep(row, readers)
        else:
            pairs[row] = match
    return DEDUP_MAP.table([_map_row(facts[row], facts[kept], like) for row, (kept, like) in sorted(pairs.items())])


def without_duplicates(chunks: pa.Table, dedup_map: pa.Table) -> pa.Table:
    """Return the chunks that are kept, as rows of SELECTED_CHUNKS: each knows the places of those dropped for it.

    Args:
        chunks: rows of CHUNKS and the columns `source` and `kind`.
        dedup_map: rows of DEDUP_MAP over them.
    """
    kept_for = dict(zip(dedup_map["dropped_id"].to_pylist(), dedup_map["kept_id"].to_pylist(), strict=True))
    ids = chunks["chunk_id"].to_pylist()
    dropped = pa.array([chunk_id in kept_for for chunk_id in ids], pa.bool_())
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in chunks.filter(dropped).select(_PLACE).to_pylist():
        places[kept_for[row["chunk_id"]]].append(_place(row))
    kind = SELECTED_CHUNKS.columns.field("places").type
    column = pa.array([places.get(chunk_id, []) for chunk_id in ids], kind)
    kept = chunks.append_column("places", column).filter(pa.array([c not in kept_for for c in ids], pa.bool_()))
    return kept.select(SELECTED_CHUNKS.columns.names).cast(SELECTED_CHUNKS.arrow)


class Effect(NamedTuple):
    """How many chunks of a space were dropped, by scope, of how many."""

    space: str
    chunks: int
    dropped: Mapping[str, int]  # scope -> chunks


def effectiveness(chunks: pa.Table, dedup_map: pa.Table) -> list[Effect]:
    """Return what was dropped in each space, by name."""
    space_of = dict(zip(chunks["chunk_id"].to_pylist(), chunks["space"].to_pylist(), strict=True))
    totals = Counter(space_of.values())
    dropped: dict[str, Counter[str]] = defaultdict(Counter)
    for row in dedup_map.select(["dropped_id", "scope"]).to_pylist():
        dropped[space_of[row["dropped_id"]]][row["scope"]] += 1
    return [Effect(space, totals[space], dict(dropped[space])) for space in sorted(totals)]


_FACTS = ["chunk_id", "page_id", "version", "chunk_idx", "space", "readers", "updated_at", "included_from"]
_PLACE = ["chunk_id", "space", "title", "heading_path", "url", "labels", "readers", "source", "kind", "section_id"]


class _Search:
    """The chunks kept so far, and what is like a text among them.

    A subject is a different text; a short one together with its headings.
    """

    def __init__(self, chunks: pa.Table, known: Fingerprints, threshold: float) -> None:
        self._texts, self._threshold = chunks["text"], threshold
        keys = known["literals"] ^ _heading_keys(chunks, known) ^ _cut_code_keys(chunks)
        together = zip(known["digest"].tolist(), keys.tolist(), strict=True)
        numbers: dict[Any, int] = {}
        self.subject_of = [numbers.setdefault(subject, len(numbers)) for subject in together]
        self._first_row = np.unique(np.array(self.subject_of, np.int64), return_index=True)[1]
        self._keys: list[int] = keys[self._first_row].tolist()
        self._sketches = sketches_of(known["signature"][self._first_row])
        self._kept: list[dict[str, int]] = [{} for _ in numbers]  # reader class -> newest row kept
        self._order: dict[int, int] = {}  # kept row -> how many are newer
        shared = {key for key, count in Counter(self._keys).items() if count > 1}
        self._indexes = {key: open_index(threshold) for key in shared}  # of subjects with a kept row
        self._shingles = lru_cache(maxsize=20_000)(self._shingles_of)

    def kept_for(self, row: int, readers: str) -> tuple[int, float] | None:
        """Return the kept row that a row may be dropped for, the most similar, then the newest; with the similarity."""
        subject = self.subject_of[row]
        if (kept := self._readable(subject, readers)) is not None:
            return kept, 1.0
        matches = []
        for other in self._neighbours(subject):
            kept = self._readable(other, readers)
            if kept is not None and (similarity := self._similarity(subject, other)) >= self._threshold:
                matches.append((-similarity, self._order[kept], kept))
        return (min(matches)[2], -min(matches)[0]) if matches else None

    def keep(self, row: int, readers: str) -> None:
        subject = self.subject_of[row]
        if not self._kept[subject] and (index := self._indexes.get(self._keys[subject])) is not None:
            index.insert(subject, self._sketches[subject], check_duplication=False)
        self._kept[subject][readers] = row
        self._order[row] = len(self._order)

    def _readable(self, subject: int, readers: str) -> int | None:
        """Return the newest kept row of a subject that everyone of a reader class may read."""
        rows = [row for kept, row in self._kept[subject].items() if may_all_read(readers, kept)]
        return min(rows, key=self._order.__getitem__, default=None)

    def _neighbours(self, subject: int) -> list[int]:
        """Return the other subjects with a kept row and the same key that may be similar."""
        index = self._indexes.get(self._keys[subject])
        return [other for other in index.query(self._sketches[subject]) if other != subject] if index else []

    def _similarity(self, first: int, second: int) -> float:
        """Return the exact similarity where the sketches leave a chance of reaching the threshold, else 0."""
        if self._sketches[first].jaccard(self._sketches[second]) < self._threshold - _DOUBT:
            return 0.0
        return jaccard(self._shingles(first), self._shingles(second))

    def _shingles_of(self, subject: int) -> NDArray[np.uint64]:
        text = self._texts[int(self._first_row[subject])].as_py()
        return next(shingles_of([words_of(text)]).sets())


def _heading_keys(chunks: pa.Table, known: Fingerprints) -> NDArray[np.uint64]:
    """For short texts a number of title and headings, for others 0."""
    keys = np.zeros(len(known), np.uint64)
    for row in np.flatnonzero(known["words"] < SELF_CONTAINED_WORDS).tolist():
        path = [chunks["title"][row].as_py() or "", *(chunks["heading_path"][row].as_py() or [])]
        keys[row] = number("\n".join(" ".join(words_of(heading)) for heading in path))
    return keys


def _cut_code_keys(chunks: pa.Table) -> NDArray[np.uint64]:
    """For pieces of code that a cut left without a fence a number of them to the letter, for others 0."""
    keys = np.zeros(len(chunks), np.uint64)
    for row in np.flatnonzero(pc.fill_null(pc.equal(chunks["content_type"], "code"), False).to_numpy()).tolist():
        text = chunks["text"][row].as_py()
        keys[row] = 0 if codes_of(text) else number(f"code\n{code_of(text)}")
    return keys


def _newest_first(fact: Mapping[str, Any]) -> tuple[bool, float, int, str, int]:
    seconds = fact["updated_at"].timestamp() if fact["updated_at"] else float("-inf")
    return (
        fact["included_from"] is not None,
        -seconds,
        -(fact["version"] or 0),
        fact["page_id"] or "",
        fact["chunk_idx"] or 0,
    )


def _map_row(dropped: Mapping[str, Any], kept: Mapping[str, Any], similarity: float) -> Mapping[str, object]:
    return {
        "dropped_id": dropped["chunk_id"],
        "kept_id": kept["chunk_id"],
        "jaccard": similarity,
        "scope": scope_of(dropped, kept),
    }


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    names = [name for name in _PLACE if name != "heading_path"]
    return {**{name: row[name] for name in names}, "heading": " → ".join(row["heading_path"] or ()) or row["title"]}


def _family(space: str | None) -> str:
    """Return a space's key without digits and signs; a key of nothing else stands for itself."""
    return _NOT_A_LETTER.sub("", (space or "").casefold()) or (space or "")
