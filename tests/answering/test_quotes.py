"""A quote that says something else than its text is found neither exactly nor nearly."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.examples import examples

from rag_serving.answering.quotes import find_quote, needle_of

TEXTS = (
    "The cache holds at most 15 GB and 1.5 million entries for 20 ms, which is 30 % of the default since 2024-01-05.",
    "Each request must not exceed 250 KB; the first retry starts after 2 s and the second one after 10-15 minutes.",
    "Replicate from the primary cluster to the backup cluster before you enable encryption at -5 °C on 3 nodes.",
    "Messages are never deleted when the lag is < 1,000 records, and all 3 brokers keep 10² copies until January 12.",
)
SWAPS = (
    ("15 GB", "51 GB"), ("15 GB", "15 MB"), ("15 GB", "15 Gb"), ("15 GB", "１５ GB"), ("15 GB", "¹⁵ GB"), ("1.5", "15"),
    ("1.5", "1,5"), ("1.5 million", "1.5 billion"), ("20 ms", "20 s"), ("30 %", "30 ‰"), ("30 %", "30"),
    ("at most", "at least"), ("at most", "almost"), ("2024-01-05", "2024-05-01"), ("2024-01-05", "2025-01-05"),
    ("since", "until"), ("must not", "must"), ("must not", "must now"), ("must not", "must nоt"), ("250 KB", "25O KB"),
    ("exceed", "subceed"), ("first", "last"), ("first", "second"), ("after 2 s", "before 2 s"), ("2 s", "2 min"),
    ("10-15", "15-10"), ("10-15", "10-16"), ("10-15", "1015"), ("primary", "secondary"), ("backup", "primary"),
    ("before", "after"), ("enable", "disable"), ("encryption", "decryption"), ("-5 °C", "5 °C"), ("-5 °C", "+5 °C"),
    ("-5 °C", "-5 °F"), ("3 nodes", "8 nodes"), ("never", "ever"), ("never", "always"), ("<", ">"), ("<", "≤"),
    ("1,000", "1.000.000"), ("all 3", "any 3"), ("10²", "10³"), ("10²", "102"), ("until", "after"),
    ("January", "February"), ("January", "June"), ("deleted", "created"), ("records", "recоrds"), ("lag", "log"),
    ("from the primary cluster to the backup", "from the backup cluster to the primary"), ("brokers", "robbers"),
    ("before you enable encryption", "… encryption"), ("the lag is", "the … is"), ("which is", "which is not"),
)  # fmt: skip


def covering(text: str, old: str) -> st.SearchStrategy[str]:
    """A run of whole words of the text that holds `old`."""
    at = text.index(old)
    starts = [m.start() for m in re.finditer(r"(?<!\S)\S", text) if m.start() <= at]
    ends = [m.end() for m in re.finditer(r"\S(?!\S)", text) if m.end() >= at + len(old)]
    return st.builds(lambda start, end: text[start:end], st.sampled_from(starts), st.sampled_from(ends))


@pytest.mark.parametrize(("old", "new"), SWAPS)
@given(data=st.data(), fuzzy_min=st.sampled_from([70.0, 90.0]))
@settings(max_examples=examples(0.15))
def test_what_says_something_else_is_not_found(data: st.DataObject, old: str, new: str, fuzzy_min: float) -> None:
    text = data.draw(st.sampled_from([text for text in TEXTS if old in text]))
    quote = data.draw(covering(text, old)).replace(old, new, 1)
    assume(needle_of(quote) not in text)  # what was changed at its edge may say less, not otherwise
    assert find_quote(quote, text, fuzzy_min) is None


@given(st.sampled_from(TEXTS), st.data())
def test_words_in_another_order_are_not_found(text: str, data: st.DataObject) -> None:
    words = text.split()
    first = data.draw(st.integers(0, len(words) - 2))
    second = data.draw(st.integers(first + 1, len(words) - 1))
    words[first], words[second] = words[second], words[first]
    changed = " ".join(words)
    assert changed.casefold() == text.casefold() or find_quote(changed, text, 70.0) is None


@given(st.sampled_from(TEXTS), st.data())
def test_two_pieces_are_not_joined(text: str, data: st.DataObject) -> None:
    words = text.split()
    start = data.draw(st.integers(2, len(words) - 3))
    end = data.draw(st.integers(start + 1, len(words) - 1))
    dots = data.draw(st.sampled_from([" ", " … ", " ... ", "... ", " [...] "]))
    joined = " ".join(words[:start]) + dots + " ".join(words[end:])
    lost = {word.strip(".,;").lower() for word in words[start:end]}
    place = find_quote(joined, text, 70.0)
    assert place is None or (dots == " " and lost <= {"the", "a"})


@given(st.sampled_from(TEXTS), st.data())
def test_an_added_word_is_not_found(text: str, data: st.DataObject) -> None:
    words = text.split()
    at = data.draw(st.integers(1, len(words) - 1))
    word = data.draw(st.sampled_from(["not", "never", "only", "5", "%", "GB", "without", "-", "~", "hardly"]))
    words.insert(at, word)
    assert find_quote(" ".join(words), text, 70.0) is None


def test_a_quote_does_not_end_between_a_number_and_its_sign() -> None:
    assert find_quote("20 ms, which is 30", TEXTS[0]) is None
    assert find_quote("20 ms, which is 30 %", TEXTS[0]) is not None


@pytest.mark.parametrize(
    "quote",
    [
        "the cache holds at most 15 GB and 1.5 million entries",
        "The caches hold at most 15 GB and 1.5 million entries",
        "holds at most 15 GB and 1.5 million enteries for 20 ms",
        "The cache holds at most 15 GB, and 1.5 million entries",
        "which is 30 % of default since 2024-01-05",
    ],
)
def test_slips_are_found_nearly(quote: str) -> None:
    place = find_quote(quote, TEXTS[0])
    assert place is not None
    assert place.how == "fuzzy"
    assert TEXTS[0][place.start : place.end].split()[-1][:2] == quote.split()[-1][:2]
