"""Books of mdBook: chapters of `SUMMARY.md` with the ids, addresses and text that mdBook makes of them.

Belongs here: `book.toml`, addresses, ids, hidden lines of code, listings and notes of the Rust book.
Does not belong here: the table of contents (`mdbook_summary`), files that are put in (`mdbook_includes`), Markdown
itself (`markdown_page`).

Ids are made as mdbook-html 0.5 makes them (`utils.rs`: `id_from_content`, `unique_id`), of the text with smart
punctuation where the book has that on; the text itself stays as its author wrote it.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rag_assets.sources.sites.front_matter import FrontMatter
from rag_assets.sources.sites.markdown_page import (
    HEADINGS,
    RAW,
    heading_title,
    markdown_body,
    markdown_main,
    raw_headings_marked,
    words_of,
)
from rag_assets.sources.sites.mdbook_includes import Includes, shown_code
from rag_assets.sources.sites.mdbook_listings import with_listings
from rag_assets.sources.sites.mdbook_summary import Chapter, read_summary
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, Tree, quoted, settings_text, text_of
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element

_SUMMARY, _SETTINGS = "SUMMARY.md", "book.toml"
_README = re.compile(r"readme", re.IGNORECASE)
_DASHES = re.compile(r"-{2,3}")


@dataclass(frozen=True)
class Book:
    """What `book.toml` says of the text."""

    src: str = "src"  # folder of the chapters; empty: the root
    lang: str | None = None
    is_smart: bool = True  # whether `--` in a heading is a dash when its id is made
    admonitions: bool = True
    definitions: bool = True
    hidden: Mapping[str, str] = field(default_factory=dict)  # what begins a hidden line of code, by language
    notes: bool = False  # the Rust book's preprocessor for notes
    listings: bool = False  # and for listings


class MdBookSite:
    """The rules of mdBook."""

    def plan(self, tree: Tree) -> SitePlan:
        """See `Site`: drafts are no pages; a chapter without a file is left out with a reason."""
        book = read_book(tree)
        names = frozenset(tree.names)
        summary = posixpath.join(book.src, _SUMMARY)
        if summary not in names:
            raise FileError(f"the book has no {summary}")
        chapters = read_summary(settings_text(tree, summary))
        files = [_file(book.src, chapter) for chapter in chapters]
        pages, excluded = [], {summary: "it is the table of contents"}
        for chapter, file in zip(chapters, files, strict=True):
            if file in names and file not in excluded:
                above = tuple(name for place in chapter.parents if (name := files[place]) in names)
                pages.append(_page(book, chapter, file, above))
        settings = tuple(name for name in (_SETTINGS, summary) if name in names)
        return SitePlan("mdbook", pages, excluded, settings, {"book": asdict(book)}, roots=(book.src,))

    def body(self, tree: Tree, plan: SitePlan, page: SitePage) -> SiteBody:
        """See `Site`."""
        book = Book(**plan.facts["book"])
        includes = Includes(lambda name: text_of(tree.read(name)))
        text = includes.expanded(text_of(tree.read(page.name)).removeprefix("\ufeff"), posixpath.dirname(page.name))
        text = raw_headings_marked(with_listings(text) if book.listings else text)
        main = markdown_main(text, *_features(book))
        if book.notes:
            _open_notes(main)
        set_mdbook_ids(main, is_smart=book.is_smart)
        _show_code(main, book.hidden)
        title = page.title or includes.title or heading_title(main) or page.name
        return markdown_body(
            main, plan, page, FrontMatter(), title=title, lang=book.lang, read=includes.files, lost=includes.lost
        )


def read_book(tree: Tree) -> Book:
    """Return what `book.toml` says; the defaults where there is none: mdBook's own, but for a tree that begins with
    the chapters.

    Raises:
        FileError: it is not valid.
    """
    names = frozenset(tree.names)
    if _SETTINGS not in names:
        return Book(src="src" if f"src/{_SUMMARY}" in names else "")
    try:
        said = tomllib.loads(settings_text(tree, _SETTINGS))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileError(f"{_SETTINGS} is not valid: {error}") from None
    book, html = _table(said, "book"), _table(said, "output", "html")
    smart = html.get("smart-punctuation", html.get("curly-quotes", True))
    src, lang, before = book.get("src"), book.get("language"), _table(said, "preprocessor")
    return Book(
        src=posixpath.normpath(src).strip("/").removeprefix(".") if isinstance(src, str) else "src",
        lang=lang[:2].lower() if isinstance(lang, str) and lang[:2].isalpha() else None,
        is_smart=smart is not False,
        admonitions=html.get("admonitions") is not False,
        definitions=html.get("definition-lists") is not False,
        hidden={name: prefix for name, prefix in _table(html, "code", "hidelines").items() if isinstance(prefix, str)},
        notes="trpl-note" in before,
        listings="trpl-listing" in before,
    )


def mdbook_id(text: str) -> str:
    """Return the id that a heading gets by its words, before duplicates are told apart."""
    kept = (char for char in text.strip().lower() if char.isalnum() or char in "_-" or char.isspace())
    return "".join("-" if char.isspace() else char for char in kept) or "section"


def set_mdbook_ids(main: Element, *, is_smart: bool) -> None:
    """Give headings and defined terms their ids; a repeated one takes the first free of `-1`, `-2`.

    Those that authors write stay, and are not counted; headings that are written as HTML get none.
    """
    used: set[str] = set()
    tried: Counter[str] = Counter()
    for heading in main.iter(*HEADINGS, "dt"):
        if heading.attrib.pop(RAW, None) is not None or heading.get("id"):
            continue
        base = name = mdbook_id(_id_text(heading) if is_smart else "".join(heading.itertext()))
        while name in used:
            tried[base] += 1
            name = f"{base}-{tried[base]}"
        used.add(name)
        heading.set("id", name)


def _id_text(heading: Element) -> str:
    """Return the words of a heading with dashes for `--` and `---`, but not in code."""
    parts = []
    for text in heading.xpath(".//text()"):
        above = text.getparent() if text.is_text else text.getparent().getparent()
        in_code = any(element.tag == "code" for element in (above, *above.iterancestors()))
        parts.append(str(text) if in_code else _DASHES.sub("\u2013", str(text)))
    return "".join(parts)


def _file(src: str, chapter: Chapter) -> str:
    """Return the name of a chapter's file in the tree; empty for a draft."""
    return posixpath.normpath(posixpath.join(src, chapter.file)) if chapter.file else ""


