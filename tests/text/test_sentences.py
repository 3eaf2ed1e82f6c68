from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.text.normalization import OMISSION
from rag_serving.text.structure import structure_of
from rag_serving.text.units import is_whole, units, words

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# Title",
            "- item one. Two",
            "1. first",
            "| a | b |",
            "|---|---|",
            "```",
            "x = 1",
            "",
            "Some text. More e.g. here!",
            "> quoted",
            "不支持。好",
        ]
    ),
    max_size=12,
).map("\n".join)


def parts(text: str) -> list[tuple[str, str]]:
    return [(unit.of(text), unit.kind) for unit in units(text)]


def test_prose_splits_into_sentences() -> None:
    text = "Stop the broker. Then wait, e.g. for Dr. Who's 3.5 minutes! Is it\ndown? Start it"
    assert [unit.of(text) for unit in units(text)] == [
        "Stop the broker.",
        "Then wait, e.g. for Dr. Who's 3.5 minutes!",
        "Is it\ndown?",
        "Start it",
    ]


def test_list_items_table_rows_and_code_lines_are_units() -> None:
    text = (
        "Steps:\n- Stop it\n  at once\n2. [x] Wait\n\n| Key | Default |\n|---|---|\n| retries | 5 |\n"
        "\n```sh\nkafka stop\n```\n### Next\nDone."
    )
    assert parts(text) == [
        ("Steps:", "sentence"),
        ("Stop it\n  at once", "list"),
        ("Wait", "list"),
        ("Key | Default", "header"),
        ("retries | 5", "table"),
        ("kafka stop", "code"),
        ("Next", "heading"),
        ("Done.", "sentence"),
    ]


def test_chinese_sentences_end_without_space() -> None:
    text = "服务器不支持。请重启！"
    assert [unit.of(text) for unit in units(text)] == ["服务器不支持。", "请重启！"]


@given(MARKDOWN)
def test_units_are_ordered_ranges_without_overlap(text: str) -> None:
    ends = 0
    for unit in units(text):
        assert ends <= unit.start < unit.end <= len(text)
        assert unit.of(text) == unit.of(text).strip()
        ends = unit.end


def test_words_are_ranges_with_a_letter_or_digit() -> None:
    text = "a | b-c — (5 GB)"
    assert [text[start:end] for start, end in words(text)] == ["a", "b-c", "(5", "GB)"]


@pytest.mark.parametrize(("position", "expected"), [(0, "One."), (5, "Two."), (4, None)])
def test_a_position_knows_its_unit(position: int, expected: str | None) -> None:
    text = "One. Two."
    unit = structure_of(text).unit_at(position)
    assert (unit.of(text) if unit else None) == expected


def test_a_text_that_lacks_something_is_not_whole() -> None:
    assert not is_whole(f"It listens on port {OMISSION}.")
    assert is_whole("It listens on port 8080.")
