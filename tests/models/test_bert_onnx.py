"""The ONNX encoder against an independent forward pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.numpy_bert import encode

from rag_serving.models.embedding.local import Bert, read_header
from rag_serving.models.embedding.weights import Weights, find_weights
from rag_serving.models.protocols import ModelError


def run(bert: Bert, sequences: list[list[int]]) -> np.ndarray:
    lengths = np.array([len(ids) for ids in sequences], np.int32)
    padded = np.zeros((len(sequences), lengths.max()), np.int64)
    for row, ids in zip(padded, sequences, strict=True):
        row[: len(ids)] = ids
    return bert(padded, lengths)


def test_the_published_model_gives_what_the_paper_says(packaged: Weights) -> None:
    sequences = [[101, 2129, 2079, 1045, 25141, 102], [101, 7592, 102], [101, *range(2000, 2040), 102]]
    tensors = load_file(packaged.tensors)
    tensors.pop("embeddings.position_ids", None)
    expected = [encode(tensors, ids, heads=12, epsilon=1e-12, pooling="mean") for ids in sequences]
    np.testing.assert_allclose(run(Bert(packaged), sequences), expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_another_encoder_runs_by_its_own_configuration(tiny_folder: Path, pooling: str) -> None:
    weights = find_weights(str(tiny_folder))
    weights = replace(weights, shape=replace(weights.shape, pooling=pooling))
    sequences = [[2, 5, 6, 7, 8, 3], [2, 9, 3], [2, *range(4, 36), 3]]
    tensors = load_file(weights.tensors)
    expected = [encode(tensors, ids, heads=4, epsilon=0.01, pooling=pooling) for ids in sequences]
    np.testing.assert_allclose(run(Bert(weights), sequences), expected, atol=1e-6)


def test_bytes_give_nearly_the_same_vectors(packaged: Weights) -> None:
    sequences = [[101, 2129, 2079, 1045, 25141, 102], [101, 7592, 102], [101, *range(2000, 2040), 102]]
    exact, coded = run(Bert(packaged), sequences), run(Bert(packaged, "int8"), sequences)
    cosines = (exact * coded).sum(axis=1)
    assert (cosines > 0.97).all()
    assert (cosines < 0.9999).all(), "nothing was coded"


def test_padding_does_not_reach_a_vector(tiny_folder: Path) -> None:
    bert = Bert(find_weights(str(tiny_folder)))
    alone = run(bert, [[2, 5, 3]])[0]
    beside_a_long_one = run(bert, [[2, 5, 3], [2, *range(4, 36), 3]])[0]
    np.testing.assert_allclose(alone, beside_a_long_one, atol=1e-6)


def test_the_header_agrees_with_the_library_that_wrote_the_file(tiny_folder: Path) -> None:
    path = tiny_folder / "model.safetensors"
    content = path.read_bytes()
    written = load_file(path)
    header = read_header(path)
    assert {f"bert.{name}" for name in header} == set(written)
    for name, tensor in header.items():
        found = np.frombuffer(content[tensor.offset : tensor.offset + tensor.length], "<f4").reshape(tensor.shape)
        np.testing.assert_array_equal(found, written[f"bert.{name}"])


@pytest.mark.parametrize("kept", [0, 7, 20, 4000])
def test_a_truncated_file_is_named_with_its_mend(tiny_folder: Path, kept: int) -> None:
    path = tiny_folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"model\.safetensors is not a readable safetensors file .*fetch it again"):
        read_header(path)


def test_a_header_that_lies_about_a_tensor_is_refused(tiny_folder: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path = tiny_folder / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ModelError, match="size is not that of its shape"):
        read_header(path)


def test_weights_of_half_precision_give_what_they_give_in_float32(tiny_folder: Path) -> None:
    path = tiny_folder / "model.safetensors"
    halved = {name: tensor.astype(np.float16) for name, tensor in load_file(path).items()}
    sequences = [[2, 5, 6, 7, 8, 3], [2, 9, 3]]
    save_file({name: tensor.astype(np.float32) for name, tensor in halved.items()}, path)
    expected = run(Bert(find_weights(str(tiny_folder))), sequences)
    save_file(halved, path)
    np.testing.assert_allclose(run(Bert(find_weights(str(tiny_folder))), sequences), expected, atol=1e-6)


def test_weights_of_another_precision_are_refused_by_name(tiny_folder: Path) -> None:
    path = tiny_folder / "model.safetensors"
    save_file({name: tensor.astype(np.float64) for name, tensor in load_file(path).items()}, path)
    with pytest.raises(ModelError, match="float32 or float16"):
        Bert(find_weights(str(tiny_folder)))


def test_a_missing_tensor_is_named(tiny_folder: Path) -> None:
    path = tiny_folder / "model.safetensors"
    tensors = load_file(path)
    del tensors["bert.encoder.layer.1.output.dense.bias"]
    save_file(tensors, path)
    with pytest.raises(ModelError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        Bert(find_weights(str(tiny_folder)))
