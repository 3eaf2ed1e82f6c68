"""A presentation is read slide by slide in reading order, with its notes; hidden slides are counted."""

from __future__ import annotations

import io

import pptx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches
from rapidfuzz.distance import LCSseq
from support.office_truth import content_of

from rag_assets.steps.files.office.pptx import PlacedShape, in_reading_order, pptx_text
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.blocks import BUDGET, Content, clean


def saved_slides(presentation: pptx.presentation.Presentation) -> bytes:
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def read(presentation: pptx.presentation.Presentation) -> Content:
    return content_of("pptx", saved_slides(presentation))


def texts(presentation: pptx.presentation.Presentation) -> list[str]:
    return [block.text for block in read(presentation).blocks]


def boxed(slide: pptx.slide.Slide, text: str, left: float, top: float) -> None:
    slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(1)).text_frame.text = text


def test_a_slide_of_a_library_has_title_levels_and_notes() -> None:
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[1])
    slide.shapes.title.text = "Berths"
    frame = slide.placeholders[1].text_frame
    frame.text = "North"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "Opens in May", 1
    slide.notes_slide.notes_text_frame.text = "Thank the crew"
    assert texts(talk) == ["Slide 1: Berths", "- North", "- Opens in May", "Speaker notes: Thank the crew"]
    heading = read(talk).blocks[0]
    assert (heading.page, heading.anchors) == (1, ("page=1", "slide=1"))


def test_boxes_are_read_by_position_and_not_by_the_order_of_the_file() -> None:
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[6])
    for text, left, top in (("third", 1, 5), ("second", 5, 1.1), ("first", 1, 1)):
        boxed(slide, text, left, top)
    assert texts(talk) == ["Slide 1", "first", "second", "third"]


def test_what_stands_in_a_group_is_read_where_the_group_stands() -> None:
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[6])
    boxed(slide, "below", 1, 4)
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(1), Inches(2), Inches(1)).text_frame.text = "above"
    assert texts(talk) == ["Slide 1", "above", "below"]


def test_merged_cells_of_a_slide_are_repeated() -> None:
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[6])
    table = slide.shapes.add_table(3, 3, Inches(1), Inches(1), Inches(5), Inches(2)).table
    for row, line in enumerate([["Route", "Summer", ""], ["", "Cars", "People"], ["Skarvoy", "1", "2"]]):
        for column, text in enumerate(line):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(0, 0).merge(table.cell(1, 0))
    assert texts(talk)[1:] == ["| Route | Summer Cars | Summer People |\n|---|---|---|", "| Skarvoy | 1 | 2 |"]


def test_the_values_of_a_chart_are_a_table() -> None:
    talk = pptx.Presentation()
    slide = talk.slides.add_slide(talk.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["May", "June"]
    data.add_series("Cars", (120, 340))
    box = (Inches(1), Inches(1), Inches(5), Inches(3))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *box, data)
    content = read(talk)
    assert [block.text for block in content.blocks[1:]] == ["| | Cars |\n|---|---|", "| May | 120 |", "| June | 340 |"]
    assert content.ledger["chart", "rendered"] == 1


def test_a_hidden_slide_is_left_out_and_counted() -> None:
    talk = pptx.Presentation()
    for text in ("shown", "not shown"):
        boxed(talk.slides.add_slide(talk.slide_layouts[6]), text, 1, 1)
    talk.slides[1]._element.set("show", "0")
    content = read(talk)
    assert [block.text for block in content.blocks] == ["Slide 1", "shown"]
    assert content.ledger["hidden slide", "hidden"] == 1
    assert pptx_text(saved_slides(talk), BUDGET).page_count == 2


def test_pages_are_told_as_they_are_done() -> None:
    talk, done = pptx.Presentation(), []
    for _ in range(3):
        boxed(talk.slides.add_slide(talk.slide_layouts[6]), "x", 1, 1)
    pptx_text(saved_slides(talk), BUDGET, lambda page, pages: done.append((page, pages)))
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_a_presentation_whose_slide_is_missing_is_refused() -> None:
    talk = pptx.Presentation()
    talk.slides.add_slide(talk.slide_layouts[6])
    file = saved_slides(talk).replace(b"ppt/slides/slide1.xml", b"ppt/slides/slide9.xml")
    with pytest.raises(FileError, match="slide 1 is missing"):
        pptx_text(file, BUDGET)


def test_two_columns_are_read_one_after_the_other() -> None:
    boxes = [
        PlacedShape("left", 0, 10, 80),
        PlacedShape("right", 50, 12, 80),
        PlacedShape("title", 20, 0, 8),
        PlacedShape("end", 0, 95, 5),
    ]
    assert in_reading_order(boxes, 100) == ["title", "left", "right", "end"]


_WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8).map(clean).filter(bool)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(_WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_no_word_of_a_presentation_is_lost(slides: list[list[str]]) -> None:
    talk = pptx.Presentation()
    for words in slides:
        slide = talk.slides.add_slide(talk.slide_layouts[1])
        slide.shapes.title.text = words[0]
        slide.placeholders[1].text_frame.text = "\n".join(words[1:])
    expected = [word for words in slides for word in words]
    found = " ".join(texts(talk)).split()
    assert LCSseq.similarity(expected, found) == len(expected)
