"""A Word document is read with its headings, lists, tables and notes; what is no text of it is counted."""

from __future__ import annotations

import io
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq
from support.office_truth import MANUAL_HEADINGS, content_of

from rag_assets.steps.files.office import parts
from rag_assets.steps.files.office.docx import docx_text
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.blocks import BUDGET, Content, clean, without_note
from rag_serving.text.normalization import OMISSION

SAMPLES = Path(__file__).parent / "samples"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def saved_document(document: docx.document.Document) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def document_of(body: str, **parts: str) -> bytes:
    """A Word document of a body in WordprocessingML and other parts of `word/`."""
    relations = "".join(
        f'<Relationship Id="r{name}" Type="http://x/relationships/{name}" Target="{name}.xml"/>' for name in parts
    )
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>')
        package.writestr("word/_rels/document.xml.rels", f"<Relationships>{relations}</Relationships>")
        for name, content in parts.items():
            package.writestr(f"word/{name}.xml", content)
    return file.getvalue()


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def read(file: bytes) -> Content:
    return content_of("docx", file)


def texts(file: bytes) -> list[str]:
    return [block.text for block in read(file).blocks if block.text]


def test_headings_have_levels_numbers_and_ids_of_their_words() -> None:
    headings = [b for b in read((SAMPLES / "manual.docx").read_bytes()).blocks if b.kind == "heading"]
    assert [(b.level, b.text.lstrip("0123456789. ")) for b in headings] == [*MANUAL_HEADINGS]
    assert [b.text for b in headings][2:4] == ["1.1 Lines and fenders", "2. Fleet figures"]
    assert [b.anchors[0] for b in headings][-1] == "lines-and-fenders-1"


def test_what_is_left_out_is_counted() -> None:
    ledger = read((SAMPLES / "manual.docx").read_bytes()).ledger
    assert ledger["comment", "hidden"] == ledger["deleted text", "hidden"] == ledger["hidden text", "hidden"] == 1
    assert ledger["table of contents", "navigation"] == 1
    assert ledger["page header or footer", "navigation"] == 2


def test_lists_keep_their_levels_and_numbers() -> None:
    blocks = read((SAMPLES / "manual.docx").read_bytes()).blocks
    items = [(b.indent, b.text) for b in blocks if b.kind == "list"]
    assert items[1] == (2, "- Diameter forty millimetres")
    assert items[4:] == [
        (0, "1. Lower the fenders."),
        (0, "2. Throw the heaving line."),
        (2, "a) Call the linesman first."),
        (0, "3. Make fast."),
    ]


@pytest.mark.parametrize("name", ["heading 2", "Überschrift 2", "Titre 2", "标题 2", "見出し 2"])
def test_a_heading_is_known_by_the_name_of_its_style_in_any_language(name: str) -> None:
    styles = f'<w:styles xmlns:w="{W}"><w:style w:styleId="x"><w:name w:val="{name}"/></w:style></w:styles>'
    (block,) = read(document_of(paragraph("Scope", '<w:pStyle w:val="x"/>'), styles=styles)).blocks
    assert (block.kind, block.level) == ("heading", 2)


def test_a_heading_is_known_by_its_outline_level_and_by_that_of_the_style_below() -> None:
    styles = (
        f'<w:styles xmlns:w="{W}"><w:style w:styleId="a"><w:name w:val="House"/>'
        '<w:pPr><w:outlineLvl w:val="2"/></w:pPr>'
        '</w:style><w:style w:styleId="b"><w:name w:val="Our"/><w:basedOn w:val="a"/></w:style></w:styles>'
    )
    body = paragraph("One", '<w:pStyle w:val="b"/>') + paragraph("Two", '<w:outlineLvl w:val="0"/>')
    assert [b.level for b in read(document_of(body, styles=styles)).blocks] == [3, 1]


def test_a_ring_of_styles_and_missing_styles_are_no_fault() -> None:
    styles = f'<w:styles xmlns:w="{W}"><w:style w:styleId="a"><w:basedOn w:val="a"/></w:style></w:styles>'
    assert texts(document_of(paragraph("One", '<w:pStyle w:val="a"/>'), styles=styles)) == ["One"]
    assert texts(document_of(paragraph("One", '<w:pStyle w:val="none"/><w:numPr><w:numId w:val="9"/></w:numPr>')))


def test_a_deleted_paragraph_mark_joins_two_paragraphs() -> None:
    body = paragraph("One ", "<w:rPr><w:del/></w:rPr>") + paragraph("two")
    assert texts(document_of(body)) == ["One two"]


