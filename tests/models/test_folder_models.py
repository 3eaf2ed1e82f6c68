"""Folders of embedding models as hubs have them: our vectors are those of sentence-transformers, which wrote the files.

Each has random weights in the architecture of a published model: docs/tuning.md names them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

from rag_serving.config.models import Embedding
from rag_serving.models import open_embedder, open_input_limit
from rag_serving.models.embedding.local import LocalEmbedder, LocalSettings
from rag_serving.models.embedding.weights import find_weights
from rag_serving.models.protocols import ModelError

pytestmark = pytest.mark.xdist_group("torch")  # it takes seconds to import: one process does it

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *(f"word{n}" for n in range(40)),
    "query",
    "passage",
    ":",
    "find",
]
TEXTS = ["word1 word2 word3", "word4", "word5 word6 " * 9]


class Architecture(NamedTuple):
    pooling: str
    prompts: Mapping[str, str] = MappingProxyType({})
    dense: int = 0
    is_half: bool = False


ARCHITECTURES = {
    "bge-small": Architecture("cls"),
    "gte-small": Architecture("mean", is_half=True),
    "arctic-embed-xs": Architecture("cls", {"query": "find: "}),
    "e5-small": Architecture("mean", {"query": "query: ", "passage": "passage: "}),
    "mdbr-leaf-ir": Architecture("mean", {"query": "find: ", "document": ""}, dense=48),
}


def saved(folder: Path, architecture: Architecture) -> Any:
    """A model with random weights, saved by sentence-transformers; returns it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.set_num_threads(1)  # more of them only wait for each other over matrices this small
    torch.manual_seed(5)
    (folder / "encoder").mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=40, initializer_range=0.3, **sizes)
    BertModel(config).save_pretrained(folder / "encoder")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "encoder")
    modules = [Transformer(str(folder / "encoder"), max_seq_length=34), Pooling(32, architecture.pooling)]
    modules += [Dense(32, architecture.dense, activation_function=torch.nn.Identity())] if architecture.dense else []
    model = SentenceTransformer(
        modules=[*modules, Normalize()], device="cpu", prompts=dict(architecture.prompts) or None
    )
    (model.half() if architecture.is_half else model).save(str(folder / "model"))
    return model.float()


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Architecture, Path, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    architecture = ARCHITECTURES[request.param]
    return architecture, folder / "model", saved(folder, architecture)


def test_vectors_are_those_of_the_library_with_its_prompts(model: tuple[Architecture, Path, Any]) -> None:
    architecture, folder, library = model
    embedder = LocalEmbedder(find_weights(str(folder)))
    before = architecture.prompts.get("document", architecture.prompts.get("passage", ""))
    expected = library.encode([before + text for text in TEXTS])
    np.testing.assert_allclose(embedder.embed_documents(TEXTS), expected, atol=2e-6)
    question = library.encode([architecture.prompts.get("query", "") + TEXTS[0]])[0]
    np.testing.assert_allclose(embedder.embed_query(TEXTS[0]), question, atol=2e-6)
    assert embedder.dimension == (architecture.dense or 32)


def test_questions_in_bytes_are_near_those_in_float32(model: tuple[Architecture, Path, Any]) -> None:
    weights = find_weights(str(model[1]))
    exact = LocalEmbedder(weights).embed_query(TEXTS[0])
    coded = LocalEmbedder(weights, LocalSettings(query_precision="int8")).embed_query(TEXTS[0])
    assert 0.97 < float(exact @ coded) < 1


def test_two_lines_of_configuration_open_it(model: tuple[Architecture, Path, Any]) -> None:
    architecture, folder, _ = model
    config = Embedding(model=str(folder))
    assert open_embedder(config).name.startswith("local/model@")
    limit = open_input_limit(config)
    prompt = architecture.prompts.get("passage", "").split()
    assert limit is not None
    assert limit.tokens == 34 - 2 - (2 if prompt else 0)  # "passage" and ":"


def test_prompts_of_the_configuration_stand_over_those_of_the_folder(model: tuple[Architecture, Path, Any]) -> None:
    _, folder, library = model
    embedder = LocalEmbedder(find_weights(str(folder)), LocalSettings("word9 ", "word8 "))
    np.testing.assert_allclose(embedder.embed_query("word1"), library.encode(["word9 word1"])[0], atol=2e-6)
    np.testing.assert_allclose(embedder.embed_documents(["word1"]), library.encode(["word8 word1"]), atol=2e-6)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "max"}, "pools by max; only the mean and the first token"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
            "pools by pooling",
        ),
        ("modules.json", [{"type": "sentence_transformers.models.LSTM", "path": "1_LSTM"}], "has LSTM; only one Dense"),
        ("modules.json", [{"type": "a.Dense", "path": "2_Dense"}], "has torch.nn.modules.activation.Tanh; only one"),
        ("modules.json", {}, "modules.json is no JSON list"),
    ],
)
def test_what_would_give_other_vectors_is_refused_by_name(
    tiny_folder: Path, file: str, content: object, said: str
) -> None:
    (tiny_folder / "2_Dense").mkdir()
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (tiny_folder / "2_Dense" / "config.json").write_text(json.dumps(activation))
    (tiny_folder / file).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=said):
        find_weights(str(tiny_folder))


def test_the_layer_behind_pooling_is_part_of_the_name(tmp_path: Path) -> None:
    saved(tmp_path, ARCHITECTURES["mdbr-leaf-ir"])
    before = find_weights(str(tmp_path / "model")).name
    (layer,) = tmp_path.glob("model/*_Dense/model.safetensors")
    content = bytearray(layer.read_bytes())
    content[-1] ^= 1
    layer.write_bytes(content)
    assert find_weights(str(tmp_path / "model")).name != before
