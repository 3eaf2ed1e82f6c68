"""Padding is that of transformers, to the number."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_reranker import save_bert

from rag_serving.models.embedding.device import padded

pytestmark = pytest.mark.xdist_group("torch")  # transformers takes seconds to import: one process does it


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(save_bert(Path(tmp_path_factory.mktemp("bert"))))


@given(
    st.lists(st.lists(st.integers(5, 40), min_size=1, max_size=30), min_size=1, max_size=8),
    st.sampled_from([1, 8]),
    st.sampled_from(["left", "right"]),
)
def test_batches_are_padded_as_the_tokenizer_would(
    tokenizer: Any, texts: list[list[int]], multiple: int, side: Literal["left", "right"]
) -> None:
    batch = [
        {"input_ids": ids, "token_type_ids": [at % 2 for at in range(len(ids))], "attention_mask": [1] * len(ids)}
        for ids in texts
    ]
    columns = {name: [tokens[name] for tokens in batch] for name in batch[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = tokenizer.pad(
            columns, padding=True, pad_to_multiple_of=multiple, padding_side=side, return_tensors="np"
        )
    got = padded(batch, tokenizer.pad_token_id, multiple, side == "left")
    assert got.keys() == expected.keys()
    for name, column in got.items():
        np.testing.assert_array_equal(column, expected[name])
