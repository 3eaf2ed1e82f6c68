"""A long passage is embedded window by window, a short one as it always was."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cutting import WordTokenizer
from support.examples import examples
from support.synthetic import chunk_row

from rag_assets.steps.contexts.contextualize import MAX_WINDOWS, embedded_texts, embedded_windows, window_borders
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.models.protocols import InputLimit

LIMIT = InputLimit(WordTokenizer(), 40)
PREFIX = "Beans › Roasting"


def table(*texts: str, prefix: str = PREFIX) -> pa.Table:
    return GENERATION_CHUNKS.table([chunk_row("1", number, text, prefix=prefix) for number, text in enumerate(texts)])


def tokens(text: str) -> int:
    return len(LIMIT.tokenizer.offsets([text])[0])


def sentence(number: int, length: int = 8) -> str:
    return " ".join([f"Sentence{number}", *(f"w{number}x{place}" for place in range(length - 2)), "ends."])


def sentences(count: int) -> list[str]:
    return [sentence(number) for number in range(count)]


def test_a_passage_that_the_model_reads_at_once_or_nearly_so_is_one_text() -> None:
    short = table("Beans are bought green.", " ".join(f"w{n}" for n in range(57)), "")
    assert embedded_windows(short, LIMIT) == [[text] for text in embedded_texts(short)]


def test_without_a_limit_every_passage_is_one_text() -> None:
    long = table(" ".join(sentences(50)))
    assert embedded_windows(long, None) == [embedded_texts(long)]


def test_windows_begin_where_sentences_begin_and_stand_under_the_prefix() -> None:
    (windows,) = embedded_windows(table(" ".join(sentences(20))), LIMIT)
    assert len(windows) == 5
    for window in windows:
        prefix, _, text = window.partition("\n")
        assert prefix == PREFIX
        assert re.match(r"Sentence\d+ ", text)
        assert text.endswith("ends.")
        assert tokens(window) <= LIMIT.tokens


def test_after_an_edit_the_other_windows_of_a_passage_are_mostly_the_same_texts() -> None:
    limit = InputLimit(WordTokenizer(), 250)
    lengths = np.random.default_rng(4).integers(5, 30, 50).tolist()
    before = [sentence(number, length) for number, length in enumerate(lengths)]
    (old,) = embedded_windows(table(" ".join(before)), limit)
    changed = list[int]()
    for edited in range(50):
        after = [*before]
        after[edited] = after[edited].replace("ends.", "ends a few words later.")
        (new,) = embedded_windows(table(" ".join(after)), limit)
        others = {*new} - {*old}
        assert any(after[edited] in window for window in others)
        changed.append(len(others))
    assert len(old) == 5
    assert sum(changed) < 2 * len(changed)


@given(
    text=st.lists(st.sampled_from(["a", "B.", ". ", " ", "\n", "\n\n", "|", "- ", "ß", "你"]), max_size=900).map(
        "".join
    ),
    prefix=st.sampled_from(["", PREFIX, "word " * 30, "word " * 300]),
)
@settings(max_examples=examples(1))
def test_windows_hold_all_of_a_text_in_its_order(text: str, prefix: str) -> None:
    (windows,) = embedded_windows(table(text, prefix=prefix.strip()), LIMIT)
    above = f"{prefix.strip()}\n" if prefix else ""
    assert all(window.startswith(above) for window in windows)
    bare = [window[len(above) :] for window in windows]
    assert 1 <= len(bare) <= MAX_WINDOWS
    if len(bare) == 1:
        assert bare == [text]
    elif len(bare) < MAX_WINDOWS:
        assert "".join("".join(bare).split()) == "".join(text.split())
    else:
        assert all(part in text for part in bare)


@pytest.mark.parametrize("count", [0, 1, 40, 41, 10_000])
@given(starts=st.lists(st.integers(0, 10_000), unique=True, max_size=200), size=st.integers(1, 300))
@settings(max_examples=examples(0.5))
def test_no_window_is_longer_than_it_may_be_and_none_is_empty(count: int, starts: list[int], size: int) -> None:
    borders = window_borders(count, size, np.array(sorted(starts), np.int64))
    lengths = np.diff(borders)
    assert (borders[0], borders[-1]) == (0, count)
    assert (lengths <= size).all()
    assert (lengths > 0).all() or count == 0


def test_a_text_a_thousand_times_as_long_has_no_more_windows_than_the_most() -> None:
    (windows,) = embedded_windows(table(" ".join(sentences(5000))), LIMIT)
    assert len(windows) == MAX_WINDOWS
    assert "Sentence0 " in windows[0]
    assert "Sentence4999 " in windows[-1]
