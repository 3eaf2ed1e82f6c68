"""What the journeys of the source viewer share: a wiki of blocks, and looking at what is marked.

Belongs here: pages with headings, lists, tables, code, foreign writing, 5,000 words. Does not belong here: journeys.
"""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page
from sources.pdf_writer import pdf
from support.wiki import Passage
from web_page import WIKI, ask

LIST = (
    "Before the gate of the lock opens, three things are checked:\n\n"
    "1. The water on both sides stands within 5 centimetres.\n"
    "2. No barge is closer than 20 metres to the gate.\n"
    "   - A tug counts as a barge.\n"
    "3. The lamp on the northern wall shows green."
)
TABLE = (
    "| Lamp | Meaning of the lamp |\n|---|---|\n| Green | The gate of the lock may open |\n"
    "| Red and white | The sluice keeper has stopped the lock for an inspection |\n| Dark | |"
)
CODE = (
    "The sluice is opened with:\n\n```bash\nsluicectl gate --open north\n"
    "sluicectl gate --status | grep ajar\n```\n\nIt needs a key."
)
RUNS = "A **blocked sluice** is reported to [the keeper](https://keeper.example/desk), who answers within 40 minutes."
WORDS = " ".join(
    f"Basin {number} of the canal is dredged every {number} months by the crew." for number in range(1, 28)
)

PDF_LINE = "The capstan of the northern quay turns at 12 revolutions a minute."
MANUAL = pdf("The manual names every winch and every capstan.", PDF_LINE, "The southern quay has no capstan.")

SOURCES = (
    *WIKI,
    Passage("31", "Before the gate opens", LIST, title="Lock keeping", space="LOCK", content_type="list"),
    Passage("31", "Lamps", TABLE, title="Lock keeping", space="LOCK", content_type="table", chunk_idx=1),
    Passage("31", "Commands", CODE, title="Lock keeping", space="LOCK", content_type="code", chunk_idx=2),
    Passage("31", "Blockages", RUNS, title="Lock keeping", space="LOCK", chunk_idx=3),
    Passage("docs/a b", "Start", "A page of a folder of documents.", title="In a folder"),
    *(
        Passage(
            "32",
            f"Stretch {number}",
            f"Stretch {number}. {WORDS}",
            title="The long canal",
            space="LOCK",
            chunk_idx=number,
        )
        for number in range(16)
    ),
)

FILE = (
    Passage("att1", "Page 1", "The manual names every winch and every capstan.", title="Quay manual.pdf", space="LOCK"),
    Passage("att1", "Page 2", PDF_LINE, title="Quay manual.pdf", space="LOCK", chunk_idx=1),
    Passage("att1", "Page 3", "The southern quay has no capstan.", title="Quay manual.pdf", space="LOCK", chunk_idx=2),
)

LONG_TASKS = """window.longTasks = [];
new PerformanceObserver(list => list.getEntries().forEach(entry => longTasks.push([entry.startTime, entry.duration])))
  .observe({type: 'longtask', buffered: true});"""


def cited(page: Page, question: str) -> dict[str, Any]:
    """Return the first citation of a question, as the API gives it."""
    answer = page.request.post(f"{page.url.rstrip('/')}/v1/ask", data={"question": question}).json()
    assert answer["citations"], answer["answer"]
    citation: dict[str, Any] = answer["citations"][0]
    return citation


def plain(text: str) -> str:
    """Return a Markdown text without its signs and its white space."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.replace("**", ""))
    return re.sub(r"[\s|]+", "", shown)


def marked(pane: Locator) -> str:
    """Return what is marked in a source, without white space."""
    marks = pane.locator("mark.quote")
    marks.first.wait_for()
    return plain("".join(marks.all_inner_texts()))


def is_in_view(mark: Locator) -> bool:
    """Return whether an element is inside of the window."""
    shown: bool = mark.evaluate(
        "element => { const box = element.getBoundingClientRect();"
        " return box.top >= 0 && box.bottom <= innerHeight && box.height > 0 }"
    )
    return shown


def opened(page: Page, question: str) -> Locator:
    """Ask, open the first source, and return the pane."""
    turn = ask(page, question)
    turn.locator(".cite").first.click()
    return page.get_by_role("complementary", name="Source")
