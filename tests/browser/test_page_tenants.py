"""Several tenants on one page: one is chosen, the address names it, and one that is not there is an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.running import running
from support.wiki import SETTINGS, Passage, configuration, copied, publish
from web_page import Complaints, ask

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser
TENANTS = {"acme": {}, "harbour": {}}
KEEL = "The under-keel clearance is the distance between the keel of a ship and the ground below it."
WIDE = "\n".join(
    [
        "|" + "".join(f" allowance number {column} |" for column in range(14)),
        "|" + "---|" * 14,
        "|" + "".join(f" {column}00 euros for a tugboat |" for column in range(14)),
    ]
)


@pytest.fixture(scope="module")
def home(asked_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = copied(asked_home, tmp_path_factory.mktemp("tenants"))
    config = configuration(home, tenants=TENANTS)
    passages = (
        Passage("1", "Under-keel clearance", KEEL, title="Ships"),
        Passage("2", "Tugboats", WIDE, title="Allowances", content_type="table"),
    )
    publish(home, passages, config, tenant="harbour")
    return home


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    inbox = {"uploads": {"kind": "files", "tenant": "harbour", "readers": "everyone"}}
    with running(create_app(configuration(home, tenants=TENANTS, sources=inbox))) as address:
        yield address


def opened(page: Page, address: str) -> Page:
    page.goto(address)
    page.get_by_label("Your question").wait_for()
    return page


def test_one_is_chosen_and_the_address_keeps_it(page: Page, url: str) -> None:
    complaints = Complaints(page)
    chooser = opened(page, url).get_by_role("combobox", name="Tenant")
    expect(chooser).to_have_value("acme")
    expect(page).to_have_url(f"{url}/?tenant=acme")
    expect(page.get_by_role("link", name="Documents")).to_have_count(0)
    chooser.select_option("harbour")
    expect(page).to_have_url(f"{url}/?tenant=harbour")
    expect(ask(page, "What is the under-keel clearance?").locator(".answer-text")).to_contain_text("keel of a ship")
    page.get_by_role("link", name="Documents").click()  # only this tenant has an inbox
    expect(page).to_have_url(f"{url}/documents?tenant=harbour")
    expect(page.get_by_text("Drop files here")).to_be_visible()
    page.reload()
    expect(page.get_by_role("combobox", name="Tenant")).to_have_value("harbour")
    page.goto(f"{url}/?tenant=acme")
    answer = ask(page, "What is the under-keel clearance?")
    expect(answer).not_to_contain_text("keel of a ship")
    assert complaints.lines == []


def test_back_and_forth_change_the_tenant_with_the_address(page: Page, url: str) -> None:
    opened(page, f"{url}/?tenant=acme")
    page.goto(f"{url}/?tenant=harbour")
    page.get_by_label("Your question").wait_for()
    page.evaluate("history.pushState(null, '', '/status?tenant=acme'); history.back()")
    expect(page.get_by_role("combobox", name="Tenant")).to_have_value("harbour")
    page.go_forward()
    expect(page.get_by_role("combobox", name="Tenant")).to_have_value("acme")


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>",
        "a&tenant=acme",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("nobody", "ACME", "", "x" * 2000)),
    ],
)
def test_one_that_is_not_there_is_an_error_and_nobody_else_is_asked(page: Page, url: str, name: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{url}/?tenant={name.replace('&', '%26')}")
    expect(page.get_by_role("heading", name="Unknown tenant")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(f"“{name}”")
    expect(page.get_by_label("Your question")).to_have_count(0)
    assert not [each for each in asked if "tenant=acme" in each and "/v1/" in each]
    page.get_by_role("button", name="Ask harbour").click()
    expect(page.get_by_label("Your question")).to_be_visible()
    expect(page).to_have_url(f"{url}/?tenant=harbour")


def test_where_there_is_one_it_is_asked_and_another_is_an_error(page: Page, address: str) -> None:
    opened(page, address)
    expect(page.get_by_role("combobox", name="Tenant")).to_have_count(0)
    opened(page, f"{address}/?tenant=acme")
    page.goto(f"{address}/?tenant=harbour")
    expect(page.get_by_role("heading", name="Unknown tenant")).to_be_visible()


def test_a_wide_table_on_a_phone_scrolls_and_says_so(browser: Browser, url: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = opened(context.new_page(), f"{url}/?tenant=harbour")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ask(page, "What is allowance number 3 of a tugboat?").locator(".cite").first.click()
    source = page.get_by_role("dialog", name="Source")
    table = source.locator(".wide").first
    expect(source.get_by_text("Scroll to see all columns").first).to_be_visible()
    expect(table).to_have_attribute("data-more", "true")
    table.evaluate("box => box.scrollTo({left: box.scrollWidth})")
    expect(table).to_have_attribute("data-more", "false")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_the_card_over_a_row_has_no_bars(page: Page, url: str) -> None:
    turn = ask(opened(page, f"{url}/?tenant=acme"), "What is the default of max.poll.records?")
    turn.locator(".cite").first.hover()
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text("session.timeout.ms · 45000")
    assert "|" in SETTINGS
    assert "|" not in card.inner_text()
    assert "---" not in card.inner_text()


def test_what_was_verified_stands_above_the_page_and_covers_nothing(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 420})
    turn = ask(opened(page, f"{url}/?tenant=acme"), "May I restart a broker while partitions are under-replicated?")
    turn.locator(".cite").first.click()
    pane = page.get_by_role("complementary", name="Source")
    bar, text = pane.locator(".viewer-verified").bounding_box(), pane.locator(".viewer-scroll").bounding_box()
    assert bar is not None
    assert text is not None
    assert bar["y"] + bar["height"] <= text["y"] + 1


def test_a_german_page_has_no_sentence_of_the_server_s_in_english(browser: Browser, url: str) -> None:
    context = browser.new_context(locale="de-DE")
    page = context.new_page()
    page.goto(f"{url}/?tenant=acme")
    page.get_by_label("Ihre Frage").wait_for()

    def shown(question: str) -> str:
        page.get_by_label("Ihre Frage").fill(question)
        page.keyboard.press("Enter")
        turn = page.locator("article.turn").last
        expect(turn.locator(".answer")).to_be_visible()
        return turn.locator(".answer").inner_text()

    assert "Hallo. Stellen Sie eine Frage zu den Seiten." in shown("hello")
    assert "„brokr“ wurde als „broker“ gelesen" in shown("May I restart a brokr while partitions are under-replicated?")
    assert "Nur Seiten des Bereichs OPS" in shown(
        "May I restart a broker while partitions are under-replicated? space:OPS"
    )
    closest = shown("restart partitions offline replicas coffee lag")
    nothing = shown("Who won the chess championship of 1972?")
    for text in (closest, nothing):
        assert not [line for line in ("The pages", "They come", "The page that") if line in text], text
    context.close()
