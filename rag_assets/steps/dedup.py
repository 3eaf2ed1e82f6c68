"""Near-duplicates: dropped chunks and their replacements, and the readers of their other places.

The signature of a set is, for each of 128 permutations, the smallest value; two sets agree in one with the probability
of their Jaccard similarity (Broder 1997).

A chunk is dropped for a newer one only if all of these are true:

- The Jaccard similarity of their shingles, computed exactly, reaches the threshold.
- Their literals are equal: numbers in order, comparison signs, names, words that turn a sentence round, code.
- Everyone who may read the dropped one may read the kept one.
- A short text has the same title and headings: "Nightly, at two." means what its heading says.

The newest is kept: by `updated_at`, then `version`, then the smaller id. Text that a page takes in from another counts
as older than all else: it is cited where it was written. A kept chunk is never dropped itself, so every similarity in
the map is that of the two chunks it names.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.access.principals import may_all_read
from rag_serving.artifacts.schema import DEDUP_MAP, SELECTED_CHUNKS
from rag_serving.text.polarity_words import turns_of_folded

if TYPE_CHECKING:
    from datasketch import LeanMinHash, MinHashLSH


WORDS_PER_SHINGLE = 3
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_SIGN = re.compile(r"[<>≤≥≠=±!]")
_FENCED = re.compile(r"^(`{3,})[^`\n]*\n(.*?)(^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_JOINED = re.compile(r"[\w.-]+")
_HUMP = re.compile(r"[a-z][A-Z]")
_TRIM = "\"'`*_()[]{}|.,;:!?"
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)  # odd, of xxHash64


class Shingles(NamedTuple):
    """The shingles of several texts in one array; those of text i are `hashes[starts[i]:starts[i + 1]]`."""

    hashes: NDArray[np.uint64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def sets(self) -> Iterator[NDArray[np.uint64]]:
        """Yield the set of each text, ascending."""
        for start, end in zip(self.starts, self.starts[1:], strict=False):
            yield np.unique(self.hashes[start:end])


def words_of(text: str) -> list[str]:
    """Return the words of a text without marks, compatibility forms and case folded away (NFKC)."""
    return _WORD.findall(_folded(text))


def shingles_of(texts: Sequence[Sequence[str]]) -> Shingles:
    """Return all runs of three words of each text, given as its words; a shorter text is one shingle of its own."""
    numbers: dict[str, int] = {}
    pad = [0] * (WORDS_PER_SHINGLE - 1)
    flat: list[int] = []
    for words in texts:
        for word in words:
            if word not in numbers:
                numbers[word] = _digest(word, 8) or 1  # 0 fills up short texts
            flat.append(numbers[word])
        flat += pad
    values = np.array([*flat, *pad], np.uint64)
    count = len(values) - len(pad)
    hashes = np.zeros(count, np.uint64)
    for offset, factor in enumerate(_FACTORS):
        hashes += values[offset : offset + count] * factor
    lengths = np.array([len(words) for words in texts], np.int64)
    begins = np.concatenate([[0], np.cumsum(lengths + len(pad))])[:-1].astype(np.int64)
    sizes = np.where(lengths, np.maximum(lengths - len(pad), 1), 0)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    chosen = np.repeat(begins - starts[:-1], sizes) + np.arange(starts[-1])
    return Shingles(_mixed(hashes[chosen]), starts)


def jaccard(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    """Jaccard similarity |A ∩ B| / |A ∪ B| of two ascending sets; 0 if both are empty."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    union = len(first) + len(second) - common
    return common / union if union else 0.0


def literals_of(text: str) -> str:
    """Return the parts in which interchangeable texts may not differ.

    In order: tokens with a digit, and comparison signs; then names such as `log.dirs` with their case, the frequency of
    each negating word (`verification.claims`), and fenced code verbatim, ends of lines aside. One number changed in a
    table of two hundred words leaves a Jaccard similarity of 0.97.
    """
    folded = _folded(text)
    pieces: list[str] = []
    for piece in folded.split():
        if not piece.isalpha():
            pieces += [piece.strip(_TRIM)] if _DIGIT.search(piece) else _SIGN.findall(piece)
    joined = (piece.strip(".-") for piece in _JOINED.findall(text))
    names = (name for name in joined if "." in name or "_" in name or _HUMP.search(name))
    turns = (f"{word} {count}" for word, count in sorted(turns_of_folded(folded).items()))
    return "\n".join([*pieces, "", *names, "", *turns, "", *codes_of(text)])


def codes_of(text: str) -> list[str]:
    """Return the fenced code of a text to the letter, ends of lines aside; all of it if a cut left half a fence."""
    blocks = _FENCED.findall(text) if "```" in text else []
    whole = all(closed for _, _, closed in blocks)
    return [code_of(body) for _, body, _ in blocks] if whole else [code_of(text)]


