"""The walk over a storage-format tree: inline text gathers, blocks are written where the walk is.

Belongs here: the buffer of inline text, the places (list item, quote, line), text kept apart from the page; the words
of links, images and emoticons, else what names their target: of a person a name, never an account.
Does not belong here: what another element means (`storage_elements`), what a macro means (`macros`), where links land
(`sections.anchors`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from rag_assets.steps.formats.blocks import (
    PICTURE,
    Block,
    Link,
    Listing,
    Reference,
    clean,
    code_block,
    flat,
    paragraphs,
)
from rag_assets.steps.formats.element_tree import Element, PageError
from rag_assets.steps.formats.storage import AC, RI
from rag_assets.steps.formats.tables import Repeats
from rag_assets.steps.formats.text_marks import STRUCK, Mark, mark_of, shifted
from rag_serving.text.normalization import OMISSION

DEPTH_MAX = 60  # lists in cells in panels …; a page nests a handful
Rule: TypeAlias = "Callable[[Walk, Element], None]"


def _link(text: str, target: str) -> Link:
    return Link(text, "anchor", anchor=target[1:]) if target.startswith("#") else Link(text, "url", target)


@dataclass
class TextPlace:
    """The current destination of text: a list item, a quote, a line (a cell or a heading), or the page itself."""

    marker: str = ""  # of a list item, until its first text took it
    group: int = 0  # of the list that the item belongs to; 0: not in a list
    indent: int = 0
    quoted: bool = False
    line: bool = False


@dataclass
class Walk:
    """One walk over one body. It is the macros' view of the page (`macros.Page`)."""

    rules: Mapping[str, Rule]  # elements that are more than their text
    block_tags: frozenset[str]  # elements on lines of their own
    lists: bool = False  # whether lists that the server fills in are wanted
    blocks: list[Block] = field(default_factory=list)
    ledger: Counter[tuple[str, str]] = field(default_factory=Counter)
    met: set[Element] = field(default_factory=set)  # macros that the walk came to
    anchors: list[str] = field(default_factory=list)  # of the heading that the walk is in
    in_heading: bool = False
    place: TextPlace = field(default_factory=TextPlace)
    linked: int = 0  # characters of the gathered text that are links
    links: list[Link] = field(default_factory=list)  # of the section
    repeats: Repeats = field(default_factory=Repeats)  # of merged cells
    _buffer: list[str] = field(default_factory=list)
    _page: list[Block] = field(default_factory=list)
    _groups: int = 0
    _depth: int = 0

    def __post_init__(self) -> None:
        self._page = self.blocks

    def write(self, text: str) -> None:
        """Gather inline text."""
        self._buffer.append(text)

    def paragraph(self, text: str) -> None:
        self.flush()
        self.write(text)
        self.flush()

    def code(self, body: str, language: str = "", title: str = "") -> None:
        """Write a fenced block, its title in a line before it."""
        self.paragraph(title)
        if body.strip():
            self.blocks.append(code_block(body, language))

    def refer(self, reference: Reference) -> None:
        """Mark the place of another page's text; it ends the sentence around it, which then lacks these words."""
        is_inside = self._is_inside()
        self.write(OMISSION * is_inside)
        self.flush()
        self.blocks.append(Block("reference", "", reference=reference))
        self.write(OMISSION * is_inside)

    def _is_inside(self) -> bool:
        """Return whether the current position is inside a sentence."""
        return any(part.strip() for part in self._buffer[-9:])

    def omit(self, node: Element) -> None:
        """Mark the place of an element whose words are lost, if a sentence is around it."""
        if self._is_inside() or (node.tail or "").strip():
            self.write(OMISSION)

    def list_pages(self, listing: Listing) -> None:
        """Mark the place of a list of pages."""
        self.flush()
        self.blocks.append(Block("reference", "", listing=listing))

    def anchor(self, name: str) -> None:
        """Mark a place that links reach by a name: of the heading, or else of the text that follows."""
        if name and self.in_heading:
            self.anchors.append(name)
        elif name:
            self._page.append(Block("reference", "", anchors=(name,)))

    def mark_links(self) -> None:
        """Leave the links of a section at its end."""
        if self.links:
            self._page.append(Block("reference", "", links=tuple(self.links)))
            self.links.clear()

    def container(self, element: Element) -> None:
        """Write the content of an element, in blocks of its own."""
        self.flush()
        self.content(element)
        self.flush()

    def embed(self, tree: Element) -> bool:
        """Write the content of a tree of other markup, and return whether there is any."""
        before = len(self.blocks)
        self.container(tree)
        return len(self.blocks) > before

    def inline(self, element: Element) -> None:
        """Write the content of an element within the surrounding sentence, although it consists of blocks."""
        text, lifted = self.line(element)
        self.write(text)
        self.lift(lifted)

    def lift(self, lifted: list[Block]) -> None:
        """Write the code that a line could not carry after the line."""
        if lifted:
            self.flush()
            self.blocks += lifted

    def quote(self, title: str, element: Element) -> None:
        self.flush()
        with self.at(TextPlace(quoted=True, line=self.place.line)):
            self.paragraph(title)
            self.container(element)

    def content(self, element: Element) -> None:
        """Walk the content of an element. Elements with a rule are left to it; all others leave their text.

        Raises PageError if elements with rules are nested deeper than DEPTH_MAX.
        """
        from lxml import etree

        if mark_of(element) == "struck":
            self.strike(element)
            return
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise PageError(f"lists, tables and macros are nested more than {DEPTH_MAX} deep")
        walk = etree.iterwalk(element, events=("start", "end"))
        links: list[int] = []
        for event, node in walk:
            if node is element:
                self._buffer.append(node.text or "" if event == "start" else "")
            elif event == "end":
                self._leave(node, links)
            elif mark := mark_of(node):
                walk.skip_subtree()
                self.marked(node, mark)
            elif (rule := self.rules.get(node.tag)) is not None:
                walk.skip_subtree()
                rule(self, node)
            else:
                self._enter(node, links)
        self._depth -= 1

    def marked(self, node: Element, mark: Mark) -> None:
        """Write raised or lowered text as such; leave struck text out."""
        if node.tag in self.block_tags:
            self.flush()
        if mark == "struck":
            self.strike(node)
            return
        before = next((part for part in reversed(self._buffer[-9:]) if part), "")
        text, lifted = self.line(node)
        written = "".join(node.itertext())
        self.write(" " * written[:1].isspace() + shifted(text, mark, before) + " " * written[-1:].isspace())
        self.lift(lifted)

    def strike(self, node: Element) -> None:
        """Count an element whose text is struck."""
        if any(text.strip() for text in node.itertext()):
            self.ledger[STRUCK, "hidden"] += 1

    def _enter(self, node: Element, links: list[int]) -> None:
        if node.tag in self.block_tags:
            self.flush()
        elif node.tag == "a":
            links.append(len(self._buffer))
        if node.text:
            self._buffer.append(node.text)

    def _leave(self, node: Element, links: list[int]) -> None:
        if node.tag in self.block_tags:
            self.flush()
        elif node.tag == "a" and links:
            text = "".join(self._buffer[links.pop() :])
            self.linked += len(text)
            if target := node.get("href", "").strip():
                self.links.append(_link(clean(text), target))
        if node.tail:
            self._buffer.append(node.tail)

    def flush(self) -> None:
        """Write the gathered text as a block of the place where the walk is."""
        if not self._buffer:
            return
        lines, linked = paragraphs("".join(self._buffer)), self.linked
        self._buffer.clear()
        self.linked = 0
        for text in lines:
            self.blocks.append(self._block(text, linked))
            linked = 0

    def _block(self, text: str, linked: int) -> Block:
        place = self.place
        if place.group:
            marker, place.marker = place.marker, ""
            indent = place.indent if marker else place.indent + 2
            return Block("list", marker + text, place.group, indent, linked=linked)
        return Block("paragraph", f"> {text}" if place.quoted and not place.line else text, linked=linked)

    def item(self, node: Element, marker: str, group: int, indent: int) -> None:
        """Write a list item; inside a line it has no marker, only a task's box."""
        if self.place.line:
            marker = marker[2:] if marker.startswith("- [") else ""
        with self.at(TextPlace(marker, group, indent, line=self.place.line)):
            self.container(node)

    def list_place(self) -> tuple[int, int]:
        """Return group and indent of a list that begins here: its own, or the enclosing list's, one level deeper."""
        self.flush()
        return (self.place.group, self.place.indent + 2) if self.place.group else (self.group(), 0)

    def heading(self, text: str, level: int, anchors: tuple[str, ...], slug: str = "") -> None:
        """Write a heading; within a line it is text that splits nothing and only takes its id."""
        if self.place.line:
            self.blocks.append(Block("paragraph", text))
            level = 0
        block = Block("heading", text, level=level, anchors=anchors, slug=slug)
        (self._page if self.place.line else self.blocks).append(block)

    def group(self) -> int:
        self._groups += 1
        return self._groups

    def line(self, element: Element) -> tuple[str, list[Block]]:
        """Return the content of an element as one line, and the code that a line cannot carry."""
        lifted: list[Block] = []
        return self.cell(element, lifted), lifted

    def cell(self, element: Element, lifted: list[Block]) -> str:
        """Return the content of an element as one line; code that it cannot carry is appended to `lifted`."""
        with self.apart() as blocks:
            self.content(element)
        return flat(blocks, lifted)

    def ruled_line(self, node: Element, rule: Rule, lifted: list[Block]) -> str:
        """Return an element with a rule as one line; code that it cannot carry is appended to `lifted`."""
        with self.apart() as blocks:
            rule(self, node)
        return flat(blocks, lifted)

    @contextmanager
    def apart(self) -> Iterator[list[Block]]:
        """Collect the text written meanwhile apart from the page, for a line."""
        outer = self.blocks, self._buffer, self.linked
        blocks: list[Block] = []
        self.blocks, self._buffer, self.linked = blocks, [], 0
        with self.at(TextPlace(line=True)):
            yield blocks
            self.flush()
        self.blocks, self._buffer, self.linked = outer

    @contextmanager
    def at(self, place: TextPlace) -> Iterator[None]:
        outer, self.place = self.place, place
        yield
        self.place = outer


