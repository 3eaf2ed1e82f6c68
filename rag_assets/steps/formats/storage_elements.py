"""The walk over a tree of storage format: what each element leaves in the text.

Inline text gathers in a buffer, and blocks are written where the walk is: in a list item, a quote, a line. What a macro
leaves is in `macros`. Of links, images and mentions the words are text, else the name of their target: of a person a
name, never an account.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from rag_assets.steps.formats import macros
from rag_assets.steps.formats.blocks import (
    BREAK,
    PICTURE,
    STRUCK,
    Block,
    Cell,
    Content,
    Link,
    Listing,
    Reference,
    Repeats,
    clean,
    code_block,
    flat,
    mark_of,
    paragraphs,
    row_blocks,
    shifted,
)
from rag_assets.steps.formats.element_tree import AC, AT, RI, Element, PageError, parse_storage
from rag_serving.text.normalization import OMISSION

DEPTH_MAX = 60  # lists in cells in panels …; a page nests a handful
Rule: TypeAlias = "Callable[[Walk, Element], None]"


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
    """One walk over one body."""

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
    page: list[Block] = field(default_factory=list)
    _groups: int = 0
    _depth: int = 0

    def __post_init__(self) -> None:
        self.page = self.blocks

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
        omission = OMISSION * any(part.strip() for part in self._buffer[-9:])
        self.write(omission)
        self.flush()
        self.blocks.append(Block("reference", "", reference=reference))
        self.write(omission)

    def omit(self, node: Element) -> None:
        """Mark the place of an element whose words are lost, if a sentence is around it."""
        if any(part.strip() for part in (*self._buffer[-9:], node.tail or "")):
            self.write(OMISSION)

    def list_pages(self, listing: Listing) -> None:
        self.flush()
        self.blocks.append(Block("reference", "", listing=listing))

    def anchor(self, name: str) -> None:
        """Mark a place that links reach by a name: of the heading, or else of the text that follows."""
        if name and self.in_heading:
            self.anchors.append(name)
        elif name:
            self.page.append(Block("reference", "", anchors=(name,)))

    def mark_links(self) -> None:
        if self.links:
            self.page.append(Block("reference", "", links=tuple(self.links)))
            self.links.clear()

    def container(self, element: Element) -> None:
        self.flush()
        self.content(element)
        self.flush()

    def inline(self, element: Element) -> None:
        """Write the content of an element within the surrounding sentence, although it consists of blocks."""
        text, lifted = self.line(element)
        self.write(text)
        self.lift(lifted)

    def lift(self, lifted: list[Block]) -> None:
        if lifted:
            self.flush()
            self.blocks += lifted

    def quote(self, element: Element, title: str = "") -> None:
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
                if node.tag in _BLOCK_TAGS:
                    self.flush()
                elif node.tag == "a" and links:
                    self._link(node, "".join(self._buffer[links.pop() :]))
                if node.tail:
                    self._buffer.append(node.tail)
            elif mark_of(node):
                walk.skip_subtree()
                self.marked(node)
            elif (rule := _RULES.get(node.tag)) is not None:
                walk.skip_subtree()
                rule(self, node)
            else:
                if node.tag in _BLOCK_TAGS:
                    self.flush()
                elif node.tag == "a":
                    links.append(len(self._buffer))
                if node.text:
                    self._buffer.append(node.text)
        self._depth -= 1

    def _link(self, node: Element, text: str) -> None:
        self.linked += len(text)
        if target := node.get("href", "").strip():
            is_anchor, text = target.startswith("#"), clean(text)
            self.links.append(Link(text, "anchor", anchor=target[1:]) if is_anchor else Link(text, "url", target))

    def marked(self, node: Element) -> None:
        """Write raised or lowered text as such; leave struck text out."""
        mark = mark_of(node)
        if node.tag in _BLOCK_TAGS:
            self.flush()
        if mark == "struck":
            self.strike(node)
            return
        before = next((part for part in reversed(self._buffer[-9:]) if part), "")
        text, lifted = self.line(node)
        self.write(_spaced(node, shifted(text, mark, before)))
        self.lift(lifted)

    def strike(self, node: Element) -> None:
        if any(text.strip() for text in node.itertext()):
            self.ledger[STRUCK, "hidden"] += 1

    def flush(self) -> None:
        """Write the gathered text as a block of the place where the walk is."""
        if not self._buffer:
            return
        lines, linked, place = paragraphs("".join(self._buffer)), self.linked, self.place
        self._buffer.clear()
        self.linked = 0
        for text in lines:
            if place.group:
                indent = place.indent + 2 * (not place.marker)
                self.blocks.append(Block("list", place.marker + text, place.group, indent, linked=linked))
                place.marker = ""
            else:
                text = f"> {text}" if place.quoted and not place.line else text
                self.blocks.append(Block("paragraph", text, linked=linked))
            linked = 0

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

    def group(self) -> int:
        self._groups += 1
        return self._groups

    def line(self, element: Element) -> tuple[str, list[Block]]:
        """Return the content of an element as one line, and the code that a line cannot carry."""
        lifted: list[Block] = []
        return self.cell(element, lifted), lifted

    def cell(self, element: Element, lifted: list[Block], rule: Rule | None = None) -> str:
        """Return an element's content, or what its rule writes, as one line; lift code that the line cannot carry."""
        outer = self.blocks, self._buffer, self.linked
        blocks: list[Block] = []
        self.blocks, self._buffer, self.linked = blocks, [], 0
        with self.at(TextPlace(line=True)):
            (rule or Walk.content)(self, element)
            self.flush()
        self.blocks, self._buffer, self.linked = outer
        return flat(blocks, lifted)

    @contextmanager
    def at(self, place: TextPlace) -> Iterator[None]:
        outer, self.place = self.place, place
        yield
        self.place = outer


