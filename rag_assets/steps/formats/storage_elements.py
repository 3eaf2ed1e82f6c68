"""The elements of storage format: what each leaves in the text.

Belongs here: one rule for each element that is more than its text, and the table of them.
Does not belong here: parsing (`storage`), gathering text (`storage_walk`), links and images (`storage_walk`),
what a macro means (`macros`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from rag_assets.steps.formats import macros
from rag_assets.steps.formats.blocks import BREAK, Block, Content, clean
from rag_assets.steps.formats.element_tree import Element
from rag_assets.steps.formats.macros import MACROS, is_gate
from rag_assets.steps.formats.storage import AC, AT, RI, parse_storage
from rag_assets.steps.formats.storage_walk import Rule, Walk, emoticon, image, link, user_name
from rag_assets.steps.formats.tables import Cell, row_blocks
from rag_assets.steps.formats.text_marks import mark_of

_LANGUAGE_CLASS = re.compile(r"\blanguage-([\w+#.-]+)")


def storage_content(body: str, lists: bool = False) -> Content:
    """Return blocks and macros of a storage-format body; with `lists` the places of lists of pages, too.

    Raises PageError if it cannot be read.
    """
    return tree_content(parse_storage(body), lists)


def tree_content(tree: Element, lists: bool = False) -> Content:
    """Return the blocks and macros inside an element; see `storage_content`."""
    macros.close_rendered_gates(tree)
    walk = Walk(_RULES, _BLOCK_TAGS, lists)
    walk.container(tree)
    walk.mark_links()
    return Content(walk.blocks, walk.ledger + _not_met(tree, walk.met))


def storage_excerpt(body: str, name: str) -> Content | None:
    """Return blocks and macros of the excerpt of this name, or without a name of the first; None if there is none.

    Raises PageError if the body cannot be read.
    """
    walk = Walk(_RULES, _BLOCK_TAGS)
    for macro in macros.shown_macros(parse_storage(body)):
        if macros.is_excerpt(macro, name):
            walk.container(macro.rich)
            return Content(walk.blocks, walk.ledger)
    return None


def one_line(element: Element) -> str:
    """Return the content of an element as one line, without code that a line cannot carry and without other pages'
    text.

    Raises PageError if it is nested too deep.
    """
    return Walk(_RULES, _BLOCK_TAGS).cell(element, [])


def _not_met(tree: Element, met: set[Element]) -> Counter[tuple[str, str]]:
    """Count macros that the walk never came to: hidden if nothing is text or an excerpt is hidden, else lost."""
    left: Counter[tuple[str, str]] = Counter()
    for node in tree.iter(*MACROS):
        if node not in met:
            above = node.iterancestors()
            hidden = any(
                _RULES.get(each.tag) is _drop or mark_of(each) == "struck" or (each in met and _is_hidden(each))
                for each in above
            )
            left[macros.read_macro(node).name, "hidden" if hidden else "lost"] += 1
    return left


def _is_hidden(node: Element) -> bool:
    return macros.is_hidden(macros.read_macro(node))


def _heading(walk: Walk, node: Element) -> None:
    walk.flush()
    if not walk.place.line:
        walk.mark_links()
    outer, walk.anchors, walk.in_heading = walk.anchors, [], True
    text, lifted = walk.line(node)
    names, walk.anchors, walk.in_heading = tuple(walk.anchors), outer, False
    if text:
        is_marked = any(map(mark_of, node.iter()))
        slug = clean("".join(node.itertext())) if is_marked else ""
        walk.heading(text, int(node.tag[1]), names, slug)
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
    rows = [_cells(walk, row, lifted) for row in table_rows(node)]
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


def _cells(walk: Walk, row: Element, lifted: list[Block]) -> list[Cell]:
    """Return the cells of a row; in a malformed table any other element counts as a cell too."""
    cells: list[Cell] = []
    if mark_of(row) == "struck":
        walk.strike(row)
        return cells
    for each in row if row.tag == "tr" else [row]:
        rule = _RULES.get(each.tag)
        text = walk.ruled_line(each, rule, lifted) if rule else walk.cell(each, lifted)
        cells.append(Cell(text, each.tag == "th", _count(each.get("colspan")), _count(each.get("rowspan"))))
    return cells


def _preformatted(walk: Walk, node: Element) -> None:
    """Write a fenced block; `<pre>` after `<pre>` is one block, as the editors mean that write one for each line."""
    walk.flush()
    if _joins(node.getprevious(), node):  # is in the block of the one before
        return
    lifted: list[Block] = []
    bodies = [_verbatim(walk, node, lifted)]
    above, below = node, node.getnext()
    while _joins(above, below):
        bodies.append(_verbatim(walk, below, lifted))
        above, below = below, below.getnext()
    walk.code("\n".join(bodies), _language(node))
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
        rule = None if node is element else _marked if mark_of(node) else _RULES.get(node.tag)
        if rule is None:
            parts.append(node.text or "")
        else:
            nodes.skip_subtree()
            parts.append("\n" if node.tag == "br" else walk.ruled_line(node, rule, lifted))
    return "".join(parts)


def _marked(walk: Walk, node: Element) -> None:
    walk.marked(node, mark_of(node))


def _quote(walk: Walk, node: Element) -> None:
    walk.quote("", node)


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
    walk.write(user_name(node))


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
    walk.ledger[
        "adf-" + next((each.get("type", "") for each in nodes), "extension"), "rendered" if is_shown else "lost"
    ] += 1


def _is_gated_node(node: Element) -> bool:
    """Return whether a node of the new editor is an app's extension that chooses its readers."""
    names = [each.text or "" for each in node.iterchildren(f"{AC}adf-attribute") if each.get("key") == "extension-key"]
    given = {each.get("key", "").lower(): "".join(each.itertext()) for each in node.iter(f"{AC}adf-parameter")}
    return is_gate("".join(names).strip().lower(), given, has_body=True)


def _editor_node(walk: Walk, node: Element) -> None:
    if _is_gated_node(node):
        walk.ledger["adf-extension", "hidden"] += 1
        return
    attributes = {each.get("key"): each.text or "" for each in node.iterchildren(f"{AC}adf-attribute")}
    if node.get("type") == "panel":
        walk.quote(attributes.get("title", ""), node)
    else:
        walk.paragraph(attributes.get("title", ""))
        walk.container(node)


def _drop(_walk: Walk, _node: Element) -> None:
    """Leave out an element: nothing of it is text."""


def _count(value: str | None) -> int:
    """Return a small whole number in an attribute, else 1."""
    return int(value) if value and len(value) < 7 and value.isascii() and value.isdigit() else 1


def _language(node: Element) -> str:
    """Return `language-x` of a class on `<pre>` or on the `<code>` in it."""
    match = _LANGUAGE_CLASS.search(" ".join(each.get("class", "") for each in (node, *node.iterchildren("code"))))
    return match[1] if match else ""


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
        "blockquote": _quote,
        "br": _break,
        "img": image,
        "time": _time,
        **dict.fromkeys(MACROS, _macro),
        f"{AC}link": link,
        f"{AC}image": image,
        f"{AC}emoticon": emoticon,
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