def _page(book: Book, chapter: Chapter, file: str, above: tuple[str, ...]) -> SitePage:
    path = posixpath.relpath(file, book.src or ".")
    folder, base = posixpath.split(path)
    stem = posixpath.splitext(base)[0]
    name = "index" if _README.fullmatch(stem) else stem
    address = quoted(posixpath.join(folder, f"{name}.html"))
    return SitePage(file, address, chapter.title or None, above, chapter.part, chapter.numbered)


def _features(book: Book) -> list[str]:
    wanted = {"HEADING_ATTRIBUTES": True, "DEFINITION_LIST": book.definitions, "GFM": book.admonitions}
    return [name for name, is_wanted in wanted.items() if is_wanted]


def _open_notes(main: Element) -> None:
    """Make notes of the Rust book, which are quotes that begin with `Note:` or a heading, what its program makes of
    them: text of the page with headings of its own."""
    for note in list(main.iter("blockquote")):
        first = next(iter(note), None)
        if first is not None and (first.tag in HEADINGS or words_of(first).startswith("Note:")):
            note.tag = "section"


def _show_code(main: Element, hidden: Mapping[str, str]) -> None:
    """Leave out hidden lines of code, and what a fence says beside the language."""
    for code in main.iter("code"):
        above, info = code.getparent(), (code.get("class") or "").removeprefix("language-")
        if above is not None and above.tag == "pre" and not len(code):
            code.text = shown_code(code.text or "", info, hidden)
            if language := info.split(",")[0]:
                code.set("class", f"language-{language}")


def _table(said: Any, *names: str) -> Mapping[str, Any]:
    """Return a table inside of tables; an empty one where there is none."""
    for name in names:
        said = said.get(name) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}
