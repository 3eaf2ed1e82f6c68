"""Struck text is no text of a page, and raised or lowered figures are no digits of the number before them: in all
formats."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable
from zipfile import ZipFile

import docx
import openpyxl
import pptx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font

from citelock_sites.mkdocs_markdown import plain_markdown
from citelock_sites.rst.page import rst_page
from rag_assets.sources.sites.markdown_page import html_of, markdown_main
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import Content, blocks_content, joined, shifted
from rag_assets.steps.formats.html import html_content
from rag_assets.steps.formats.storage_elements import storage_content
from rag_assets.steps.sections.reading import markdown_content
from rag_assets.steps.sections.splitting import sections_of_page
from rag_serving.text.analyzer import analyze

HTML = "<p>Kept for <s>30</s> 14 days, 10<sup>6</sup> pulses, CO<sub>2</sub>, 24<sup>1</sup> months.</p>"
SHOWN = "Kept for 14 days, 10⁶ pulses, CO₂, 24¹ months."
READERS = {"html": html_content, "markdown": markdown_content, "blocks": blocks_content, "storage": storage_content}
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "style", "text", "table")
)
STYLES = (
    '<style:style style:name="S" style:family="{}"><style:text-properties style:text-line-through-style="solid"/>'
    '</style:style><style:style style:name="R" style:family="text"><style:text-properties '
    'style:text-position="super 58%"/></style:style><style:style style:name="L" style:family="text">'
    '<style:text-properties style:text-position="-33% 58%"/></style:style>'
)
SPANS = (
    'Kept for <text:span text:style-name="S">30 </text:span>14 days, 10<text:span text:style-name="R">6</text:span>'
    ' pulses, CO<text:span text:style-name="L">2</text:span>, 24<text:span text:style-name="R">1</text:span> months.'
)
RTF = (
    r"{\rtf1 Kept for {\strike 30 }14 days, 10{\super 6} pulses, CO{\sub 2}, 24\up6 1\up0  months.\par "
    r"\striked1 Gone.\par}"
)
MAIL = f"Subject: x\nContent-Type: text/html; charset=utf-8\n\n{HTML}<p><del>Gone.</del></p>"


def saved(document: object) -> bytes:
    file = io.BytesIO()
    document.save(file)  # type: ignore[attr-defined]
    return file.getvalue()


def zipped(**files: str) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return file.getvalue()


def word() -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph("Kept for ")
    paragraph.add_run("30 ").font.double_strike = True
    paragraph.add_run("14 days, 10")
    paragraph.add_run("6").font.superscript = True
    paragraph.add_run(" pulses, CO")
    paragraph.add_run("2").font.subscript = True
    paragraph.add_run(", 24")
    paragraph.add_run("1").font.superscript = True
    paragraph.add_run(" months.").font.strike = False
    style = document.styles.add_style("Old", docx.enum.style.WD_STYLE_TYPE.PARAGRAPH)
    style.font.strike = True
    document.add_paragraph("Gone.", style)
    return saved(document)


def book() -> bytes:
    book = openpyxl.Workbook()
    rich = CellRichText("Kept for ")
    for text, font in (
        ("30 ", InlineFont(strike=True)),
        ("14 days, 10", InlineFont()),
        ("6", InlineFont(vertAlign="superscript")),
        (" pulses, CO", InlineFont()),
        ("2", InlineFont(vertAlign="subscript")),
        (", 24", InlineFont()),
        ("1", InlineFont(vertAlign="superscript")),
        (" months.", InlineFont()),
    ):
        rich.append(TextBlock(font, text))
    book.active["A1"] = rich
    book.active["A2"] = 60
    book.active["A2"].font = Font(strike=True)
    return saved(book)


def slides() -> bytes:
    deck = pptx.Presentation()
    paragraph = deck.slides.add_slide(deck.slide_layouts[1]).placeholders[1].text_frame.paragraphs[0]
    for text, name, value in (
        ("Kept for ", "", ""),
        ("30 ", "strike", "sngStrike"),
        ("14 days, 10", "strike", "noStrike"),
        ("6", "baseline", "30000"),
        (" pulses, CO", "", ""),
        ("2", "baseline", "-25000"),
        (", 24", "baseline", "0"),
        ("1", "baseline", "30000"),
        (" months.", "", ""),
    ):
        run = paragraph.add_run()
        run.text = text
        if name:
            run.font._element.set(name, value)
    second = deck.slides[0].placeholders[1].text_frame.add_paragraph().add_run()
    second.text = "Gone."
    second.font._element.set("strike", "dblStrike")
    return saved(deck)


def open_file(kind: str, body: str, family: str = "text") -> bytes:
    content = (
        f"<office:document-content {ODF}><office:automatic-styles>{STYLES.format(family)}</office:automatic-styles>"
        f"<office:body>{body}</office:body></office:document-content>"
    )
    return zipped(**{"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def open_text() -> bytes:
    gone = '<text:p><text:span text:style-name="S">Gone.</text:span></text:p>'
    return open_file("text", f"<office:text><text:p>{SPANS}</text:p>{gone}</office:text>")


def open_sheet() -> bytes:
    spans = SPANS.replace('<text:span text:style-name="S">30 </text:span>', "")
    cells = f"<table:table-cell><text:p>{spans}</text:p></table:table-cell>"
    cells += '<table:table-cell table:style-name="S"><text:p>Gone.</text:p></table:table-cell>' * 2
    row = f"<table:table-row>{cells}</table:table-row>"
    sheet = f'<office:spreadsheet><table:table table:name="t">{row}</table:table></office:spreadsheet>'
    return open_file("spreadsheet", sheet, "table-cell")


def epub() -> bytes:
    container = '<container><rootfiles><rootfile full-path="p.opf"/></rootfiles></container>'
    package = '<package><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    package += '<spine><itemref idref="a"/></spine></package>'
    chapter = f"<html><body>{HTML}<p><del>Gone.</del></p></body></html>"
    return zipped(**{"META-INF/container.xml": container, "p.opf": package, "a.xhtml": chapter})


FILES: dict[str, Callable[[], bytes]] = {
    "docx": word,
    "xlsx": book,
    "pptx": slides,
    "odt": open_text,
    "ods": open_sheet,
    "rtf": RTF.encode,
    "epub": epub,
    "eml": MAIL.encode,
}
PAGES: dict[str, Callable[[], Content]] = {
    "storage": lambda: storage_content(HTML + '<p style="text-decoration: line-through">Gone.</p>'),
    "html": lambda: html_content(
        "<html><head><style>.c3{color:red;text-decoration:line-through}.c4{vertical-align:super}</style></head><body>"
        'Kept for <span class="c3">30</span> 14 days, 10<span class="c4">6</span> pulses, '
        'CO<span style="vertical-align: sub">2</span>, 24<sup><a href="#n1">1</a></sup> months.'
        "<p><strike>Gone.</strike></p></body></html>"
    ),
    "markdown": lambda: markdown_content(HTML.replace("<s>30</s>", "~~30~~")[3:-4] + "\n\n~~Gone.~~"),
    "site": lambda: html_content(html_of(markdown_main(HTML.replace("<s>30</s>", "~~30~~")[3:-4] + "\n\n~~Gone.~~"))),
    "mkdocs": lambda: html_content(
        html_of(
            markdown_main(
                plain_markdown("Kept for ~~30~~ 14 days, 10^6^ pulses, CO~2~, 24^1^ months.\n\n~~Gone.~~", marks="~^")
            )
        )
    ),
    "rst": lambda: html_content(
        rst_page(
            ".. role:: strike\n\nKept for :strike:`30` 14 days, 10\\ :sup:`6` pulses, CO\\ :sub:`2`, 24\\ :sup:`1` "
            "months.\n\n.. rst-class:: strike\n\nGone.\n"
        ).html
    ),
}


def file_content(kind: str, content: bytes) -> Content:
    found = file_text(f"x.{kind}", content)
    return READERS[found.body_format](found.body)


def check(content: Content) -> None:
    text = joined([block for block in content.blocks if block.kind != "heading"])[0]
    assert SHOWN in text
    assert "Gone" not in text
    assert "60" not in text
    assert content.ledger["struck text", "hidden"] == 2


@pytest.mark.parametrize("kind", FILES)
def test_marks_of_files(kind: str) -> None:
    check(file_content(kind, FILES[kind]()))


@pytest.mark.parametrize("kind", PAGES)
def test_marks_of_pages(kind: str) -> None:
    check(PAGES[kind]())


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        ("10", "-6", "10⁻⁶"),
        ("10", "2.5", "10^2.5"),
        ("10", "3/2", "10^(3/2)"),
        ("24", "1, 2", "24¹, ²"),
        ("24", "[1]", "24[1]"),
        ("1", "st", "1st"),
        ("2", "n", "2ⁿ"),
        ("2", "nm", "2^nm"),
        ("Acme", "TM", "AcmeTM"),
        ("", "1 Only in dry rooms.", "¹ Only in dry rooms."),
    ],
)
def test_raised_text_is_no_part_of_what_stands_before_it(before: str, text: str, expected: str) -> None:
    assert before + shifted(text, "raised", before) == expected


@given(st.text(alphabet="0123456789abn +-,./()[]", max_size=60), st.sampled_from(["raised", "lowered"]))
def test_no_raised_digit_follows_a_digit(text: str, mark: str) -> None:
    after = shifted(text, mark, "7")  # type: ignore[arg-type]
    assert not after[:1].isdecimal()


def test_a_heading_is_reached_by_the_id_that_its_site_makes_of_its_words() -> None:
    body = "<h2>CO<sub>2</sub> limits <s>of 2023</s></h2><p>Below 3 m<sup>3</sup>.</p>"
    page = {"page_id": "1", "version": 1, "title": "T", "body": body, "body_format": "storage", "content_hash": "h"}
    section = sections_of_page({**page, "anchor_flavor": "cloud"}).sections[-1]
    assert (section["heading"], section["anchor"]) == ("CO₂ limits", "CO2-limits-of-2023")


def test_cells_rows_items_and_code_may_be_struck() -> None:
    table = '<table><tr><td>a</td><td style="text-decoration:line-through">b</td></tr>'
    table += '<tr style="text-decoration-line: line-through"><td>c</td></tr></table>'
    content = storage_content(f"{table}<ul><li><del>d</del></li><li>e</li></ul><pre>f <del>g</del></pre>")
    assert joined(content.blocks)[0].split() == ["|", "a", "|", "|", "-", "e", "```", "f", "```"]
    assert content.ledger == Counter({("struck text", "hidden"): 4})


def test_a_macro_in_struck_text_is_hidden_and_not_lost() -> None:
    macro = '<ac:structured-macro ac:name="code"><ac:plain-text-body>x</ac:plain-text-body></ac:structured-macro>'
    assert storage_content(f"<del>{macro}</del>").ledger["code", "hidden"] == 1


def test_a_node_of_the_new_editor_may_be_struck() -> None:
    node = '<ac:adf-node type="text"><ac:adf-mark key="strike"/><ac:adf-content>old</ac:adf-content></ac:adf-node>'
    content = storage_content(f"<ac:adf-extension><ac:adf-content>new</ac:adf-content>{node}</ac:adf-extension>")
    assert "old" not in joined(content.blocks)[0]


def test_plain_words_find_lowered_ones_and_an_exponent_is_no_digit() -> None:
    assert analyze("CO2 per m3") == analyze("CO₂ per m³")
    assert "106" not in analyze("10⁶ pulses")
    assert analyze("10⁶ pulses") == analyze("10^6 pulses")


def test_the_time_of_many_marks_is_linear() -> None:
    def seconds(count: int) -> float:
        started = time.process_time()
        storage_content("<p>" + "10<sup>6</sup> <s>x</s><x/>" * count + "</p>")
        return time.process_time() - started

    seconds(100)
    assert seconds(20_000) < 40 * seconds(2_000) + 1


def test_raised_signs_that_are_no_figures_stay_as_they_are() -> None:
    assert [shifted(sign, "raised", "Intel") for sign in ("®", "™", "℠", "®,")] == ["®", "™", "℠", "®,"]