DISPLAY_NAME = "display-name"  # an attribute that sources add to mentions
NOBODY = f"@user{OMISSION}"  # the page shows a name there
_EMOTICONS = dict(
    pair.split("=")
    for pair in [
        "tick=✅",
        "cross=❌",
        "warning=⚠",
        "information=ℹ",
        "question=❓",
        "plus=➕",
        "minus=➖",
        "light-on=💡",
        "yellow-star=⭐",
        "smile=🙂",
        "sad=🙁",
        "cheeky=😛",
        "laugh=😀",
        "wink=😉",
        "thumbs-up=👍",
        "thumbs-down=👎",
        "heart=❤",
    ]
)


def link(walk: Walk, node: Element) -> None:
    """Write the link's own text, else the name of its target; the target itself stays out of the text."""
    lifted: list[Block] = []
    bodies = node.iterchildren(f"{AC}link-body", f"{AC}plain-text-link-body")
    text = "".join(_spaced(body, walk.cell(body, lifted)) if len(body) else body.text or "" for body in bodies)
    if not text:
        text = _target(node) or node.get(f"{AC}anchor", "")
    walk.write(text)
    walk.linked += len(text)
    if (target := _link_of(node, clean(text))) is not None:
        walk.links.append(target)
    walk.lift(lifted)