DISPLAY_NAME = "display-name"  # an attribute that sources add to mentions
NOBODY = f"@user{OMISSION}"  # the page shows a name there
_SIGNS = """
    tick=✅ cross=❌ warning=⚠ information=ℹ question=❓ plus=➕ minus=➖ light-on=💡 yellow-star=⭐ smile=🙂
    sad=🙁 cheeky=😛 laugh=😀 wink=😉 thumbs-up=👍 thumbs-down=👎 heart=❤
"""
_EMOTICONS = dict(pair.split("=") for pair in _SIGNS.split())


def _spaced(element: Element, line: str) -> str:
    """Return the line with the white space around it in its element, which parts it from the words beside."""
    written = "".join(element.itertext())
    return " " * written[:1].isspace() + line + " " * written[-1:].isspace()


def _link(walk: Walk, node: Element) -> None:
    """Write the link's own text, else the name of its target; the target itself stays out of the text."""
    lifted: list[Block] = []
    bodies = node.iterchildren(f"{AC}link-body", f"{AC}plain-text-link-body")
    text = "".join(_spaced(body, walk.cell(body, lifted)) if len(body) else body.text or "" for body in bodies)
    text = text or _target(node) or node.get(f"{AC}anchor", "")
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


def _image(walk: Walk, node: Element) -> None:
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


def _emoticon(walk: Walk, node: Element) -> None:
    shown, name = node.get(f"{AC}emoji-fallback", ""), node.get(f"{AC}name", "")
    walk.write(shown if shown and shown[0] != ":" else _EMOTICONS.get(name, PICTURE))


def _target(node: Element) -> str:
    """Return the name of a link's or an image's target; for an account a name or "@user"."""
    for child in node:
        if child.tag == f"{RI}user":
            return _user_name(child)
        for name in ("content-title", "filename", "value", "space-key", "parameter"):
            if found := child.get(f"{RI}{name}"):
                return NOBODY if name == "space-key" and found.startswith("~") else str(found)
    return ""


def _user_name(node: Element) -> str:
    return clean(node.get(f"{RI}{DISPLAY_NAME}", "")) or NOBODY


_LANGUAGE_CLASS = re.compile(r"\blanguage-([\w+#.-]+)")


def storage_content(body: str, lists: bool = False) -> Content:
    """Return blocks and macros of a storage-format body; with `lists` the places of lists of pages, too.

    Raises PageError if it cannot be read.
    """
    return tree_content(parse_storage(body), lists)


def tree_content(tree: Element, lists: bool = False) -> Content:
    """Return the blocks and macros inside an element; see `storage_content`."""
    macros.close_rendered_gates(tree)
    walk = Walk(lists)
    walk.container(tree)
    walk.mark_links()
    return Content(walk.blocks, walk.ledger + _not_met(tree, walk.met))


def _not_met(tree: Element, met: set[Element]) -> Counter[tuple[str, str]]:
    """Count macros that the walk never came to: hidden if nothing is text or an excerpt is hidden, else lost."""
    left: Counter[tuple[str, str]] = Counter()
    for node in tree.iter(*macros.MACROS):
        if node in met:
            continue
        outcome = "lost"
        for above in node.iterancestors():
            is_left_out = _RULES.get(above.tag) is _drop or mark_of(above) == "struck"
            if is_left_out or (above in met and macros.is_hidden(macros.read_macro(above))):
                outcome = "hidden"
        left[macros.read_macro(node).name, outcome] += 1
    return left


