"""Exact search over a generation's vectors: what answers, and what the recall of Chroma is measured against. A row with
a vector for each of its windows is as similar as the nearest of them. A vector in a part is read, and a bound computed,
as in one array: what a search finds is the same to the last bit. Codes: a vector divided by its own largest component,
a byte each. By Cauchy and Schwarz a similarity differs from that of the codes by no more than the distance stored
beside it, so rows whose upper bound is below the k-th best lower bound are spared, and the search is exact. A bound
depends on its own row alone: it reveals nothing of others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_serving.artifacts.columns import numbers_of
from rag_serving.artifacts.contents import array_of
from rag_serving.indexes.readable_rows import Hit, best
from rag_serving.models.embedding import onnx_format

Rows = NDArray[np.int64]
_SIGN = "#"  # between a chunk id, which ends in its number on the page, and a window's number


class WindowsError(Exception):
    """The chunk table does not say which vectors belong to its rows."""


class Places(NamedTuple):
    """The vectors of some rows [m], and where those of each row begin among them [rows]."""

    vectors: Rows
    starts: Rows


class WindowMap:
    """The vectors of every row, at least one each. A window has its passage's readers: for others none is compared."""

    def __init__(self, counts: Rows) -> None:
        """`counts` [rows]: how many vectors each row has."""
        self.counts = counts
        self._starts = np.cumsum(counts) - counts
        self.vectors = int(counts.sum())

    def __len__(self) -> int:
        return len(self.counts)

    def places(self, rows: Rows) -> Places:
        """Return the places of the vectors of some rows, row by row."""
        counts = self.counts[rows]
        starts = np.cumsum(counts) - counts
        shifts = np.repeat(self._starts[rows] - starts, counts)
        return Places(np.arange(len(shifts), dtype=np.int64) + shifts, starts)

    def best(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the largest of each row's values [rows], of one value for every vector [vectors]."""
        best: NDArray[np.float32] = np.maximum.reduceat(values, self._starts) if len(self) else values
        return best

    def row_of(self, vector: int) -> int:
        """Return the row that a vector belongs to."""
        return int(np.searchsorted(self._starts, vector, side="right")) - 1

    def start_of(self, row: int) -> int:
        """Return where the vectors of a row begin."""
        return int(self._starts[row])


def window_counts(vector_keys: pa.ChunkedArray) -> Rows:
    """Return how many vectors each row has [rows], by the column of that name. Raises WindowsError: a row has none."""
    lengths = pc.list_value_length(vector_keys)
    counts = np.zeros(1, np.int64) if lengths.null_count else numbers_of(lengths)
    if not counts.all():
        raise WindowsError("a row of the chunk table names no vector")
    return counts


def window_map(vector_keys: pa.ChunkedArray) -> WindowMap | None:
    """Return the map by the column of that name; None if every row has one vector, whose number is the row's. Raises
    WindowsError: a row has no vector."""
    counts = window_counts(vector_keys)
    return WindowMap(counts) if (counts > 1).any() else None


def vector_ids(chunk_ids: Sequence[str], counts: Iterable[int]) -> list[str]:
    """Return the name of each vector in Chroma: its chunk's id, with a number if there are several."""
    ids: list[str] = []
    for chunk_id, count in zip(chunk_ids, counts, strict=True):
        ids += [chunk_id] if count == 1 else [f"{chunk_id}{_SIGN}{number}" for number in range(count)]
    return ids


def chunk_id_of(vector_id: str) -> str:
    """Return the id of the chunk that a vector belongs to."""
    chunk_id, sign, number = vector_id.rpartition(_SIGN)
    return chunk_id if sign and number.isascii() and number.isdigit() and ":" in chunk_id else vector_id


CODES_FILE, FACTS_FILE = "codes.npy", "codes-facts.npy"
_QUERY_LEVELS = 63  # two products of 7 and 8 bits still fit 16 bits, where some processors' sums saturate
_FINE = 126  # steps of the query's second byte in one of its first
_ROUNDING = 1e-5  # of float32 sums, far above what they lose

Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]


class CodesError(Exception):
    """The codes of a folder cannot be read or are not what was expected."""


