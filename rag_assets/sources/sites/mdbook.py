"""Books of mdBook: chapters of `SUMMARY.md` with the ids, addresses and text that mdBook makes of them.

The rules are those of mdbook-summary 0.5 (`lib.rs`), mdbook-driver 0.5 (`builtin_preprocessors/links.rs`,
`take_lines.rs`) and mdbook-html 0.5 (`hide_lines.rs`; ids: `utils.rs`, of the text with smart punctuation where the
book has that on; the text itself stays as its author wrote it). A book is read as far as it can be: what stops a build
there (an item that is no link, a list after the suffix) is left aside, and a file that is not there is an omission.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any
from urllib.parse import unquote

from rag_assets.sources.sites import markdown_page
from rag_assets.sources.sites.front_matter import FrontMatter
from rag_assets.sources.sites.site import SiteBody, SitePage, SitePlan, SourceTree, quoted, settings_text, text_of
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element
from rag_serving.text.normalization import OMISSION

DEPTH = 10  # includes inside of includes, as mdBook allows
INCLUDED_MAX = 2_000_000  # characters that one chapter may include
_DIRECTIVE = re.compile(r"\\\{\{#.{0,500}\}\}|\{\{\s{0,99}#([a-zA-Z0-9_]{1,99})\s+([^}]{1,2000})\}\}")
_ANCHOR_START = re.compile(r"ANCHOR:\s*([\w-]+)")
_ANCHOR_END = re.compile(r"ANCHOR_END:\s*([\w-]+)")
_BORING = re.compile(r"(\s*)#(.?)(.*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
ReadText = Callable[[str], str]
"""Return the text of a file of the tree; raises LookupError where there is none, or it cannot be read."""


@dataclass
class Includes:
    """Puts files into the text of one chapter."""

    read: ReadText
    title: str | None = None  # that `{{#title …}}` gives
    files: list[str] = field(default_factory=list)  # that were included
    lost: Counter[str] = field(default_factory=Counter)
    _chars: int = 0

    def expanded(self, text: str, folder: str, depth: int = 0) -> str:
        """Return the text with its directives expanded; `folder` is that of its file in the tree."""
        parts, end, line = list[str](), 0, ""  # the line so far: it precedes each inserted line
        for match in _DIRECTIVE.finditer(text):
            put = self._put(match, folder, depth)
            if put is None:
                continue
            between = text[end : match.start()]
            line = between.rpartition("\n")[2] if "\n" in between else line + between
            lines = _lines(put)
            if len(lines) * len(line) > INCLUDED_MAX:
                line = ""
            parts += (between, f"\n{line}".join(lines))
            line += lines[-1] if lines else ""
            end = match.end()
        return "".join([*parts, text[end:]])

    def _put(self, match: re.Match[str], folder: str, depth: int) -> str | None:
        """Return the replacement of a directive; None leaves it as it is."""
        name, rest = match[1], (match[2] or "").strip()
        if name is None:
            return match[0][1:]
        if name == "title":
            self.title = rest
            return ""
        target, *properties = rest.split() or [""]
        if name in ("playground", "playpen"):
            content, file = self._file(folder, target)
            if content is None:
                return OMISSION
            end = "" if content.endswith("\n") else "\n"
            fence = f"```rust{',' if properties else ''}{','.join(properties)}\n{content}{end}```\n"
            return self._nested(fence, file, depth)
        if name not in ("include", "rustdoc_include"):
            return None
        path, _, part = target.partition(":")
        content, file = self._file(folder, path)
        if content is None:
            return OMISSION
        taken = taken_lines(content, part) if name == "include" else with_hidden_lines(content, part)
        return self._nested(taken, file, depth)

    def _nested(self, content: str, file: str, depth: int) -> str:
        return self.expanded(content, posixpath.dirname(file), depth + 1) if depth < DEPTH else ""

    def _file(self, folder: str, path: str) -> tuple[str | None, str]:
        """Return the text of a file and its name; None if there is none, or too much was included already."""
        file = posixpath.normpath(posixpath.join(folder, path))
        try:
            content = self.read(file)
        except LookupError:
            self.lost["include"] += 1
            return None, file
        self._chars += len(content)
        if self._chars > INCLUDED_MAX:
            self.lost["include"] += 1
            return None, file
        self.files.append(file)
        return content, file


def taken_lines(text: str, part: str) -> str:
    """Return the lines of a text that `part` names: `5`, `2:10`, `:10`, `2:`, or an anchor; empty: all of them."""
    lines = _lines(text)
    wanted = _range(part, len(lines))
    return "\n".join(_anchored(lines, part) if wanted is None else lines[wanted[0] : wanted[1]])


def with_hidden_lines(text: str, part: str) -> str:
    """Return all lines of a text, those that `part` does not name as Rust's hidden ones."""
    lines = _lines(text)
    wanted = _range(part, len(lines))
    if wanted is None:
        return "\n".join(_hidden_around(lines, part))
    first, end = wanted
    return "\n".join(line if first <= place < end else f"# {line}" for place, line in enumerate(lines))