def _link_of(node: Element, text: str) -> Link | None:
    """Return the target of a link; None for an account, and for unknown ones."""
    anchor = node.get(f"{AC}anchor", "")
    for child in node:
        space = child.get(f"{RI}space-key", "")
        if child.tag in (f"{RI}page", f"{RI}blog-post", f"{RI}content-entity"):
            title = child.get(f"{RI}content-title") or child.get(f"{RI}content-id", "")
            return Link(text, "page", title, "" if space.startswith("~") else space, anchor)
        if child.tag == f"{RI}attachment":
            return Link(text, "file", child.get(f"{RI}filename", ""))
        if child.tag == f"{RI}url":
            return Link(text, "url", child.get(f"{RI}value", ""))
        if child.tag == f"{RI}space" and not space.startswith("~"):
            return Link(text, "space", space)
        if child.tag == f"{RI}user":
            return None
    return Link(text, "anchor", anchor=anchor) if anchor else None


def _spaced(element: Element, line: str) -> str:
    """Return the line with the white space that the element has around it, which parts it from the words beside the
    link."""
    written = "".join(element.itertext())
    return " " * written[:1].isspace() + line + " " * written[-1:].isspace()


def image(walk: Walk, node: Element) -> None:
    """Write an image's alternative text and its caption."""
    if walk.in_heading:  # the heading's id is made of its words
        return
    text = node.get(f"{AC}alt", node.get("alt", PICTURE))
    lifted: list[Block] = []
    captions = [walk.cell(caption, lifted) for caption in node.iterchildren(f"{AC}caption")]
    if clean(text) not in captions:
        walk.write(text)
    for caption in captions:
        walk.paragraph(caption)
    walk.lift(lifted)


def emoticon(walk: Walk, node: Element) -> None:
    """Write an emoticon's character; a picture without one has none."""
    shown, name = node.get(f"{AC}emoji-fallback", ""), node.get(f"{AC}name", "")
    walk.write(shown if shown and shown[0] != ":" else _EMOTICONS.get(name, PICTURE))


def _target(node: Element) -> str:
    """Return the name of a link's or an image's target; for an account a name or "@user"."""
    for child in node:
        if child.tag == f"{RI}user":
            return user_name(child)
        for name in ("content-title", "filename", "value", "space-key", "parameter"):
            if found := child.get(f"{RI}{name}"):
                return NOBODY if name == "space-key" and found.startswith("~") else str(found)
    return ""


def user_name(node: Element) -> str:
    """Return the name of a mentioned person that the source has put in."""
    return clean(node.get(f"{RI}{DISPLAY_NAME}", "")) or NOBODY
