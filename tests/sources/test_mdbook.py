from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.sources import open_source
from rag_assets.sources.base import SyncResult
from rag_assets.sources.sites.mdbook import (
    Includes,
    mdbook_id,
    read_summary,
    shown_code,
    taken_lines,
    with_hidden_lines,
    with_listings,
)
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.config.sources import MarkdownBook
from rag_serving.text.normalization import OMISSION

SUMMARY = """# Summary

[Foreword](foreword.md)

# Brewing

- [Beans](beans.md)
  - [Roasting `dark`](roast/dark.md)
  - [Storing](./roast/storing%20beans.md)
    - [In the freezer]()
- [Water](water/README.md)

# Serving

* [Cups](cups.md)

[Thanks](thanks.md)
[Beans again](beans.md)
"""
BEANS = """# Beans

Read [the water](water/README.md#hard--soft) and [dark](roast/dark.html), or [the web](https://b.example/x.md).

## Sizes

## Sizes

## Sizes-1

## `--fine` -- or not?

## Own {#mine}

<h2>Raw</h2>

## Raw

::
: a term

```rust
# fn main() {
## kept
let grams = 18; // # not hidden
#
#![allow(unused)]
#[derive(Debug)]
# }
```

```rust,ignore
{{#rustdoc_include ../code/brew.rs:pour}}
```

```console
{{#include ../code/brew.rs:2:3}}
```

| grams | water |
| ----- | ----- |
| 18    | 300 ml |

> [!WARNING]
> Hot.
"""
CODE = """use kettle;
fn pour() {
    // ANCHOR: pour
    kettle::pour(93); // ANCHORED
    // ANCHOR_END: pour
}
"""
DARK = """# Dark

<Listing number="2-1" file-name="src/main.rs" caption="Pouring `slowly`, with
-> arrows">

```rust
kettle::pour(93);
```

</Listing>

> Note: dark is not burnt.

> ### Why
>
> Because. See [Listing 2-1](#listing-2-1) and[^f].

<a id="old-name"></a>

## New name

Text.

[^f]: A footnote.
"""
FILES: Mapping[str, str] = {
    "book.toml": '[book]\nlanguage = "en"\n[preprocessor.trpl-note]\n[preprocessor.trpl-listing]\n',
    "code/brew.rs": CODE,
    "src/SUMMARY.md": SUMMARY,
    "src/foreword.md": "# Foreword\n\nHello {{#title Hi}}\n",
    "src/beans.md": BEANS,
    "src/roast/dark.md": DARK,
    "src/roast/storing beans.md": "# Storing\n\nCool.\n",
    "src/water/README.md": "# Water\n\n## Hard & soft\n\nText.\n",
    "src/cups.md": "# Cups\n\nWarm.\n",
    "src/thanks.md": "# Thanks\n\nAll.\n",
    "src/left-over.md": "# Left over\n\nNowhere.\n",
}


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> SyncResult:
    folder = tmp_path_factory.mktemp("book")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return synced(folder)


def synced(folder: Path) -> SyncResult:
    settings = MarkdownBook(
        kind="markdown_book", tenant="t", path=folder, readers="everyone", base_url="https://b.example/book"
    )
    return open_source("brew", settings, folder).sync(None, {})


def body(book: SyncResult, name: str) -> str:
    rows = {row["source_file"]: row for row in book.pages.to_pylist()}
    return str(rows[name]["body"])


def test_chapters_stand_in_the_order_and_under_the_numbers_of_the_table_of_contents() -> None:
    chapters = [(chapter.numbered, chapter.title, chapter.file, chapter.part) for chapter in read_summary(SUMMARY)]
    assert chapters == [
        ("0.1", "Foreword", "foreword.md", None),
        ("1", "Beans", "beans.md", "Brewing"),
        ("1.1", "Roasting dark", "roast/dark.md", "Brewing"),
        ("1.2", "Storing", "roast/storing beans.md", "Brewing"),
        ("1.2.1", "In the freezer", None, "Brewing"),
        ("2", "Water", "water/README.md", "Brewing"),
        ("3", "Cups", "cups.md", "Serving"),
        ("0.2", "Thanks", "thanks.md", None),
        ("0.3", "Beans again", None, None),
    ]


