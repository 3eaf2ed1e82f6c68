"""Earlier sessions on the web page: kept by the browser without answers, renamed, deleted; many turns stay smooth."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from support.examples import by_day
from web_page import QUESTION, TABLE_QUESTION, UNKNOWN, Complaints, SlowWire, ask, asked

TURNS = 500
LONG_TASKS = """() => {
  window.longTasks = [];
  new PerformanceObserver(list => window.longTasks.push(...list.getEntries().map(each => each.duration)))
    .observe({type: 'longtask'});
}"""


def shelf(page: Page) -> dict[str, str]:
    """Return what the browser keeps."""
    kept: dict[str, str] = page.evaluate("({...localStorage})")
    return {name: value for name, value in kept.items() if ".sessions." in name}


def history(page: Page) -> None:
    page.get_by_role("button", name="Earlier questions").click()
    page.get_by_role("dialog", name="Earlier questions").wait_for()


def test_questions_are_kept_and_answers_are_read_again(web: Page) -> None:
    ask(web, QUESTION)
    ask(web, TABLE_QUESTION)
    answer = web.locator("article.turn .answer-text").first.inner_text()
    assert answer
    assert all(answer[:20] not in value for value in shelf(web).values())
    web.reload()
    expect(web.locator("article.turn")).to_have_count(0)
    history(web)
    web.locator(".history-open", has_text=QUESTION).click()
    expect(web.locator("article.turn")).to_have_count(2)
    expect(web.locator("article.turn .answer-text").first).to_have_text(answer.replace("\n", " "))
    expect(web.locator(".checked-line").first).to_be_visible()
    with web.expect_request("**/v1/ask") as sent:
        ask(web, "And where are they?")
    assert sent.value.post_data_json["history"]


def test_a_session_is_renamed_and_deleted(web: Page) -> None:
    ask(web, QUESTION)
    web.get_by_role("button", name="New session").click()
    expect(web.locator("article.turn")).to_have_count(0)
    ask(web, TABLE_QUESTION)
    history(web)
    expect(web.locator(".history-open")).to_have_count(2)
    web.get_by_role("button", name=f"Rename {QUESTION}").click()
    expect(web.get_by_label("Title")).to_be_focused()
    web.get_by_label("Title").fill("Restarts <b>")
    web.keyboard.press("Enter")
    expect(web.locator(".history-open", has_text="Restarts <b>")).to_be_visible()
    web.get_by_role("button", name="Delete Restarts <b>").click()
    expect(web.locator(".history-open")).to_have_count(1)
    web.get_by_role("button", name="Delete all").click()
    web.get_by_role("button", name="Yes, delete all").click()
    expect(web.get_by_role("dialog")).to_have_count(0)
    assert shelf(web) == {}
    expect(web.locator("article.turn")).to_have_count(0)


def test_an_answer_that_may_no_longer_be_read_is_not_shown(web: Page) -> None:
    ask(web, QUESTION)
    [name] = [name for name in shelf(web) if not name.endswith("acme.")]
    gone = json.dumps([{"question": QUESTION, "receiptId": "0" * 32}])
    web.evaluate("([name, value]) => localStorage.setItem(name, value)", [name, gone])
    web.reload()
    history(web)
    web.locator(".history-open").first.click()
    expect(web.get_by_text("you may no longer read")).to_be_visible()
    web.get_by_role("button", name="Ask again").click()
    expect(web.locator(".checked-line")).to_be_visible()


LIST = '[{"id": 1}, null, {"id": "x", "title": "t", "at": "never"}]'


@pytest.mark.parametrize("junk", by_day([LIST], ["no json", '{"a": 1}', LIST]))
def test_what_others_wrote_into_the_storage_does_no_harm(web: Page, junk: str) -> None:
    web.evaluate("junk => localStorage.setItem('citelock.sessions.acme.', junk)", junk)
    web.reload()
    history(web)
    expect(web.get_by_role("dialog")).to_be_visible()


@pytest.fixture
def forgetful(page: Page, address: str) -> Iterator[Page]:
    """The web page in a browser that keeps nothing."""
    page.set_default_timeout(20_000)
    complaints = Complaints(page)
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    )
    page.goto(address)
    yield page
    assert complaints.lines == []


def test_a_browser_that_keeps_nothing_asks_all_the_same(forgetful: Page) -> None:
    ask(forgetful, QUESTION)
    expect(forgetful.locator(".checked-line")).to_be_visible()
    history(forgetful)
    expect(forgetful.get_by_text("No questions yet.")).to_be_visible()


def test_five_hundred_turns_stay_smooth(web: Page, wire: SlowWire) -> None:
    ask(web, QUESTION)
    [name] = [name for name in shelf(web) if not name.endswith("acme.")]
    [turn] = json.loads(shelf(web)[name])
    web.evaluate("([name, value]) => localStorage.setItem(name, value)", [name, json.dumps([turn] * TURNS)])
    web.reload()
    history(web)
    web.locator(".history-open").first.click()
    expect(web.locator("article.turn")).to_have_count(TURNS)
    expect(web.locator("article.turn .checked-line").last).to_be_visible()
    web.wait_for_timeout(300)
    wire.pause_s = 0.03
    longest: list[float] = []
    for question in (UNKNOWN, TABLE_QUESTION, QUESTION) * 3:  # other processes take the machine's time, too
        web.evaluate(LONG_TASKS)
        expect(asked(web, question).locator(".actions")).to_be_visible()
        longest.append(max(web.evaluate("window.longTasks"), default=0))
        if longest[-1] <= 50:
            return
    raise AssertionError(f"each of {len(longest)} answers held the page for a while: {longest} ms")
