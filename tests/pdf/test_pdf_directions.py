"""Pages are read in the order of their words, whichever way these are turned, mirrored or run."""

from __future__ import annotations

import time

import pytest
from pdf.laid_out_pdf import Line, laid_out, paragraph
from rendering.quoted_pages import layer_of

from rag_assets.steps.files.pdf.reading import pdf_text
from rag_assets.steps.formats.blocks import BUDGET, blocks_content
from rag_serving.rendering.layer import QuoteContext

PROSE = ("Ships pay a fee of 30 euros.", "The night rate is 45 euros for a berth.", "No fee is due on Sundays.")
TABLE = [
    Line(72 + 130 * column, 160 + 14 * at, cell)
    for at, row in enumerate((("crane", "hours", "inspection"), ("K1", "3120", "14 April"), ("K2", "2895", "5 May")))
    for column, cell in enumerate(row)
]
UPWARDS, DOWNWARDS = "0 1 -1 0 612 0", "0 -1 1 0 0 792"


def texts(file: bytes) -> list[str]:
    return [block.text for block in blocks_content(pdf_text(file, BUDGET, None).body).blocks]


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize(
    "drawn",
    [UPWARDS, DOWNWARDS, "-1 0 0 -1 612 792", "-1 0 0 1 612 0", "1 0 0 -1 0 792", "0 -1 -1 0 612 792", "1 0 .3 1 0 0"],
    ids=["upwards", "downwards", "upside down", "mirrored", "mirrored down", "mirrored downwards", "slanted"],
)
def test_a_page_that_is_drawn_turned_or_mirrored_reads_as_an_upright_one(drawn: str, turned: int) -> None:
    page = [*paragraph(72, 100, *PROSE), *TABLE]
    assert texts(laid_out(page, drawn=drawn, turned=turned)) == texts(laid_out(page))


def test_a_table_that_is_set_sideways_on_an_upright_page_is_a_table() -> None:
    upright = paragraph(72, 100, *PROSE * 3)
    sideways = [line._replace(drawn=UPWARDS, y=line.y + 200) for line in TABLE]
    assert texts(laid_out([*upright, *sideways])) == [*texts(laid_out(upright)), *texts(laid_out(TABLE))]


HEBREW = ("הספרייה פתוחה בכל יום שלישי עד השעה תשע", "מותר לשאול חמישה ספרים לשלושה שבועות")
ARABIC = ("المكتبة مفتوحة كل يوم ثلاثاء حتى الساعة التاسعة", "يسمح باستعارة خمسة كتب")


def as_shown(text: str) -> str:
    """The glyphs of a line of such a script from the left; words of other letters stand as they are."""
    return " ".join(word if word.isascii() else word[::-1] for word in reversed(text.split(" ")))


@pytest.mark.parametrize("lines", [HEBREW, ARABIC], ids=["Hebrew", "Arabic"])
def test_lines_from_right_to_left_are_in_the_order_of_speech(lines: tuple[str, ...]) -> None:
    file = laid_out([Line(540 - 5 * len(text), 100 + 12 * at, as_shown(text)) for at, text in enumerate(lines)])
    assert texts(file) == [" ".join(lines)]
    assert layer_of(file, 1).boxes(QuoteContext(" ".join(lines[0].split()[1:4])))


def test_words_of_the_other_direction_stand_in_the_order_of_speech() -> None:
    said = "הספרייה קנתה"
    mixed = f"{as_shown('עמודים')} Model X 200 {as_shown(said)}"
    assert texts(laid_out([Line(72, 100, mixed)])) == [f"{said} Model X 200 עמודים"]
    english = f"The library is called {as_shown(said)} in the town of Haifa, and is open"
    assert texts(laid_out([Line(72, 100, english)])) == [
        f"The library is called {said} in the town of Haifa, and is open"
    ]


def test_the_first_column_of_a_table_from_right_to_left_is_the_right_one() -> None:
    head, row = ("מנוף", "שעות", "בדיקה"), ("ראשון", "3120", "אפריל")
    cells = [
        Line(440 - 130 * at, 100 + 14 * line, as_shown(cell))
        for line, texts_of_row in enumerate((head, row, ("שני", "2895", "מאי")))
        for at, cell in enumerate(texts_of_row)
    ]
    assert texts(laid_out(cells))[1] == "| ראשון | 3120 | אפריל |"


def test_a_page_of_very_many_words_from_right_to_left_takes_no_longer_than_its_length() -> None:
    lines = [Line(20 + 9 * (n % 60), 20 + n // 60 * 7, "שב", 2) for n in range(6_000)]
    begun = time.process_time()
    texts(laid_out(lines))
    assert time.process_time() - begun < 10
