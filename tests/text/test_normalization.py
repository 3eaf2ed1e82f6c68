from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_serving.text.normalization import caseless, fold, folded, holds, is_border

TEXT = st.text(alphabet=st.sampled_from(list("abz 09.,-–“”’…ﬁ\u00a0\u200be\u0301\n\té不")), max_size=60)


@pytest.mark.parametrize(
    ("typeset", "plain"),
    [
        ("“don’t” – it’s…", "\"don't\" - it's..."),
        ("ﬁle\u00a0  oﬃce\n\tnext", "file office next"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("cafe\u0301", "café"),
        ("Case Stays", "Case Stays"),
    ],
)
def test_typesetting_is_folded_away(typeset: str, plain: str) -> None:
    assert fold(typeset).text == plain


@given(TEXT)
def test_every_folded_character_knows_its_original(text: str) -> None:
    folded = fold(text)
    assert len(folded.text) == len(folded.starts) == len(folded.ends)
    assert list(folded.starts) == sorted(folded.starts)
    for position in range(len(folded.text)):
        start, end = folded.original(position, position + 1)
        assert 0 <= start < end <= len(text)
        assert folded.text[position] in fold(text[start:end]).text


@given(TEXT)
def test_folding_twice_changes_nothing(text: str) -> None:
    once = fold(text).text
    assert fold(once).text == once


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("unsupported on Linux", "supported on Linux"),
        ("non-root users", "root users"),
        ("at most 15 GB", "5 GB"),
        ("version 3.5 only", "5 only"),
        ("at -5 degrees", "5 degrees"),
        ("you can't restart", "t restart"),
        ("uses 1,000 files", "000 files"),
    ],
)
def test_a_quote_may_not_begin_inside_a_word_or_number(text: str, quote: str) -> None:
    assert not is_border(text, text.index(quote))


@pytest.mark.parametrize(("text", "quote"), [("up to 5% of it", "up to 5"), ("since 3.5 it", "since 3")])
def test_a_quote_may_not_end_inside_a_number(text: str, quote: str) -> None:
    assert not is_border(text, text.index(quote) + len(quote))


@pytest.mark.parametrize(("text", "quote"), [("Done. Restart it", "Restart"), ("重启服务器", "服务"), ("(a) x", "a")])
def test_words_begin_at_borders(text: str, quote: str) -> None:
    assert is_border(text, text.index(quote))
    assert is_border(text, text.index(quote) + len(quote))


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("The consumer  LAG\nis", "consumer lag", True),
        ("consumer lags", "consumer lag", False),
        ("lags and lag", "lag", True),
        ("at 5.4%", "5.4%", True),
        ("(lag)", "lag", True),
        ("", "lag", False),
        ("lag", "", False),
    ],
)
def test_a_phrase_is_held_as_whole_words_whatever_case_and_white_space(text: str, phrase: str, found: bool) -> None:
    assert holds(caseless(text), caseless(phrase)) is found


@given(st.text(st.sampled_from("aB \t\n\r\x0b\x0c\x1c\x1f\x85\xa0é“—…-1"), max_size=30))
def test_folded_text_is_that_of_fold(text: str) -> None:
    assert folded(text) == fold(text).text


def folded_by_character(text: str) -> tuple[str, list[int], list[int]]:
    """Fold cluster by cluster, which is slow and plain."""
    folded, starts, ends = "", [], []
    for cluster in re.finditer(r"(?s).[\u0300-\u036f]*", text):
        plain = fold(cluster[0]).text
        if plain == " " and folded.endswith(" "):
            ends[-1] = cluster.end()
            continue
        folded += plain
        starts += [cluster.start()] * len(plain)
        ends += [cluster.end()] * len(plain)
    return folded, starts, ends


@given(st.text(alphabet="ab1.-\"' \t\n\u00a0\u00ad\u0301\u0308“”…ﬁéжж", max_size=60))
@example("a\u0301 b")
@example("ab\u0301c")
@example("a \u0301b")
@example("a \u00ad b")
@example("ein Wort\u00ad teil  und\n\nmehr.")
def test_words_are_folded_together_as_their_characters_are(text: str) -> None:
    folded = fold(text)
    assert (folded.text, list(folded.starts), list(folded.ends)) == folded_by_character(text)