def code_of(body: str) -> str:
    """Code without white space at the ends of its lines."""
    return "\n".join(line.rstrip() for line in body.splitlines())


def _folded(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFKC", text).replace("’", "'")).casefold()


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the 64-bit finalizer of MurmurHash3 (Appleby, public domain): all input bits change the output."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


SIGNATURE_VERSION = 2
"""Raised when the same text would get another fingerprint."""
PERMUTATIONS = 128
EXACT = 1.0
"""The threshold at which only the same words are duplicates: no signature is needed."""
CAUGHT = 0.999
"""Probability with which two texts right at the threshold share a bucket."""
# The cached facts of a text: number of words, digests of literals and of words, signature.
FINGERPRINT = np.dtype(
    [("words", "<u4"), ("literals", "<u8"), ("digest", "V16"), ("signature", "<u4", (PERMUTATIONS,))]
)
Fingerprints = NDArray[np.void]  # rows of FINGERPRINT
_SCHEME = "affine32"  # signatures of another one are not comparable with those that are remembered
_BLOCK = 2_000  # texts whose shingles are in memory at once


def fingerprints(texts: Sequence[str], signed: bool = True) -> Fingerprints:
    """Return the fingerprint of each text [texts]; with `signed`, including the signature for similarity."""
    found = np.zeros(len(texts), FINGERPRINT)
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        words = [words_of(text) for text in block]
        rows = found[start : start + len(block)]
        rows["words"] = [len(each) for each in words]
        rows["literals"] = [_digest(literals_of(text), 8) for text in block]
        rows["digest"] = [np.void(_digest("\x1f".join(each), 16).to_bytes(16, "little")) for each in words]
        if signed:
            rows["signature"] = signatures(shingles_of(words))
    return found


def signatures(shingles: Shingles) -> NDArray[np.uint32]:
    """Return the MinHash signatures [texts, PERMUTATIONS]; that of a text without a word is of no use."""
    from datasketch import MinHash

    values = [hashes.astype(np.uint32).tolist() for hashes in shingles.sets()]
    sketches = MinHash.bulk(values, num_perm=PERMUTATIONS, hashfunc=int, scheme=_SCHEME)
    return np.array([sketch.hashvalues for sketch in sketches], np.uint32).reshape(-1, PERMUTATIONS)


def sketches_of(signature: NDArray[np.uint32]) -> list[LeanMinHash]:
    """Return signatures [texts, PERMUTATIONS] as datasketch compares and indexes them."""
    from datasketch import LeanMinHash

    return [LeanMinHash(seed=1, hashvalues=row, scheme=_SCHEME) for row in signature]


def open_index(threshold: float) -> MinHashLSH:
    """Return an empty index that finds sketches of this similarity with a probability of CAUGHT."""
    from datasketch import MinHashLSH

    return MinHashLSH(num_perm=PERMUTATIONS, params=bands_of(threshold))


def bands_of(threshold: float) -> tuple[int, int]:
    """Return the number of bands and of rows: the longest rows that still reach CAUGHT at the threshold.

    Two sets of Jaccard similarity s share one of b buckets of r rows with probability 1 - (1 - s^r)^b (Leskovec,
    Rajaraman, Ullman, Mining of Massive Datasets, 3.4.2).
    """
    for rows in range(PERMUTATIONS // 2, 1, -1):
        bands = PERMUTATIONS // rows
        if 1 - (1 - threshold**rows) ** bands >= CAUGHT:
            return bands, rows
    return PERMUTATIONS, 1


def _digest(text: str, size: int) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "little")


VERSION = 2
"""Raised when other chunks of the same table would be dropped."""
SELF_CONTAINED_WORDS = 25
"""A text of fewer words says little without its headings."""
SCOPES = ("within_page", "across_versions", "across_spaces")
_NOT_A_LETTER = re.compile(r"[\W\d_]+")
_DOUBT = 4 * 0.5 / PERMUTATIONS**0.5  # four standard errors of an estimate, at their largest


def scope_of(dropped: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """Return the relation of two chunks: rows with page_id, version, space.

    `within_page`: the same page. `across_versions`: another version of the page, or another page of the same space or
    of a version or copy of it, whose key differs in digits and signs alone (`KAFKA-3`, `KAFKA-39`). `across_spaces`:
    all else.
    """
    if dropped["page_id"] == kept["page_id"] and dropped["version"] == kept["version"]:
        return "within_page"
    same = dropped["page_id"] == kept["page_id"] or _family(dropped["space"]) == _family(kept["space"])
    return "across_versions" if same else "across_spaces"


def find_duplicates(chunks: pa.Table, known: Fingerprints, threshold: float) -> pa.Table:
    """Return rows of DEDUP_MAP, by the dropped chunk's place in the table. `chunks`: rows of CHUNKS; `known`: the
    fingerprint of each row's text; `threshold`: Jaccard similarity from which a chunk is a duplicate."""
    facts = chunks.select(_FACTS).to_pylist()
    search = _Search(chunks, known, threshold)
    rows: dict[int, Mapping[str, object]] = {}
    for row in sorted(range(len(facts)), key=lambda row: _newest_first(facts[row])):
        readers = facts[row]["readers"]
        match = search.kept_for(row, readers) if known["words"][row] else None
        if match is None:
            search.keep(row, readers)
        else:
            kept, scope = facts[match[0]], scope_of(facts[row], facts[match[0]])
            ids = {"dropped_id": facts[row]["chunk_id"], "kept_id": kept["chunk_id"]}
            rows[row] = {**ids, "jaccard": match[1], "scope": scope}
    return DEDUP_MAP.table([rows[row] for row in sorted(rows)])


def without_duplicates(chunks: pa.Table, dedup_map: pa.Table) -> pa.Table:
    """Return the chunks that are kept, as rows of SELECTED_CHUNKS: each knows the places of those dropped for it.
    `chunks`: rows of CHUNKS and the columns `source` and `kind`; `dedup_map`: rows of DEDUP_MAP over them."""
    kept_for = dict(zip(dedup_map["dropped_id"].to_pylist(), dedup_map["kept_id"].to_pylist(), strict=True))
    ids = chunks["chunk_id"].to_pylist()
    dropped = pa.array([chunk_id in kept_for for chunk_id in ids], pa.bool_())
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in chunks.filter(dropped).select(_PLACE).to_pylist():
        row["heading"] = " → ".join(row.pop("heading_path") or ()) or row["title"]
        places[kept_for[row["chunk_id"]]].append(row)
    kind = SELECTED_CHUNKS.columns.field("places").type
    column = pa.array([places.get(chunk_id, []) for chunk_id in ids], kind)
    kept = chunks.append_column("places", column).filter(pa.array([c not in kept_for for c in ids], pa.bool_()))
    return kept.select(SELECTED_CHUNKS.columns.names).cast(SELECTED_CHUNKS.arrow)


class Effect(NamedTuple):
    """The number of dropped chunks of a space, by scope, and of all."""

    space: str
    chunks: int
    dropped: Mapping[str, int]  # scope -> chunks


def effectiveness(chunks: pa.Table, dedup_map: pa.Table) -> list[Effect]:
    """Return the dropped chunks of each space, by name."""
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
        self._sketches = sketches_of(known["signature"][self._first_row]) if threshold < EXACT else []
        self._kept: list[dict[str, int]] = [{} for _ in numbers]  # reader class -> newest row kept
        self._order: dict[int, int] = {}  # kept row -> how many are newer
        shared = {key for key, count in Counter(self._keys).items() if count > 1 and threshold < EXACT}
        self._indexes = {key: open_index(threshold) for key in shared}  # of subjects with a kept row
        self._shingles = lru_cache(maxsize=20_000)(self._shingles_of)

    def kept_for(self, row: int, readers: str) -> tuple[int, float] | None:
        """Return the kept row that a row may be dropped for, the most similar, then the newest; with the similarity."""
        subject = self.subject_of[row]
        if (kept := self._readable(subject, readers)) is not None:
            return kept, 1.0
        index, matches = self._indexes.get(self._keys[subject]), []
        for other in index.query(self._sketches[subject]) if index else ():
            kept = self._readable(other, readers) if other != subject else None
            if kept is None or self._sketches[subject].jaccard(self._sketches[other]) < self._threshold - _DOUBT:
                continue
            if (similarity := jaccard(self._shingles(subject), self._shingles(other))) >= self._threshold:
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

    def _shingles_of(self, subject: int) -> NDArray[np.uint64]:
        text = self._texts[int(self._first_row[subject])].as_py()
        return next(shingles_of([words_of(text)]).sets())


def _heading_keys(chunks: pa.Table, known: Fingerprints) -> NDArray[np.uint64]:
    keys = np.zeros(len(known), np.uint64)
    for row in np.flatnonzero(known["words"] < SELF_CONTAINED_WORDS).tolist():
        path = [chunks["title"][row].as_py() or "", *(chunks["heading_path"][row].as_py() or [])]
        keys[row] = _digest("\n".join(" ".join(words_of(heading)) for heading in path), 8)
    return keys


def _cut_code_keys(chunks: pa.Table) -> NDArray[np.uint64]:
    """For pieces of code that a cut left without a fence a number of them to the letter, for others 0."""
    keys = np.zeros(len(chunks), np.uint64)
    for row in np.flatnonzero(pc.fill_null(pc.equal(chunks["content_type"], "code"), False).to_numpy()).tolist():
        text = chunks["text"][row].as_py()
        keys[row] = 0 if codes_of(text) else _digest(f"code\n{code_of(text)}", 8)
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


def _family(space: str | None) -> str:
    """Return a space's key without digits and signs; a key of nothing else is unchanged."""
    return _NOT_A_LETTER.sub("", (space or "").casefold()) or (space or "")
