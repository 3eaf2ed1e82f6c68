"""PDF files in the source viewer: pictures of pages, the quote's rectangles, the words over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from sourced import FILE, MANUAL, PDF_LINE, cited, is_in_view, marked, opened, plain
from support.running import running
from support.wiki import PASSAGES, configuration, publish_paged
from web_page import Complaints, axe_violations

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

IN_PDF = "How fast does the capstan of the northern quay turn?"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("files")
    publish_paged(home, (*PASSAGES, *FILE), {"att1": MANUAL})
    with running(create_app(configuration(home))) as address:
        yield address


@pytest.fixture
def web(page: Page, address: str) -> Iterator[Page]:
    complaints = Complaints(page)
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    yield page
    assert complaints.lines == []


def test_the_rectangle_covers_the_words_of_the_quote(web: Page, picture_in: Callable[..., None]) -> None:
    citation = cited(web, IN_PDF)
    assert (citation["page_id"], citation["page"]) == ("att1", 2)
    with web.expect_response("**/layer?*") as asked:
        pane = opened(web, IN_PDF)
    layer = asked.value.json()
    expect(pane.get_by_role("status").filter(has_text="of 3")).to_have_text("Page 2 of 3")
    image = pane.get_by_role("img", name=PDF_LINE)
    expect(image).to_be_visible()
    quote = pane.locator(".sheet-quote").first
    expect(quote).to_be_attached()
    shown, sheet = quote.bounding_box(), image.bounding_box()
    assert shown
    assert sheet
    scale = sheet["width"] / layer["width"]
    quoted = [word for word in layer["words"] if word[4].strip(".") in citation["quote"]]
    for x0, y0, x1, y1, _ in quoted:
        assert shown["x"] - 2 <= sheet["x"] + x0 * scale
        assert sheet["x"] + x1 * scale <= shown["x"] + shown["width"] + 2
        assert shown["y"] - 4 <= sheet["y"] + y0 * scale
        assert sheet["y"] + y1 * scale <= shown["y"] + shown["height"] + 4
    assert is_in_view(quote)
    picture_in(web, "source-pdf")
    assert axe_violations(web) == []


def test_pages_of_a_file_are_turned_and_made_larger_by_keyboard(page: Page, address: str) -> None:
    complaints = Complaints(page)
    page.goto(f"{address}/p/att1#page=3")
    sheet = page.get_by_role("region", name="Page 3")
    expect(sheet.get_by_role("img", name="The southern quay has no capstan.")).to_be_visible()
    sheet.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("img", name=PDF_LINE)).to_be_visible()
    width = page.locator(".sheet").bounding_box()
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="125 %")).to_be_enabled()
    wider = page.locator(".sheet").bounding_box()
    assert width
    assert wider
    assert wider["width"] > width["width"]
    page.locator(".sheet-layer").evaluate("layer => getSelection().selectAllChildren(layer)")
    assert "northern quay turns" in page.evaluate("getSelection().toString()")
    expect(page.get_by_role("button", name="Ask about this text")).to_be_visible()
    page.get_by_role("button", name="As text").click()
    expect(page.locator(".viewer-text")).to_contain_text(PDF_LINE)
    assert complaints.lines == []


def test_a_file_without_pictures_is_shown_as_text(web: Page) -> None:
    web.route("**/layer?*", lambda route: route.fulfill(status=501, json={"code": "NOT_INSTALLED", "message": ""}))
    citation = cited(web, IN_PDF)
    pane = opened(web, IN_PDF)
    expect(pane).to_contain_text("The pages of this file can't be shown as images here.")
    assert marked(pane) == plain(citation["quote"])
