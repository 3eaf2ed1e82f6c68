"""Contradictions that were planted into the sample wiki, and pages that only seem to contradict each other."""

from __future__ import annotations

import json
import re
import shutil
from datetime import date
from pathlib import Path

from rag_assets.build.linting import source_corpus
from rag_assets.progress import Reporter
from rag_assets.steps.contradictions.examination import ExaminedPages, examined
from rag_serving.config.loading import parse_config

SAMPLE = Path(__file__).parents[2] / "sample"
TODAY = date(2026, 3, 10)
PLANTED = [  # the file that is edited, what is put at its end, and a word of the sentence or row that it contradicts
    ("ENG/1311034", "<p>A token is valid for 60 minutes and cannot be refreshed: ask for a new one.</p>", "30 minutes"),
    (
        "ENG/1310750",
        "<p>Each client may send 100 requests per minute, and 20 of them may be writes.</p>",
        "120 requests",
    ),
    ("ENG/1311234", "<p>A cycle that takes longer than 60 seconds is abandoned.</p>", "45 seconds"),
    ("ENG/1311245", "<p>Traces are kept for 30 days.</p>", "10 days"),
    ("ENG/1311045", "<p>A message on the bus must not be larger than 512 KiB.</p>", "256 KiB"),
    ("ENG/1310761", "<p>The default of <code>berth.lock.timeout_ms</code> is 5000.</p>", "2000"),
    ("ENG/1310772", "<p><code>yard.max_tier</code> is 5 by default.</p>", "yard.max_tier | 4"),
    (
        "ENG/1311234",
        "<h2>The four services</h2><table><tr><th>Service</th><th>Default port</th></tr>"
        "<tr><td>berthd</td><td>7401</td></tr></table>",
        "7400",
    ),
    ("ENG/1311245", "<p>A cancelled call stays readable for ten years and can be reopened.</p>", "cannot be reopened"),
    ("ENG/1311034", "<p>Retry HBL-5000 on a write without an idempotency key.</p>", "Never retry"),
    ("ENG/1310750", "<p>Service certificates are valid for 365 days and are renewed by hbl-certd.</p>", "90 days"),
    ("ENG/1311012", "<p>Dead letters are kept for 30 days.</p>", "14 days"),
    ("ENG/1310783", "<p>Log files are kept for 90 days on the log server of the port.</p>", "35 days"),
    ("ENG/1311012", "<p>Passwords need at least 12 characters.</p>", "14 characters"),
    ("ENG/1311223", "<p>Ports get a mail 5 days before a release and a second one afterwards.</p>", "10 days"),
    ("ENG/1310750", "<p>Plans older than 60 days are moved to the archive schema every night.</p>", "90 days"),
    (
        "ENG/1311223",
        "<p>Ports with a support level of Gold choose their own installation hour between 21:00 and 05:00.</p>",
        "20:00",
    ),
    ("OPS/65601645", "<p>Everybody has 30 days of leave a year, on top of the public holidays.</p>", "28 days"),
    ("OPS/65601645", "<p>Send the claim before the tenth working day of the following month.</p>", "the fifth"),
    (
        "OPS/65601745",
        "<h2>Levels</h2><table><tr><th>Level</th><th>First answer for severity 1</th></tr>"
        "<tr><td>Gold</td><td>30 minutes</td></tr></table>",
        "15 minutes",
    ),
    ("OPS/65601645", "<p>A lost badge is blocked within 30 minutes.</p>", "10 minutes"),
    ("OPS/65601734", "<p>Recordings are deleted after 90 days unless they belong to an incident.</p>", "28 days"),
    ("OPS/65601645", "<p>Parking costs 12 zloty a day and is not paid by the company.</p>", "9 zloty"),
    ("OPS/65601645", "<p>Up to 5 days can be carried over, and have to be used before the end of May.</p>", "8 days"),
    ("OPS/65601645", "<p>The safety training for a terminal is valid for 12 months.</p>", "24 months"),
]

