"""The Rust book, as mdBook makes it: what is compared is read from the Markdown files line by line, without any of the
product's code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from rag_assets.sources import open_source
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.sources import MarkdownBook
from rag_serving.text.normalization import OMISSION

BOOK = Path(__file__).parents[2].parent / "shared" / "data" / "rust-book"
ROOT = "https://doc.example/book/"
pytestmark = pytest.mark.skipif(not BOOK.is_dir(), reason="the Rust book is not at ../shared/data/rust-book")

_FENCE = re.compile(r"^((?:> ?| )*)(`{3,})(.*)$")
_ID = re.compile(r"""<\w+ [^>]*\bid="([^"]+)\"""")
_NUMBER = re.compile(r'<Listing [^>]*?number="([^"]+)"')


@pytest.fixture(scope="module")
def pages() -> list[dict[str, Any]]:
    settings = MarkdownBook(kind="markdown_book", tenant="t", path=BOOK, readers="everyone", base_url=ROOT)
    result = open_source("book", settings, BOOK).sync(None, {})
    assert not result.failures
    return result.pages.to_pylist()


@pytest.fixture(scope="module")
def sections(pages: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    from rag_serving.artifacts.schema import PAGES

    built = build_sections(PAGES.table([*pages]))
    assert not built.failures
    names = {page["page_id"]: page["source_file"] for page in pages}
    found: dict[str, list[dict[str, Any]]] = {page["source_file"]: [] for page in pages}
    for row in built.sections.to_pylist():
        found[names[row["page_id"]]].append(row)
    return found


def markdown(name: str) -> str:
    return (BOOK / name).read_text(encoding="utf-8")


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """Yield language and lines of each fenced block, without what quotes it or sets it in."""
    prefix, run, info, code = "", "", "", list[str]()
    for line in text.splitlines():
        match = _FENCE.match(line)
        if not run and match:
            prefix, run, info, code = match[1], match[2], match[3], []
        elif run and match and match[2] == run and not match[3].strip():
            yield info.split(",")[0].strip(), "\n".join(code)
            run = ""
        elif run:
            code.append(line.removeprefix(prefix) if line.startswith(prefix) else line.removeprefix(prefix.rstrip()))


def shown(language: str, code: str) -> str:
    """Return what readers see of a block: without hidden lines, and with omissions of files that are not there."""
    code = re.sub(r"\{\{#.*\}\}", OMISSION, code)
    if language != "rust":
        return code
    lines = [line for line in code.split("\n") if line.strip() != "#" and not re.match(r"\s*# ", line)]
    return "\n".join(re.sub(r"^(\s*)##", r"\1#", line) for line in lines)


def slugs(text: str) -> list[str]:
    """Return the ids of a page by mdBook's rule."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    ids, counts, fence = _ID.findall(text), dict[str, int](), ""
    ids += [f"listing-{number}" for number in _NUMBER.findall(text)]
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match:
            fence = "" if fence else match[2]
        heading = re.match(r"^(?:> ?)?#{1,6} +(.*)$", line)
        if fence or not heading:
            continue
        parts = heading[1].split("`")  # every second one is code
        parts[::2] = [re.sub(r"\*|<[a-z/][^>]*>|\b_|_\b", "", part) for part in parts[::2]]
        words = "".join(parts).strip().lower()
        name = "".join("-" if char.isspace() else char for char in words if char.isalnum() or char in "-_ ")
        counts[name] = counts.get(name, -1) + 1
        ids.append(f"{name}-{counts[name]}" if counts[name] else name)
    return ids


def test_every_chapter_is_a_page(pages: list[dict[str, Any]]) -> None:
    files = {path.relative_to(BOOK).as_posix() for path in (BOOK / "src").glob("*.md")}
    assert {page["source_file"] for page in pages} == files - {"src/SUMMARY.md"}


def test_every_block_of_code_stands_to_the_letter(sections: dict[str, list[dict[str, Any]]]) -> None:
    count, wrong = 0, []
    for name, rows in sections.items():
        own = [
            row["text"][block["start"] : block["end"]]
            for row in rows
            for block in row["blocks"]
            if block["kind"] == "code"
        ]
        bodies = ["\n".join(line for line in text.split("\n")[1:-1]) for text in own]
        flat = ["\n".join(line.strip() for line in body.split("\n")) for body in bodies]
        place = 0
        for language, code in fenced(markdown(name)):
            wanted = shown(language, code)
            if not wanted.strip():
                continue
            count += 1
            if wanted in bodies[place:]:
                place += bodies[place:].index(wanted) + 1
            elif (lines := "\n".join(line.strip() for line in wanted.split("\n"))) in flat[place:]:  # in a list
                place += flat[place:].index(lines) + 1
            else:
                wrong.append((name, wanted))
    assert not wrong
    assert count > 900


def cells(row: str) -> list[str]:
    words = [cell.replace("\\|", "|").replace("`", "").strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
    return [unescape(re.sub(r"</?code>", "", word)).strip() for word in words]


def test_every_row_of_a_table_has_its_cells_to_the_letter(sections: dict[str, list[dict[str, Any]]]) -> None:
    count = 0
    for name, rows in sections.items():
        tables = [
            row["text"][block["start"] : block["end"]].split("\n")[0]
            for row in rows
            for block in row["blocks"]
            if block["kind"] == "table"
        ]
        have = [cells(row) for row in tables]
        for line in markdown(name).splitlines():
            if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line) and "<img" not in line:
                wanted = cells(re.sub(r"(?<=\s)_(\w+)_(?=\s)", r"\1", line))
                assert wanted in have, (name, line)
                count += 1
    assert count == 140


def test_ids_are_those_of_mdbook_and_every_link_inside_the_book_reaches_one(
    pages: list[dict[str, Any]], sections: dict[str, list[dict[str, Any]]]
) -> None:
    expected = {page["url"]: set(slugs(markdown(page["source_file"]))) for page in pages}
    have = {
        page["url"]: {
            name
            for row in sections[page["source_file"]]
            for name in (row["anchor"], *(anchor["name"] for anchor in row["anchors"]))
        }
        for page in pages
    }
    headings = {page["url"]: set(re.findall(r'<h\d id="([^"]*)"', page["body"])) for page in pages}
    assert [(url, ids - expected[url]) for url, ids in headings.items() if ids - expected[url]] == []
    assert [(url, ids - have[url]) for url, ids in expected.items() if ids - have[url]] == []
    count, broken = 0, []
    for page in pages:
        for href in re.findall(r'<a href="([^"]*)"', page["body"]):
            target, _, fragment = href.partition("#")
            url = target or page["url"]
            if not url.startswith(ROOT) or (url not in have and not (BOOK / "src" / url.removeprefix(ROOT)).suffix):
                continue
            count += 1
            if url not in have or (fragment and fragment not in have[url]):
                broken.append((page["source_file"], href))
    assert broken == []
    assert count > 500
