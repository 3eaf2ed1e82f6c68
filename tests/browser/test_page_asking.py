"""Asking on the web page: keys, steps, streams, follow-ups, and what happens where the server cannot answer."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, Route, expect
from web_page import QUESTION, STEPS, TABLE_QUESTION, UNKNOWN, SlowWire, ask, asked

# From Enter to the first step on the screen, by the browser's own clock.
FIRST_STEP = """() => new Promise(done => {
  const field = document.getElementById('question');
  field.addEventListener('keydown', () => {
    const from = performance.now();
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.progress')) return;
      observer.disconnect();
      requestAnimationFrame(() => done(performance.now() - from));
    }).observe(document.body, {childList: true, subtree: true});
  }, {once: true, capture: true});
  field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
})"""


# The steps that were on the screen, and whether sentences were there while the answer was not.
SEEN = """() => {
  window.seen = new Set();
  new MutationObserver(() => {
    const step = document.querySelector('[aria-current=step]');
    if (step) window.seen.add(step.textContent + (document.querySelector('.answer') ? ', with sentences' : ''));
  }).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true});
}"""


def failing(status: int) -> Callable[[Route], None]:
    """Return a handler that answers with a status."""
    body = '{"error": true, "code": "X", "message": "<b>why</b>"}'
    return lambda route: route.fulfill(status=status, body=body, content_type="application/json")


def test_a_question_is_answered_with_quotes_that_were_checked(web: Page) -> None:
    turn = ask(web, QUESTION)
    expect(turn.get_by_role("heading", name=QUESTION)).to_be_visible()
    expect(turn.get_by_text(re.compile(r"\d of \d quotes? checked word for word"))).to_be_visible()
    expect(turn.get_by_role("button", name=re.compile("^Source 1: "))).to_be_visible()
    expect(turn.locator(".cited-open")).to_have_text(re.compile("Kafka operations → Restarting a broker"))
    expect(turn.get_by_text("word for word", exact=True).first).to_be_visible()


def test_the_first_step_is_seen_within_50_ms_of_enter(web: Page, wire: SlowWire) -> None:
    ask(web, TABLE_QUESTION)
    took = []
    for _ in range(3):  # a busy machine may be slow once
        wire.pause_s = 0.1
        web.get_by_label("Your question").fill(QUESTION)
        took.append(web.evaluate(FIRST_STEP))
        expect(web.get_by_role("listitem").filter(has_text="Reading the question")).to_be_visible()
        wire.pause_s = 0
        expect(web.locator(".progress")).to_have_count(0)
    assert min(took) < 50


def test_steps_go_on_and_sentences_come_before_the_whole_answer(web: Page, wire: SlowWire) -> None:
    wire.pause_s = 0.05
    web.evaluate(SEEN)
    turn = asked(web, QUESTION)
    expect(turn.locator(".actions")).to_be_visible()
    expect(turn.locator(".progress")).to_have_count(0)
    expect(web.locator("[role=status]").last).to_have_text(re.compile("Answered"))
    seen = web.evaluate("[...window.seen]")
    assert {"Searching pages", "Checking quotes", "Checking quotes, with sentences"} <= set(seen)


def test_an_answer_is_stopped_and_asked_for_again(web: Page, wire: SlowWire) -> None:
    wire.pause_s = 0.3
    turn = asked(web, QUESTION)
    web.get_by_role("button", name="Stop").click()
    expect(turn.get_by_text("Stopped.")).to_be_visible()
    wire.pause_s = 0
    turn.get_by_role("button", name="Try again").click()
    expect(turn.locator(".checked-line")).to_be_visible()


def test_escape_stops_an_answer(web: Page, wire: SlowWire) -> None:
    wire.pause_s = 0.3
    turn = asked(web, QUESTION)
    web.keyboard.press("Escape")
    expect(turn.get_by_text("Stopped.")).to_be_visible()


def test_a_follow_up_is_sent_with_what_was_said_before(web: Page) -> None:
    for question in (QUESTION, TABLE_QUESTION, UNKNOWN, QUESTION):
        ask(web, question)
    with web.expect_request("**/v1/ask") as sent:
        ask(web, "And where are they?")
    history = sent.value.post_data_json["history"]
    assert [turn["role"] for turn in history] == ["user", "assistant"] * 3
    assert [turn["content"] for turn in history[::2]] == [TABLE_QUESTION, UNKNOWN, QUESTION]


def test_how_a_follow_up_was_read_is_said(web: Page) -> None:
    ask(web, QUESTION)
    turn = ask(web, "why?")
    expect(turn.locator(".understood q")).to_contain_text("under-replicated")


def test_how_a_misspelt_word_was_read_is_said(web: Page) -> None:
    turn = ask(web, "How long does each brokerr keep its logs by default?")
    expect(turn.locator(".understood")).to_contain_text("brokerr")


def test_keys_begin_a_line_and_bring_earlier_questions_back(web: Page) -> None:
    field = web.get_by_label("Your question")
    field.fill("first")
    web.keyboard.press("Shift+Enter")
    web.keyboard.type("second")
    assert field.input_value() == "first\nsecond"
    field.fill("")
    ask(web, TABLE_QUESTION)
    ask(web, QUESTION)
    web.keyboard.press("ArrowUp")
    assert field.input_value() == QUESTION
    web.keyboard.press("ArrowUp")
    assert field.input_value() == TABLE_QUESTION
    web.keyboard.press("ArrowDown")
    web.keyboard.press("ArrowDown")
    assert field.input_value() == ""


def test_a_question_is_asked_and_read_with_keys_alone(web: Page) -> None:
    web.locator("body").click(position={"x": 5, "y": 300})
    web.keyboard.press("/")
    expect(web.get_by_label("Your question")).to_be_focused()
    web.keyboard.type(TABLE_QUESTION)
    web.keyboard.press("Enter")
    number = web.get_by_role("button", name=re.compile("^Source 1: ")).first
    number.wait_for()
    for _ in range(30):
        if number.evaluate("each => each === document.activeElement"):
            break
        web.keyboard.press("Shift+Tab")
    expect(number).to_be_focused()
    expect(web.get_by_role("tooltip")).to_be_visible()
    web.keyboard.press("Escape")
    expect(web.get_by_role("tooltip")).to_have_count(0)
    web.keyboard.press("Enter")
    expect(web.get_by_role("complementary", name="Source")).to_be_visible()
    web.keyboard.press("Escape")
    expect(web.get_by_role("complementary", name="Source")).to_have_count(0)
    expect(number).to_be_focused()


def test_arrows_go_from_number_to_number(web: Page) -> None:
    turn = ask(web, "Consumer lag and log retention?")
    numbers = turn.locator(".cite")
    if numbers.count() < 2:
        turn = ask(web, "How do brokers keep logs, and when does a lag alert fire?")
        numbers = turn.locator(".cite")
    assert numbers.count() >= 2
    numbers.first.focus()
    web.keyboard.press("ArrowRight")
    expect(numbers.nth(1)).to_be_focused()
    web.keyboard.press("ArrowLeft")
    web.keyboard.press("ArrowLeft")
    expect(numbers.last).to_be_focused()


def test_the_list_of_keys_opens_and_closes(web: Page) -> None:
    web.get_by_role("button", name="Settings", exact=True).focus()
    web.keyboard.press("?")
    expect(web.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    web.keyboard.press("Escape")
    expect(web.get_by_role("dialog", name="Keyboard shortcuts")).to_have_count(0)
    expect(web.get_by_role("button", name="Settings", exact=True)).to_be_focused()


def test_a_question_mark_in_the_question_is_a_question_mark(web: Page) -> None:
    web.get_by_label("Your question").press_sequentially("why? /no")
    assert web.get_by_label("Your question").input_value() == "why? /no"


def test_nothing_is_lost_where_the_browser_is_offline(web: Page) -> None:
    web.context.set_offline(True)
    turn = asked(web, QUESTION)
    expect(turn.get_by_role("alert")).to_contain_text("can't be reached")
    web.context.set_offline(False)
    turn.get_by_role("button", name="Try again").click()
    expect(turn.locator(".checked-line")).to_be_visible()


def test_a_busy_server_says_when_to_come_back(web: Page) -> None:
    def busy(route: Route) -> None:
        body = '{"error": true, "code": "RATE_LIMIT", "message": "slower", "retry_after": 2}'
        route.fulfill(status=429, body=body, content_type="application/json")

    web.route("**/v1/ask", busy, times=1)
    turn = asked(web, QUESTION)
    expect(turn.get_by_role("alert")).to_contain_text("Too many questions")
    again = turn.get_by_role("button", name=re.compile("Try again"))
    expect(again).to_be_disabled()
    expect(again).to_be_enabled()
    again.click()
    expect(turn.locator(".checked-line")).to_be_visible()


def test_each_failure_has_its_words(web: Page) -> None:
    words = {403: "may not ask", 413: "too long", 503: "at the moment", 504: "took too long", 500: "went wrong"}
    for status, said in words.items():
        web.route("**/v1/ask", failing(status), times=1)
        turn = asked(web, QUESTION)
        expect(turn.get_by_role("alert")).to_contain_text(said)


def test_a_stream_that_breaks_off_is_a_failure(web: Page) -> None:
    events = 'event: progress\ndata: {"stage": "search", "detail": ""}\n\n'
    web.route("**/v1/ask", lambda route: route.fulfill(body=events, content_type="text/event-stream"), times=1)
    expect(asked(web, QUESTION).get_by_role("alert")).to_be_visible()
    broken = 'event: error\ndata: {"error": true, "code": "TIMEOUT", "message": "late"}\n\n'
    web.route("**/v1/ask", lambda route: route.fulfill(body=broken, content_type="text/event-stream"), times=1)
    expect(asked(web, QUESTION).get_by_role("alert")).to_contain_text("took too long")


def test_an_answer_of_steps_is_a_numbered_list(web: Page) -> None:
    turn = ask(web, "How do I open the turbine?")
    expect(turn.locator(".answer-text ol > li")).to_have_count(STEPS.count("\n") + 1)


def test_an_answer_of_a_table_is_a_table(web: Page) -> None:
    turn = ask(web, TABLE_QUESTION)
    expect(turn.get_by_role("columnheader", name="Setting")).to_be_visible()
    expect(turn.get_by_role("cell", name="max.poll.records")).to_be_visible()


def test_questions_are_narrowed_by_chips_that_can_be_taken_away(web: Page) -> None:
    web.get_by_role("button", name="Choose where to search").click()
    web.get_by_role("checkbox", name="SRE").check()
    web.keyboard.press("Escape")
    expect(web.locator(".composer .chip")).to_have_text("SRE")
    with web.expect_request("**/v1/ask") as sent:
        turn = ask(web, QUESTION)
    assert sent.value.post_data_json["filters"] == {"space": ["SRE"]}
    expect(turn.locator(".answer")).not_to_contain_text("under-replicated")
    expect(turn.locator(".narrowed")).to_contain_text("SRE")
    web.get_by_role("button", name="Remove SRE").click()
    expect(web.locator(".composer .chip")).to_have_count(0)
    expect(ask(web, QUESTION).locator(".answer")).to_contain_text("under-replicated")


def test_an_example_is_asked_by_a_click(web: Page) -> None:
    example = web.get_by_role("group", name="Try one of these").get_by_role("button").first
    question = example.inner_text()
    example.click()
    expect(web.locator("article.turn").get_by_role("heading", name=question)).to_be_visible()
    expect(web.locator("article.turn .answer")).to_be_visible()