def test_pages_have_their_place_and_their_address_and_other_files_a_reason(book: SyncResult) -> None:
    rows = {row["source_file"]: row for row in book.pages.to_pylist()}
    dark = rows["src/roast/dark.md"]
    assert dark["url"] == "https://b.example/book/roast/dark.html"
    assert (dark["chapter"], dark["ancestor_titles"], dark["title"]) == ("1.1", ["Beans"], "Roasting dark")
    assert rows["src/water/README.md"]["url"] == "https://b.example/book/water/index.html"
    assert rows["src/roast/storing beans.md"]["url"] == "https://b.example/book/roast/storing%20beans.html"
    assert dark["category"] == "Brewing"
    assert dark["lang"] == "en"
    reasons = sorted(reason for _, reason in book.excluded)
    assert reasons == ["src/SUMMARY.md: it is the table of contents", reasons[1]]
    assert reasons[1].startswith("src/left-over.md: ")


def test_headings_have_the_ids_that_mdbook_gives_them(book: SyncResult) -> None:
    ids = re.findall(r'<(?:h\d|dt)[^>]* id="([^"]*)"', body(book, "src/beans.md"))
    assert ids == ["beans", "sizes", "sizes-1", "sizes-1-1", "--fine--or-not", "mine", "raw", "section"]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("--passes: add more rustdoc passes", "--passes-add-more-rustdoc-passes"),
        ("Method-call \N{OCTOPUS} expressions \N{BABY ANGEL}", "method-call--expressions-"),
        ("_-_12345", "_-_12345"),
        ("中文標題 CJK title", "中文標題-cjk-title"),
        ("Über", "über"),
        ("::", "section"),
        ("   ", "section"),
    ],
)
def test_ids_are_those_of_mdbooks_own_tests(heading: str, name: str) -> None:
    assert mdbook_id(heading) == name


def test_links_lead_to_the_pages_of_the_book_and_others_stay(book: SyncResult) -> None:
    links = re.findall(r'href="([^"]*)"', body(book, "src/beans.md"))
    root = "https://b.example/book"
    assert links == [f"{root}/water/index.html#hard--soft", f"{root}/roast/dark.html", "https://b.example/x.md"]


def test_code_has_its_lines_to_the_letter_but_those_that_readers_do_not_see(book: SyncResult) -> None:
    html = body(book, "src/beans.md")
    codes = re.findall(r'<pre><code class="language-(\w+)">(.*?)</code></pre>', html, re.DOTALL)
    assert codes == [
        ("rust", "# kept\nlet grams = 18; // # not hidden\n#![allow(unused)]\n#[derive(Debug)]\n"),
        ("rust", "    kettle::pour(93); // ANCHORED\n"),
        ("console", "fn pour() {\n    // ANCHOR: pour\n"),
    ]


def test_a_listing_has_its_file_number_and_caption_and_a_note_is_text_of_the_page(book: SyncResult) -> None:
    sections = build_sections(book.pages).sections.to_pylist()
    dark = [row for row in sections if row["heading_path"][0] == "Roasting dark"]
    text = dark[0]["text"]
    assert "Filename: src/main.rs\n\n```rust\nkettle::pour(93);\n```\n\n" in text
    assert "Listing 2-1: Pouring slowly, with -> arrows" in text.replace("`", "")
    assert [row["anchor"] for row in dark] == ["dark", "why", "new-name"]
    assert "Note: dark is not burnt." in text
    assert "[1] A footnote." in dark[-1]["text"]


def test_links_reach_ids_beside_headings_too(book: SyncResult) -> None:
    rows = build_sections(book.pages).sections.to_pylist()
    further = {anchor["name"]: row["heading"] for row in rows for anchor in row["anchors"]}
    assert further["old-name"] == "New name"
    assert further["listing-2-1"] == "Dark"


