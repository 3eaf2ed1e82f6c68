"""A quote is found on its page as ingest stores it: mended, joined, with bars, and beside what tells it apart."""

from __future__ import annotations

import time

import pytest

from rag_serving.rendering.layer import QuoteContext, SignText


def page(*lines: str) -> SignText:
    signs, middles = [], []
    for row, line in enumerate(lines):
        for column, sign in enumerate(f"{line}\n"):
            signs.append(sign)
            middles.append((column * 6.0, row * 12.0))
    return SignText(signs, middles)


def found(lines: tuple[str, ...], wanted: QuoteContext) -> list[str]:
    signs = "".join(f"{line}\n" for line in lines)
    return [signs[first:end] for first, end in page(*lines).spans(wanted)]


TABLE = (
    "Net sales 2023 2024",
    "Products 1,200 1,400",
    "Services 300 1,200",
    "Net cost 2023 2024",
    "Products 700 1,400",
)


@pytest.mark.parametrize(
    ("lines", "quote", "spans"),
    [
        (("The appro-", "val comes"), "approval comes", ["appro-\nval comes"]),
        (("Rate: 5 %", "of all"), "Rate: 5 % of all", ["Rate: 5 %\nof all"]),
        (("• First thing", "• Second one"), "- First thing\n- Second one", ["First thing\n• Second one"]),
        (("A_b * c",), "A_b \\* c", ["A_b * c"]),
        (TABLE, "| Services | 300 | 1,200 |", ["Services 300 1,200"]),
        (("12 Report", "one two three", "Page 12", "four five six"), "two three four five",
         ["two three", "four five"]),
        (("left one right a", "left two right b"), "left one left two", ["left one ", "left two"]),
        (("one two three",), "one four three", []),
    ],
)  # fmt: skip
def test_a_stored_quote_is_found(lines: tuple[str, ...], quote: str, spans: list[str]) -> None:
    assert [one.strip() for one in found(lines, QuoteContext(quote))] == [one.strip() for one in spans]


def test_cells_are_looked_for_on_one_line_though_columns_are_read_apart() -> None:
    lines = ("Products   1,400", "Services   1,200", "Others   1,400")
    assert found(lines, QuoteContext("| 1,400 | Others |")) == ["1,400", "Others"]
    place = page(*lines).spans(QuoteContext("| 1,400 | Others |"))[0]
    assert place[0] == sum(len(line) + 1 for line in lines[:2]) + len("Others   ")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [("", "", 0), ("Old: ", "", 0), ("New: ", "", 1), ("", " by two men", 1), ("", " by one man", 0), ("x: ", "", 0)],
)
def test_what_stands_around_it_tells_a_quote_from_the_same_words_elsewhere(before: str, after: str, line: int) -> None:
    lines = ("Old: checked hourly by one man", "New: checked hourly by two men")
    (first, _), *_ = page(*lines).spans(QuoteContext("checked hourly", before, after))
    assert first == line * (len(lines[0]) + 1) + 5


def test_a_hostile_page_takes_no_longer() -> None:
    begun = time.perf_counter()
    same = page("a b " * 15_000)
    same.spans(QuoteContext("a b " * 500, "b a " * 20, "a b " * 20))
    same.spans(QuoteContext("| a | b |" * 200 + "c"))
    same.spans(QuoteContext("a c b " * 300))
    assert time.perf_counter() - begun < 5