def _heading(walk: Walk, node: Element) -> None:
    """Write a heading; within a line it is text that splits nothing and only takes its id."""
    walk.flush()
    in_line = walk.place.line
    if not in_line:
        walk.mark_links()
    outer, walk.anchors, walk.in_heading = walk.anchors, [], True
    text, lifted = walk.line(node)
    names, walk.anchors, walk.in_heading = tuple(walk.anchors), outer, False
    if text:
        slug = clean("".join(node.itertext())) if any(map(mark_of, node.iter())) else ""
        walk.blocks += [Block("paragraph", text)] if in_line else []
        heading = Block("heading", text, level=0 if in_line else int(node.tag[1]), anchors=names, slug=slug)
        (walk.page if in_line else walk.blocks).append(heading)
    for name in () if text else names:
        walk.anchor(name)
    walk.blocks += lifted


def _list(walk: Walk, node: Element) -> None:
    group, indent = walk.list_place()
    walk.paragraph(node.text or "")
    number = _count(node.get("start"))
    for child in node:
        if child.tag == "li":
            walk.item(child, f"{number}. " if node.tag == "ol" else "- ", group, indent)
            number += 1
        elif (rule := _RULES.get(child.tag)) is not None:  # is in the list without an item around it
            rule(walk, child)
        else:
            walk.container(child)
        walk.paragraph(child.tail or "")


def _tasks(walk: Walk, node: Element) -> None:
    group, indent = walk.list_place()
    for task in node.iterchildren(f"{AC}task"):
        done = (task.findtext(f"{AC}task-status") or "").strip() == "complete"
        for body in task.iterchildren(f"{AC}task-body"):
            walk.item(body, "- [x] " if done else "- [ ] ", group, indent)


def _table(walk: Walk, node: Element) -> None:
    walk.flush()
    for part in node.iterchildren("caption"):
        walk.container(part)
    lifted: list[Block] = []
    rows: list[list[Cell]] = []
    for row in table_rows(node):
        rows.append([])
        if mark_of(row) == "struck":
            walk.strike(row)
            continue
        for each in row if row.tag == "tr" else [row]:  # in a malformed table any other element is a cell too
            text = walk.cell(each, lifted, _RULES.get(each.tag))
            spans = _count(each.get("colspan")), _count(each.get("rowspan"))
            rows[-1].append(Cell(text, each.tag == "th", *spans))
    if walk.place.line:  # a table inside a cell: its rows are items there
        lines = (", ".join(cell.text for cell in row if cell.text) for row in rows)
        walk.blocks += [Block("list", line) for line in lines if line]
    else:
        walk.blocks += row_blocks(rows, walk.group(), walk.repeats)
    walk.blocks += lifted