def test_a_chapter_whose_included_file_changed_is_read_again_and_no_other(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    settings = MarkdownBook(kind="markdown_book", tenant="t", path=tmp_path, readers="everyone")
    source = open_source("brew", settings, tmp_path)
    first = source.sync(None, {})
    (tmp_path / "code" / "brew.rs").write_text(CODE.replace("93", "88"), encoding="utf-8")
    second = source.sync(first.pages, first.state)
    before, after = ({r["source_file"]: r["version"] for r in s.pages.to_pylist()} for s in (first, second))
    assert {name for name in after if after[name] != before[name]} == {"src/beans.md"}


LINES = "one\n// ANCHOR: a\ntwo\n// ANCHOR: b\nthree\n// ANCHOR_END: a\nfour"


@pytest.mark.parametrize(
    ("part", "taken"),
    [
        ("", LINES),
        ("1", "one"),
        ("0", "one"),
        ("3:3", "two"),
        (":1", "one"),
        ("7:", "four"),
        ("7:x", "four"),
        ("5:2", ""),
        ("99", ""),
        ("a", "two\nthree"),
        ("none", ""),
    ],
)
def test_an_include_takes_the_lines_that_it_names(part: str, taken: str) -> None:
    assert taken_lines(LINES, part) == taken


def test_rustdoc_include_hides_what_it_does_not_name() -> None:
    assert with_hidden_lines(LINES, "a") == "# one\ntwo\nthree\n# four"
    assert with_hidden_lines("a\nb\nc", "2") == "# a\nb\n# c"


def test_hidden_lines_of_other_languages_begin_with_what_the_book_says() -> None:
    assert shown_code("!hid\nshown\n", "python", {"python": "!"}) == "shown\n"
    assert shown_code("~hid\nshown\n", "python,hidelines=~", {}) == "shown\n"
    assert shown_code("# a comment\n", "python", {}) == "# a comment\n"


def absent(name: str) -> str:
    raise KeyError(name)


@pytest.mark.parametrize(
    ("text", "shown", "lost"),
    [
        (
            r"a {{#include b.md}} \{{#include c.md}} {{#unknown d}}",
            f"a {OMISSION} {{{{#include c.md}}}} {{{{#unknown d}}}}",
            1,
        ),
        ("above\n\n{{#include b.md}}\n{{#playground c.rs}}\n\nbelow", f"above\n\n{OMISSION}\n{OMISSION}\n\nbelow", 2),
        ("```rust\nlet a;\n{{#rustdoc_include b.rs:here}}\n```\n", f"```rust\nlet a;\n{OMISSION}\n```\n", 1),
        ("{{#include b}}", OMISSION, 1),
    ],
)
def test_of_a_file_that_is_not_there_the_directive_is_an_omission_and_counted(text: str, shown: str, lost: int) -> None:
    includes = Includes(absent)
    assert includes.expanded(text, "x") == shown
    assert includes.lost == {"include": lost}


def test_what_an_included_file_lacks_is_an_omission_too() -> None:
    includes = Includes(lambda name: "one\n{{#include none.md}}\ntwo" if name == "a.md" else absent(name))
    assert includes.expanded("> {{#include a.md}}\nend", "") == f"> one\n> {OMISSION}\n> two\nend"
    assert (includes.files, includes.lost) == (["a.md"], {"include": 1})


@given(st.lists(st.sampled_from(["{{#include a}}", "```", "> ", "\n", "x", "\ufdd0", "\ufdd1", " "]), max_size=40))
def test_nothing_but_directives_is_left_out(parts: list[str]) -> None:
    text = "".join(parts)
    shown = Includes(absent).expanded(text, "")
    assert "{{#" not in shown
    assert shown.count("x") >= text.count("x") - text.count("\ufdd0")


def test_files_that_include_each_other_end() -> None:
    includes = Includes(lambda _: "x {{#include a.md}} {{#include a.md}}")
    assert len(includes.expanded("{{#include a.md}}", "")) < 3_000_000


@given(st.text(alphabet="<Listing number=\"'>`\n/ac-", max_size=200))
def test_a_listing_that_is_none_loses_no_word(text: str) -> None:
    assert with_listings(text) == text or "<Listing" in text
