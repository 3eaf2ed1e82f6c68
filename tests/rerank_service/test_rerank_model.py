"""The sidecar's model: the real loading code of FlagEmbedding on checkpoints that the test makes."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest
from support.finalizers import moves_by_finalizers
from support.tiny_reranker import WORDS, save_bert, save_xlm_roberta

from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.api import score_all
from rag_serving.rerank_service.cross_encoder import CrossEncoder

pytestmark = pytest.mark.xdist_group("torch")  # FlagEmbedding takes seconds to import: one process does it

QUERY = "how can a release be rollback"


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import torch

    torch.set_num_threads(1)  # more of them only wait for each other over matrices this small
    folder = tmp_path_factory.mktemp("checkpoints")
    return {"xlm-roberta": save_xlm_roberta(folder / "xlm"), "bert": save_bert(folder / "bert")}


@pytest.fixture(scope="module", params=["xlm-roberta", pytest.param("bert", marks=pytest.mark.nightly)])
def checkpoint(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Path:
    return checkpoints[request.param]


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> CrossEncoder:
    return CrossEncoder.open(str(checkpoint), device="cpu")


def test_the_library_does_not_take_the_model_back(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its finalizer moves what it holds to the CPU, from where a GPU reads no weights."""
    moved = moves_by_finalizers(monkeypatch)
    CrossEncoder.open(str(checkpoint), device="cpu")
    gc.collect()
    assert moved == []


def passages(count: int, longest: int, seed: int = 3) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


def plain_scores(checkpoint: Path, query: str, texts: list[str], max_length: int) -> list[float]:
    """The logits of plain transformers, in the order of the texts."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    model: Any = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    scores: list[float] = []
    for start in range(0, len(texts), 50):
        part = texts[start : start + 50]
        inputs = tokenizer(
            [query] * len(part),
            part,
            truncation="only_second",
            max_length=max_length,
            padding=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            scores += model(**inputs).logits[:, 0].tolist()
    return scores


@pytest.mark.parametrize("count", [1, 2, 33, 500])
def test_scores_are_those_of_plain_transformers(model: CrossEncoder, checkpoint: Path, count: int) -> None:
    texts = passages(count, longest=50)
    pairs = model.encode(QUERY, texts, 128)
    scores = score_all(pairs, [len(pair["input_ids"]) for pair in pairs], model.score, 32, 2048)
    assert scores == pytest.approx(plain_scores(checkpoint, QUERY, texts, 128), abs=1e-4)
    assert count < 3 or len({round(score, 4) for score in scores}) > count // 3


def test_scores_are_those_of_the_library(checkpoint: Path, model: CrossEncoder) -> None:
    from FlagEmbedding import FlagReranker

    texts = passages(5, longest=40)
    theirs = FlagReranker(str(checkpoint), use_fp16=False, devices=["cpu"]).compute_score(
        [(QUERY, text) for text in texts], max_length=128
    )
    assert model.score(model.encode(QUERY, texts, 128)) == pytest.approx(theirs, abs=1e-4)


def test_a_long_query_keeps_a_quarter_and_the_passage_three(model: CrossEncoder) -> None:
    query, passage = "deploy " * 300, "expense " * 300
    (pair,) = model.encode(query, [passage], 64)
    (word,) = model.encode("deploy", [""], 64)
    deploy = next(token for token in word["input_ids"] if pair["input_ids"].count(token) > 3)
    assert len(pair["input_ids"]) == 64
    assert pair["input_ids"].count(deploy) == 16


def test_what_a_short_query_does_not_use_is_the_passages(model: CrossEncoder) -> None:
    (pair,) = model.encode("deploy", ["expense " * 300], 64)
    counts = sorted((pair["input_ids"].count(token) for token in set(pair["input_ids"])), reverse=True)
    assert len(pair["input_ids"]) == 64
    assert counts[0] >= 64 - 5


def test_the_model_reads_no_more_tokens_than_it_has_positions(checkpoints: dict[str, Path]) -> None:
    lengths = {name: CrossEncoder.open(str(path), max_seq_len=8192).max_seq_len for name, path in checkpoints.items()}
    assert lengths == {"xlm-roberta": 512, "bert": 128}


def test_a_folder_without_a_model_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot be loaded \(the folder has no usable model\)") as told:
        CrossEncoder.open(str(tmp_path))
    assert "\n" not in str(told.value)


def test_an_embedding_model_is_refused_instead_of_scoring_at_random(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    BertModel(BertConfig(vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        tmp_path
    )
    with pytest.raises(ModelError, match="is no cross-encoder"):
        CrossEncoder.open(str(tmp_path))


def test_a_classifier_of_several_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has 3 labels"):
        CrossEncoder.open(str(save_xlm_roberta(tmp_path, labels=3)))


def test_a_device_that_is_not_there_is_told(checkpoints: dict[str, Path]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ModelError, match="no CUDA device"):
        CrossEncoder.open(str(checkpoints["bert"]), device="cuda:0")
