"""Markdown pages as HTML, as GitHub shows them: what all generators of Markdown sites have in common."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol
from urllib.parse import unquote, urljoin

from rag_assets.sources.sites.front_matter import FrontMatter, split_front_matter
from rag_assets.sources.sites.site import (
    ExcludedPageError,
    SiteBody,
    SitePage,
    SitePlan,
    SourceTree,
    by_folder,
    quoted,
    resolved,
    text_of,
)
from rag_assets.steps.files.composed import brought
from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import Element, PageError, parse_html
from rag_serving.text.normalization import OMISSION

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//|#|\Z")
_ENDINGS = ("", ".md", ".mdx", "/README.md", "/index.md", "/index.mdx", "/README.mdx")


def link_address(plan: SitePlan, page: SitePage, href: str) -> str:
    """Return the target of a link on a page: an address below `base_url` if it is a page or a file of the site, else
    the original."""
    href = href.strip()
    if _SCHEME.match(href):
        return href
    path, mark, fragment = href.partition("#")
    path, _, _query = path.partition("?")
    target = _target(plan, page, unquote(path))
    if target is None:
        if not plan.base_url:
            return href
        if href.startswith("/"):
            return f"{plan.base_url}{href[1:]}"
        return urljoin(f"{plan.base_url}{page.path}", href)
    return f"{plan.address(target)}{mark}{fragment}"


def _target(plan: SitePlan, page: SitePage, path: str) -> SitePage | None:
    """Return the page that a path means: by the name of its file, else by its own path."""
    if path.startswith("/"):
        names = [posixpath.join(root, path.strip("/")) for root in plan.roots]
    else:
        name = resolved(page.name, path)
        names = [] if name is None else ["" if name == "." else name]
    for name in names:
        for ending in _ENDINGS:
            if found := plan.by_name.get(f"{name}{ending}".lstrip("/")):
                return found
    below = urljoin(f"/{unquote(page.path)}", path).strip("/")
    return plan.by_path.get(below) or plan.by_path.get(below.removesuffix(".html"))


_TITLE = re.compile(r"\b(?:title|filename|file)=(?:\"([^\"\n]{0,500})\"|'([^'\n]{0,500})')")
_CLASS = re.compile(r"\{\s*\.([\w+#-]{1,60})")
_LANGUAGE = re.compile(r"[\w+#.-]{1,60}")


def fence_run(stripped: str) -> str:
    """Return the run of three or more backticks or tildes that a line without indentation begins a fence with."""
    if not stripped.startswith(("```", "~~~")):
        return ""
    run = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
    return "" if run[0] == "`" and "`" in stripped[len(run) :] else run


def is_end(stripped: str, run: str) -> bool:
    """Return whether a line ends the code that `run` opened."""
    return stripped.startswith(run) and not stripped.strip().strip(run[0])


def end_of(lines: Sequence[str], begin: int) -> int:
    """Return the index of the line that ends the fence opened at `begin`; that after the last if none does."""
    run = fence_run(lines[begin].lstrip(" "))
    for index in range(begin + 1, len(lines)):
        if is_end(lines[index].lstrip(" "), run):
            return index
    return len(lines)


def opening(line: str) -> tuple[str, str | None, str]:
    """Return an opening fence with nothing but its language, the title that it gives its code, and all it says."""
    stripped = line.lstrip(" ")
    indent, run = line[: len(line) - len(stripped)], fence_run(stripped)
    info = stripped[len(run) :].strip()
    title = _TITLE.search(info)
    named = _CLASS.match(info) or _LANGUAGE.match(info)
    language = named[1] if named and named.re is _CLASS else named[0] if named else ""
    return f"{indent}{run}{language}", (title[1] or title[2]) if title else None, info


def outside(lines: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
    """Yield (begin, end, is code) of the runs of lines: fences with both of their ends, and the text between."""
    begin, index = 0, 0
    while index < len(lines):
        if fence_run(lines[index].lstrip(" ")):
            if begin < index:
                yield begin, index, False
            begin, index = index, min(end_of(lines, index) + 1, len(lines))
            yield begin, index, True
            begin = index
        else:
            index += 1
    if begin < index:
        yield begin, index, False


_NOT_ASCII_WORD = re.compile(r"[^\w\- ]", re.ASCII)
_ENCLOSED = (range(0x24B6, 0x24EA), range(0x1F130, 0x1F14A), range(0x1F150, 0x1F16A), range(0x1F170, 0x1F18A))
_KEPT = frozenset({"Nd", "Nl", "Pc"})


class Slugger(Protocol):
    """Makes the ids of one page, called in document order."""

    def slug(self, text: str) -> str:
        """Return the id of a heading without one of its own; no two of a page are the same."""
        ...

    def written(self, name: str) -> str:
        """Note an id that the author wrote, and return the generator's form of it."""
        ...