def test_fields_show_their_results_and_not_their_instructions() -> None:
    begin, middle, end = (f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end"))
    link = "<w:r><w:instrText> HYPERLINK &quot;https://a.example/&quot; </w:instrText></w:r>"
    body = f"<w:p>{begin}{link}{middle}<w:r><w:t>the page</w:t></w:r>{end}</w:p>"
    blocks = read(document_of(body)).blocks
    assert [block.text for block in blocks] == ["the page", ""]
    assert blocks[1].links[0].target == "https://a.example/"


def test_equations_are_a_line_of_text() -> None:
    m = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    fraction = (
        f'<m:oMath xmlns:m="{m}"><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>c</m:t></m:r></m:den>'
        "</m:f></m:oMath>"
    )
    assert texts(document_of(f"<w:p>{fraction}</w:p>")) == ["(a+b)/c"]


def test_a_document_of_a_library_is_read_with_merged_cells() -> None:
    document = docx.Document()
    document.add_heading("Fares", 1)
    table = document.add_table(3, 3)
    for row, line in enumerate([["Class", "Season", ""], ["", "Low", "High"], ["Adult", "12", "15"]]):
        for column, text in enumerate(line):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(0, 0).merge(table.cell(1, 0))
    assert texts(saved_document(document)) == [
        "Fares",
        "| Class | Season Low | Season High |\n|---|---|---|",
        "| Adult | 12 | 15 |",
    ]


_WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8).map(clean).filter(bool)
_PARTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["Normal", "Heading 1", "Heading 3", "List Bullet", "List Number 2", "Caption", "Quote", "cell"]
        ),
        st.lists(_WORDS, min_size=1, max_size=4),
    ),
    max_size=6,
)


@settings(max_examples=10, deadline=None)
@given(_PARTS)
def test_no_word_of_a_document_is_lost(parts: list[tuple[str, list[str]]]) -> None:
    document = docx.Document()
    for style, words in parts:
        if style == "cell":
            table = document.add_table(2, len(words))
            for row in table.rows:
                for cell, word in zip(row.cells, words, strict=True):
                    cell.text = word
        else:
            document.add_paragraph(" ".join(words), style=style)
    expected = [word for style, words in parts for word in words * (2 if style == "cell" else 1)]
    read_words = " ".join(texts(saved_document(document))).replace("|", " ").split()
    assert LCSseq.similarity(expected, read_words) == len(expected)


def test_hostile_and_broken_files_have_a_reason() -> None:
    good = (SAMPLES / "manual.docx").read_bytes()
    bomb = '<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'
    cases = {
        b"": "not a readable Word document",
        b"PK\x03\x04 nothing": "not a readable Word document",
        good[: len(good) // 2]: "not a readable Word document",
        document_of("").replace(b"word/document.xml", b"word/dokument.xml"): "its text is missing",
        document_of("<w:p>" * 3000 + "</w:p>" * 3000): "cannot be read",
        _with_doctype(bomb): "document type",
    }
    for file, reason in cases.items():
        with pytest.raises(FileError, match=reason):
            docx_text(file, BUDGET)


def _with_doctype(doctype: str) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w") as package:
        package.writestr("word/document.xml", f'{doctype}<w:document xmlns:w="{W}"><w:body>&b;</w:body></w:document>')
    return file.getvalue()


def test_parts_that_unpack_to_more_than_is_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_MAX", 1024 * 1024)
    file = io.BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as package:
        package.writestr("word/document.xml", b" " * (1024 * 1024 + 1))
    with pytest.raises(FileError, match="larger than what is unpacked"):
        docx_text(file.getvalue(), BUDGET)


def test_a_document_past_the_budget_is_cut_with_a_reason() -> None:
    file = document_of("".join(paragraph(f"Sentence number {i}.") for i in range(200)))
    body, cut = without_note(docx_text(file, BUDGET._replace(blocks=50)).body)
    assert cut == "cut at 50 blocks (documents.max_blocks)"
    assert "number 49" in body


def test_deleted_rows_are_gone() -> None:
    row = "<w:tr>{}<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc></w:tr>"
    gone = row.format("<w:trPr><w:del/></w:trPr>", "gone")
    content = read(document_of(f"<w:tbl>{row.format('', 'kept')}{gone}</w:tbl>"))
    assert [block.text for block in content.blocks] == ["| kept |"]
    assert content.ledger["deleted text", "hidden"] == 1


def test_a_text_box_is_read_once_though_it_is_stored_twice() -> None:
    document = docx.Document()
    box = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" {ns}>'
        '<mc:Choice Requires="wps"><w:drawing><w:txbxContent><w:p><w:r><w:t>Boxed words</w:t></w:r></w:p>'
        "</w:txbxContent></w:drawing></mc:Choice><mc:Fallback><w:pict><w:txbxContent><w:p><w:r><w:t>Boxed words</w:t>"
        "</w:r></w:p></w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent>"
    ).replace("{ns}", nsdecls("w"))
    document.add_paragraph("Beside").runs[0]._r.append(parse_xml(box))
    assert texts(saved_document(document)) == ["Beside", "Boxed words"]


def test_an_empty_control_leaves_an_omission_in_its_sentence_and_no_text_alone() -> None:
    control = "<w:sdt><w:sdtPr>{}</w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>"
    run, shows = "<w:r><w:t>Click to enter a date</w:t></w:r>", "<w:showingPlcHdr/>"
    body = f"<w:p><w:r><w:t>Due on </w:t></w:r>{control.format(shows, run)}<w:r><w:t>.</w:t></w:r></w:p>"
    body += control.format(shows, f"<w:p>{run}</w:p>") + control.format(
        "", "<w:p><w:r><w:t>Filled in.</w:t></w:r></w:p>"
    )
    content = content_of("docx", document_of(body))
    assert [block.text for block in content.blocks] == [f"Due on {OMISSION}.", "Filled in."]
    assert content.ledger["placeholder", "hidden"] == 2
