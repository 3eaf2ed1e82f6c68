"""Signing in on the web page: with a token, wrong ones, expiry, out; readers who see different things."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from support.running import running
from support.wiki import configuration
from web_page import QUESTION, TABLE_QUESTION, Complaints, SlowWire, ask, asked

from rag_serving.api.app import create_app

TOKENS = json.dumps(
    {
        "bob-token": {"tenant": "acme", "user": "bob"},
        "ann-token": {"tenant": "acme", "user": "ann", "groups": ["hr"], "roles": ["reader", "operator"]},
    }
)
SALARY = "How much is the salary bonus of the broker team?"


@pytest.fixture(scope="module")
def guarded_wire(asked_home: Path) -> Iterator[SlowWire]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", TOKENS)
        yield SlowWire(create_app(configuration(asked_home, serving={"auth": "tokens", "streams": 8})))


@pytest.fixture(scope="module")
def guarded(guarded_wire: SlowWire) -> Iterator[str]:
    """Where the web page is served to whoever has a token."""
    with running(guarded_wire) as address:
        yield address


@pytest.fixture
def door(page: Page, guarded: str, guarded_wire: SlowWire) -> Iterator[Page]:
    """The page before anybody has signed in; at the end the browser must have complained of nothing."""
    page.set_default_timeout(20_000)
    complaints = Complaints(page)
    page.goto(guarded)
    yield page
    guarded_wire.pause_s = 0
    assert complaints.lines == []


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def leave(page: Page, name: str | re.Pattern[str]) -> None:
    page.get_by_role("button", name="Settings", exact=True).click()
    page.get_by_role("menuitem", name=name).click()


def test_who_has_no_token_is_asked_for_it(door: Page) -> None:
    expect(door.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(door.get_by_label("Access token")).to_be_focused()
    expect(door.get_by_label("Your question")).to_have_count(0)
    sign_in(door, "wrong")
    expect(door.get_by_role("alert")).to_contain_text("This token is not valid.")


def test_a_token_is_kept_nowhere_that_a_script_can_read(door: Page) -> None:
    sign_in(door, "bob-token")
    ask(door, QUESTION)
    kept = door.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert "bob-token" not in kept
    door.reload()
    expect(door.get_by_label("Your question")).to_be_visible()


def test_two_readers_see_different_things(door: Page) -> None:
    sign_in(door, "bob-token")
    turn = ask(door, SALARY)
    expect(turn.locator(".answer")).not_to_contain_text("4,000")
    expect(door.get_by_role("link", name="Status")).to_have_count(0)
    leave(door, re.compile("^Sign out bob"))
    sign_in(door, "ann-token")
    expect(door.get_by_label("Your question")).to_be_visible()
    expect(door.locator("article.turn")).to_have_count(0)
    expect(door.get_by_role("link", name="Status")).to_be_visible()
    expect(ask(door, SALARY).locator(".answer")).to_contain_text("4,000 euros")


def test_a_question_outlives_the_sign_in(door: Page) -> None:
    sign_in(door, "bob-token")
    ask(door, TABLE_QUESTION)
    door.context.clear_cookies()
    door.get_by_label("Your question").fill(QUESTION)
    door.keyboard.press("Enter")
    expect(door.get_by_role("heading", name="Sign in again")).to_be_visible()
    sign_in(door, "bob-token")
    turn = door.locator("article.turn").nth(1)
    expect(turn.get_by_role("heading", name=QUESTION)).to_be_visible()
    expect(turn.locator(".checked-line")).to_be_visible()
    expect(door.locator("article.turn")).to_have_count(2)


def test_another_reader_does_not_get_what_the_last_one_asked(door: Page) -> None:
    sign_in(door, "ann-token")
    ask(door, SALARY)
    door.context.clear_cookies()
    door.get_by_label("Your question").fill("Is the bonus of 4,000 euros taxed?")
    door.keyboard.press("Enter")
    sign_in(door, "bob-token")
    expect(door.get_by_label("Your question")).to_be_visible()
    expect(door.locator("article.turn")).to_have_count(0)
    door.get_by_role("button", name="Earlier questions").click()
    expect(door.get_by_text("No questions yet.")).to_be_visible()


def test_signing_out_forgets_the_questions_unless_they_are_kept(door: Page) -> None:
    for name, left in (("Sign out, keep questions", True), (re.compile("^Sign out bob"), False)):
        sign_in(door, "bob-token")
        ask(door, QUESTION)
        leave(door, name)
        expect(door.get_by_label("Access token")).to_be_visible()
        assert bool(door.evaluate("Object.keys(localStorage).some(name => name.includes('.sessions.'))")) is left


def test_nothing_of_an_answer_is_left_behind_a_sign_out(door: Page) -> None:
    sign_in(door, "ann-token")
    turn = ask(door, SALARY)
    turn.locator(".cite").first.click()
    expect(door.locator(".viewer-pane :focus")).to_have_count(1)
    leave(door, re.compile("^Sign out ann"))
    expect(door.get_by_label("Access token")).to_be_visible()
    assert "4,000" not in door.content()


def test_a_caller_with_too_many_streams_is_told_to_wait(door: Page, guarded_wire: SlowWire) -> None:
    sign_in(door, "bob-token")
    guarded_wire.pause_s = 0.3
    asked(door, QUESTION)
    other = door.context.new_page()
    other.goto(door.url)
    turn = asked(other, TABLE_QUESTION)
    expect(turn.get_by_role("alert")).to_contain_text("Too many questions")
    guarded_wire.pause_s = 0
    door.get_by_role("button", name="Stop").click()
    turn.get_by_role("button", name=re.compile("Try again")).click(timeout=15_000)
    expect(turn.locator(".checked-line")).to_be_visible()
    other.close()


def test_a_question_outlives_a_sign_in_at_a_provider_for_its_reader_alone(door: Page) -> None:
    def with_provider(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "oidc": {"label": "Sign in with Acme"}})

    def provider(token: str) -> Callable[[Route], None]:
        def sign_in_there(route: Route) -> None:
            own = {"Sec-Fetch-Site": "same-origin", "Origin": door.url.rstrip("/")}
            door.context.request.post(f"{door.url}v1/session", data={"token": token}, headers=own)
            route.fulfill(status=302, headers={"Location": "/"})

        return sign_in_there

    sign_in(door, "bob-token")
    expect(door.get_by_label("Your question")).to_be_visible()  # else the cookie may come after the others are cleared
    door.route("**/v1/session", with_provider)
    for token, count in (("ann-token", 0), ("bob-token", 1)):
        door.context.clear_cookies()
        door.unroute("**/v1/session/oidc?**")
        door.route("**/v1/session/oidc?**", provider("bob-token"))
        door.goto(door.url)
        door.get_by_role("link", name="Sign in with Acme").click()
        ask(door, TABLE_QUESTION)
        door.context.clear_cookies()
        asked(door, QUESTION)
        door.unroute("**/v1/session/oidc?**")
        door.route("**/v1/session/oidc?**", provider(token))
        door.get_by_role("link", name="Sign in with Acme").click()
        expect(door.get_by_label("Your question")).to_be_visible()
        expect(door.locator("article.turn")).to_have_count(count)
        assert door.evaluate("Object.keys(sessionStorage)") == []
