"""300 real pages of a public wiki: what must never happen to any of them. Expectations come from the storage itself."""

from __future__ import annotations

import functools
import html
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from rag_assets.steps.formats.blocks import mark_of
from rag_assets.steps.sections.splitting import PageSections, sections_of_page

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = sorted((DATA / "cwiki").glob("*/*.json"))
pytestmark = pytest.mark.skipif(not FILES, reason="the real pages at ../shared/data/cwiki are absent")

CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
MARKUP = re.compile(
    r'<ac:structured-macro[^>]*ac:name="(?:markdown|html|unmigrated-wiki-markup)".*?</ac:structured-macro>', re.DOTALL
)
BODY = re.compile(r"<ac:plain-text-body>(.*?)</ac:plain-text-body>", re.DOTALL)
PARAMETER = re.compile(r'<ac:parameter ac:name="([^"]*)">([^<]*)</ac:parameter>')
AC = "{ac}"
ANCHOR_RULES = {"datacenter", "datacenter-repeated", "datacenter-title", "datacenter-macro"}


@functools.cache
def results() -> dict[Path, tuple[dict[str, Any], PageSections]]:
    return {file: (page, sections_of_page(page)) for file in FILES for page in [page_of(file)]}


def page_of(file: Path) -> dict[str, Any]:
    envelope = json.loads(file.read_text())
    return {
        "page_id": envelope["id"],
        "version": envelope["version"]["number"],
        "title": envelope["title"],
        "body": envelope["body"]["storage"]["value"],
        "body_format": "storage",
        "anchor_flavor": "datacenter",
        "content_hash": "",
    }


def texts(result: PageSections) -> list[str]:
    return [section["text"] for section in result.sections]


def without_code(section: dict[str, Any]) -> str:
    """The text of a section's atoms that are no code, a line each."""
    return "\n".join(section["text"][b["start"] : b["end"]] for b in section["blocks"] if b["kind"] != "code")


def tree_of(body: str) -> Any:
    body = re.sub(r"&(?!amp;|lt;|gt;|quot;|apos;|#)(\w+;)", lambda m: html.unescape(m[0]), body)
    return etree.fromstring(f'<page xmlns:ac="ac" xmlns:ri="ri">{body}</page>', etree.XMLParser(huge_tree=True))


def test_every_page_yields_sections_and_none_fails() -> None:
    assert len(FILES) == 300
    for page, result in results().values():
        plain = re.sub(r"<ac:parameter.*?</ac:parameter>", "", CDATA.sub(r"\1", page["body"]), flags=re.DOTALL)
        words = re.sub(r"<[^>]*>|&nbsp;|\s", "", plain)
        assert bool(result.sections) == bool(words), page["title"]


def test_every_code_body_stands_to_the_letter_in_some_section() -> None:
    bodies = missing = 0
    for page, result in results().values():
        for body in BODY.findall(MARKUP.sub("", page["body"])):
            code = "".join(CDATA.findall(body)).replace("\r\n", "\n")
            if code.strip():
                bodies += 1
                missing += not any(code in text for text in texts(result))
    assert bodies >= 660
    assert missing == 0


def test_no_markup_is_left_outside_code() -> None:
    residue = re.compile(r"</?(?:ac|ri):|CDATA|rich-text-body|plain-text-body|\]\]>|&(?:nbsp|amp|lt|gt|quot);")
    for page, result in results().values():
        own = residue.findall(html.unescape(re.sub(r"<[^>]*>", "", page["body"])))
        for section in result.sections:
            found = residue.findall(without_code(section))
            assert set(found) <= set(own), (page["title"], section["heading"], found)


def test_no_parameter_value_stands_in_the_text_unless_readers_see_it() -> None:
    seen = {"title", "key", "", "jqlQuery", "name", "diagramName"}  # a diagram's name stands for it, as of an image
    for page, result in results().values():
        body = re.sub(r"<ac:parameter.*?</ac:parameter>", "", CDATA.sub("", page["body"]), flags=re.DOTALL)
        parameters = PARAMETER.findall(page["body"])
        visible = " ".join(value for name, value in parameters if name in seen)
        words = html.unescape(re.sub(r"<[^>]*>", "", body) + visible)
        for name, value in parameters:
            value = html.unescape(value).strip()
            if name not in seen and len(value) > 3 and value not in words:
                assert not any(value in without_code(section) for section in result.sections), (page["title"], name)


def test_every_section_has_a_unique_anchor_and_a_path_that_ends_in_its_heading() -> None:
    for page, result in results().values():
        anchors = [section["anchor"] for section in result.sections]
        assert all(anchors)
        assert len(set(anchors)) == len(anchors)
        for section in result.sections:
            assert section["heading_path"][0] == " ".join(page["title"].split())
            assert section["heading_path"][-1] == section["heading"]
            assert section["anchor_rule"] in ANCHOR_RULES


def test_every_table_row_stands_on_one_line() -> None:
    rows = broken = 0
    for page, result in results().values():
        lines = [spaceless(line) for text in texts(result) for line in text.splitlines() if line.startswith("|")]
        for row in tree_of(page["body"]).iter("tr"):
            cells = [spaceless(cell_text(cell)) for cell in row if cell.tag in ("td", "th")]
            if any(cells):
                rows += 1
                pattern = re.compile(".*?".join(map(re.escape, cells)))
                broken += not any(pattern.search(line) for line in lines)
    assert rows >= 2000
    assert broken == 0


def spaceless(text: str) -> str:
    """Without white space, list joints, escapes and raising: what is compared is which words stand on one line."""
    text = unicodedata.normalize("NFKC", text)
    return re.sub(r"[\s\ufffc\u00ad\u200b-\u200f\u2060\ufeff;\\]|\(code\d+\)", "", text)


def cell_text(element: Any) -> str:
    """A cell's words in order: visible text, issue keys, titles, what an image says; no other parameters, no text that
    is struck."""
    if mark_of(element) == "struck":
        return ""
    if element.tag == f"{AC}parameter":
        return (element.text or "") if element.get(f"{AC}name") in ("key", "title") else ""
    if element.tag == f"{AC}image":
        return str(element.get(f"{AC}alt", ""))
    if element.tag == f"{AC}emoticon":
        shown = {"tick": "✅", "cross": "❌"}.get(element.get(f"{AC}name"), "")
        return str(element.get(f"{AC}emoji-fallback") or shown)
    if element.tag == "img":
        return str(element.get("alt", ""))
    own = ""
    if element.tag == f"{AC}link" and not "".join(element.itertext()).strip():
        own = next((str(value) for child in element for key, value in child.attrib.items() if "title" in key), "")
    inner = "".join(cell_text(child) + (child.tail or "") for child in element if isinstance(child.tag, str))
    return own + (element.text or "") + inner


def test_atoms_cover_the_text_and_nothing_else() -> None:
    for _, result in results().values():
        for section in result.sections:
            check_atoms(section)


def check_atoms(section: dict[str, Any]) -> None:
    position, text = 0, section["text"]
    for atom in section["blocks"]:
        assert not text[position : atom["start"]].strip()
        assert text[atom["start"] : atom["end"]].strip()
        position = atom["end"]
    assert position == len(text)


def test_reading_a_page_twice_gives_the_same_rows() -> None:
    for page, result in list(results().values())[::10]:
        assert sections_of_page(page) == result
