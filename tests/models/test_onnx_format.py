"""Models that are written without the package `onnx` are those that it reads and would write."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rag_serving.models.embedding import onnx_format as ours
from rag_serving.models.embedding.local import bert_graph, read_header
from rag_serving.models.embedding.weights import Weights

ROWS = np.array([[1.5, -2.0], [0.0, 3e38]], np.float32)
PLACE = {"location": "weights", "offset": "128", "length": "4096"}


def test_a_model_is_what_the_package_makes_of_the_same() -> None:
    made = ours.model(
        "g",
        [ours.node("Mul", ["x", "rows"], "y", "some.domain", axis=-1, axes=[0, -2, 300], epsilon=1e-12, keepdims=0)],
        [ours.tensor("rows", ROWS), ours.external_tensor("far", ours.INT8, (384, 100_000), PLACE)],
        [ours.described("x", ours.FLOAT, ["n", 2])],
        [ours.described("y", ours.INT32, [])],
        "some.domain",
    )
    far = TensorProto(name="far", data_type=TensorProto.INT8, dims=(384, 100_000))
    far.data_location = TensorProto.EXTERNAL
    for key, value in PLACE.items():
        far.external_data.add(key=key, value=value)
    theirs = helper.make_graph(
        [
            helper.make_node(
                "Mul", ["x", "rows"], ["y"], domain="some.domain", axis=-1, axes=[0, -2, 300], epsilon=1e-12, keepdims=0
            )
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [])],
        initializer=[numpy_helper.from_array(ROWS, "rows"), far],
    )
    operators = [helper.make_opsetid("", 17), helper.make_opsetid("some.domain", 1)]
    assert made == helper.make_model(theirs, opset_imports=operators, ir_version=9).SerializeToString()


def test_the_package_reads_an_encoder_and_would_write_the_same(packaged: Weights) -> None:
    made = bert_graph(read_header(packaged.tensors), packaged.shape, packaged.tensors, "int8")
    read = onnx.load_model_from_string(made)
    assert len(read.graph.node) > 100
    assert read.SerializeToString() == made