def github_slug(text: str) -> str:
    """Return a heading's slug by GitHub's rule: lower case; letters, marks, digits, `-` and `_`; a space as `-`.

    As npm's `github-slugger` 2 has it, which GitHub's own rule (`[^\\p{Word}\\- ]`) was taken from.
    """
    lowered = text.lower()
    kept = _NOT_ASCII_WORD.sub("", lowered) if text.isascii() else "".join(filter(_is_word, lowered))
    return kept.replace(" ", "-")


def _is_word(char: str) -> bool:
    category = unicodedata.category(char)
    if category[0] in "LM" or category in _KEPT or char in "- ":
        return True
    return category == "So" and any(ord(char) in each for each in _ENCLOSED)


class GithubSlugger:
    """GitHub's and Docusaurus' ids: a repeated one takes `-1`, `-2`; ids that authors write are not counted."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def slug(self, text: str) -> str:
        base = name = github_slug(text)
        while name in self._seen:
            self._seen[base] += 1
            name = f"{base}-{self._seen[base]}"
        self._seen[name] = 0
        return name

    def written(self, name: str) -> str:
        return name


HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
RAW = "data-raw"
"""The attribute of headings that are written as HTML, to which some generators give no ids."""
_RAW_HEADING = re.compile(r" {0,3}<h[1-6](?=[\s>])", re.IGNORECASE)
HTML_PER_CHAR, HTML_MAX = 20, 20_000_000
"""Characters of HTML for each of Markdown, and without regard to it: link references can repeat long addresses."""
ALERTS = MappingProxyType(
    {f"markdown-alert-{name}": name.capitalize() for name in ("note", "tip", "important", "warning", "caution")}
)
"""Titles of the quotes that GitHub's Markdown has for alerts, by their class."""
_RENAMED = MappingProxyType({"aside": "div", "footer": "div", "header": "div", "form": "div", "button": "span"})


def read_markdown(tree: SourceTree, page: SitePage) -> tuple[FrontMatter, str]:
    """Return the front matter of a page and the Markdown after it. Raises ExcludedPageError: its front matter leaves it
    out. Raises FileError: it cannot be read."""
    front, text = split_front_matter(text_of(tree.read(page.name)))
    if reason := front.exclusion:
        raise ExcludedPageError(reason)
    return front, text


def markdown_body(
    main: Element,
    plan: SitePlan,
    page: SitePage,
    front: FrontMatter,
    *,
    title: str,
    lang: str | None = None,
    labels: Iterable[str] = (),
    read: Iterable[str] = (),
    lost: Mapping[str, int] = MappingProxyType({}),
) -> SiteBody:
    """Return the body of a page whose headings have their ids; links and footnotes of `main` are rewritten. `lang`: of
    the site, where the page says none; `labels`: further ones; `read`: names of the files that it includes; `lost`: how
    often what could not be carried over."""
    set_links(main, lambda href: link_address(plan, page, href))
    title_quotes(main, ALERTS)
    mark_footnotes(main)
    plain_elements(main)
    return SiteBody(
        html_of(main),
        title,
        slug=front.text("slug"),
        labels=(*front.labels, *labels),
        category=front.text("category"),
        lang=front.lang or lang,
        read=tuple(dict.fromkeys(read)),
        lost={kind: count for kind, count in lost.items() if count},
        updated_at=front.updated_at,
    )


