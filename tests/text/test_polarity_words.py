from __future__ import annotations

import pytest

from rag_serving.text.polarity_words import contradict, figures, negations, polarity_words


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("keeps 5 GB", "keeps 6 GB"),
        ("keeps 5 GB", "keeps 5 MB"),
        ("waits 1.5 s", "waits 15 s"),
        ("at -5 degrees", "at 5 degrees"),
        ("on ipv4 hosts", "on ipv6 hosts"),
        ("lag > 3", "lag < 3"),
    ],
)
def test_another_figure_is_seen(one: str, two: str) -> None:
    assert figures(one) != figures(two)


@pytest.mark.parametrize(
    ("one", "two"), [("**5 GB**, say", "5 GB say"), ("10–15 days", "10-15 days"), ("`x=3`", "x=3")]
)
def test_figures_do_not_depend_on_marks(one: str, two: str) -> None:
    assert figures(one) == figures(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("must not restart", "must restart"),
        ("isn’t safe", "is safe"),
        ("with a key", "without a key"),
        ("must be set", "may be set"),
        ("before the restart", "after the restart"),
        ("服务不支持", "服务支持"),
        ("two replicas", "three replicas"),
    ],
)
def test_a_turned_sentence_is_seen(one: str, two: str) -> None:
    assert polarity_words(one) != polarity_words(two)


def test_cannot_and_do_not_count_as_not() -> None:
    assert polarity_words("it cannot run") == polarity_words("it can't run")
    assert negations("don’t, never, without") == 3


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ("is supported here", "is unsupported here", True),
        ("a blocking call", "a nonblocking call", True),
        ("a regular page", "an irregular page", True),
        ("is supported here", "is supported there", False),
        ("the under page", "the der page", False),
    ],
)
def test_a_negating_prefix_contradicts(one: str, two: str, expected: bool) -> None:
    assert contradict(one, two) is expected
    assert contradict(two, one) is expected