class Codes:
    """The codes of a generation's vectors, opened. Safe to use from several threads, which it does not start."""

    _session: Any

    def __init__(self, codes: NDArray[np.int8], facts: NDArray[np.float32]) -> None:
        self._codes: NDArray[np.int8] | None = codes  # until they are copied
        self._opening, self._session = threading.Lock(), None
        self._scales, self._errors, self._lengths = facts

    @classmethod
    def open(cls, codes: memoryview, facts: memoryview, rows: int, dimension: int) -> Codes:
        """Open the bytes of both files, not ready to be searched. Raises CodesError: truncated, or of another shape."""
        try:
            coded, noted = array_of(codes), array_of(facts)
        except ValueError as error:
            raise CodesError(f"the codes in {CODES_FILE} cannot be read ({error})") from error
        if coded.shape != (dimension, rows) or coded.dtype != np.int8 or noted.shape != (3, rows):
            raise CodesError(
                f"the codes in {CODES_FILE} are {coded.shape} of {coded.dtype}, expected ({dimension}, {rows})"
            )
        return cls(coded, noted)

    def prepare(self) -> None:
        """Copy the codes into the order of multiplication, as the first search would. Raises CodesError: it failed."""
        with self._opening:
            if self._codes is not None:
                self._session, self._codes = _session(self._codes), None

    @property
    def is_prepared(self) -> bool:
        """Return whether the codes are copied."""
        return self._codes is None

    def bounds(self, vector: NDArray[np.float32]) -> Bounds:
        """Return lower and upper bounds [n] of the similarity of every row to `vector` [d]."""
        coarse, fine, scale = _query_codes(vector)
        self.prepare()
        products = self._session.run(None, {"query": np.stack([coarse, fine])})[0]
        estimates = products[1].astype(np.float32)
        estimates /= np.float32(_FINE)
        estimates += products[0]
        estimates *= self._scales
        estimates *= scale
        decoded = ((coarse.astype(np.float64) - 64) + (fine.astype(np.float64) - 64) / _FINE) * scale
        length, missing = float(np.linalg.norm(vector)), float(np.linalg.norm(vector - decoded))
        slack = self._errors * np.float32(length)
        slack += self._lengths * np.float32(missing) + np.float32(_ROUNDING * max(1.0, length))
        return estimates - slack, estimates + slack


def _query_codes(vector: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8], np.float32]:
    """Return a query as two bytes a component around 64, the second for the remainder of the first, and their scale."""
    largest = float(np.abs(vector).max(initial=0))
    scale = np.float32((largest or 1.0) / _QUERY_LEVELS)
    steps = vector / scale
    coarse = np.rint(steps)
    fine = np.rint((steps - coarse) * _FINE)
    return (coarse + 64).astype(np.uint8), (fine + 64).astype(np.uint8), scale


