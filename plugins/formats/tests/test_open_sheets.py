"""A spreadsheet of OpenDocument that claims too much is cut, and one with a password says so."""

from __future__ import annotations

import io
from zipfile import ZipFile

import pytest

from rag_assets.steps.files.file_text import FileError, kind_text
from rag_assets.steps.formats.blocks import BUDGET, without_note


def test_repeated_cells_of_an_open_document_are_cut_at_the_budget() -> None:
    office, table, text = (f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0" for name in ("office", "table", "text"))
    cell = f'<t:table-cell t:number-columns-repeated="999999999"><x:p xmlns:x="{text}">bomb</x:p></t:table-cell>'
    row = f'<t:table-row t:number-rows-repeated="999999999">{cell}</t:table-row>'
    content = (
        f'<o:document-content xmlns:o="{office}" xmlns:t="{table}"><o:body><o:spreadsheet>'
        f'<t:table t:name="S">{row}</t:table></o:spreadsheet></o:body></o:document-content>'
    )
    file = io.BytesIO()
    with ZipFile(file, "w") as package:
        package.writestr("content.xml", content)
    _, cut = without_note(kind_text("ods", "", file.getvalue(), BUDGET._replace(cells=20_000)).body)
    assert cut == "cut at 20,000 table cells (documents.max_cells)"


def test_a_protected_open_document_says_so() -> None:
    file = io.BytesIO()
    with ZipFile(file, "w") as package:
        package.writestr("META-INF/manifest.xml", "<manifest><encryption-data/></manifest>")
        package.writestr("content.xml", b"\x00\x01")
    with pytest.raises(FileError, match="it has a password: remove it"):
        kind_text("ods", "", file.getvalue())