def table_rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, not those of tables inside it; any other element between them is a row of its own."""
    for part in table:
        if part.tag in ("tbody", "thead", "tfoot"):
            yield from part
        elif part.tag not in ("colgroup", "col", "caption"):
            yield part


def _preformatted(walk: Walk, node: Element) -> None:
    walk.flush()
    if _joins(node.getprevious(), node):  # is in the block of the one before
        return
    lifted: list[Block] = []
    bodies = [_verbatim(walk, node, lifted)]
    above, below = node, node.getnext()
    while _joins(above, below):
        bodies.append(_verbatim(walk, below, lifted))
        above, below = below, below.getnext()
    classes = " ".join(each.get("class", "") for each in (node, *node.iterchildren("code")))
    language = _LANGUAGE_CLASS.search(classes)
    walk.code("\n".join(bodies), language[1] if language else "")
    walk.blocks += (block for block in lifted if block.kind == "reference")


def _joins(above: Element, below: Element) -> bool:
    """Return whether two neighbours, of which either may be missing, are `<pre>` with nothing between them."""
    both = above is not None and below is not None and above.tag == below.tag == "pre"
    return both and not (above.tail or "").strip()


def _verbatim(walk: Walk, element: Element, lifted: list[Block]) -> str:
    """Return the text of an element verbatim, a break as a new line; elements with rules as one line.

    Code that a line cannot carry is appended to `lifted`.
    """
    from lxml import etree

    parts: list[str] = []
    nodes = etree.iterwalk(element, events=("start", "end"))
    for event, node in nodes:
        if event == "end":
            parts.append("" if node is element else node.tail or "")
            continue
        rule = None if node is element else Walk.marked if mark_of(node) else _RULES.get(node.tag)
        if rule is None:
            parts.append(node.text or "")
        else:
            nodes.skip_subtree()
            parts.append("\n" if node.tag == "br" else walk.cell(node, lifted, rule))
    return "".join(parts)


def _macro(walk: Walk, node: Element) -> None:
    walk.met.add(node)
    macro = macros.read_macro(node)
    outcome = macros.render(walk, macro)
    if outcome == "lost":
        walk.omit(node)
    if outcome is not None:
        walk.ledger[macro.name, outcome] += 1


def _time(walk: Walk, node: Element) -> None:
    walk.write("".join(node.itertext()).strip() or node.get("datetime", ""))


def _break(walk: Walk, _node: Element) -> None:
    walk.write(BREAK)


def _user(walk: Walk, node: Element) -> None:
    walk.write(_user_name(node))


def _extension(walk: Walk, node: Element) -> None:
    """Write a node of the new editor: its content or, if it has none, its fallback; never both."""
    has_content = any(clean("".join(content.itertext())) for content in node.iter(f"{AC}adf-content"))
    nodes, fallbacks = list(node.iterchildren(f"{AC}adf-node")), list(node.iterchildren(f"{AC}adf-fallback"))
    if any(map(_is_gated_node, nodes)):
        walk.ledger["adf-extension", "hidden"] += 1
        return
    for child in nodes if has_content else fallbacks:
        (_editor_node if has_content else Walk.container)(walk, child)
    is_shown = has_content or any(len(fallback) or clean(fallback.text or "") for fallback in fallbacks)
    kind = next((each.get("type", "") for each in nodes), "extension")
    walk.ledger[f"adf-{kind}", "rendered" if is_shown else "lost"] += 1


def _is_gated_node(node: Element) -> bool:
    """Return whether a node of the new editor is an app's extension that chooses its readers."""
    names = [each.text or "" for each in node.iterchildren(f"{AC}adf-attribute") if each.get("key") == "extension-key"]
    given = {each.get("key", "").lower(): "".join(each.itertext()) for each in node.iter(f"{AC}adf-parameter")}
    return macros.is_gate("".join(names).strip().lower(), given, has_body=True)


def _editor_node(walk: Walk, node: Element) -> None:
    if _is_gated_node(node):
        walk.ledger["adf-extension", "hidden"] += 1
        return
    attributes = {each.get("key"): each.text or "" for each in node.iterchildren(f"{AC}adf-attribute")}
    if node.get("type") == "panel":
        walk.quote(node, attributes.get("title", ""))
    else:
        walk.paragraph(attributes.get("title", ""))
        walk.container(node)


def _drop(_walk: Walk, _node: Element) -> None:
    """Leave out an element: nothing of it is text."""


def _count(value: str | None) -> int:
    return int(value) if value and len(value) < 7 and value.isascii() and value.isdigit() else 1


def _names(prefix: str, names: str) -> list[str]:
    return [prefix + name for name in names.split()]


_BLOCK_TAGS = frozenset(
    [
        *_names("", "p div section article header footer aside main nav dl dt dd address figure figcaption center"),
        *_names("", "form fieldset summary details hr li tr td th caption body"),
        *_names(AC, "layout layout-section layout-cell rich-text-body adf-content caption"),
    ]
)

_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_names("h", "1 2 3 4 5 6"), _heading),
        "ul": _list,
        "ol": _list,
        "table": _table,
        "pre": _preformatted,
        "blockquote": Walk.quote,
        "br": _break,
        "img": _image,
        "time": _time,
        **dict.fromkeys(macros.MACROS, _macro),
        f"{AC}link": _link,
        f"{AC}image": _image,
        f"{AC}emoticon": _emoticon,
        f"{AC}task-list": _tasks,
        f"{AC}adf-extension": _extension,
        f"{AC}adf-node": _editor_node,
        f"{RI}user": _user,
        **dict.fromkeys(_names("", "script style template colgroup"), _drop),
        **dict.fromkeys(_names(AC, "parameter default-parameter placeholder task-id task-uuid task-status"), _drop),
        **dict.fromkeys(_names(AC, "adf-attribute adf-fallback adf-parameter adf-parameter-value adf-mark"), _drop),
        **dict.fromkeys(_names(RI, "page attachment url space blog-post shortcut content-entity"), _drop),
        **dict.fromkeys(_names(AT, "declarations var"), _drop),
    }
)
