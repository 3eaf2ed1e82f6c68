"""The local embedder: meaning, order, windows over long texts, independence of the batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rag_serving.models.embedding.local import MAX_WINDOWS, LocalEmbedder, LocalSettings, spread
from rag_serving.models.embedding.weights import Weights, find_weights

Vectors = NDArray[np.float32]
TEXTS = [
    "How do I reset my password?",
    "Use the recovery form to set a new login secret.",
    "Bananas ripen faster in a paper bag.",
    "",
    "kubectl rollout restart deployment/payments " * 12,
    "The broker keeps a log of every partition. " * 60,
]


@pytest.fixture(scope="module")
def vectors(minilm: LocalEmbedder) -> Vectors:
    return minilm.embed_documents(TEXTS)


def test_a_paraphrase_is_closer_than_anything_unrelated(minilm: LocalEmbedder) -> None:
    question = minilm.embed_query(TEXTS[0])
    close, far = minilm.embed_documents(TEXTS[1:3]) @ question
    assert close > 0.4
    assert far < 0.15


def test_vectors_are_float32_of_length_one_in_the_order_of_the_texts(minilm: LocalEmbedder, vectors: Vectors) -> None:
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), minilm.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(vectors, np.stack([minilm.embed_query(text) for text in TEXTS]), atol=1e-6)


def test_a_text_has_the_same_vector_in_any_batch(minilm: LocalEmbedder, packaged: Weights, vectors: Vectors) -> None:
    one_by_one = LocalEmbedder(packaged, LocalSettings(batch_size=1)).embed_documents(TEXTS)
    reversed_among_others = minilm.embed_documents([*TEXTS[::-1], "Another text of some length altogether."])
    np.testing.assert_allclose(one_by_one, vectors, atol=1e-6)
    np.testing.assert_allclose(reversed_among_others[: len(TEXTS)][::-1], vectors, atol=1e-6)


def test_the_same_call_gives_the_same_bits(minilm: LocalEmbedder, vectors: Vectors) -> None:
    np.testing.assert_array_equal(minilm.embed_documents(TEXTS), vectors)


def test_no_text_gives_no_vectors(minilm: LocalEmbedder) -> None:
    assert minilm.embed_documents([]).shape == (0, 384)


def test_the_end_of_a_long_text_counts(minilm: LocalEmbedder) -> None:
    filler = "Rivers carry sediment towards the sea. " * 60
    ending = "The deployment token expires after thirty days and is renewed with the vault command. " * 20
    question = minilm.embed_query("When does the deployment token expire?")
    without, with_ending = minilm.embed_documents([filler, filler + ending]) @ question
    assert with_ending > without + 0.2


def test_a_long_text_is_the_average_of_its_windows(tiny_folder: Path) -> None:
    embedder = LocalEmbedder(find_weights(str(tiny_folder)))
    words = [f"word{n % 40}" for n in range(80)]  # 32 fit beside the special tokens: windows of 26, 27 and 27
    parts = [words[:26], words[26:53], words[53:]]
    vectors = embedder.embed_documents([" ".join(part) for part in parts])
    mean = (vectors * np.array([[28], [29], [29]])).sum(0)
    long = embedder.embed_documents([" ".join(words)])[0]
    np.testing.assert_allclose(long, mean / np.linalg.norm(mean), atol=1e-6)


@given(st.integers(0, 400), st.integers(1, 40))
def test_windows_are_contiguous_equal_and_complete(count: int, size: int) -> None:
    ids = list(range(count))
    windows = spread(ids, size, most=10_000)
    assert [number for window in windows for number in window] == ids
    assert max(map(len, windows)) <= size
    assert max(map(len, windows)) - min(map(len, windows)) <= 1
    assert len(windows) == max(1, -(-count // size))


def test_of_very_many_windows_an_even_choice_with_both_ends_is_read() -> None:
    chosen = spread(list(range(1000)), 10, MAX_WINDOWS)
    assert len(chosen) == MAX_WINDOWS
    assert chosen[0][0] == 0
    assert chosen[-1][-1] == 999
    gaps = np.diff([window[0] for window in chosen])
    assert gaps.max() - gaps.min() <= 10


def test_prompts_are_put_before_texts_and_show_in_the_name(packaged: Weights, minilm: LocalEmbedder) -> None:
    prompted = LocalEmbedder(packaged, LocalSettings("query: ", "passage: "))
    assert prompted.name.startswith(minilm.name + "+")
    np.testing.assert_allclose(prompted.embed_query("a"), minilm.embed_query("query: a"), atol=1e-6)
    np.testing.assert_allclose(prompted.embed_documents(["a"])[0], minilm.embed_query("passage: a"), atol=1e-6)


def test_bytes_are_for_questions_alone_and_change_no_name(
    packaged: Weights, minilm: LocalEmbedder, vectors: Vectors
) -> None:
    coded = LocalEmbedder(packaged, LocalSettings(query_precision="int8"))
    assert coded.name == minilm.name
    np.testing.assert_array_equal(coded.embed_documents(TEXTS), vectors)
    near = [float(coded.embed_query(text) @ exact) for text, exact in zip(TEXTS, vectors, strict=True) if text]
    assert min(near) > 0.997  # without levels 0.994, with values in bytes 0.996
    assert max(near) < 0.99999


def test_progress_counts_finished_texts_up_to_all(minilm: LocalEmbedder) -> None:
    seen: list[tuple[int, int]] = []
    minilm.embed_documents(TEXTS[:3] * 10, lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (30, 30)
    assert len(seen) > 1


def test_the_check_says_where_the_files_are(minilm: LocalEmbedder) -> None:
    assert minilm.check().startswith("local/all-MiniLM-L6-v2@1110a243fdf4")
    assert "384 dimensions" in minilm.check()
    assert "SHA-256 as published" in minilm.check()


def test_special_tokens_a_folder_lacks_are_named(packaged: Weights, tiny_folder: Path) -> None:
    tokenizer = tiny_folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace("[CLS]", "<s>"))
    with pytest.raises(Exception, match=r"no token '\[CLS\]'"):
        LocalEmbedder(replace(packaged, tokenizer=tokenizer))