def markdown_main(text: str, *features: str) -> Element:
    """Return Markdown as a `<main>` element: CommonMark with tables, strikethrough, task lists and footnotes; HTML in
    it is read as HTML. `features`: further ones of `pyromark.Options`, without `ENABLE_`. Raises FileError: it cannot
    be read."""
    import pyromark

    options = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
    for name in ("TASKLISTS", "FOOTNOTES", *features):
        options |= getattr(pyromark.Options, f"ENABLE_{name}")
    html = pyromark.html(text, options=options)
    if len(html) > max(HTML_MAX, HTML_PER_CHAR * len(text)):
        raise FileError(f"its links repeat addresses of more than {HTML_MAX} characters")
    return html_main(html)


def html_main(html: str) -> Element:
    """Return HTML as a `<main>` element. Raises FileError if it cannot be read."""
    try:
        body = parse_html(f"<html><body>{html}</body></html>").find("body")
    except PageError as error:
        raise FileError(str(error)) from None
    for element in list(body.iter("main", "body")):
        if element is not body:
            element.drop_tag()
    body.tag = "main"
    return body


def raw_headings_marked(text: str) -> str:
    """Return Markdown in which headings that are written as HTML say so (`RAW`)."""
    if "<h" not in text and "<H" not in text:
        return text
    lines = text.split("\n")
    for begin, end, is_code in outside(lines):
        for index in range(begin, end if not is_code else begin):
            if match := _RAW_HEADING.match(lines[index]):
                lines[index] = f'{match[0]} {RAW}=""{lines[index][match.end() :]}'
    return "\n".join(lines)


def html_of(main: Element) -> str:
    """Return an element as HTML."""
    from lxml import etree

    return str(etree.tostring(main, encoding="unicode", method="html"))


def words_of(element: Element) -> str:
    """Return the text of an element on one line."""
    return " ".join("".join(element.itertext()).split())


def set_ids(main: Element, slugger: Slugger, text: Callable[[Element], str] | None = None) -> None:
    """Give each heading the id that its generator gives it; one that its author wrote is kept, and one that says that
    it is written as HTML gets none."""
    for heading in main.iter(*HEADINGS):
        is_raw = heading.attrib.pop(RAW, None) is not None
        if is_raw and not heading.get("id"):
            continue
        if written := heading.get("id"):
            heading.set("id", slugger.written(written))
        else:
            heading.set("id", slugger.slug(text(heading) if text else "".join(heading.itertext()).strip()))


def set_links(main: Element, address: Callable[[str], str]) -> None:
    """Set the links of a page by `address`; one without a known address gets no target."""
    for link in main.iter("a"):
        if OMISSION in unquote(href := link.get("href") or ""):
            del link.attrib["href"]
        elif href:
            link.set("href", address(href))


def heading_title(main: Element) -> str:
    """Return the words of the first heading of level 1; empty if there is none."""
    heading = next(main.iter("h1"), None)
    return words_of(heading) if heading is not None else ""


def mark_footnotes(main: Element) -> None:
    """Write the marks of footnotes in brackets, so that none is taken for a digit of the number before it."""
    for mark in list(main.iter("sup")):
        kind = mark.get("class") or ""
        if kind.startswith("footnote"):
            label = words_of(mark)
            for child in list(mark):
                mark.remove(child)
            mark.tag, mark.text = "span", f"[{label}]"
            if kind == "footnote-definition-label":
                _into_next(mark)


def _into_next(mark: Element) -> None:
    paragraph = mark.getnext()
    if paragraph is None or paragraph.tag != "p":
        return
    above = mark.getparent()
    above.remove(mark)
    mark.tail, paragraph.text = f" {paragraph.text or ''}", None
    paragraph.insert(0, mark)


