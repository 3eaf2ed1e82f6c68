"""What the journeys of the web page share: a wiki with hostile pages, a slow wire, what a browser complains of.

Belongs here: set-up and looking. Does not belong here: the browser (`conftest`), journeys.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
from support.wiki import PASSAGES, Passage

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"

QUESTION = "May I restart a broker while partitions are under-replicated?"
TABLE_QUESTION = "What is the default of max.poll.records?"
UNKNOWN = "Who won the chess championship of 1972?"

SCRIPT = "<script>window.hurt = 1</script>"
IMAGE = '"><img src=x onerror="window.hurt = 1">'
HOSTILE = (
    f"The zebra valve opens at 40 bar {IMAGE} and closes at 30 bar. {SCRIPT} "
    "Its manual is [here](javascript:alert(1)). `window.hurt = 1` is no command."
)
ARABIC = "يتم الاحتفاظ بالسجلات لمدة سبعة أيام في كل خادم. بعد ذلك يتم حذفها تلقائيا."
STEPS = "1. Open the hatch of the turbine.\n2. Turn the lever to the left.\n3. Close the hatch of the turbine again."

WIKI = (
    *PASSAGES,
    Passage("21", f"Zebra valve {SCRIPT}", HOSTILE, title=f"Valves {IMAGE}", space=f"V{IMAGE}", labels=(IMAGE,)),
    Passage("22", "سجلات الخادم", ARABIC, title="دليل التشغيل", space="AR"),
    Passage("23", "How to open the turbine", STEPS, title="Turbine", space="OPS", content_type="list"),
)

# Console lines of the browser itself about answers that a journey provokes.
_EXPECTED = "Failed to load resource"


class SlowWire:
    """ASGI middleware: each part of an answer waits `pause_s`; 0 is no wait."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.pause_s = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def slowly(message: Any) -> None:
            if self.pause_s and message["type"] == "http.response.body":
                await asyncio.sleep(self.pause_s)
            await send(message)

        await self._app(scope, receive, slowly if scope.get("path") == "/v1/ask" else send)


class Complaints:
    """What a page's console, its scripts and its policy complained of."""

    def __init__(self, page: Page) -> None:
        self.lines: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.lines.append(f"error: {error}"))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', event => console.error(`policy: ${event.violatedDirective}`))"
        )

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and _EXPECTED not in text:
            self.lines.append(f"{kind}: {text}")


def ask(page: Page, question: str) -> Locator:
    """Ask a question and return its turn when it has been answered."""
    turn = asked(page, question)
    expect(turn.locator(".answer")).to_be_visible()
    expect(turn.locator(".progress")).to_have_count(0)
    return turn


def asked(page: Page, question: str) -> Locator:
    """Ask a question and return its turn at once."""
    number = page.locator("article.turn").count()
    page.get_by_label("Your question").fill(question)
    page.keyboard.press("Enter")
    return page.locator("article.turn").nth(number)


def axe_violations(page: Page) -> list[str]:
    """Return what axe finds by WCAG 2.2 A and AA and its best practices, as `rule: element`."""
    if not AXE.exists():
        message = "axe-core is not installed: python scripts/web.py --install"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    if page.evaluate("typeof axe === 'undefined'"):  # half a megabyte, once for each document
        page.evaluate(AXE.read_text())
    page.emulate_media(reduced_motion="reduce")
    found: list[str] = page.evaluate(
        "axe.run().then(({violations}) => "
        "violations.flatMap(({id, nodes}) =>"
        " nodes.map(({target, failureSummary}) => `${id}: ${target} ${failureSummary}`)))"
    )
    return found


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return wider
