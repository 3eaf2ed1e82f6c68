"""A scanned document in the web page: what OCR read says so, and a section over two pages opens at the quote's page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from sourced import cited, opened
from sources.pdf_writer import pdf
from support.paged_chunks import chunks_of_page, page_row
from support.running import running
from support.wiki import PASSAGES, Passage, configuration, publish_paged
from web_page import Complaints, axe_violations

from rag_assets.steps.formats.blocks import Block
from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

TITLE = "The manual of the northern quay names every winch."
MOORING = "Mooring lines are checked every forty minutes of the night."
CRANES = "The cranes of berth seven stop at a wind of twenty metres."
ASKED = "At what wind do the cranes of berth seven stop?"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("scans")
    blocks = [Block("paragraph", MOORING, page=2, confidence=93), Block("paragraph", CRANES, page=3, confidence=63)]
    (row,) = chunks_of_page(page_row(blocks, "att1"))
    section = Passage("att1", "Page 2", row["text"], title="Scan.pdf", structure=row["structure"])
    publish_paged(home, (*PASSAGES, section), {"att1": pdf(TITLE, MOORING, CRANES, numbered="r")})
    with running(create_app(configuration(home))) as address:
        yield address


def test_a_scanned_quote_opens_its_own_page_and_says_that_ocr_read_it(page: Page, address: str) -> None:
    complaints = Complaints(page)
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    cited(page, ASKED)  # its page is known then, and the answer below is told what it is called
    with page.expect_response("**/layer?*") as asked:
        pane = opened(page, ASKED)
    assert "page=3" in asked.value.url
    expect(pane).to_contain_text("OCR read these words from an image of the page, 63 % sure")
    expect(pane.get_by_role("status").filter(has_text="of 3")).to_have_text("Page 3 (iii) of 3")
    expect(pane.locator(".sheet-quote")).to_have_count(1)
    expect(page.locator(".passage-head").first).to_contain_text("read by OCR, 63 %")
    assert axe_violations(page) == []
    assert complaints.lines == []