def shown_code(code: str, info: str, prefixes: Mapping[str, str]) -> str:
    """Return the visible lines of a code block, without the hidden ones. `info`: the words behind its fence;
    `prefixes`: what begins a hidden line, by language (`hidelines` in book.toml)."""
    words = [word for word in re.split(r"[ \t,]", info) if word]
    if words[:1] == ["rust"]:
        lines = [_rust_line(line) for line in _lines(code)]
        return "".join(f"{line}\n" for line in lines if line is not None)
    own = (word.removeprefix("hidelines=") for word in words if word.startswith("hidelines="))
    prefix = next(own, prefixes.get(words[0], "") if words else "")
    if not prefix:
        return code
    return "".join(f"{line}\n" for line in _lines(code) if not line.lstrip().startswith(prefix))


def _rust_line(line: str) -> str | None:
    """Return a line of Rust as it is shown; None: it is hidden. `##` is an escaped `#`."""
    match = _BORING.fullmatch(line)
    if match is None:
        return line
    if match[2] == "#":
        return f"{match[1]}{match[2]}{match[3]}"
    return None if match[2] in ("", " ") else line


def _range(part: str, count: int) -> tuple[int, int] | None:
    """Return the first line, from 0, and the one after the last; None if the part is the name of an anchor."""
    first, *more = part.split(":", 2)
    if first and not _NUMBER.fullmatch(first):
        return None
    start = max(int(first) - 1, 0) if first else 0
    if not more:
        return (start, start + 1) if first else (0, count)
    return start, int(more[0]) if _NUMBER.fullmatch(more[0]) else count


def _anchored(lines: Sequence[str], anchor: str) -> list[str]:
    name, kept, inside = anchor.partition(":")[0], list[str](), False
    for line in lines:
        if not inside:
            start = _ANCHOR_START.search(line)
            inside = start is not None and start[1] == name
        elif end := _ANCHOR_END.search(line):
            if end[1] == name:
                break
        elif not _ANCHOR_START.search(line):
            kept.append(line)
    return kept


def _hidden_around(lines: Sequence[str], anchor: str) -> list[str]:
    name, kept, inside = anchor.partition(":")[0], list[str](), False
    for line in lines:
        start, end = _ANCHOR_START.search(line), _ANCHOR_END.search(line)
        if inside and end:
            inside = end[1] != name
        elif start and not inside:
            inside = start[1] == name
        elif not start and not end:
            kept.append(line if inside else f"# {line}")
    return kept


def _lines(text: str) -> list[str]:
    """Return lines as Rust's `str::lines` has them: parted at line feeds, without the carriage return before one."""
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


_OPEN, _CLOSE = "<Listing", "</Listing>"
_ATTRIBUTE = re.compile(r"""\b(number|caption|file-name|id)\s{0,9}=\s{0,9}(?:"([^"]{0,5000})"|'([^']{0,5000})')""")
_WHOLE = re.compile(r"""<Listing\b(?:[^"'>]|"[^"]*"|'[^']*')*>\s*""")
_LINES = 20  # that a tag may be on


