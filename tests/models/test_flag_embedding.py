"""FlagEmbedding's encoders: the library's own loading code on checkpoints that the test makes."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.finalizers import moves_by_finalizers
from support.tiny_embedders import save_encoder, save_m3
from support.tiny_reranker import WORDS

from rag_serving.config.models import Embedding
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.embedding.flag_embedding import FlagEmbedder
from rag_serving.models.protocols import ModelError

pytestmark = pytest.mark.xdist_group("torch")  # FlagEmbedding takes seconds to import: one process does it


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import torch

    torch.set_num_threads(1)  # more of them only wait for each other over matrices this small
    folder = tmp_path_factory.mktemp("encoders")
    return {"m3": save_m3(folder / "m3"), "mean": save_encoder(folder / "mean")}


@pytest.fixture(scope="module", params=["m3", "mean"])
def checkpoint(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Path:
    return checkpoints[request.param]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    draw = random.Random(5)
    return ["", *(" ".join(draw.choices(WORDS, k=draw.randint(1, 50))) for _ in range(60))]


def test_vectors_are_those_of_the_library(checkpoint: Path, texts: list[str]) -> None:
    from FlagEmbedding import BGEM3FlagModel, FlagModel

    kind, more = (BGEM3FlagModel, {}) if checkpoint.name == "m3" else (FlagModel, {"pooling_method": "mean"})
    theirs: Any = kind(str(checkpoint), use_fp16=False, devices=["cpu"], **more).encode(texts, max_length=64)
    expected = theirs["dense_vecs"] if checkpoint.name == "m3" else theirs
    vectors = FlagEmbedder(str(checkpoint), "cpu").embed_documents(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert np.abs(vectors[1:] @ vectors[1]).min() < 0.99


def test_the_library_does_not_take_the_model_back(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its finalizer moves what it holds to the CPU, from where a GPU reads no weights."""
    moved = moves_by_finalizers(monkeypatch)
    FlagEmbedder(str(checkpoint), "cpu")
    gc.collect()
    assert moved == []


@pytest.mark.parametrize(
    "batch_tokens", [64, 100_000, *(pytest.param(it, marks=pytest.mark.nightly) for it in (1, 500))]
)
def test_a_text_has_the_same_vector_in_any_batch(checkpoint: Path, texts: list[str], batch_tokens: int) -> None:
    embedder = FlagEmbedder(str(checkpoint), "cpu", batch_tokens=batch_tokens)
    expected = np.stack([embedder.embed_query(text) for text in texts])
    np.testing.assert_allclose(embedder.embed_documents(texts), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_documents(texts[::-1])[::-1], expected, atol=1e-5)


def test_a_batch_is_bounded_by_its_tokens_with_the_padding(
    checkpoint: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    embedder = FlagEmbedder(str(checkpoint), "cpu", batch_tokens=200)
    embedded = embedder._embedded

    def noted(batch: Any) -> Any:
        sizes.append(len(batch) * max(len(tokens["input_ids"]) for tokens in batch))
        return embedded(batch)

    monkeypatch.setattr(embedder, "_embedded", noted)
    done: list[int] = []
    embedder.embed_documents(texts, lambda count, _: done.append(count))
    assert max(sizes) <= 200
    assert min(sizes[:-1]) > 100
    assert (done[-1], len(done)) == (len(texts), len(sizes))


def test_a_batch_that_does_not_fit_is_halved_and_a_single_text_is_an_error(
    checkpoint: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = FlagEmbedder(str(checkpoint), "cpu", batch_tokens=100_000)
    embedded, expected = embedder._embedded, embedder.embed_documents(texts)
    most = 4

    def small(batch: Any) -> Any:
        if len(batch) > most:
            raise RuntimeError("CUDA out of memory")
        return embedded(batch)

    monkeypatch.setattr(embedder, "_embedded", small)
    np.testing.assert_allclose(embedder.embed_documents(texts), expected, atol=1e-5)
    most = 0
    with pytest.raises(ModelError, match="cannot embed a text: CUDA out of memory"):
        embedder.embed_documents(texts)


def test_the_configuration_opens_it_with_its_prompts_and_says_what_it_reads_at_once(checkpoint: Path) -> None:
    config = Embedding(provider="flagembedding", model=str(checkpoint), device="cpu", document_prompt="release ")
    embedder, plain = open_embedder(config), FlagEmbedder(str(checkpoint), "cpu")
    assert embedder.name != plain.name
    assert embedder.name.startswith(f"flagembedding/{checkpoint.name}@")
    np.testing.assert_allclose(
        embedder.embed_documents(["the wiki"])[0], plain.embed_query("release the wiki"), atol=1e-6
    )
    limit = open_input_limit(config)
    assert limit is not None
    assert limit.tokens == 64 - 2 - len(limit.tokenizer.offsets(["release "])[0])
    assert "on cpu" in embedder.check()


def test_other_weights_have_another_name(checkpoints: dict[str, Path]) -> None:
    names = {FlagEmbedder(str(path), "cpu").name.partition("@")[2] for path in checkpoints.values()}
    assert len(names) == 2


def test_what_cannot_be_opened_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"is a folder without config.json"):
        FlagEmbedder(str(tmp_path), "cpu")
    (tmp_path / "config.json").write_text('{"model_type": "no such"}')
    with pytest.raises(ModelError, match="cannot be loaded"):
        FlagEmbedder(str(tmp_path), "cpu")


def test_a_gpu_that_is_demanded_and_not_there_is_an_error(checkpoint: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ModelError, match=r"torch finds no CUDA device here; set embedding.device to cpu"):
        FlagEmbedder(str(checkpoint), "cuda")
