"""The walk over a storage-format tree: elements become blocks, macros a ledger.

Belongs here: what each element of storage format means for the text.
Does not belong here: parsing (`storage_format`), what a macro means (`macros`), sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from rag_assets.steps import macros
from rag_assets.steps.blocks import BREAK, Block, clean, code_block, flat, paragraphs
from rag_assets.steps.storage_format import AC, AT, RI, Element, PageError, parse_storage
from rag_assets.steps.tables import Cell, row_blocks

DEPTH_MAX = 60  # lists in cells in panels …; a page nests a handful

_MACHINE_NAME = re.compile(  # image2019-3-4 10:20:30, worddav0123abcd, a UUID
    r"(?=(?:\D*\d){4})(?:image|img|worddav|screenshot|screen shot|picture)?[\W_]*(?:[0-9a-f]{20,40}|[\W\d_]|\bat\b|[ap]m\b)*",
    re.IGNORECASE,
)
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "blockquote",
        "section",
        "article",
        "header",
        "footer",
        "aside",
        "main",
        "nav",
        "dl",
        "dt",
        "dd",
        "address",
        "figure",
        "figcaption",
        "center",
        "form",
        "fieldset",
        "summary",
        "details",
        "hr",
        "li",
        "tr",
        "td",
        "th",
        "caption",
        "body",
    ]
) | {f"{AC}{name}" for name in ("layout", "layout-section", "layout-cell", "rich-text-body", "adf-content", "caption")}


class Content(NamedTuple):
    """A body as blocks in order, and its macros counted by (name, outcome)."""

    blocks: list[Block]
    ledger: Counter[tuple[str, str]]


def storage_content(body: str) -> Content:
    """Blocks and macros of a storage-format body. Raises PageError where it cannot be read."""
    walk = Walk()
    walk.container(parse_storage(body))
    return Content(walk.blocks, walk.ledger)


@dataclass
class _Place:
    """Where text is written: a list item, a quote, a line (a cell or a heading), or the page itself."""

    marker: str = ""  # of a list item, until its first text took it
    group: int = 0
    indent: int = 0
    label: str | None = None  # of a quote: what still has to be said before its first text; None outside quotes
    line: bool = False


@dataclass
class Walk:
    """One walk. Inline text gathers in a buffer until a block begins or ends; then it is written where the walk is."""

    blocks: list[Block] = field(default_factory=list)
    ledger: Counter[tuple[str, str]] = field(default_factory=Counter)
    anchors: list[str] = field(default_factory=list)
    _buffer: list[str] = field(default_factory=list)
    _linked: int = 0
    _place: _Place = field(default_factory=_Place)
    _page: list[Block] = field(default_factory=list)
    _groups: int = 0
    _depth: int = 0
    _pre: tuple[Element, Block] | None = None

    def __post_init__(self) -> None:
        self._page = self.blocks

    # What macros may do: the protocol `macros.Page`.

    def write(self, text: str) -> None:
        self._buffer.append(text)

    def paragraph(self, text: str) -> None:
        self.flush()
        self.write(text)
        self.flush()

    def code(self, body: str, language: str = "", title: str = "") -> None:
        self.paragraph(title)
        if body.strip():
            self.announce()
            self.blocks.append(code_block(body, language))

    def container(self, element: Element) -> None:
        self.flush()
        self.content(element)
        self.flush()

    def inline(self, element: Element) -> None:
        """Content that stays in its sentence though it is made of blocks."""
        text, lifted = self._line(element)
        self.write(text)
        if lifted:
            self.flush()
            self.blocks += lifted

    def quote(self, label: str, title: str, element: Element) -> None:
        self.flush()
        with self._at(_Place(label=label, line=self._place.line)):
            self.paragraph(title)
            self.content(element)
            self.flush()

    # The walk.

    def content(self, element: Element) -> None:
        """Walk what stands inside an element. Inline elements leave their text; what has a rule is left to it.

        Raises PageError where elements with rules of their own are nested deeper than DEPTH_MAX.
        """
        from lxml import etree

        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PageError(f"lists, tables and macros are nested more than {DEPTH_MAX} deep")
        walk = etree.iterwalk(element, events=("start", "end"))
        links: list[int] = []
        for event, node in walk:
            if event == "start":
                rule = None if node is element else _RULES.get(node.tag)
                if rule is not None:
                    walk.skip_subtree()
                    rule(self, node)
                    continue
                if node.tag in _BLOCKS:
                    self.flush()
                elif node.tag == "a":
                    links.append(len(self._buffer))
                if node.text:
                    self._buffer.append(node.text)
            elif node is not element:
                if node.tag in _BLOCKS:
                    self.flush()
                elif node.tag == "a" and links:
                    self._linked += sum(map(len, self._buffer[links.pop() :]))
                if node.tail:
                    self._buffer.append(node.tail)
        self._depth -= 1

    def flush(self) -> None:
        """Write the gathered inline text as a block of the place where the walk is."""
        if not self._buffer:
            return
        found, linked = paragraphs("".join(self._buffer)), self._linked
        self._buffer.clear()
        self._linked = 0
        for text in found:
            self.blocks.append(self._block(text, linked if text is found[0] else 0))

    def announce(self) -> None:
        """Say what a quote is before something in it that is no paragraph and so cannot say it."""
        self.flush()
        if self._place.label:
            self.blocks.append(Block("paragraph", f"{'' if self._place.line else '> '}{self._place.label}:"))
            self._place.label = ""

    def _block(self, text: str, linked: int) -> Block:
        place = self._place
        if place.group:
            marker, place.marker = place.marker, ""
            indent = place.indent if marker else place.indent + 2
            return Block("list", marker + text, place.group, indent, linked=linked)
        if place.label is None:
            return Block("paragraph", text, linked=linked)
        label, place.label = f"{place.label}: " if place.label else "", ""
        return Block("paragraph", f"{'' if place.line else '> '}{label}{text}", linked=linked)

    @contextmanager
    def _at(self, place: _Place) -> Iterator[None]:
        outer, self._place = self._place, place
        yield
        self._place = outer

    def _captured(self, element: Element) -> list[Block]:
        """The blocks of what stands inside an element, kept apart from the page."""
        outer = self.blocks, self._buffer, self._linked
        self.blocks, self._buffer, self._linked = [], [], 0
        with self._at(_Place(line=True)):
            self.container(element)
        found = self.blocks
        self.blocks, self._buffer, self._linked = outer
        return found

    def _line(self, element: Element) -> tuple[str, list[Block]]:
        """What stands inside an element as one line, and the code that a line cannot carry."""
        lifted: list[Block] = []
        return flat(self._captured(element), lifted), lifted

    def group(self) -> int:
        self._groups += 1
        return self._groups

    # Rules: one for each element that is more than its text.

    def heading(self, node: Element) -> None:
        self.flush()
        outer, self.anchors = self.anchors, []
        text, lifted = self._line(node)
        names, self.anchors = tuple(filter(None, self.anchors)), outer
        if text and self._place.line:
            self.blocks.append(Block("paragraph", text))
            self._page.append(Block("heading", text, anchors=names))
        elif text:
            self.blocks.append(Block("heading", text, level=int(node.tag[1]), anchors=names))
        self.blocks += lifted

    def list(self, node: Element) -> None:
        self.announce()
        outer = self._place
        group, indent = (outer.group, outer.indent + 2) if outer.group else (self.group(), 0)
        number = _count(node.get("start"), 1)
        for child in node:
            marker = f"{number}. " if node.tag == "ol" else "- "
            if child.tag == "li":
                self._item(child, marker, group, indent)
                number += 1
            else:
                self._stray(child)
            self.paragraph(child.tail or "")

    def tasks(self, node: Element) -> None:
        self.announce()
        outer = self._place
        group, indent = (outer.group, outer.indent + 2) if outer.group else (self.group(), 0)
        for task in node.iterchildren(f"{AC}task"):
            done = (task.findtext(f"{AC}task-status") or "").strip() == "complete"
            for body in task.iterchildren(f"{AC}task-body"):
                self._item(body, "- [x] " if done else "- [ ] ", group, indent)

    def _item(self, node: Element, marker: str, group: int, indent: int) -> None:
        if self._place.line:
            marker = marker[2:] if marker.startswith("- [") else ""
        with self._at(_Place(marker, group, indent, line=self._place.line)):
            self.content(node)
            self.flush()

    def _stray(self, child: Element) -> None:
        """An element that stands in a list without an item around it."""
        rule = _RULES.get(child.tag)
        if rule is None:
            self.container(child)
        else:
            rule(self, child)

    def table(self, node: Element) -> None:
        self.announce()
        rows: list[list[Cell]] = []
        lifted: list[Block] = []
        for part in node:
            if part.tag == "tr":
                rows.append(self._cells(part, lifted))
            elif part.tag in ("tbody", "thead", "tfoot"):
                rows += [self._cells(row, lifted) for row in part.iterchildren("tr")]
            elif part.tag != "colgroup":
                self.container(part)
        if self._place.line:  # a table inside a cell: its rows are items there
            lines = (", ".join(cell.text for cell in row if cell.text) for row in rows)
            self.blocks += [Block("list", line) for line in lines if line]
        else:
            self.blocks += row_blocks(rows, self.group())
        self.blocks += lifted

    def _cells(self, row: Element, lifted: list[Block]) -> list[Cell]:
        cells = []
        for cell in row.iterchildren("td", "th"):
            text = flat(self._captured(cell), lifted)
            spans = _count(cell.get("colspan"), 1), _count(cell.get("rowspan"), 1)
            cells.append(Cell(text, cell.tag == "th", *spans))
        return cells

    def preformatted(self, node: Element) -> None:
        """A fenced block; `<pre>` after `<pre>` is one block, as editors that write a line each mean it."""
        self.flush()
        body = self._verbatim(node)
        above = node.getprevious()
        if self._pre and self._pre[0] is above and self.blocks and self.blocks[-1] is self._pre[1]:
            body = f"{self.blocks.pop().body}\n{body}"
        if body.strip():
            self.announce()
            block = code_block(body, _language(node))
            self.blocks.append(block)
            self._pre = (node, block) if not (node.tail or "").strip() else None

    def _verbatim(self, element: Element) -> str:
        """The text of an element to the letter, a break as a new line; elements with rules as their line."""
        from lxml import etree

        parts: list[str] = []
        walk = etree.iterwalk(element, events=("start", "end"))
        for event, node in walk:
            if event == "end":
                parts.append("" if node is element else node.tail or "")
                continue
            rule = None if node is element else _RULES.get(node.tag)
            if rule is None:
                parts.append(node.text or "")
            else:
                walk.skip_subtree()
                parts.append("\n" if node.tag == "br" else self._ruled_line(node, rule))
        return "".join(parts)

    def _ruled_line(self, node: Element, rule: Callable[[Walk, Element], None]) -> str:
        outer = self.blocks, self._buffer
        self.blocks, self._buffer = [], []
        with self._at(_Place(line=True)):
            rule(self, node)
            self.flush()
        found = self.blocks
        self.blocks, self._buffer = outer
        return flat(found, [])

    def blockquote(self, node: Element) -> None:
        self.quote("", "", node)

    def macro(self, node: Element) -> None:
        macro = macros.read_macro(node)
        self.ledger[macro.name, macros.render(self, macro)] += 1

    def link(self, node: Element) -> None:
        """The link's own text, else what names its target; the target itself stays out of the text."""
        bodies = node.iterchildren(f"{AC}link-body", f"{AC}plain-text-link-body")
        text = "".join(self._line(body)[0] if len(body) else body.text or "" for body in bodies)
        if not clean(text):
            text = _target(node) or node.get(f"{AC}anchor", "")
        self._buffer.append(text)
        self._linked += len(text)

    def image(self, node: Element) -> None:
        name = node.get(f"{AC}alt") or node.get("alt")
        self._buffer.append(name or _file_name(_target(node) or node.get("src", "")))
        for caption in node.iterchildren(f"{AC}caption"):
            self.container(caption)

    def emoticon(self, node: Element) -> None:
        name = node.get(f"{AC}name", "")
        fallback = node.get(f"{AC}emoji-fallback") or node.get(f"{AC}emoji-shortname")
        self._buffer.append(fallback or (f":{name}:" if name else ""))

    def time(self, node: Element) -> None:
        self._buffer.append("".join(node.itertext()).strip() or node.get("datetime", ""))

    def line_break(self, _node: Element) -> None:
        self._buffer.append(BREAK)

    def user(self, _node: Element) -> None:
        self._buffer.append("@user")

    def extension(self, node: Element) -> None:
        """A node of the new editor: its content or, where it has none, its fallback; never both."""
        has_content = any(clean("".join(content.itertext())) for content in node.iter(f"{AC}adf-content"))
        for child in node.iterchildren(f"{AC}adf-node" if has_content else f"{AC}adf-fallback"):
            (self.editor_node if has_content else self.container)(child)
        kind = next((each.get("type", "") for each in node.iterchildren(f"{AC}adf-node")), "")
        self.ledger[f"adf-{kind or 'extension'}", "rendered"] += 1

    def editor_node(self, node: Element) -> None:
        kinds = [each.text or "" for each in node.iterchildren(f"{AC}adf-attribute") if each.get("key") == "panel-type"]
        if node.get("type") == "panel":
            self.quote((kinds[0].strip() if kinds else "").capitalize() or "Panel", "", node)
        else:
            self.container(node)

    def drop(self, _node: Element) -> None:
        """Nothing of this element is text."""


