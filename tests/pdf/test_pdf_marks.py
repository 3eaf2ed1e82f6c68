"""Raised figures stay apart from numbers, and what is struck out or printed twice is not read."""

from __future__ import annotations

import time

import pytest
from pdf.laid_out_pdf import Line, laid_out, paragraph
from rendering.quoted_pages import layer_of

from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.formats.blocks import BUDGET, STRUCK, Content, blocks_content
from rag_serving.rendering.layer import QuoteContext

UPWARDS = "0 1 -1 0 612 0"
WIDTHS = {**dict.fromkeys(" ft.,:/", 2.8), **dict.fromkeys("il", 2.2), **dict.fromkeys("ksc", 5.0), "r": 3.3, "m": 8.3}


def content(file: bytes) -> Content:
    return blocks_content(pdf_text(file, BUDGET, None).body)


def text(file: bytes) -> str:
    return "\n".join(block.text for block in content(file).blocks)


def width(words: str) -> float:
    """Points that words of Helvetica take at 10 points; of the letters that are used here."""
    return sum(WIDTHS.get(sign, 5.56 if sign.islower() or sign.isdigit() else 6.67) for sign in words)


def written(x: float, y: float, *parts: str) -> list[Line]:
    """A line in which parts that begin with ^ are raised, and those with _ lowered."""
    lines = []
    for part in parts:
        size, up = (6, {"^": 4, "_": -2}[part[0]]) if part[0] in "^_" else (10, 0)
        said = part.lstrip("^_")
        lines.append(Line(x, y - up, said, size))
        x += width(said) * size / 10
    return lines


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (("counts up to 10", "^6", " pulses"), "counts up to 10⁶ pulses"),
        (("up to 10", "^6", ", then again"), "up to 10⁶, then again"),
        (("loses 10", "^-6", " of it"), "loses 10⁻⁶ of it"),
        (("valid for 24", "^1", " months"), "valid for 24¹ months"),
        (("valid for 24", "^12", " months"), "valid for 24¹² months"),
        (("needs 20 m", "^2", "/s of it"), "needs 20 m²/s of it"),
        (("tons of CO", "_2", " a year"), "tons of CO₂ a year"),
        (("the 1", "^st", " of May 2025"), "the 1st of May 2025"),
    ],
)
@pytest.mark.parametrize("drawn", ["1 0 0 1 0 0", UPWARDS])
def test_raised_and_lowered_figures_stay_apart_from_numbers(parts: tuple[str, ...], said: str, drawn: str) -> None:
    file = laid_out(written(72, 100, *parts), drawn=drawn)
    assert text(file) == said
    assert layer_of(file, 1).boxes(QuoteContext(said))


def test_the_mark_of_a_note_behind_a_space_is_raised_too() -> None:
    lines = [*written(72, 100, "The limit is 24 "), Line(72 + width("The limit is 24 "), 96, "1", 6)]
    assert text(laid_out([*lines, *written(150, 100, "months.")])) == "The limit is 24 ¹ months."
    assert text(laid_out(written(72, 100, "valid for 24", "^a", " months"))) == "valid for 24ᵃ months"


def test_a_value_with_a_raised_mark_stays_a_value_of_its_table_and_its_note_follows() -> None:
    rows = [
        *(Line(x, 100, name, bold=True) for x, name in ((72, "Port"), (202, "Berths"), (332, "Cranes"))),
        *(Line(72, 114, "Gdansk"), *written(202, 114, "12", "^1"), Line(332, 114, "31")),
        *(Line(72, 128, "Busan"), Line(202, 128, "40"), Line(332, 128, "90")),
        *written(72, 160, "^1", " Without those that are being built."),
    ]
    assert text(laid_out(rows)).splitlines()[2:] == [
        "| Gdansk | 12¹ | 31 |",
        "| Busan | 40 | 90 |",
        "¹ Without those that are being built.",
    ]


def struck(before: str, words: str, after: str, y: float = 100) -> tuple[list[Line], tuple[float, float, float, float]]:
    """A line, and the box of some words in it."""
    x = 72 + width(before)
    return [Line(72, y, before + words + after)], (x, y - 8, x + width(words), y + 2)


@pytest.mark.parametrize("in_form", [False, True])
@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize("drawn", ["1 0 0 1 0 0", UPWARDS])
def test_words_that_a_line_strikes_out_are_left_out_and_counted(drawn: str, turned: int, in_form: bool) -> None:
    lines, (x0, _, x1, _) = struck("Backups are kept for ", "30", " 14 days.")
    file = laid_out(lines, boxes=[(x0, 96.6, x1, 97.1)], drawn=drawn, turned=turned, in_form=in_form)
    assert text(file) == "Backups are kept for 14 days."
    assert content(file).ledger[STRUCK, "hidden"] == 1
    assert layer_of(file, 1).boxes(QuoteContext(text(file)))


def test_words_that_an_annotation_strikes_out_are_left_out_and_counted() -> None:
    first, box = struck("The gate closes at ", "18:00", " 20:30 on weekdays.")
    second, other = struck("", "It is open on Sundays.", "", y=130)
    file = laid_out([*first, *second], struck=[box, other])
    assert text(file) == "The gate closes at 20:30 on weekdays."
    assert content(file).ledger[STRUCK, "hidden"] == 6


def test_a_part_of_a_word_that_is_struck_out_is_left_out() -> None:
    lines, (x0, _, x1, _) = struck("Gates close at ", "18:00", "/20:30 on weekdays.")
    assert text(laid_out(lines, boxes=[(x0, 96.6, x1, 97.1)])) == "Gates close at /20:30 on weekdays."


def test_lines_under_above_and_beside_words_strike_nothing_out() -> None:
    lines = [*paragraph(72, 100, "Underlined words of a page"), Line(72, 130, "40"), *written(72, 160, "Title")]
    boxes = [(72, 101.5, 190, 102), (72, 90, 190, 90.5), (60, 126.6, 400, 127.1), (72, 148, 500, 149)]
    assert text(laid_out(lines, boxes=boxes)).split() == ["Underlined", "words", "of", "a", "page", "40", "Title"]


SAID = "Harbour of Gdansk, book 11 of 22, berths 1 to 3 for all tall ships"


def letters(said: str, x: float = 72, y: float = 100) -> list[Line]:
    """Each letter by itself."""
    places = [x + width(said[:at]) for at in range(len(said))]
    return [Line(at, y, sign) for at, sign in zip(places, said, strict=True) if sign != " "]


@pytest.mark.parametrize("shift", [(0, 0), (0.3, 0), (0.8, 0), (0.8, 0.8)])
def test_letters_that_are_printed_again_are_read_once(shift: tuple[float, float]) -> None:
    x, y = shift
    by_letter = letters(SAID)
    pages = [
        [*by_letter, *(line._replace(x=line.x + x, y=line.y + y) for line in by_letter)],
        [line for n in range(9) for line in paragraph(72 + n % 3 * x, 100 + n % 3 * y, *[SAID] * 3, pitch=20)],
    ]
    assert text(laid_out(pages[0])) == SAID
    assert text(laid_out(pages[1])) == " ".join([SAID] * 3)


def test_very_many_lines_and_copies_take_no_longer_than_their_number() -> None:
    words = [Line(72 + 0.01 * (n % 50), 100 + n % 600, "word", 8) for n in range(20_000)]
    boxes = [(72, 50 + n % 700 + 0.1, 90 + n % 300, 50.3 + n % 700) for n in range(20_000)]
    begun = time.process_time()
    content(laid_out(words, boxes=boxes))
    assert time.process_time() - begun < 15
