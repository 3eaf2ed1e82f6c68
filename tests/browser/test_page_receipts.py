"""Why an answer rests on its sources, its receipt checked in front of the reader, and its link for others."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from support.running import running
from support.wiki import configuration, publish
from web_page import QUESTION, Complaints, ask, axe_violations

from rag_serving.api.app import create_app

pytestmark = pytest.mark.browser

SALARY = "How much is the salary bonus of the broker team?"
TOKENS = {
    "ann": {"tenant": "acme", "user": "ann", "groups": ["hr"]},
    "hal": {"tenant": "acme", "user": "hal", "groups": ["hr"]},
    "bob": {"tenant": "acme", "user": "bob"},
    "olga": {"tenant": "acme", "user": "olga", "roles": ["operator"]},
    "eva": {"tenant": "acme", "user": "eva", "roles": ["reader", "editor"]},
}
PageOf = Callable[..., Page]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("receipts")
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
        with running(
            create_app(configuration(home, serving={"auth": "tokens"}, monitoring={"notice_folder": "mail"}))
        ) as address:
            yield address


@pytest.fixture
def page_of(browser: Browser, address: str) -> Iterator[PageOf]:
    """Gives a page of the server at which somebody is signed in; nobody's browser complains of anything."""
    contexts, complaints = [], []

    def page_of(token: str, path: str = "/", **more: Any) -> Page:
        context = browser.new_context(viewport={"width": 1440, "height": 860}, **more)
        contexts.append(context)
        page = context.new_page()
        complaints.append(Complaints(page))
        signed_in = page.request.post(f"{address}/v1/session", data={"token": token}, headers={"Origin": address})
        assert signed_in.ok, signed_in.text()
        page.goto(f"{address}{path}")
        return page

    yield page_of
    assert [line for each in complaints for line in each.lines] == []
    for context in contexts:
        context.close()


def link_of(page: Page, turn: Locator) -> str:
    """Share an answer and return the path of its link."""
    with page.expect_response("**/share") as shared:
        turn.get_by_role("button", name="Share").click()
    return str(shared.value.json()["path"])


def test_why_shows_what_was_read_and_what_was_left_out(page_of: PageOf) -> None:
    page = page_of("bob")
    turn = ask(page, QUESTION)
    turn.get_by_role("button", name="Why these sources?").click()
    why = turn.get_by_role("region", name="Why these sources")
    expect(why).to_contain_text("Cited as [1]")
    first = why.locator(".why-passage").first
    expect(first).to_contain_text("its heading contains")
    table = first.get_by_role("table")
    assert table.get_by_role("rowheader").all_inner_texts()[-1] == "Combined"
    values = [int(value) for value in table.locator(".why-value").all_inner_texts()]
    assert all(0 <= value <= 100 for value in values)
    assert values[-1] == 100
    assert axe_violations(page) == []
    first.get_by_role("button", name="Restarting a broker").click()
    expect(page.get_by_role("complementary", name="Source").locator(".viewer-passage-target")).to_be_visible()
    assert "Compensation" not in why.inner_text()


def test_a_receipt_is_checked_in_front_of_the_reader(page_of: PageOf) -> None:
    page = page_of("bob")
    turn = ask(page, QUESTION)
    turn.get_by_role("button", name="Check again").click()
    proof = turn.get_by_role("region", name="Verification")
    expect(proof).to_contain_text("All checks passed")
    expect(proof).to_contain_text("Every quote of [1] is in its passage")
    assert proof.locator(".verify-check-failed").count() == 0
    assert axe_violations(page) == []


def test_a_receipt_that_was_tampered_with_is_not_believed(page_of: PageOf, home: Path, address: str) -> None:
    page = page_of("bob")
    turn = ask(page, QUESTION)
    path = link_of(page, turn)
    with sqlite3.connect(next(home.rglob("serving.db"))) as connection:
        wanted = {"id": path.removeprefix("/a/")}
        (content,) = connection.execute("SELECT content FROM receipts WHERE id = :id", wanted).fetchone()
        altered = content.replace("must not restart", "must now restart")
        assert altered != content
        connection.execute("UPDATE receipts SET content = :content WHERE id = :id", {**wanted, "content": altered})
    turn.get_by_role("button", name="Check again").click()
    expect(turn.get_by_role("alert")).to_contain_text("There is no valid receipt for this answer")
    page.goto(f"{address}{path}")
    expect(page.get_by_role("alert")).to_contain_text("This answer cannot be shown.")


