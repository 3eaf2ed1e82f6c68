"""`python -m evals.bench.page`: how fast the web page is in Debian's Chromium, over a built home.

Belongs here: bytes of the first load, paints, the time from Enter to the first sign of work, long tasks while answers
stream into a long session. Does not belong here: how fast the server answers (`answers`).

Paint and long tasks are the browser's own measures: https://www.w3.org/TR/paint-timing/, https://w3c.github.io/longtasks/
(a task of more than 50 ms).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

from evals.bench.clients import serving
from evals.bench.machine import load, machine
from evals.evaluation.gold import read_gold
from rag_serving.config.loading import load_config

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

# Notes each long task, and when a step of an answer was first shown after Enter was pressed.
_WATCH = """
window.longTasks = []; window.shownAfter = [];
new PerformanceObserver(list => longTasks.push(...list.getEntries().map(each => each.duration)))
  .observe({ type: "longtask", buffered: true });
let pressed = 0;
addEventListener("keydown", event => { if (event.key === "Enter") pressed = event.timeStamp; }, true);
new MutationObserver(records => {
  if (!pressed || !records.some(record => record.addedNodes.length)) return;
  const since = pressed;
  pressed = 0;
  requestAnimationFrame(() => shownAfter.push(performance.now() - since));
}).observe(document, { childList: true, subtree: true });
"""
_SIZES = """
() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
  .filter(each => !each.name.includes("/v1/")).map(each => each.encodedBodySize)
"""
_PAINT = '() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime'


def main(arguments: list[str] | None = None) -> int:
    """Measure as the command line says, and print JSON."""
    options = _options(arguments)
    config = load_config(options.config)
    questions = [each.question for each in read_gold(options.gold).questions]
    found: dict[str, Any] = {"machine": machine()}
    with serving(config, 1) as port, _chromium() as browser:
        address = f"http://127.0.0.1:{port}/"
        found["first_load"] = first_load(browser, address, options.loads)
        found["session"] = session(browser, address, questions, options.turns)
    found["machine"]["load_after"] = load()
    print(json.dumps(found, indent=1))
    return 0


def first_load(browser: Browser, address: str, loads: int) -> dict[str, float]:
    """Return what a browser without a cache loads and when it first paints, in milliseconds."""
    paints, sizes = [], []
    for _ in range(loads):
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.get_by_role("textbox").wait_for()
        page.wait_for_function(_PAINT)
        paints.append(page.evaluate(_PAINT))
        sizes.append(sum(page.evaluate(_SIZES)))
        context.close()
    return {"bytes": max(sizes), "paint_ms_p50": float(np.median(paints)), "paint_ms_max": max(paints)}


def session(browser: Browser, address: str, questions: list[str], turns: int) -> dict[str, Any]:
    """Return how a session of many turns goes on: the first of them beside the last."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(_WATCH)
    page.goto(address)
    page.get_by_role("textbox").wait_for()
    few = min(20, turns)
    first = _asked(page, questions, 0, few)
    _asked(page, questions, few, max(0, turns - 2 * few))
    last = _asked(page, questions, turns - few, few)
    context.close()
    return {"turns": turns, "first": first, "last": last}


def _asked(page: Page, questions: list[str], start: int, count: int) -> dict[str, float]:
    """Ask so many questions, and return what was noted meanwhile."""
    page.evaluate("() => { longTasks.length = 0; shownAfter.length = 0; }")
    for number in range(start, start + count):
        page.get_by_role("textbox").fill(questions[number % len(questions)])
        page.keyboard.press("Enter")
        page.wait_for_function("number => document.querySelectorAll('main article').length >= number", arg=number + 1)
        page.get_by_role("button", name="Ask", exact=True).wait_for()
    shown, tasks = page.evaluate("() => [shownAfter, longTasks]")
    shown, longest = shown or [0.0], max(tasks, default=0.0)
    return {
        "first_sign_ms_p50": float(np.median(shown)),
        "first_sign_ms_max": float(max(shown)),
        "long_tasks": len(tasks),
        "longest_task_ms": float(longest),
    }


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.page", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("config/app.yaml"), help="configuration of the built home")
    parser.add_argument("--gold", type=Path, default=Path("evals/gold/sample.yaml"), help="questions to ask")
    parser.add_argument("--loads", type=int, default=10, help="first loads")
    parser.add_argument("--turns", type=int, default=500, help="questions in one session")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
