"""A text of another site: its button, the way to the page, and what the page takes of a site that means harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from other_site import TEXT, docs_site, hostile_site
from playwright.sync_api import Page, expect
from support.running import running
from web_page import Complaints, axe_violations

pytestmark = pytest.mark.browser

SELECT = "getSelection().selectAllChildren(document.getElementById('text'))"
SHOWN = "document.querySelector('citelock-ask')?.hidden === false"


@pytest.fixture(scope="module")
def docs(address: str) -> Iterator[str]:
    """The documentation site. It is another origin than the page: another name of this machine."""
    with running(docs_site(address, title="Cranes & hooks")) as site:
        yield site.replace("127.0.0.1", "localhost")


@pytest.fixture(scope="module")
def hostile(address: str) -> Iterator[str]:
    with running(hostile_site(address)) as site:
        yield site.replace("127.0.0.1", "localhost")


def handed_over(page: Page, docs: str) -> Page:
    """Select the text of the other site and go to the page with it, by keyboard."""
    page.goto(docs)
    page.evaluate(SELECT)
    page.wait_for_function(SHOWN)
    page.keyboard.press("Tab")
    with page.context.expect_page() as opened:
        page.keyboard.press("Enter")
    return opened.value


def test_a_text_is_handed_over_and_asked_about(page: Page, address: str, docs: str) -> None:
    requests: list[str] = []
    page.context.on("request", lambda request: requests.append(request.url))
    there = handed_over(page, docs)
    complaints = Complaints(there)
    there.wait_for_url(f"{address}/")
    chip = there.locator(".chosen .chip")
    expect(chip).to_contain_text("Cranes & hooks")
    expect(chip).to_contain_text(docs.removeprefix("http://"))
    assert there.evaluate("window.opener") is None
    assert not any("/v1/ask" in url for url in requests), "nothing is asked by itself"
    assert not any("tonnes" in url for url in requests), "the text is never part of an address"
    there.get_by_label("Your question").fill("How much does the crane lift?")
    there.keyboard.press("Enter")
    there.locator(".cite").first.click()
    pane = there.get_by_label("Source", exact=True)
    marked = pane.locator("mark.quote")
    expect(marked).to_be_visible()
    assert marked.inner_text() in TEXT
    expect(pane).to_contain_text("Above that it stops by itself.")
    assert axe_violations(there) == []
    assert complaints.lines == []


def test_a_text_is_taken_once(page: Page, address: str, docs: str) -> None:
    there = handed_over(page, docs)
    there.wait_for_url(f"{address}/")
    expect(there.locator(".chosen .chip")).to_be_visible()
    there.reload()
    there.get_by_label("Your question").wait_for()
    expect(there.locator(".chosen")).to_have_count(0)


def test_junk_is_taken_from_nobody(page: Page, hostile: str) -> None:
    page.goto(hostile)
    with page.context.expect_page() as opened:
        page.click("button")
    there = opened.value
    hurt: list[str] = []
    there.on("dialog", lambda dialog: hurt.append(dialog.message))
    page.wait_for_function("window.sent === true")
    there.get_by_label("Your question").wait_for()
    expect(there.locator(".chosen")).to_have_count(0)
    assert there.evaluate("sessionStorage.getItem('citelock.handover')") is None
    assert hurt == []


def test_a_page_that_nobody_opened_goes_on_by_itself(page: Page, address: str) -> None:
    page.goto(f"{address}/ask")
    page.wait_for_url(f"{address}/")


def test_only_the_address_of_the_handover_can_be_written_to(page: Page, address: str, docs: str) -> None:
    page.goto(docs)
    with page.context.expect_page() as opened:
        page.evaluate("address => { window.there = open(address) }", f"{address}/")
    opened.value.wait_for_load_state()
    assert page.evaluate("window.there.closed"), "a policy keeps the two apart"


def test_the_button_keeps_to_the_text_and_goes_when_it_is_told_to(page: Page, docs: str) -> None:
    page.goto(docs)
    page.evaluate(SELECT)
    page.wait_for_function(SHOWN)
    button, text = page.locator("citelock-ask").bounding_box(), page.locator("#text").bounding_box()
    assert button
    assert text
    assert 0 <= button["y"] - (text["y"] + text["height"]) < 20
    page.keyboard.press("Escape")
    page.wait_for_function("document.querySelector('citelock-ask').hidden")
    page.locator("#field").select_text()
    page.wait_for_timeout(50)
    assert page.evaluate("document.querySelector('citelock-ask').hidden"), "not while somebody types"
    page.evaluate("document.dispatchEvent(new Event('citelock:remove'))")
    page.evaluate(SELECT)
    expect(page.locator("citelock-ask")).to_have_count(0)


def test_the_button_stands_where_lines_end_from_right_to_left(page: Page, address: str) -> None:
    with running(docs_site(address, direction="rtl")) as site:
        page.goto(site.replace("127.0.0.1", "localhost"))
        page.evaluate(SELECT)
        page.wait_for_function(SHOWN)
        assert page.evaluate("document.querySelector('citelock-ask').dir") == "rtl"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_snippet_is_small_and_needs_nothing(page: Page, address: str) -> None:
    response = page.request.get(f"{address}/embed.js")
    assert response.headers["access-control-allow-origin"] == "*"
    assert len(response.body()) <= 3 * 1024
    assert not response.text().lstrip().startswith(("import", "export"))