def test_what_does_not_hold_and_what_has_changed_are_told_apart(page_of: PageOf) -> None:
    def faulty(route: Route) -> None:
        proof = route.fetch().json()
        checks = [{**each, "ok": each["name"] not in ("quote", "page")} for each in proof["checks"]]
        route.fulfill(json={**proof, "checks": checks, "valid": False, "faults": ["citation [1]: it is not so"]})

    page = page_of("bob")
    page.route("**/verify", faulty)
    turn = ask(page, QUESTION)
    turn.get_by_role("button", name="Check again").click()
    proof = turn.get_by_role("region", name="Verification")
    expect(proof).to_contain_text("Do not rely on this answer")
    expect(proof).to_contain_text("citation [1]: it is not so")
    expect(proof.locator(".verify-check-failed")).to_contain_text("Failed: Every quote of [1]")
    expect(proof.locator(".verify-check-changed").first).to_contain_text("No longer true: The pages of passages")
    assert axe_violations(page) == []


def test_a_shared_answer_opens_for_those_who_may_read_its_pages(page_of: PageOf) -> None:
    page = page_of("ann")
    path = link_of(page, ask(page, SALARY))
    other = page_of("hal", path)
    expect(other.get_by_role("heading", level=1)).to_contain_text(SALARY)
    expect(other.get_by_text("4,000 euros").first).to_be_visible()
    expect(other.get_by_text("Asked on")).to_be_visible()
    assert axe_violations(other) == []
    stranger = page_of("bob", path)
    absent = page_of("bob", "/a/0123456789abcdef0123456789abcdef")
    expect(stranger.get_by_role("alert")).to_contain_text("This answer cannot be shown.")
    expect(absent.get_by_role("alert")).to_have_text(str(stranger.get_by_role("alert").text_content()))
    assert "euros" not in stranger.content()
    assert axe_violations(stranger) == []


def test_who_asked_is_told_when_the_answer_changes_or_not(page_of: PageOf) -> None:
    turn = ask(page_of("bob"), QUESTION)
    button = turn.get_by_role("button", name="Tell me when this changes")
    button.click()
    expect(turn.get_by_text("You will be told when the pages say something else.")).to_be_visible()
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(turn.get_by_text("You will not be told of changes any more.")).to_be_visible()


def test_an_answer_that_was_not_shared_opens_for_nobody_else(page_of: PageOf, address: str) -> None:
    page = page_of("ann")
    asked = page.request.post(
        f"{address}/v1/ask", data={"question": SALARY}, headers={"Authorization": "Bearer ann"}
    ).json()
    identifier = asked["receipt_id"]
    own, other = page_of("ann", f"/a/{identifier}"), page_of("hal", f"/a/{identifier}")
    expect(own.get_by_role("heading", level=1)).to_contain_text(SALARY)
    expect(other.get_by_role("alert")).to_contain_text("This answer cannot be shown.")


def test_two_readers_see_different_things(page_of: PageOf) -> None:
    ann, bob = page_of("ann", "/p/14"), page_of("bob", "/p/14")
    expect(ann.get_by_role("heading", level=1, name="Compensation")).to_be_visible()
    expect(bob.get_by_role("alert")).to_contain_text("There is no such page, or you may not read it")
    assert "Compensation" not in bob.content()
    bob.goto(bob.url.replace("/p/14", "/"))
    turn = ask(bob, SALARY)
    expect(turn).not_to_contain_text("4,000")


def test_the_next_reader_sees_nothing_of_the_one_before(page_of: PageOf) -> None:
    page = page_of("ann")
    turn = ask(page, SALARY)
    turn.locator(".cite").first.click()
    expect(page.get_by_role("complementary", name="Source")).to_contain_text("Compensation")
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("menuitem", name="Sign out ann").click()
    field = page.get_by_label("Access token")
    field.fill("bob")
    assert "Compensation" not in page.content()
    page.keyboard.press("Enter")
    page.get_by_label("Your question").wait_for()
    page.evaluate("history.pushState(null, '', '/p/14'); dispatchEvent(new PopStateEvent('popstate'))")
    expect(page.get_by_role("alert")).to_contain_text("There is no such page, or you may not read it")
    assert "Compensation" not in page.content()


def test_what_is_for_editors_and_operators_is_not_shown_to_readers(page_of: PageOf) -> None:
    bob = page_of("bob", "/status")
    expect(bob.get_by_text("Only operators can see the status.")).to_be_visible()
    expect(bob.get_by_role("link", name="Status")).to_have_count(0)
    bob.goto(bob.url.replace("/status", "/documents"))
    expect(bob.get_by_text("Only editors can manage documents.")).to_be_visible()
    expect(bob.get_by_role("button", name="Choose files")).to_have_count(0)
    assert axe_violations(bob) == []
