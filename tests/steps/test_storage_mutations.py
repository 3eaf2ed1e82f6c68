"""Storage format that something damaged: no crash, no hang, nothing of the markup in the text.

CI runs some hundred documents; CITELOCK_MUTATIONS=10000 runs as many.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from lxml import etree

from rag_assets.steps.sections.splitting import PageError, sections_of_page

DATA = Path(__file__).parents[3] / "shared" / "data"
COUNT = int(os.environ.get("CITELOCK_MUTATIONS", "100"))
SECONDS = 1.0
CHARS = 400_000
BATCHES = 10

SEED_BODY = (
    "<h1>Title &amp; more</h1><p>Text with <strong>marks</strong>&nbsp;and <ac:link><ri:page ri:content-title='P'/>"
    "<ac:plain-text-link-body><![CDATA[a <link>]]></ac:plain-text-link-body></ac:link></p>"
    '<ac:structured-macro ac:name="code"><ac:parameter ac:name="language">java</ac:parameter><ac:plain-text-body>'
    "<![CDATA[if (a < b && c) { x(); }]]></ac:plain-text-body></ac:structured-macro>"
    '<ac:structured-macro ac:name="info"><ac:rich-text-body><ul><li>one</li><li>two<ol><li>deep</li></ol></li></ul>'
    "</ac:rich-text-body></ac:structured-macro><table><tbody><tr><th>k</th><td rowspan='2'>v</td></tr><tr><td>w</td>"
    "</tr></tbody></table><ac:task-list><ac:task><ac:task-status>complete</ac:task-status><ac:task-body>t</ac:task-body>"
    "</ac:task></ac:task-list>"
)
TOKENS = [
    "<![CDATA[", "]]>", "]]]]><![CDATA[>", "<ac:structured-macro ac:name=\"code\">", "</ac:structured-macro>", "<", ">",
    "<ac:rich-text-body>", "</ac:rich-text-body>", "<ac:plain-text-body>", "</ac:plain-text-body>", "<ac:parameter>",
    "</ac:parameter>", "<table><tr><td>", "</td></tr></table>", "<ul><li>", "</li></ul>", "<h2>", "</h2>", "&", "&#0;",
    "&#x110000;", "&nosuch;", "<!--", "-->", "<?x", "<!DOCTYPE x [", "\x00", "\ud800", "\u202e", "<td colspan='99999'>",
    "<ac:link>", "<ri:user ri:userkey='k'/>", "<ac:structured-macro ac:name=\"include\">", "<br/>", "</p>", "<p>", "=",
]  # fmt: skip
OPENER = r"<ac:plain-text-(?:link-)?body>\s*"
RESIDUE = re.compile(r"</?(?:ac|ri):[a-z]|<!\[CDATA\[|</?(?:rich|plain)-text-body|\]\]>")


@cache
def bodies() -> tuple[str, ...]:
    files = [*(DATA / "storage-fixtures").rglob("*.xhtml"), *(DATA / "storage-fixtures").rglob("*.xml")]
    real = [json.loads(file.read_text())["body"]["storage"]["value"] for file in sorted(DATA.glob("cwiki/*/*.json"))]
    return (SEED_BODY, *(file.read_text() for file in sorted(files)), *real)


def place(chance: random.Random, body: str) -> int:
    """Anywhere, and rather at the border of a tag."""
    anywhere = chance.randrange(len(body) + 1)
    border = body.find(chance.choice("<>"), anywhere)
    return border if border >= 0 and chance.random() < 0.6 else anywhere


def stretch(chance: random.Random, body: str) -> tuple[int, int]:
    start = place(chance, body)
    return start, min(start + int(chance.expovariate(1 / 80)) + 1, len(body))


def without(chance: random.Random, body: str) -> str:
    start, end = stretch(chance, body)
    return body[:start] + body[end:]


def twice(chance: random.Random, body: str) -> str:
    start, end = stretch(chance, body)
    return body[:end] + body[start:end] * chance.choice([1, 1, 2, 40]) + body[end:]


def moved(chance: random.Random, body: str) -> str:
    start, end = stretch(chance, body)
    rest = body[:start] + body[end:]
    target = place(chance, rest)
    return rest[:target] + body[start:end] + rest[target:]


def with_token(chance: random.Random, body: str) -> str:
    target = place(chance, body)
    return body[:target] + chance.choice(TOKENS) * chance.choice([1, 1, 1, 3, 200]) + body[target:]


def cut(chance: random.Random, body: str) -> str:
    return body[: place(chance, body)]


def spliced(chance: random.Random, body: str) -> str:
    other = chance.choice(bodies())
    start, end = stretch(chance, other)
    target = place(chance, body)
    return body[:target] + other[start : end + 400] + body[target:]


CHANGES: list[Callable[[random.Random, str], str]] = [without, twice, moved, with_token, with_token, cut, spliced]


def damaged(seed: int) -> str:
    chance = random.Random(seed)
    body = chance.choice(bodies())
    for _ in range(chance.choice([1, 1, 2, 4, 12])):
        body = chance.choice(CHANGES)(chance, body)
    return body


def check(seed: int) -> float:
    """Read one damaged body; the seconds it took, per CHARS of it where it is longer."""
    body = damaged(seed)
    row = {"page_id": "1", "version": 1, "title": "T", "body": body, "body_format": "storage", "content_hash": ""}
    started = time.process_time()
    try:
        sections = sections_of_page({**row, "anchor_flavor": "cloud"}).sections
    except PageError:
        sections = []
    seconds = time.process_time() - started
    for section in sections:
        position = 0
        for block in section["blocks"]:
            assert not section["text"][position : block["start"]].strip(), seed
            position = block["end"]
            if block["kind"] != "code":
                check_residue(section["text"][block["start"] : block["end"]], body, seed)
        section["text"].encode()
    return seconds / max(len(body) / CHARS, 1)


def check_residue(text: str, body: str, seed: int) -> None:
    """Markup in prose must be what the author wrote as text: escaped, or in CDATA."""
    for found in set(RESIDUE.findall(text)):
        written = found.replace("<", "&lt;").replace(">", "&gt;")
        assert written in body or found in cdata(body), (seed, found, text[:200])


def cdata(body: str) -> str:
    """All CDATA of a well-formed body, of another what a body element opens; and a mark whose halves were parted."""
    opened = "" if is_well_formed(body) else OPENER
    sections = re.findall(opened + r"<!\[CDATA\[(.*?)\]\]>", body, re.DOTALL)
    return "\n".join([*sections, "]]>" * bool(re.search(r"\]\](?!>)", body))])


def is_well_formed(body: str) -> bool:
    plain = re.sub(r"&(?!amp;|lt;|gt;|quot;|apos;)\w*;?", "", body).encode(errors="ignore")
    try:
        etree.fromstring(b"<p xmlns:ac='a' xmlns:ri='r'>" + plain + b"</p>", etree.XMLParser(huge_tree=True))
    except etree.XMLSyntaxError:
        return False
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_damaged_body_is_read_or_refused_in_time_and_leaves_no_markup(batch: int) -> None:
    slowest = max((check(seed), seed) for seed in range(batch, max(COUNT, BATCHES), BATCHES))
    assert slowest[0] < SECONDS, slowest