def _session(codes: NDArray[np.int8]) -> Any:
    """Return a session that multiplies two coded queries [2, d] with codes [d, n], which it copies."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # queries run beside each other, not inside
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        options.add_external_initializers(["codes"], [ort.OrtValue.ortvalue_from_numpy(codes)])
        return ort.InferenceSession(_product_graph(*codes.shape), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions share no public base
        raise CodesError(f"the codes in {CODES_FILE} cannot be opened ({error})") from error


def _product_graph(dimension: int, count: int) -> bytes:
    """Return the graph that multiplies queries [2, d] with codes [d, n]."""
    place = {"location": CODES_FILE}  # is not opened: the graph's opener supplies the bytes
    return onnx_format.model(
        "codes",
        [onnx_format.node("MatMulInteger", ["query", "codes", "zero"], "products")],
        [
            onnx_format.external_tensor("codes", onnx_format.INT8, (dimension, count), place),
            onnx_format.tensor("zero", np.array(64, np.uint8)),
        ],
        [onnx_format.described("query", onnx_format.UINT8, [2, dimension])],
        [onnx_format.described("products", onnx_format.INT32, [2, count])],
    )


Vectors = NDArray[np.float32]


class JoinedVectors:
    """Arrays of vectors [n, d], one after the other; copied only on demand."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        """`parts`: at least one."""
        self.parts = tuple(parts)
        self._ends = np.cumsum([len(part) for part in parts])
        self._starts: list[int] = [0, *self._ends[:-1].tolist()]
        self.shape = (int(self._ends[-1]), parts[0].shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, places: int | slice | Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Return a vector [d], or vectors at some places [n, d]; those of a slice within one part are not copied."""
        if isinstance(places, slice):
            return self._run(*places.indices(len(self))[:2])
        numbers = np.asarray(places, np.int64)
        owners = np.searchsorted(self._ends, numbers, side="right")
        if numbers.ndim == 0:
            vector: Vectors = self.parts[int(owners)][int(numbers) - self._starts[int(owners)]]
            return vector
        found = np.empty((len(numbers), self.shape[1]), np.float32)
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            own = owners == owner
            found[own] = self.parts[owner][numbers[own] - self._starts[owner]]
        return found

    def _run(self, first: int, last: int) -> Vectors:
        """Return the vectors from one place to before another."""
        pieces = [
            part[max(first - start, 0) : last - start]
            for part, start in zip(self.parts, self._starts, strict=True)
            if start < last and first < start + len(part)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate([self.parts[0][:0], *pieces])


class JoinedCodes:
    """The codes of arrays of vectors, one after the other. Safe to use from several threads."""

    def __init__(self, parts: Sequence[Codes]) -> None:
        self._parts = tuple(parts)

    def prepare(self) -> None:
        """Make the codes of every part ready to be searched; raises CodesError if one cannot be multiplied."""
        for part in self._parts:
            part.prepare()

    @property
    def is_prepared(self) -> bool:
        """Return whether the codes of every part are copied."""
        return all(part.is_prepared for part in self._parts)

    def bounds(self, vector: Vectors) -> Bounds:
        """Return lower and upper bounds [n] of the similarity of every row to `vector` [d]."""
        lower, upper = zip(*(part.bounds(vector) for part in self._parts), strict=True)
        return np.concatenate(lower), np.concatenate(upper)


FILE = "vectors.npy"
_FEW = 1024  # so many rows are sooner compared than bounded
_FEWER = 40  # so is one row in so many, because bounds come for all rows
_BLOCK = 65_536
_TINY = np.finfo(np.float32).tiny


class VectorsError(Exception):
    """The vectors of a folder cannot be read or are not what was expected."""


def vectors_of(data: memoryview, rows: int, dimension: int) -> Vectors:
    """Return the vectors [rows, dimension] in the bytes of `vectors.npy`, not copied. Raises VectorsError: they are
    incomplete, or of another shape."""
    if not rows:
        return np.zeros((0, dimension), dtype=np.float32)
    try:
        vectors: Vectors = array_of(data)
    except ValueError as error:
        raise VectorsError(f"{FILE} cannot be read ({error})") from error
    if vectors.shape != (rows, dimension) or vectors.dtype != np.float32:
        raise VectorsError(
            f"{FILE} holds {vectors.shape} of {vectors.dtype}, expected ({rows}, {dimension}) of float32"
        )
    return vectors


class VectorTable(NamedTuple):
    """The L2-normalized vectors [vectors, d] of a generation, their quantized codes, and which belong to which row."""

    vectors: Vectors | JoinedVectors
    codes: Codes | JoinedCodes | None = None
    windows: WindowMap | None = None  # None: every row has one

    @property
    def rows(self) -> int:
        """Return how many rows have vectors."""
        return len(self.vectors) if self.windows is None else len(self.windows)

    @property
    def parts(self) -> tuple[Vectors, ...]:
        """Return the arrays that the vectors are stored in."""
        return self.vectors.parts if isinstance(self.vectors, JoinedVectors) else (self.vectors,)

    def mean(self, rows: NDArray[np.int64]) -> Vectors:
        """Return one vector for each of some rows [n, d]: the mean of its windows, of length one again."""
        if self.windows is None:
            return self.vectors[rows]
        places, starts = self.windows.places(rows)
        found = self.vectors[places]
        if not len(rows):
            return found
        means, several = found[starts], self.windows.counts[rows] > 1
        sums = np.add.reduceat(found, starts, axis=0)[several]
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        means[several] = np.where(lengths > 0, sums / np.maximum(lengths, _TINY), means[several])
        return means


def similarities(table: VectorTable, vector: Vectors, rows: NDArray[np.int64]) -> Vectors:
    """Return cosine similarity of some rows to `vector` [d]: of each its nearest vector's."""
    vector = np.asarray(vector, dtype=np.float32)
    if table.windows is None:
        return _cosines(table.vectors, vector, rows)
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        places, starts = table.windows.places(rows[part])
        np.maximum.reduceat(_cosines(table.vectors, vector, places), starts, out=scores[part])
    return scores


def _cosines(vectors: Vectors | JoinedVectors, vector: Vectors, places: NDArray[np.int64]) -> Vectors:
    """Return the cosine similarity of the vectors at some places to `vector` [d]. Each is summed alone: equal vectors
    get equal scores at every place, which BLAS does not guarantee. Nor does this start BLAS's threads, which would
    compete when several questions are answered."""
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.einsum("ij,j->i", vectors[places[part]], vector, out=scores[part])
    return scores


def search(table: VectorTable, vector: Vectors, k: int, rows: NDArray[np.int64] | None = None) -> list[Hit]:
    """Return the k most similar of `rows` (ascending; None: all), best first. With the vectors' codes most rows are
    left out by their bounds; the result is the same to the last bit."""
    rows = np.arange(table.rows, dtype=np.int64) if rows is None else rows
    if table.codes and k > 0 and len(rows) > max(k, _FEW, table.rows // _FEWER):
        lower, upper = table.codes.bounds(vector)
        if table.windows is not None:  # the most similar window is between the largest of their bounds
            lower, upper = table.windows.best(lower), table.windows.best(upper)
        if len(rows) < len(lower):
            lower, upper = lower[rows], upper[rows]
        possible: NDArray[np.bool_] = upper >= np.partition(lower, len(lower) - k)[len(lower) - k]
        rows = rows[possible]
    return best(rows, similarities(table, vector, rows), k)