def title_quotes(main: Element, titles: Mapping[str, str]) -> None:
    """Begin each `<blockquote>` whose class is among `titles` with its title in bold."""
    from lxml import etree

    for quote in main.iter("blockquote"):
        if title := titles.get(quote.get("class") or ""):
            paragraph = etree.Element("p")
            etree.SubElement(paragraph, "strong").text = title
            paragraph.tail, quote.text = quote.text, None
            quote.insert(0, paragraph)


def plain_elements(main: Element) -> None:
    """Rename elements of the page's own text that a page's frame is made of."""
    from lxml import etree

    for code in list(main.iter("pre")):
        before = code.getprevious()
        if before is not None and before.tag == "pre" and not (before.tail or "").strip():
            code.addprevious(etree.Element("p"))  # editors write one `<pre>` a line, Markdown one a block
    for element in main.iter(*_RENAMED):
        element.tag = _RENAMED[element.tag]


ENDINGS = (".md", ".markdown", ".mdx")
_INDEXES = (
    "readme.md",
    "readme.markdown",
    "readme.mdx",
    "index.md",
    "index.markdown",
    "index.mdx",
    "_index.md",
    "index.html",
    "index.njk",
)
_NAVIGATION = frozenset({"summary.md", "_sidebar.md", "_navbar.md", "_footer.md", "_coverpage.md", "_toc.md"})


class GithubSite:
    """The rules of GitHub."""

    def plan(self, tree: SourceTree) -> SitePlan:
        """See `Site`: a README is above the files of its folder and of those below it."""
        folders = by_folder([name for name in tree.names if name.lower().endswith(ENDINGS)])
        indexes = indexes_of(folders)
        pages: list[SitePage] = []
        excluded: dict[str, str] = {}
        for folder in sorted(folders):
            for name in sorted(folders[folder], key=_order):
                if posixpath.basename(name).lower() in _NAVIGATION:
                    excluded[name] = "it is navigation"
                else:
                    pages.append(SitePage(name, quoted(name), parents=parents_of(name, indexes)))
        return SitePlan("github", pages, excluded)

    def body(self, tree: SourceTree, plan: SitePlan, page: SitePage) -> SiteBody:
        front, text = read_markdown(tree, page)
        read: list[str] = []
        lost: Mapping[str, int] = {}
        if page.name.endswith(".mdx"):
            text, read, lost = brought("mdx")(tree, page.name, text, {"frontMatter": front.values})
        main = markdown_main(text, "GFM")
        set_ids(main, GithubSlugger())
        title = front.text("title") or heading_title(main) or name_title(page.name)
        return markdown_body(main, plan, page, front, title=title, read=read, lost=lost)


def name_title(name: str) -> str:
    """Return the title that a file's name gives: of an index, the name of its folder."""
    folder, base = posixpath.split(name)
    is_index = base.lower() in _INDEXES and folder
    base = posixpath.basename(folder) if is_index else posixpath.splitext(base)[0]
    return base.replace("-", " ").replace("_", " ").strip() or name


def _order(name: str) -> tuple[int, str]:
    base = posixpath.basename(name).lower()
    return (_INDEXES.index(base) if base in _INDEXES else len(_INDEXES), name)


def parents_of(name: str, indexes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the indexes of the folders above a page, root first."""
    above: list[str] = []
    folder = posixpath.dirname(name)
    while True:
        index = indexes.get(folder)
        if index is not None and index != name:
            above.append(index)
        if not folder:
            return tuple(reversed(above))
        folder = posixpath.dirname(folder)


def indexes_of(folders: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the index of each folder that has one."""
    found = {
        folder: [name for name in names if posixpath.basename(name).lower() in _INDEXES]
        for folder, names in folders.items()
    }
    return {folder: min(names, key=_order) for folder, names in found.items() if names}
