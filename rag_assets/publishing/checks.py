"""The conditions on a candidate generation before anybody may read it: against itself, and against a sample of its
parts made anew."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.publishing.arrange import lexical_documents
from rag_assets.publishing.shard_writer import SAME
from rag_assets.steps.contexts.contextualize import embedded_windows
from rag_serving.artifacts.columns import take_rows
from rag_serving.artifacts.contents import KnownDigests, let_go, stamp_of
from rag_serving.artifacts.manifest import file_facts
from rag_serving.artifacts.signed_files import write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config
from rag_serving.indexes.chroma import ChromaLocation, DenseError, ShardCollections, stored_readers
from rag_serving.indexes.exact import Vectors, VectorTable, chunk_id_of
from rag_serving.indexes.generation import LEXICAL_FOLDER, Generation, place_of
from rag_serving.indexes.lexical import LexicalIndex
from rag_serving.indexes.readable_rows import Hit
from rag_serving.models.protocols import Embedder, InputLimit
from rag_serving.text.analyzer import stems
from rag_serving.text.stemming import terms_in

EMBEDDED = 48
"""Vectors that are made again: the cost of this check where a model is paid for."""

# Servers batch and round differently from call to call: the same text came back at 0.9999 and above.
SAME_TEXT = 0.999
# Vectors of two models are nearly orthogonal; those of two prompts of one model are not.
SAME_MODEL = 0.5
# Included text, anchor macros and headings without an id put single anchors elsewhere, and rightly so.
ASTRAY = 0.3
_MEND = "delete the tenant's cache/vectors.sqlite and run `citelock build`"
_REPEATED = re.compile(r"[.-]\d+$")


def checks_made_again(
    embedder: Embedder, limit: InputLimit | None, folder: Path, selected: Mapping[str, int]
) -> list[Callable[[Generation], CheckResult]]:
    """Return the checks below, ready for a generation in this folder; `limit`: how much the embedder reads at once,
    `selected`: chunks to index, by source."""
    return [
        lambda generation: check_embedded_again(generation, embedder, limit),
        lambda generation: check_analyzed_again(generation, folder),
        lambda generation: check_counts(generation, selected),
        check_anchors,
    ]


@dataclass(frozen=True)
class _Sample:
    """Vectors of a generation [n, d], their supposed texts, and these without their prefixes."""

    stored: Vectors
    texts: list[str]
    bare: list[str]
    pages: list[str]

    def take(self, places: Sequence[int]) -> _Sample:
        lists = ([named[one] for one in places] for named in (self.texts, self.bare, self.pages))
        return _Sample(self.stored[list(places)], *lists)


def check_embedded_again(generation: Generation, embedder: Embedder, limit: InputLimit | None) -> CheckResult:
    """Sampled vectors are those that the configured model and prompts give their texts now."""
    vectors, windows = generation.vector_table.vectors, generation.vector_table.windows
    count = len(vectors)
    sampled = (
        [int(row) for row in np.unique(np.linspace(0, count - 1, min(count, EMBEDDED)).astype(int))] if count else []
    )
    rows = [generation.row_of_vector(number) for number in sampled]
    chunks = take_rows(generation.table, np.array(rows, np.int64))
    texts, bare = list[str](), list[str]()
    columns = zip(sampled, rows, embedded_windows(chunks, limit), chunks["prefix"].to_pylist(), strict=True)
    for number, row, own, prefix in columns:
        place = 0 if windows is None else number - windows.start_of(row)
        texts.append(own[min(place, len(own) - 1)])
        bare.append(texts[-1].removeprefix(f"{prefix}\n"))
    sample = _Sample(vectors[sampled], texts, bare, chunks["page_id"].to_pylist())
    fresh = embedder.embed_documents(sample.texts) if sample.texts else np.zeros((0, embedder.dimension), np.float32)
    stored = sample.stored
    if fresh.shape != stored.shape:
        detail = f"vectors have {stored.shape[1]} dimensions, the model gives {fresh.shape[1]}: embedding model mix-up"
        return CheckResult("embedded_again", False, detail, {"sampled": len(fresh), "wrong": len(fresh)})
    wrong = np.flatnonzero((fresh * stored).sum(axis=1) < SAME_TEXT)
    numbers = {"sampled": len(fresh), "wrong": len(wrong)}
    if not len(wrong):
        return CheckResult(
            "embedded_again", True, f"{len(fresh)} sampled chunks have the vectors of their texts", numbers
        )
    wrongly = sample.take(wrong.tolist())
    damage = _vector_damage(generation, embedder, wrongly, fresh[wrong])
    detail = f"{len(wrong)} of {len(fresh)} sampled vectors are wrong: {damage}; {_MEND}"
    return CheckResult("embedded_again", False, detail, numbers, few(wrongly.pages, len(fresh)))


def _vector_damage(generation: Generation, embedder: Embedder, sample: _Sample, fresh: NDArray[np.float32]) -> str:
    """Return the fate of vectors that differ from their texts'; the majority decides."""
    stored, everyone = sample.stored, frozenset(generation.reader_classes)
    elsewhere = [generation.exact(vector, 1, everyone)[0].score >= SAME_TEXT for vector in fresh]
    if 2 * sum(elsewhere) >= len(stored):
        return "shuffled, these vectors stand at other chunks"
    asked = np.stack([embedder.embed_query(text) for text in sample.texts])
    if _most_same(asked, stored):
        return "wrong prompt prefix, passages were embedded as questions"
    if _most_same(embedder.embed_documents(sample.bare), stored):
        return "wrong prompt prefix, passages were embedded without their context"
    if float(np.median((fresh * stored).sum(axis=1))) >= SAME_MODEL:
        return "wrong prompt prefix, the model is right and the text that it read is not"
    return f"embedding model mix-up, they are not of {embedder.name!r}"


