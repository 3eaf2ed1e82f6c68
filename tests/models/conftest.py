"""Parts that the tests of models share: the packaged model, a tiny BERT made on the spot, a stand-in server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.running import served
from support.stand_in_embeddings import StandIn
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from rag_serving.models.embedding.local import LocalEmbedder
from rag_serving.models.embedding.weights import MODEL, Weights, find_weights

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"word{n}" for n in range(40)), "##s"]
HIDDEN, LAYERS, HEADS, INNER = 32, 2, 4, 64


@pytest.fixture(scope="session")
def packaged() -> Weights:
    return find_weights(MODEL)


@pytest.fixture(scope="session")
def minilm(packaged: Weights) -> LocalEmbedder:
    return LocalEmbedder(packaged)


def tiny_tensors() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)

    def weight(*shape: int) -> np.ndarray:
        return random.normal(scale=0.3, size=shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": weight(len(WORDS), HIDDEN),
        "embeddings.position_embeddings.weight": weight(40, HIDDEN),
        "embeddings.token_type_embeddings.weight": weight(2, HIDDEN),
    }
    linear = {"attention.self.query": (HIDDEN, HIDDEN), "attention.self.key": (HIDDEN, HIDDEN)}
    linear |= {"attention.self.value": (HIDDEN, HIDDEN), "attention.output.dense": (HIDDEN, HIDDEN)}
    linear |= {"intermediate.dense": (INNER, HIDDEN), "output.dense": (HIDDEN, INNER)}
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{n}" for n in range(LAYERS)):
        for name, (rows, columns) in linear.items():
            tensors[f"{layer}.{name}.weight"], tensors[f"{layer}.{name}.bias"] = weight(rows, columns), weight(rows)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for norm in norms:
        tensors[f"{norm}.weight"], tensors[f"{norm}.bias"] = 1 + weight(HIDDEN), weight(HIDDEN)
    return tensors


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """A folder with a BERT encoder of two layers: cls pooling, 34 tokens at most, a large epsilon."""
    folder = tmp_path / "tiny"
    (folder / "1_Pooling").mkdir(parents=True)
    save_file({f"bert.{name}": tensor for name, tensor in tiny_tensors().items()}, folder / "model.safetensors")
    tokenizer = Tokenizer(WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"model_type": "bert", "num_attention_heads": HEADS, "layer_norm_eps": 0.01, "max_position_embeddings": 40}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 34}))
    return folder


@pytest.fixture
def server() -> Iterator[StandIn]:
    with served(StandIn()) as stand_in:
        yield stand_in
