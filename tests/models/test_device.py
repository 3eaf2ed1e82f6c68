"""Where the local encoder runs, and how its batches are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.constants import section_of

from rag_serving.config.models import Embedding
from rag_serving.models import open_embedder
from rag_serving.models.embedding.device import CPU, CUDA, batch_slices, chosen_provider, refused
from rag_serving.models.embedding.local import LocalEmbedder, LocalSettings
from rag_serving.models.embedding.weights import Weights
from rag_serving.models.protocols import ModelError

TEXTS = [f"The broker keeps a log of partition {number}. " * (number % 9 + 1) for number in range(12)]


def test_the_gpu_is_taken_where_it_is_offered_unless_the_cpu_is_asked_for() -> None:
    assert chosen_provider("auto", [CUDA, CPU]) == CUDA
    assert chosen_provider("cuda", [CUDA, CPU]) == CUDA
    assert chosen_provider("cpu", [CUDA, CPU]) == CPU
    assert chosen_provider("auto", [CPU]) == CPU


def test_a_gpu_that_is_demanded_and_not_there_is_an_error_of_passages_alone(packaged: Weights) -> None:
    import onnxruntime

    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this machine has onnxruntime-gpu")
    embedder = LocalEmbedder(packaged, LocalSettings(device="cuda"))
    assert np.isfinite(embedder.embed_query("a question")).all()
    with pytest.raises(ModelError, match="install onnxruntime-gpu in the place of onnxruntime"):
        embedder.embed_documents(["a passage"])


def test_a_gpu_that_fails_is_told_once_and_is_an_error_only_where_it_is_demanded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        refused("auto", "it has no cuDNN in this test")
    assert [record.getMessage() for record in caplog.records] == [
        "passages are embedded on the CPU, because CUDA cannot be used: it has no cuDNN in this test"
    ]
    with pytest.raises(ModelError, match=r"embedding.device is cuda, and CUDA cannot be used: it has no cuDNN"):
        refused("cuda", "it has no cuDNN in this test")


@pytest.fixture(scope="module")
def vectors(minilm: LocalEmbedder) -> NDArray[np.float32]:
    return minilm.embed_documents(TEXTS)


@pytest.mark.parametrize("batch_tokens", [1, 100, 20_000])
def test_vectors_do_not_depend_on_the_tokens_of_a_batch(
    minilm: LocalEmbedder, vectors: NDArray[np.float32], batch_tokens: int
) -> None:
    other = open_embedder(section_of(Embedding, batch_tokens=batch_tokens, batch_size=64, device="auto"))
    assert other.name == minilm.name
    np.testing.assert_allclose(other.embed_documents(TEXTS), vectors, atol=1e-5)


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 40), st.integers(1, 4000))
def test_batches_have_every_text_once_within_their_bounds(lengths: list[int], texts: int, tokens: int) -> None:
    lengths.sort(reverse=True)
    parts = [lengths[part] for part in batch_slices(lengths, texts, tokens)]
    assert [length for part in parts for length in part] == lengths
    assert all(len(part) <= texts for part in parts)
    assert all(len(part) == 1 or len(part) * part[0] <= tokens for part in parts)