IN_ONE_PAGE = [
    ("ENG/1311012", "<h2>Summary</h2><p>A token is valid for 60 minutes and cannot be refreshed.</p>", "30 minutes"),
    ("ENG/1311012", "<h2>Limits</h2><p>Each client may send 100 requests per minute.</p>", "120 requests"),
    (
        "ENG/1310761",
        "<h2>Abandoned cycles</h2><p>A cycle that takes longer than 60 seconds is abandoned.</p>",
        "45 sec",
    ),
    ("ENG/1310783", "<h2>Key facts</h2><p>Dead letters are kept for 30 days.</p>", "14 days"),
    ("ENG/1311245", "<h2>FAQ</h2><p>Service certificates are valid for 365 days.</p>", "90 days"),
    ("ENG/1311001", "<h2>Notes</h2><p><code>yard.max_tier</code> is 5 by default.</p>", "yard.max_tier | 4"),
    (
        "ENG/1311001",
        "<h2>Log files</h2><p>Log files are kept for 90 days on the log server of the port.</p>",
        "35 days",
    ),
    ("ENG/1311012", "<h2>Cancelled calls</h2><p>A cancelled call stays readable and can be reopened.</p>", "reopened"),
    ("OPS/65601812", "<h2>Overview</h2><p>A lost badge is blocked within 30 minutes.</p>", "10 minutes"),
    ("OPS/65601634", "<h2>How many days?</h2><p>Up to 5 days can be carried over.</p>", "8 days"),
]
OF_OTHER_THINGS = [  # sections of one page that tell of two things
    ("ENG/1311023", "<h2>Simulator</h2><p>Traces are kept for 30 days.</p>", "10 days"),
    (
        "OPS/65601745",
        "<h2>Port of Gdynia</h2><p>Recordings are deleted after 90 days unless they belong to an incident.</p>",
        "28 days",
    ),
]


def sample_with(folder: Path, edits: list[tuple[str, str, str]]) -> dict[str, ExaminedPages]:
    """The spaces of the sample with more text at the end of some pages."""
    spaces = {}
    for space in ("ENG", "OPS"):
        shutil.copytree(SAMPLE / space, folder / space)
        for name, html, _ in edits:
            if name.startswith(space):
                page = folder / f"{name}.json"
                envelope = json.loads(page.read_text(encoding="utf-8"))
                envelope["body"]["storage"]["value"] += html
                page.write_text(json.dumps(envelope), encoding="utf-8")
        source = {"kind": "confluence_dump", "path": str(folder / space), "tenant": "demo"}
        content = {"home": str(folder / f"home-{space}"), "tenants": {"demo": {}}, "sources": {"docs": source}}
        spaces[space] = source_corpus(parse_config(content), "docs", Reporter())
    return spaces


def missed_in(folder: Path, edits: list[tuple[str, str, str]]) -> tuple[list[str], list[list[str]]]:
    """The edits whose contradiction is not listed, and the quotes of all that are."""
    spaces = sample_with(folder, edits).values()
    found = [one for corpus in spaces for one in examined(corpus, TODAY).findings if one.kind == "contradiction"]
    texts = [[quote.text for quote in one.quotes] for one in found]
    missed = []
    for name, html, other in edits:
        said = re.sub(r"</?(?:p|code)>", "", html.split("</h2>")[-1].split("<td>")[-1].split("</td>")[0])
        if not any(any(said[:25] in t for t in group) and any(other in t for t in group) for group in texts):
            missed.append(f"{name}: {html}")
    return missed, texts


def test_nearly_all_planted_contradictions_are_found_with_both_sentences_and_nothing_else(tmp_path: Path) -> None:
    missed, texts = missed_in(tmp_path, PLANTED)
    assert len(missed) <= 3, missed
    assert len(texts) <= len(PLANTED) - len(missed), texts


def test_sections_of_one_page_contradict_each_other_where_they_are_not_of_two_things(tmp_path: Path) -> None:
    missed, texts = missed_in(tmp_path, [*IN_ONE_PAGE, *OF_OTHER_THINGS])
    assert len(missed) <= len(OF_OTHER_THINGS) + 2, missed
    assert len(texts) == len(IN_ONE_PAGE) + len(OF_OTHER_THINGS) - len(missed), texts


def test_the_sample_itself_contradicts_itself_nowhere(tmp_path: Path) -> None:
    for corpus in sample_with(tmp_path, []).values():
        assert [one for one in examined(corpus, TODAY).findings if one.kind == "contradiction"] == []