def _most_same(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(np.median((one * other).sum(axis=1)) >= SAME_TEXT)


def check_analyzed_again(generation: Generation, folder: Path) -> CheckResult:
    """Sampled chunks have the terms in the lexical index that their texts have now."""
    rows = sample_rows(len(generation))
    texts, languages = lexical_documents(take_rows(generation.table, np.array(rows, np.int64)))
    indexed = LexicalIndex.open(folder / LEXICAL_FOLDER).counts_of(rows)
    wanted = [dict(Counter(terms_in(*document))) for document in zip(texts, languages, strict=True)]
    wrong = [number for number, counts in enumerate(indexed) if counts != wanted[number]]
    numbers = {"sampled": len(rows), "wrong": len(wrong)}
    if not wrong:
        return CheckResult("analyzed_again", True, f"{len(rows)} sampled chunks have the terms of their texts", numbers)
    damage = _term_damage([indexed[number] for number in wrong], [wanted[number] for number in wrong])
    detail = f"{len(wrong)} of {len(rows)} sampled texts are indexed wrong: {damage}"
    pages = [generation.table["page_id"][rows[number]].as_py() for number in wrong]
    return CheckResult("analyzed_again", False, detail, numbers, few(pages, len(rows)))


def _term_damage(indexed: Sequence[Mapping[str, int]], wanted: Sequence[Mapping[str, int]]) -> str:
    have, want = frozenset().union(*indexed), frozenset().union(*wanted)
    extra = sorted(have - want)
    if extra and 2 * sum(stem in want for stem in stems(extra)) >= len(extra):
        return f"stemmer off, words stand in the index as they are written ({', '.join(extra[:3])})"
    return f"their terms are others ({', '.join([*extra, *sorted(want - have)][:3]) or 'other counts'})"


def check_counts(generation: Generation, selected: Mapping[str, int]) -> CheckResult:
    """Check that as many chunks of each source are indexed as were selected."""
    indexed = Counter(generation.table["source"].to_pylist())
    wrong = [
        f"{source}: {indexed[source]} of {selected.get(source, 0)} selected chunks are indexed"
        for source in sorted({*selected, *indexed})
        if indexed[source] != selected.get(source, 0)
    ]
    numbers = {"indexed": len(generation), "selected": sum(selected.values()), "wrong": len(wrong)}
    if wrong:
        return CheckResult("counts", False, f"chunks missing or too many: {'; '.join(wrong)}", numbers)
    return CheckResult("counts", True, f"all {len(generation)} selected chunks are indexed", numbers)


def check_anchors(generation: Generation) -> CheckResult:
    """Anchors name the heading above their text, not another heading of the page. By either of Confluence's rules, and
    by those of Markdown, an anchor ends in its heading's letters and digits."""
    columns = [generation.table[name].to_pylist() for name in ("page_id", "heading_path", "anchor")]
    headings: dict[str, set[str]] = {}
    for page, path, _ in zip(*columns, strict=True):
        headings.setdefault(page, set()).update(path[-1:])
    fitting, astray = 0, []
    for page, path, anchor in zip(*columns, strict=True):
        if path and _names(anchor, path[-1]):
            fitting += 1
        elif any(_names(anchor, heading) for heading in headings[page]):
            astray.append(page)
    numbers = {"fitting": fitting, "astray": len(astray), "chunks": len(generation)}
    if len(astray) > ASTRAY * (fitting + len(astray)):
        pages = list(dict.fromkeys(astray))
        detail = f"anchors shifted: {len(astray)} of {len(generation)} chunks link to another heading of their page"
        return CheckResult("anchors", False, f"{detail} (pages {', '.join(pages[:5])})", numbers, pages)
    return CheckResult("anchors", True, f"{fitting} of {len(generation)} anchors are made of their headings", numbers)


def _names(anchor: str, heading: str) -> bool:
    """Return whether an anchor is made of a heading, whether or not it has the number of a repeated one."""
    letters = _letters(heading)
    return bool(letters) and any(_letters(form).endswith(letters) for form in (anchor, _REPEATED.sub("", anchor)))


@lru_cache(maxsize=1 << 14)
def _letters(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


ALL_BELOW, SAMPLE, CODED_SAMPLE = 500, 300, 60
RECALL_AT = 10
_BLOCK = 50_000
_ROUNDING = 1e-5  # of similarities that are added up in another order
_THREADS = 4


@dataclass(frozen=True)
class CheckResult:
    """One check of a generation: its subject, and the result; `pages`: those at fault, if only some are."""

    name: str
    passed: bool
    detail: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pages: Sequence[str] = ()


@dataclass(frozen=True)
class Coverage:
    """The pages that every source enumerated, and why some of them have no chunk."""

    enumerated: Mapping[str, Collection[str]]  # source -> page ids
    explained: Mapping[str, str]  # page id -> reason


def check_generation(
    store: Store,
    tenant: str,
    generation_id: str,
    config: Config,
    coverage: Coverage,
    embedder: str,
    further: Sequence[Callable[[Generation], CheckResult]] = (),
) -> list[CheckResult]:
    """Check a committed generation and leave the verdict for `publish`. `embedder`: name of the model that questions
    will be embedded with. `further`: checks that need more than the generation. One that does not open fails `opens`
    alone."""
    try:
        generation = Generation.open(store, tenant, generation_id, config, memory_bytes=0)
    except StoreError as error:
        results = [CheckResult("opens", False, str(error), {"wrong": 1})]
    else:
        folder = store.generation(tenant, generation_id)
        faults = generation.dense_faults()
        counts = {"chunks": len(generation), "shards": len(generation.manifest.shards), "wrong": len(faults)}
        results = [
            CheckResult("opens", not faults, "; ".join(faults) or "every part is there", counts),
            check_files(store, folder, generation),
            check_ids(generation, place_of(store, tenant, config)),
            check_vectors(generation),
            check_embedder(generation, embedder),
            *check_neighbours(generation, config.indexing.min_ann_recall),
            check_page_versions(generation),
            check_coverage(generation, coverage),
            *(check(generation) for check in further),
        ]
        generation.close()
    write_signed(store, verdict_path(store, tenant, generation_id), {"checks": [asdict(result) for result in results]})
    return results


def verdict_path(store: Store, tenant: str, generation_id: str) -> Path:
    """Return the path of the results of a generation's checks until it is published."""
    return store.candidate(tenant) / f"checks-{generation_id}.json"


def check_files(store: Store, folder: Path, generation: Generation) -> CheckResult:
    """Check that every file is, to the bit, what the manifest says. One that was compared when the generation was
    opened, and not touched since, is not read again."""
    noted = generation.manifest.files
    known = KnownDigests(store, generation.tenant)

    def is_sound(name: str) -> bool:
        path, facts = folder / name, noted[name]
        stamp = stamp_of(path)
        key = path.relative_to(store.tenant(generation.tenant)).as_posix()
        return (stamp is not None and known.holds(key, stamp, facts.sha256)) or file_facts(path) == facts

    with ThreadPoolExecutor(_THREADS) as pool:
        wrong = [name for name, sound in zip(noted, pool.map(is_sound, noted), strict=True) if not sound]
    files = len(generation.manifest.files)
    return _result("files", wrong, f"{files} files have their digests", {"files": files})


def check_ids(generation: Generation, place: ChromaLocation) -> CheckResult:
    """Check that chunk table, dense shards and lexical index have the same chunks, the shards with the same readers and
    every window of a long one; shards are skipped if the generation has none."""
    shards, expected, dense = generation.manifest.shards, dict[str, str](), list[tuple[str, str]]()
    if shards:
        ids = generation.vector_ids()
        expected = {name: generation.readers_of(generation.row_of_vector(number)) for number, name in enumerate(ids)}
        try:
            collections = ShardCollections.open(place)
            dense = [pair for shard in shards for pair in stored_readers(collections, shard.collection)]
        except DenseError as error:
            return CheckResult("ids", False, str(error))
    other = [(chunk_id, readers) for chunk_id, readers in dense if expected.get(chunk_id) != readers]
    missing = sorted(expected.keys() - {chunk_id for chunk_id, _ in dense})
    wrong = [f"{chunk_id} (readers {readers!r})" for chunk_id, readers in other]
    wrong += [f"{chunk_id} (dense: missing)" for chunk_id in missing]
    pages = pages_of([*(chunk_id for chunk_id, _ in other), *missing])
    if len(dense) > len(expected):
        wrong.append(f"{len(dense) - len(expected)} more in the dense index than in the chunk table")
        pages = []
    lexical_ids = generation.lexical_ids()
    if lexical_ids != generation.chunk_ids():
        wrong.append("lexical: other chunks or another order")
        pages = []
    counts = {"chunks": len(generation), "dense": len(dense), "lexical": len(lexical_ids)}
    right = f"{len(generation)} chunk ids are the same in table, dense and lexical index"
    return _result("ids", wrong, right, counts, pages)


def check_vectors(generation: Generation) -> CheckResult:
    """All vectors are finite and of length 1."""
    wrong: list[str] = []
    ids = generation.vector_ids()
    for start in range(0, len(ids), _BLOCK):
        vectors = generation.vector_table.vectors[start : start + _BLOCK]
        with np.errstate(invalid="ignore"):
            bad = ~(np.abs(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) - 1) <= SAME)
        _let_go(generation.vector_table)
        wrong += [ids[start + row] for row in np.flatnonzero(bad)]
    right = f"{len(ids)} vectors are finite and of length 1"
    return _result("vectors", wrong, right, {"vectors": len(ids)}, pages_of(wrong))


def check_embedder(generation: Generation, embedder: str) -> CheckResult:
    """The vectors are of the model that questions are embedded with."""
    facts = generation.manifest.embedder
    wrong = [] if facts.name == embedder else [f"vectors are of {facts.name!r}, questions of {embedder!r}"]
    return _result("embedder", wrong, f"{facts.name}, {facts.dimension} dimensions", {"dimension": facts.dimension})


def check_neighbours(generation: Generation, minimum: float) -> list[CheckResult]:
    """By sampled vectors: each finds its chunk, or an identical vector, first; and recall@10 of the dense index against
    exact search.
    """
    vectors, ids = generation.vector_table.vectors, generation.vector_ids()
    most = SAMPLE if generation.manifest.shards else CODED_SAMPLE  # codes miss nothing by construction
    sampled, everyone = sample_rows(len(vectors), most), frozenset(generation.reader_classes)
    astray: list[str] = []
    found = wanted = 0
    searched = partial(_as_served, generation, everyone)
    least = _least_scores(generation, sampled)
    try:
        for number, score in zip(sampled, least, strict=True):
            vector = vectors[number]
            approximate = searched(vector)
            if not _is_itself(approximate, generation.row_of_vector(number)):
                astray.append(ids[number])
            found += sum(hit.score >= score - _ROUNDING for hit in approximate)
            wanted += min(RECALL_AT, len(generation))
    except DenseError as error:
        return [CheckResult(name, False, str(error)) for name in ("found_by_own_vector", "ann_recall")]
    recall = found / wanted if wanted else 1.0
    measured = {"recall_at_10": recall, "minimum": minimum, "sampled": len(sampled)}
    detail = f"recall@{RECALL_AT} is {recall:.4f}, at least {minimum} is asked for"
    return [
        _result(
            "found_by_own_vector",
            astray,
            f"{len(sampled)} of {len(vectors)} vectors find their chunks",
            {"sampled": len(sampled), "chunks": len(generation)},
            few(pages_of(astray), len(sampled)),
        ),
        CheckResult("ann_recall", recall >= minimum, detail, measured),
    ]


def _least_scores(generation: Generation, sampled: Sequence[int]) -> list[float]:
    """Return the similarity of the last of the nearest rows to each of some vectors, by comparing with every vector.
    All are compared in one pass. BLAS adds up in another order than an exact search; that is far below `_ROUNDING`."""
    table, k = generation.vector_table, min(RECALL_AT, len(generation))
    if table.windows is not None:
        everyone = frozenset(generation.reader_classes)
        return [generation.exact(table.vectors[number], k, everyone)[-1].score for number in sampled]
    asked, best = table.vectors[sampled], np.empty((len(sampled), 0), np.float32)
    for start in range(0, len(table.vectors), _BLOCK):
        scores = asked @ table.vectors[start : start + _BLOCK].T
        _let_go(table)
        best = np.partition(np.concatenate([best, scores], axis=1), -min(k, best.shape[1] + scores.shape[1]), axis=1)
        best = best[:, -k:]
    return [float(score) for score in best.min(axis=1, initial=np.inf)]


def _let_go(table: VectorTable) -> None:
    for part in table.parts:
        let_go(part)


def _as_served(generation: Generation, everyone: frozenset[str], vector: Vectors) -> list[Hit]:
    """Return the nearest by the search to be measured: the graphs, or the codes without any."""
    if generation.manifest.shards:
        return generation.approximate(vector, RECALL_AT)
    return generation.dense(vector, RECALL_AT, everyone)


def check_page_versions(generation: Generation) -> CheckResult:
    """No page has two versions, and none belongs to two sources."""
    seen: dict[str, tuple[str, int]] = {}
    table = generation.table
    wrong = []
    for page, source, version in zip(
        *(table[name].to_pylist() for name in ("page_id", "source", "version")), strict=True
    ):
        if seen.setdefault(page, (source, version)) != (source, version):
            wrong.append(page)
    detail = f"{len(seen)} pages, each in one version from one source"
    return _result("page_versions", pages := sorted(set(wrong)), detail, {"pages": len(seen)}, pages)


def check_coverage(generation: Generation, coverage: Coverage) -> CheckResult:
    """Return every page that a source enumerated is indexed or explained, and nothing else is indexed."""
    indexed = set(generation.table["page_id"].to_pylist())
    enumerated = {page for pages in coverage.enumerated.values() for page in pages}
    lost, more = sorted(enumerated - indexed - coverage.explained.keys()), sorted(indexed - enumerated)
    wrong = [*(f"{page} (not indexed)" for page in lost), *(f"{page} (not enumerated)" for page in more)]
    counts = {"enumerated": len(enumerated), "indexed": len(indexed), "explained": len(enumerated - indexed)}
    right = ", ".join(f"{count} {name}" for name, count in counts.items())
    return _result("coverage", wrong, right, counts, [*lost, *more])


def sample_rows(count: int, most: int = SAMPLE) -> list[int]:
    """Return all rows of a small table, else an even sample: the same rows each time."""
    if count < ALL_BELOW:
        return list(range(count))
    return [int(row) for row in np.unique(np.linspace(0, count - 1, most).astype(int))]


def _is_itself(found: Sequence[Hit], row: int) -> bool:
    return bool(found) and (found[0].row == row or bool(found[0].score >= 1 - SAME))


def documents_at_fault(results: Sequence[CheckResult]) -> dict[str, str]:
    """Return the pages that all failed checks name, with a reason for their authors; none if one names no page."""
    failed = [result for result in results if not result.passed]
    if not all(result.pages for result in failed):
        return {}
    return {page: f"it failed the check {one.name!r} before publication" for one in failed for page in one.pages}


def pages_of(vector_ids: Iterable[str]) -> list[str]:
    """Return the pages of chunks, or of windows of chunks, each once."""
    return list(dict.fromkeys(chunk_id_of(name).rsplit(":", 2)[0] for name in vector_ids))


def few(wrong: Sequence[str], looked_at: int) -> list[str]:
    """Return the faulty pages of a sample if they are few; none if there are more, which has another cause."""
    pages = list(dict.fromkeys(wrong))
    return pages if len(wrong) <= max(1, looked_at // 10) else []


def _result(
    name: str, wrong: Sequence[str], right: str, metadata: Mapping[str, Any] | None = None, pages: Sequence[str] = ()
) -> CheckResult:
    """Passed when nothing is wrong; else the first few. `pages`: those at fault."""
    facts = {**(metadata or {}), "wrong": len(wrong)}
    if not wrong:
        return CheckResult(name, True, right, facts)
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return CheckResult(name, False, f"{', '.join(wrong[:5])}{more}", facts, pages)