def _count(value: str | None, default: int) -> int:
    return int(value) if value and value.strip().isascii() and value.strip().isdigit() and len(value) < 7 else default


def _language(node: Element) -> str:
    """`language-x` of a class on `<pre>` or on the `<code>` in it."""
    classes = " ".join(each.get("class", "") for each in (node, *node.iterchildren("code")))
    match = re.search(r"\blanguage-([\w+#.-]+)", classes)
    return match[1] if match else ""


def _target(node: Element) -> str:
    """What names the target of a link or an image; an account is only ever "@user"."""
    for child in node:
        if child.tag == f"{RI}user":
            return "@user"
        for name in ("content-title", "filename", "value", "space-key", "parameter"):
            if child.get(f"{RI}{name}"):
                return str(child.get(f"{RI}{name}"))
    return ""


def _file_name(target: str) -> str:
    """`[name.png]`, or nothing where a machine made the name."""
    if target.startswith("data:"):
        return ""
    name = re.split(r"[?#]", target)[0].rsplit("/", 1)[-1]
    stem, _, extension = name.rpartition(".")
    made_by_people = extension and len(stem) <= 100 and not _MACHINE_NAME.fullmatch(stem)
    return f"[{name}]" if stem and made_by_people else ""


_RULES: Mapping[str, Callable[[Walk, Element], None]] = MappingProxyType(
    {
        **{f"h{level}": Walk.heading for level in range(1, 7)},
        "ul": Walk.list,
        "ol": Walk.list,
        "table": Walk.table,
        "pre": Walk.preformatted,
        "blockquote": Walk.blockquote,
        "br": Walk.line_break,
        "img": Walk.image,
        "time": Walk.time,
        f"{AC}structured-macro": Walk.macro,
        f"{AC}macro": Walk.macro,
        f"{AC}link": Walk.link,
        f"{AC}image": Walk.image,
        f"{AC}emoticon": Walk.emoticon,
        f"{AC}task-list": Walk.tasks,
        f"{AC}adf-extension": Walk.extension,
        f"{AC}adf-node": Walk.editor_node,
        f"{RI}user": Walk.user,
        **dict.fromkeys(
            (
                *("script", "style", "template", "colgroup", f"{AT}declarations", f"{AT}var"),
                *(f"{AC}{name}" for name in ("parameter", "default-parameter", "placeholder", "task-id", "task-uuid")),
                *(f"{AC}{name}" for name in ("task-status", "adf-attribute", "adf-fallback", "adf-parameter")),
                *(f"{AC}{name}" for name in ("adf-parameter-value", "adf-mark")),
                *(f"{RI}{name}" for name in ("page", "attachment", "url", "space", "blog-post", "shortcut")),
                *(f"{RI}{name}" for name in ("content-entity",)),
            ),
            Walk.drop,
        ),
    }
)