def with_listings(text: str) -> str:
    """Return Markdown with each listing as the figure that its readers see: file name, code, number and caption. A
    listing is reached by `#listing-8-11` if it has the number 8-11, unless it names an id."""
    if _OPEN not in text:
        return text
    lines, made = text.split("\n"), list[str]()
    text_lines = {
        index for begin, end, is_code in markdown_page.outside(lines) if not is_code for index in range(begin, end)
    }
    caption, index = "", 0
    while index < len(lines):
        line = lines[index].strip()
        if index in text_lines and line.startswith(_OPEN) and (tag := _tag(lines, index)):
            length, attributes = tag
            number, caption = attributes.get("number", ""), attributes.get("caption", "")
            name = attributes.get("id") or (f"listing-{number}" if number else "")
            opening = f'<figure class="listing" id="{escape(name)}">' if name else '<figure class="listing">'
            if file := attributes.get("file-name"):
                opening += f'\n<p><span class="file-name">Filename: {escape(file)}</span></p>'
            told = f'<a href="#{escape(name)}">Listing {escape(number)}</a>' if number else ""
            if caption:
                told += (": " if told else "") + _inline(caption)
            caption = f"<figcaption>{told}</figcaption>\n" if told else ""
            made.append(opening)
            index += length
        elif index in text_lines and line == _CLOSE:
            made.append(f"{caption}</figure>")
            index += 1
        else:
            made.append(lines[index])
            index += 1
    return "\n".join(made)


def _tag(lines: list[str], index: int) -> tuple[int, dict[str, str]] | None:
    """Return the number of lines of an opening tag and its attributes; None if it does not end."""
    for length in range(1, _LINES + 1):
        written = "\n".join(lines[index : index + length]).strip()
        if _WHOLE.fullmatch(written):
            return length, {match[1]: match[2] or match[3] or "" for match in _ATTRIBUTE.finditer(written)}
    return None


def _inline(caption: str) -> str:
    from lxml import etree

    main = markdown_page.markdown_main(" ".join(caption.split()))
    paragraph = main.find("p")
    if paragraph is None or len(main) != 1:
        return escape(markdown_page.words_of(main))
    html = str(etree.tostring(paragraph, encoding="unicode", method="html", with_tail=False))
    return html.removeprefix("<p>").removesuffix("</p>")


FRONT = 0
"""The chapter that unnumbered ones (foreword, introduction, colophon) count as; each is a section of it."""
_DEEPEST = 20  # lists in lists; markdown-it reads as many


@dataclass(frozen=True)
class Chapter:
    """A line of the table of contents."""

    title: str
    file: str | None  # below the book's `src`, as it is written; None: a draft
    number: tuple[int, ...]  # such as (3, 2); unnumbered ones are (0, 1), (0, 2) and so on
    parents: tuple[int, ...] = ()  # places in the list of the chapters above it, root first
    part: str | None = None  # title of its part

    @property
    def numbered(self) -> str:
        """Return its number as books print it, such as 3.2."""
        return ".".join(map(str, self.number))


def read_summary(text: str) -> list[Chapter]:
    """Return the chapters of a `SUMMARY.md` in reading order; a repeated one keeps its first position."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    root = SyntaxTreeNode(MarkdownIt("commonmark").parse(text))
    reader = _SummaryReader()
    for place, node in enumerate(root.children):
        reader.read(node, is_first=place == 0)
    return reader.chapters


class _SummaryReader:
    def __init__(self) -> None:
        self.chapters: list[Chapter] = []
        self._files: set[str] = set()
        self._unnumbered = 0
        self._top = 0
        self._part: str | None = None

    def read(self, node: Any, is_first: bool) -> None:
        """Read a block of the file. A heading above everything else is the file's own title, later ones name parts."""
        if node.type == "heading" and node.tag == "h1":
            self._part = None if is_first else _text(node)
        elif node.type in ("bullet_list", "ordered_list"):
            for item in node.children:
                self._top += self._item(item, (self._top + 1,), (), 0)
        elif node.type == "paragraph":
            for link in _links(node):
                self._unnumbered += 1
                self._add(link, (FRONT, self._unnumbered), (), None)

    def _item(self, item: Any, number: tuple[int, ...], parents: tuple[int, ...], depth: int) -> int:
        """Read an item of a list and those below it; returns how many numbers it takes: none without a link."""
        own = [child for child in item.children if child.type == "paragraph"]
        link = next((link for paragraph in own[:1] for link in _links(paragraph)), None)
        if link is None or depth > _DEEPEST:
            return 0
        place = self._add(link, number, parents, self._part)
        count = 0
        for child in item.children:
            if child.type in ("bullet_list", "ordered_list"):
                for below in child.children:
                    count += self._item(below, (*number, count + 1), (*parents, place), depth + 1)
        return 1

    def _add(self, link: Any, number: tuple[int, ...], parents: tuple[int, ...], part: str | None) -> int:
        file = unquote(str(link.attrs.get("href", ""))).removeprefix("./") or None
        if file in self._files:
            file = None
        elif file:
            self._files.add(file)
        self.chapters.append(Chapter(" ".join(_text(link).split()), file, number, parents, part))
        return len(self.chapters) - 1


