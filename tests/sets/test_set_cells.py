"""A cell is a value as a whole, or none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rag_serving.sets.cells import normalized, shown, value_of, value_shown


@pytest.mark.parametrize(
    ("text", "kind", "amount", "unit"),
    [
        ("7410", "number", "7410", ""),
        ("-3.5", "number", "-3.5", ""),
        ("−3,5", "number", "-3.5", ""),
        ("0.250", "number", "0.25", ""),
        ("1,234.5", "number", "1234.5", ""),
        ("1.234,5", "number", "1234.5", ""),
        ("1,234,567", "number", "1234567", ""),
        ("1.234.567", "number", "1234567", ""),
        ("12 345", "number", "12345", ""),
        ("99.9 %", "number", "99.9", "%"),
        ("15 percent", "number", "15", "%"),
        ("€ 1.200,50", "money", "1200.50", "EUR"),
        ("120 euros", "money", "120", "EUR"),
        ("40 EUR", "money", "40", "EUR"),
        ("$9.99", "money", "9.99", "$"),
        ("1 000 NOK", "money", "1000", "NOK"),
        ("450 kr", "money", "450", "kr"),
        ("15 minutes", "duration", "900", "s"),
        ("4 hours", "duration", "14400", "s"),
        ("1 h 30", "duration", "5400", "s"),
        ("1h30m", "duration", "5400", "s"),
        ("2 days 4 hours", "duration", "187200", "s"),
        ("250 ms", "duration", "0.250", "s"),
        ("P1D", "duration", "86400", "s"),
        ("PT1H30M", "duration", "5400", "s"),
        ("18 months", "duration", "18", "months"),
        ("2 years", "duration", "24", "months"),
        ("512 MB", "size", "512000000", "B"),
        ("1 GiB", "size", "1073741824", "B"),
        ("300 bytes", "size", "300", "B"),
        ("1970-01-02", "date", "1", ""),
        ("2 January 1970", "date", "1", ""),
        ("Jan 2nd, 1970", "date", "1", ""),
        ("02.01.1970", "date", "1", ""),
        ("2. Januar 1970", "date", "1", ""),
        ("Yes", "flag", "1", ""),
        ("nein", "flag", "0", ""),
        ("✓", "flag", "1", ""),
    ],
)
def test_a_cell_is_one_value(text: str, kind: str, amount: str, unit: str) -> None:
    value = value_of(text)
    assert value
    assert (value.kind, value.amount, value.unit, value.text) == (kind, Decimal(amount), unit, text)


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "about 20", "20 to 30", "20-30", "every day", "1,234", "1.234", "24/7", "5.4.1", "40 per hour", "30 m",
        "1 month 2 days", "4 hours or less", "h", "1 h 75", "30 minutes 1 hour", "4 Mb", "512M", "2025-13-01",
        "30 February 2025", "08/09/2025", "2025-08-21T10:00", "€", "12 €€", "yes, at night", "10 %%", "P", "PT",
        "1,23,4", "1" * 60,
    ],
)  # fmt: skip
def test_what_is_not_wholly_a_value_is_none(text: str) -> None:
    assert value_of(text) is None


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["15 minutes", "4 hours"], "4 h 15 min"),
        (["250 ms", "250 ms"], "500 ms"),
        (["900 ms", "600 ms"], "1.5 s"),
        (["20 hours", "28 hours"], "2 d"),
        (["1 GiB", "512 MiB"], "1.5 GiB"),
        (["500 MB", "1.5 GB"], "2 GB"),
        (["0.1", "0.2"], "0.3"),
        (["10 EUR", "€2.50"], "12.5 EUR"),
        (["100000000", "900000000"], "1000000000"),
        (["0", "0"], "0"),
    ],
)
def test_a_sum_is_exact_and_has_its_unit(texts: list[str], told: str) -> None:
    values = [value for value in map(value_of, texts) if value]
    assert len(values) == len(texts)
    assert value_shown(sum((value.amount for value in values), Decimal(0)), values[0].kind, values[0].unit) == told


def test_a_cell_is_shown_without_marks() -> None:
    written = r"**Gdańsk**<br>[the `desk`](https://x.example/a_(b) \"t\"), _at_ night: `a_b` HARBOR_DB_URL 2 \| 3 \*"
    assert shown(written.replace('\\"', '"')) == "Gdańsk the desk, at night: a_b HARBOR_DB_URL 2 | 3 *"


def test_words_are_compared_without_case_marks_and_spaces() -> None:
    assert normalized(" **STRASSE**\n`ﬁle`  Nr. １ ") == normalized("straße file nr. 1")
