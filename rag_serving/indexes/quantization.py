"""Vectors as bytes: for every row the bounds between which its similarity lies, at a fraction of the cost.

Belongs here: opening the codes, bounds on similarities.
Does not belong here: coding vectors (`rag_assets.publishing.workspace`), choosing rows by these bounds (`exact`).

A code is the vector divided by its own largest component, rounded to one byte each (per-vector scalar quantization).
How far a code lies from its vector is stored beside it, so by Cauchy and Schwarz a similarity differs from that of the
codes by no more than this distance. A row whose upper bound is below the k-th best lower bound cannot be among the k
best: what is left is compared in full precision, and the search is exact. A bound depends on its own row alone, so
nothing of a result tells of other rows.

100,000 vectors of 384 numbers take 38 MB and 1.5 ms on one core, 153 MB and 5 ms as float32.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.artifacts.arrays import array_of

if TYPE_CHECKING:
    from rag_serving.models.embedding.graph_cache import GraphCache

CODES_FILE, FACTS_FILE = "codes.npy", "codes-facts.npy"
_GRAPH = "products of codes, 1"  # the name that the graph is kept by; another number where it is made otherwise
_QUERY_LEVELS = 63  # two products of 7 and 8 bits still fit 16 bits, where some processors' sums saturate
_FINE = 126  # steps of the query's second byte in one of its first
_ROUNDING = 1e-5  # of float32 sums, far above what they lose

Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]


class CodesError(Exception):
    """The codes of a folder cannot be read or are not what was expected."""


class Codes:
    """The codes of a generation's vectors, opened. Safe to use from several threads, which it does not start."""

    _session: Any

    def __init__(self, codes: NDArray[np.int8], facts: NDArray[np.float32], graphs: GraphCache | None) -> None:
        self._codes: NDArray[np.int8] | None = codes  # until they are copied
        self._graphs, self._opening, self._session = graphs, threading.Lock(), None
        self._scales, self._errors, self._lengths = facts

    @classmethod
    def open(
        cls, codes: memoryview, facts: memoryview, rows: int, dimension: int, graphs: GraphCache | None = None
    ) -> Codes:
        """Open the bytes of both files; `prepare` makes them ready to be searched.

        `graphs`: where the graph that multiplies is kept between starts.

        Raises:
            CodesError: truncated, or of another shape.
        """
        try:
            coded, noted = array_of(codes), array_of(facts)
        except ValueError as error:
            raise CodesError(f"the codes in {CODES_FILE} cannot be read ({error})") from error
        if coded.shape != (dimension, rows) or coded.dtype != np.int8 or noted.shape != (3, rows):
            raise CodesError(
                f"the codes in {CODES_FILE} are {coded.shape} of {coded.dtype}, expected ({dimension}, {rows})"
            )
        return cls(coded, noted, graphs)

    def prepare(self) -> None:
        """Copy the codes into the order that the processor multiplies in, as the first search would.

        Raises:
            CodesError: they cannot be multiplied.
        """
        with self._opening:
            if self._codes is not None:
                self._session, self._codes = _session(self._codes, self._graphs), None

    @property
    def is_prepared(self) -> bool:
        """Return whether the codes are copied."""
        return self._codes is None

    def bounds(self, vector: NDArray[np.float32]) -> Bounds:
        """Between what the similarity of every row to `vector` [d] lies: lower and upper bounds [n]."""
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
    """Return a query as two bytes a component around 64, the second for what the first rounds away, and their scale."""
    largest = float(np.abs(vector).max(initial=0))
    scale = np.float32((largest or 1.0) / _QUERY_LEVELS)
    steps = vector / scale
    coarse = np.rint(steps)
    fine = np.rint((steps - coarse) * _FINE)
    return (coarse + 64).astype(np.uint8), (fine + 64).astype(np.uint8), scale


def _session(codes: NDArray[np.int8], graphs: GraphCache | None) -> Any:
    """Return a session that multiplies two coded queries [2, d] with codes [d, n], which it copies."""
    import onnxruntime as ort

    make = partial(_product_graph, *codes.shape)
    model = graphs.get(f"{_GRAPH} {codes.shape}", make) if graphs else make()
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # queries run beside each other, not inside
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    try:
        options.add_external_initializers(["codes"], [ort.OrtValue.ortvalue_from_numpy(codes)])
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions share no public base
        raise CodesError(f"the codes in {CODES_FILE} cannot be opened ({error})") from error


def _product_graph(dimension: int, count: int) -> bytes:
    """Return the graph that multiplies queries [2, d] with codes [d, n]."""
    from onnx import TensorProto, helper, numpy_helper

    theirs = TensorProto(name="codes", data_type=TensorProto.INT8, dims=(dimension, count))
    theirs.data_location = TensorProto.EXTERNAL
    theirs.external_data.add(key="location", value=CODES_FILE)  # is not opened: the bytes are given below
    zero = numpy_helper.from_array(np.array(64, np.uint8), "zero")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["query", "codes", "zero"], ["products"])],
        "codes",
        [helper.make_tensor_value_info("query", TensorProto.UINT8, [2, dimension])],
        [helper.make_tensor_value_info("products", TensorProto.INT32, [2, count])],
        initializer=[theirs, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