def _links(node: Any) -> Iterator[Any]:
    return (child for child in node.walk() if child.type == "link")


def _text(node: Any) -> str:
    parts: Sequence[str] = [
        " " if child.type in ("softbreak", "hardbreak") else child.content
        for child in node.walk()
        if child.type in ("text", "code_inline", "softbreak", "hardbreak")
    ]
    return "".join(parts)


_SUMMARY, _SETTINGS = "SUMMARY.md", "book.toml"
_README = re.compile(r"readme", re.IGNORECASE)
_DASHES = re.compile(r"-{2,3}")


@dataclass(frozen=True)
class Book:
    """The settings of the text in `book.toml`."""

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

    def plan(self, tree: SourceTree) -> SitePlan:
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
                path = posixpath.relpath(file, book.src or ".")
                folder, base = posixpath.split(path)
                stem = posixpath.splitext(base)[0]
                base_name = "index" if _README.fullmatch(stem) else stem
                address = quoted(posixpath.join(folder, f"{base_name}.html"))
                pages.append(SitePage(file, address, chapter.title or None, above, chapter.part, chapter.numbered))
        settings = tuple(name for name in (_SETTINGS, summary) if name in names)
        return SitePlan("mdbook", pages, excluded, settings, {"book": asdict(book)}, roots=(book.src,))

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        book = Book(**plan.facts["book"])
        includes = Includes(lambda name: text_of(tree.read(name)))
        text = includes.expanded(text_of(tree.read(page.name)).removeprefix("\ufeff"), posixpath.dirname(page.name))
        text = markdown_page.raw_headings_marked(with_listings(text) if book.listings else text)
        wanted = {"HEADING_ATTRIBUTES": True, "DEFINITION_LIST": book.definitions, "GFM": book.admonitions}
        main = markdown_page.markdown_main(text, *[name for name, is_wanted in wanted.items() if is_wanted])
        if book.notes:
            # notes of the Rust book begin with `Note:` or a heading, and are text of the page with headings of its own
            for note in list(main.iter("blockquote")):
                first = next(iter(note), None)
                if first is not None and (
                    first.tag in markdown_page.HEADINGS or markdown_page.words_of(first).startswith("Note:")
                ):
                    note.tag = "section"
        set_mdbook_ids(main, is_smart=book.is_smart)
        for code in main.iter("code"):
            above, info = code.getparent(), (code.get("class") or "").removeprefix("language-")
            if above is not None and above.tag == "pre" and not len(code):
                code.text = shown_code(code.text or "", info, book.hidden)
                if language := info.split(",")[0]:
                    code.set("class", f"language-{language}")
        title = page.title or includes.title or markdown_page.heading_title(main) or page.name
        return markdown_page.markdown_body(
            main, plan, page, FrontMatter(), title=title, lang=book.lang, read=includes.files, lost=includes.lost
        )


def read_book(tree: SourceTree) -> Book:
    """Return the settings in `book.toml`, or the defaults: mdBook's own, except for a tree that begins with the
    chapters. Raises FileError: it is not valid."""
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
    """Return the id of a heading from its words, before duplicates are numbered."""
    kept = (char for char in text.strip().lower() if char.isalnum() or char in "_-" or char.isspace())
    return "".join("-" if char.isspace() else char for char in kept) or "section"


def set_mdbook_ids(main: Element, *, is_smart: bool) -> None:
    """Give headings and defined terms their ids; a repeated one takes the first free of `-1`, `-2`. Those that authors
    write stay, and are not counted; headings that are written as HTML get none."""
    used: set[str] = set()
    tried: Counter[str] = Counter()
    for heading in main.iter(*markdown_page.HEADINGS, "dt"):
        if heading.attrib.pop(markdown_page.RAW, None) is not None or heading.get("id"):
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


def _table(said: Any, *names: str) -> Mapping[str, Any]:
    """Return a table inside of tables; an empty one if there is none."""
    for name in names:
        said = said.get(name) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}
