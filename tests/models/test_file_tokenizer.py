"""Token offsets as chunking needs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.models.embedding.factory import FileTokenizer
from rag_serving.models.embedding.weights import Weights
from rag_serving.models.protocols import ModelError


@pytest.fixture(scope="module")
def tokenizer(packaged: Weights) -> FileTokenizer:
    return FileTokenizer(packaged.tokenizer, packaged.name)


def test_offsets_are_of_characters_not_bytes(tokenizer: FileTokenizer) -> None:
    text = "Über 🚀 größe"
    (offsets,) = tokenizer.offsets([text])
    assert [text[start:end] for start, end in offsets] == ["Über", "🚀", "größe"] or "".join(
        text[start:end] for start, end in offsets
    ) == text.replace(" ", "")


def test_words_come_apart_into_pieces_where_they_stand(tokenizer: FileTokenizer) -> None:
    text = "retries = maxRetriesExceeded()"
    (offsets,) = tokenizer.offsets([text])
    assert offsets.dtype == np.int32
    assert "".join(text[start:end] for start, end in offsets) == text.replace(" ", "")


def test_nothing_is_truncated_padded_or_framed(tokenizer: FileTokenizer) -> None:
    short, long, empty = tokenizer.offsets(["word", "word " * 3000, ""])
    assert (len(short), len(long), empty.shape) == (1, 3000, (0, 2))


def test_many_texts_in_slices_keep_their_order(tokenizer: FileTokenizer) -> None:
    texts = ["word " * (n % 7) for n in range(500)] + ["word " * 250_000, "end"]
    counts = [len(offsets) for offsets in tokenizer.offsets(texts)]
    assert counts == [*(n % 7 for n in range(500)), 250_000, 1]


@given(st.text(max_size=200))
def test_offsets_are_ordered_and_inside_the_text(tokenizer: FileTokenizer, text: str) -> None:
    (offsets,) = tokenizer.offsets([text])
    assert (offsets[:, 0] <= offsets[:, 1]).all()
    assert (np.diff(offsets[:, 0]) >= 0).all()
    assert offsets.size == 0 or (offsets.min() >= 0 and offsets.max() <= len(text))


def test_a_broken_file_is_named_with_its_mend(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"version": "1.0"')
    with pytest.raises(ModelError, match=r"tokenizer\.json is not a readable tokenizer file .*fetch it again"):
        FileTokenizer(path, "broken")
