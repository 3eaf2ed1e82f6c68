"""Blocks: the atoms of a page's text, whatever format the body had; they are joined to one text with offsets.

Also blocks as JSON, between two processes and as the body format `blocks`, and the rows of tables as blocks, each of
which reads alone. Reading a body format is elsewhere. Budgets: how much of a document is kept, so that
no small file becomes a large table. Marks that change what a text says: raised, lowered and struck characters.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, Literal, NamedTuple

from rag_assets.steps.formats.element_tree import AC, Element, PageError
from rag_serving.text.normalization import OMISSION

SPAN_MAX = 64  # columns a cell may claim; a body with more is broken or hostile
REPEAT_MAX = 500  # characters of a merged cell that are repeated; a longer one appears once
HEADER_MAX = 4  # rows of a header


class Cell(NamedTuple):
    """One cell: its text on one line and the number of columns and rows it covers."""

    text: str
    header: bool = False
    columns: int = 1
    rows: int = 1


@dataclass
class Repeats:
    """The number of merged cells' characters that may still be repeated; the tables of a body share it."""

    left: int = 1_000_000  # a body whose tables repeat more is hostile


def row_blocks(rows: Sequence[Sequence[Cell]], group: int, repeats: Repeats | None = None) -> Iterator[Block]:
    """Yield one block a row; the first rows of header cells become one, which carries the delimiter line.

    A first one that is a single text over several columns is the table's caption. Rows without text are left out.
    """
    filled = [pair for pair in zip(rows, grid(rows, repeats or Repeats()), strict=True) if any(pair[1])]
    named = takewhile(lambda pair: pair[0] and all(cell.header for cell in pair[0]), filled[: HEADER_MAX + 1])
    header = [texts for _, texts in named]
    body = filled[len(header) :]
    if not body:  # nothing but header cells: the first of them name the columns
        header, body = header[:1], filled[1:]
    if len(header) > 1 and len(header[0]) > 1 and len(set(header[0])) == 1:
        yield Block("paragraph", header.pop(0)[0])
    if header:
        merged = one_header(header)
        yield Block("table", f"{row_line(merged)}\n|" + "---|" * len(merged), group)
    for _, texts in body:
        yield Block("table", row_line(texts), group)


def one_header(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return each column's words from top to bottom, without immediate repetitions."""
    width = max(map(len, lines))
    columns = ([line[column] for line in lines if column < len(line) and line[column]] for column in range(width))
    return [" ".join(dict.fromkeys(words)) for words in columns]


def row_line(texts: Sequence[str]) -> str:
    """Return `| a | b |`, pipes inside a cell escaped."""
    return "|" + "".join(f" {text.replace('|', chr(92) + '|')} |" if text else " |" for text in texts)


def grid(rows: Sequence[Sequence[Cell]], repeats: Repeats) -> Iterator[list[str]]:
    """Yield the texts of each row, merged cells repeated in all rows and columns that they cover, while they may be."""
    below: dict[int, tuple[int, str]] = {}  # column → rows still covered from above, and the text there
    for cells in rows:
        texts: list[str] = []
        _fill(texts, below, repeats)
        for cell in cells:
            repeated = cell.text if len(cell.text) <= REPEAT_MAX else ""
            for offset in range(min(max(cell.columns, 1), SPAN_MAX) if repeats.left >= 0 else 1):
                if cell.rows > 1 and repeats.left >= 0:
                    below[len(texts)] = (cell.rows - 1, repeated)
                texts.append(repeated if offset else cell.text)
                repeats.left -= len(repeated) + 1 if offset else 0
            _fill(texts, below, repeats)
        yield texts


def _fill(texts: list[str], below: dict[int, tuple[int, str]], repeats: Repeats) -> None:
    """Append the text of cells from earlier rows to the next columns; nothing once too much was repeated."""
    if repeats.left < 0:
        below.clear()
    while (column := len(texts)) in below:
        left, text = below.pop(column)
        texts.append(text)
        repeats.left -= len(text) + 1
        if left > 1:
            below[column] = (left - 1, text)


Kind = Literal["paragraph", "heading", "code", "table", "list", "reference"]
BREAK = "\x0b"  # a forced line break inside inline text; XML cannot carry this character, so no body contains it
PICTURE = "\x0c"  # as well; a picture without words, until it is known whether a sentence goes on behind it
INLINE_CODE_MAX = 600  # characters of a code body that still read well inside a table row
_INVISIBLE = re.compile(  # joiners mean something between letters of their scripts and inside emoji
    "[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_BACKTICKS = re.compile("`+")
_LANGUAGE = re.compile(r"[\w+#.-]+")


class Reference(NamedTuple):
    """A macro's reference to another page: all of it, or the excerpt of a name ("" is the first one)."""

    macro: str
    title: str
    space: str = ""  # empty: the space of its own page
    excerpt: str | None = None


class Listing(NamedTuple):
    """A list of pages that the server fills in, as a macro requests it."""

    macro: str
    parameters: Mapping[str, str]
    title: str = ""  # of its page; empty: its own
    space: str = ""


class Link(NamedTuple):
    """The target of a link: a page, a file, a space, an address, or only an anchor of the page itself."""

    text: str
    kind: Literal["page", "file", "space", "url", "anchor"]
    target: str = ""  # title, file name, key of the space, or address
    space: str = ""  # of a page; empty: the space of its own page
    anchor: str = ""


class Block(NamedTuple):
    """One atom: a paragraph, a fenced code block, a table row, a list item, a heading; a reference has no text."""

    kind: Kind
    text: str
    group: int = 0  # shared by the rows of one table and the items of one list; 0: none
    indent: int = 0  # columns, for nested list items
    level: int = 0  # of a heading; 0: inside a table cell, where it splits nothing but takes its id
    anchors: tuple[str, ...] = ()  # names of anchor macros: in a heading; of a reference, before what follows
    body: str = ""  # of code, to the letter
    linked: int = 0  # characters of the text that are links
    reference: Reference | None = None
    listing: Listing | None = None
    links: tuple[Link, ...] = ()  # of a reference: those of the blocks before it, up to the heading
    page: int = 0  # of a paged file, from 1; 0: not paged
    breaks: tuple[tuple[int, int], ...] = ()  # (offset in the text, page) where a later page begins inside it
    confidence: int | None = None  # of what OCR read, 0 to 100; None: no OCR
    slug: str = ""  # the words that a heading's id is made of, where they are not its text


class Content(NamedTuple):
    """A body as blocks in order, and its macros counted by (name, outcome)."""

    blocks: list[Block]
    ledger: Counter[tuple[str, str]]
    cut: str | None = None  # why the rest of it is left out


class Atom(NamedTuple):
    """The range of a block in a text: half-open character offsets."""

    kind: Kind
    start: int
    end: int
    page: int = 0  # that it begins on, from 1; 0: the file is not paged
    breaks: tuple[tuple[int, int], ...] = ()  # (offset in the whole text, page) where a later page begins inside it
    confidence: int | None = None  # of what OCR read, 0 to 100; None: no OCR


def clean(text: str) -> str:
    """Return one line: white space (NBSP too) collapsed, invisible characters removed, canonically composed (NFC)."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _INVISIBLE.sub("", text))
    return " ".join(text.split())


def paragraphs(text: str) -> list[str]:
    """Return inline text as cleaned paragraphs: one break is a new line, two a new paragraph.

    A line that lacks all of its words is left out; a picture within a line is an omission.
    """
    if BREAK not in text:
        line = _line(text)
        return [line] if line else []
    groups: list[list[str]] = [[]]
    for line in map(_line, text.split(BREAK)):
        if line:
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return ["\n".join(lines) for lines in groups if lines]


def _line(text: str) -> str:
    line = clean(text.strip().replace(PICTURE, OMISSION) if PICTURE in text else text)
    return line if OMISSION not in line or line.strip(f"{OMISSION} .,;:!?()") else ""


def code_block(body: str, language: str = "") -> Block:
    """Return a fenced block. The body stays to the letter; the fence is longer than any run of backticks in it."""
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(body))])
    match = _LANGUAGE.match(language.strip().lower())
    info = match[0] if match and match[0] not in ("none", "plain") else ""
    end = "" if body.endswith("\n") else "\n"
    return Block("code", f"{fence}{info}\n{body}{end}{fence}", body=body)


def flat(blocks: Iterable[Block], lifted: list[Block]) -> str:
    """Return blocks as one line, list items joined by "; ".

    Code that a line cannot carry to the letter is appended to `lifted`, for its own place after the line, and so are
    references. The line keeps a short body of code with its white space collapsed, and "(code n)" for a long one.
    """
    line, previous = "", ""
    for block in blocks:
        if block.kind == "reference":
            lifted.append(block)
            continue
        text = _code_in_line(block, lifted) if block.kind == "code" else block.text.replace("\n", " ")
        if line and text:
            both_items = block.kind == previous == "list"
            line += "; " if both_items and line[-1] not in ".,;:!?" else " "
        line += text
        previous = block.kind
    return line


def _code_in_line(block: Block, lifted: list[Block]) -> str:
    collapsed = clean(block.body)
    if collapsed == block.body and "|" not in collapsed:
        return collapsed
    if len(collapsed) > INLINE_CODE_MAX:
        collapsed = f"(code {sum(each.kind == 'code' for each in lifted) + 1})"
        lifted.append(Block("paragraph", collapsed))
    lifted.append(block)
    return collapsed


def joined(blocks: Sequence[Block]) -> tuple[str, list[Atom]]:
    """Return the blocks as one text and the range of each; between two atoms there is only white space."""
    parts: list[str] = []
    atoms: list[Atom] = []
    position, group = 0, 0
    for block in blocks:
        gap = ""
        if atoms:
            gap = "\n" if block.group and block.group == group else "\n\n"
            gap += " " * block.indent
        text = block.text.replace("\n", "\n" + " " * block.indent) if block.indent else block.text
        start = position + len(gap)
        breaks = tuple((start + at + block.indent * block.text.count("\n", 0, at), page) for at, page in block.breaks)
        atoms.append(Atom(block.kind, start, start + len(text), block.page, breaks, block.confidence))
        parts += (gap, text)
        position, group = atoms[-1].end, block.group
    return "".join(parts), atoms


_DEFAULTS = Block("paragraph", "")


def blocks_body(content: Content) -> str:
    """Return a body of the format `blocks`."""
    return json.dumps(content_to_json(content), ensure_ascii=False, separators=(",", ":"))


def blocks_content(body: str) -> Content:
    """Return the blocks of such a body; an empty one has none. Raises PageError if it is something else."""
    if not body:
        return Content([], Counter())
    try:
        content = content_of_json(json.loads(body))
    except (ValueError, RecursionError):
        content = None
    if content is None:
        raise PageError("its stored blocks cannot be read")
    return content


def content_to_json(content: Content | None) -> Any:
    """Return blocks and ledger as JSON values; named tuples are written as arrays."""
    if content is None:
        return None
    ledger = [[*key, count] for key, count in content.ledger.items()]
    return {"blocks": [*map(_fields, content.blocks)], "ledger": ledger, "cut": content.cut}


def _fields(block: Block) -> Sequence[Any]:
    last = len(block)
    while last > 2 and block[last - 1] == _DEFAULTS[last - 1]:
        last -= 1
    return block[:last]


def content_of_json(payload: Any) -> Content | None:
    """Return the content of `content_to_json`. Raises ValueError: it is something else."""
    if payload is None:
        return None
    try:
        blocks = [_block(fields) for fields in payload["blocks"]]
        ledger = Counter({(str(macro), str(outcome)): int(count) for macro, outcome, count in payload["ledger"]})
        return Content(blocks, ledger, payload["cut"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ValueError("it holds something else than blocks") from None


def _block(fields: Sequence[Any]) -> Block:
    block = Block(*fields)
    listing = Listing(*block.listing) if block.listing else None
    if listing and not isinstance(listing.parameters, Mapping):
        raise TypeError
    return block._replace(
        anchors=tuple(block.anchors),
        breaks=tuple((int(at), int(page)) for at, page in block.breaks) if block.breaks else (),
        reference=Reference(*block.reference) if block.reference else None,
        listing=listing,
        links=tuple(Link(*link) for link in block.links) if block.links else (),
    )


Mark = Literal["", "raised", "lowered", "struck"]

# The ledger's name of crossed-out text, which is no statement of the page and so no part of its text.
STRUCK = "struck text"
_RAISED = str.maketrans("0123456789+-−–=()abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
_LOWERED = str.maketrans("0123456789+-−–=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₋₌₍₎")
_FIGURES = re.compile(r"[0-9+\-−–=()*†‡§,; ]{0,40}[a-z]?[0-9+\-−–=()*†‡§,; ]{0,40}")
_ORDINAL = re.compile(r"(?:st|nd|rd|th|er|re|ère|[eè]me|nde?|tm|sm)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,9}")
_TAGS: dict[str, Mark] = {"s": "struck", "del": "struck", "strike": "struck", "sup": "raised", "sub": "lowered"}
STRUCK_CLASSES = frozenset(
    ("line-through", "strikethrough", "strike-through", "strike", "text-decoration-line-through")
)
_SHIFTED = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.IGNORECASE)
_INLINE = frozenset({"span", "font", "a", "b", "i", "em", "strong", "small"})  # a cell's style aligns the whole cell
_CLASS_RULE = re.compile(r"\.([\w-]{1,100})\s{0,9}\{([^{}]{0,2000})\}")
_MARKING = re.compile(r"line-through|vertical-align\s{0,9}:\s{0,9}su\w{1,9}")
_ADF_MARKS: dict[str, Mark] = {"strike": "struck", "sup": "raised", "sub": "lowered"}


def shifted(text: str, mark: Mark, before: str = "") -> str:
    """Return raised or lowered text such that it is no part of the number or word before it: 10⁶, 24¹ months, CO₂.

    Words, phrases (only their leading number is raised) and the endings of ordinals stay as they are; text without
    Unicode characters for it follows `^` or `_`.
    """
    line = clean(text)
    after_number = before[-1:].isdigit()
    if mark == "lowered":
        is_index = after_number or (before[-1:].strip() and " " not in line)
        return "_" * (after_number and line[:1].isalpha()) + line.translate(_LOWERED) if is_index else line
    if _FIGURES.fullmatch(line):
        return line.translate(_RAISED)
    if " " in line:
        number = _NUMBER.match(line)
        return number[0].translate(_RAISED) + line[number.end() :] if number else line
    is_sign = not any(map(str.isalnum, line))  # ®, ™: no part of a number
    if is_sign or line[:1] == "[" or _ORDINAL.fullmatch(line) or (line[:1].isalpha() and not after_number):
        return line
    return f"^{line}" if line.replace(".", "").isalnum() else f"^({line})"


def mark_of(element: Element) -> Mark:
    """Return an element's mark on its content: by its name, style, class, or a mark of the new editor."""
    if (mark := _TAGS.get(element.tag)) is not None:
        return mark
    if element.tag == f"{AC}adf-node":
        for child in element.iterchildren(f"{AC}adf-mark"):
            kind = child.get("key") or child.get("type") or ""
            for name in (kind, *(part.text or "" for part in child.iter() if kind == "subsup")):
                if name in _ADF_MARKS:
                    return _ADF_MARKS[name]
        return ""
    style = element.get("style", "")
    if "line-through" in style or (element.get("class") and STRUCK_CLASSES.intersection(element.get("class").split())):
        return "struck"
    found = _SHIFTED.search(style) if style and element.tag in _INLINE else None
    return "" if found is None else "raised" if found[1].lower() == "super" else "lowered"


def style_classes(document: Element) -> None:
    """Write the marks of classes in the page's own style sheet (exports of Google Docs) into its elements."""
    styles = {
        name: found[0]
        for sheet in document.iter("style")
        for name, declared in _CLASS_RULE.findall(sheet.text or "")
        if (found := _MARKING.search(declared))
    }
    for element in document.iter() if styles else ():
        for name in {*(element.get("class") or "").split()} & styles.keys():
            element.set("style", f"{element.get('style', '')};{styles[name]}")


HEADING_MAX = 2_000
"""Characters; a longer heading is a paragraph, because each section below repeats its headings."""

_GAP = 2  # characters between two blocks
_NOTE = "\x1a\ue000"
"""Begins the note of a cut at the end of a body. What somebody else wrote after it is text, unless it is a reason."""

_REASON = re.compile(r"cut at [0-9,]{1,20} [a-z ]{1,30} \(documents\.max_[a-z_]{1,20}\)")


class Budget(NamedTuple):
    """The most that is kept of one document."""

    text_chars: int = 2_000_000
    headings: int = 10_000
    blocks: int = 100_000
    cells: int = 200_000

    def reason(self, name: str) -> str:
        """Return the exceeded quantity of a document cut at one of these limits, and its setting."""
        return f"cut at {getattr(self, name):,} {_WORDS[name]} (documents.max_{name})"


_WORDS = {"text_chars": "characters of text", "headings": "headings", "blocks": "blocks", "cells": "table cells"}

BUDGET = Budget()


def within(content: Content, budget: Budget = BUDGET) -> Content:
    """Return the content up to where it exceeds the budget, with the reason in `cut`; unchanged if it does not."""
    if any(block.kind == "heading" and len(block.text) > HEADING_MAX for block in content.blocks):
        blocks: list[Block] = []
        for block in content.blocks:
            if block.kind != "heading" or len(block.text) <= HEADING_MAX:
                blocks.append(block)
            else:  # is a paragraph that links still reach
                blocks += [Block("reference", "", anchors=block.anchors)] if block.anchors else []
                blocks.append(Block("paragraph", block.text))
        content = content._replace(blocks=blocks)
    spent = _BudgetSpent(budget)
    for place, block in enumerate(content.blocks):
        if (name := spent.take(block)) is not None:
            kept = [*content.blocks[:place], *spent.first_part(block, name)]
            return content._replace(blocks=kept, cut=budget.reason(name))
    return content


class _BudgetSpent:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = budget._asdict()
        self._paths = budget.text_chars  # characters of heading paths, which every section repeats
        self._above: list[tuple[int, int]] = []  # level and length of the headings above

    def take(self, block: Block) -> str | None:
        """Count a block; return the name of the limit that it exceeds."""
        costs = {"text_chars": len(block.text) + _GAP, "blocks": 1 + len(block.links), "cells": _cells(block)}
        costs["headings"] = int(block.kind == "heading")
        for name, cost in costs.items():
            if cost > self._left[name]:
                return name
        for name, cost in costs.items():
            self._left[name] -= cost
        if block.kind != "heading" or not block.level:
            return None
        while self._above and self._above[-1][0] >= block.level:
            self._above.pop()
        self._above.append((block.level, len(block.text)))
        self._paths -= sum(length for _, length in self._above)
        return "text_chars" if self._paths < 0 else None

    def first_part(self, block: Block, exceeded: str) -> list[Block]:
        """Return the part of a block that still fits: lines of code, words of prose, cells of a row."""
        if exceeded == "cells":
            return [_with_text(block, "|".join(block.text.split("|", self._left["cells"] + 1)[:-1]) + "|")]
        room = self._left["text_chars"] - _GAP
        if exceeded != "text_chars" or block.kind == "heading" or room <= 0:
            return []
        if block.kind == "code":
            fence, _, rest = block.text.partition("\n")
            end = fence[: len(fence) - len(fence.lstrip("`"))]
            body = rest[: max(room - 2 * len(fence) - 2, 0)].rpartition("\n")[0]
            return [_with_text(block, f"{fence}\n{body}\n{end}")] if body.strip() else []
        head = block.text[:room]
        words = head.rpartition(" |")[0] + " |" if block.kind == "table" else head.rsplit(None, 1)[0]
        return [_with_text(block, words)] if words.strip(" |") else []


def _with_text(block: Block, text: str) -> Block:
    return block._replace(text=text, linked=min(block.linked, len(text)))


def _cells(block: Block) -> int:
    if block.kind != "table":
        return 0
    row = block.text.partition("\n")[0]
    return row.count("|") - row.count("\\|") - 1


def noted(body: str, reason: str | None) -> str:
    """Return a body with the reason after it, if it was cut; `without_note` parts them again."""
    return f"{body}{_NOTE}{reason}" if reason else body


def without_note(body: str) -> tuple[str, str | None]:
    """Return a body and the reason why it was cut, None if it was not."""
    text, mark, reason = body.rpartition(_NOTE)
    return (text, reason) if mark and _REASON.fullmatch(reason) else (body, None)


def first_chars(text: str, budget: Budget) -> tuple[str, str | None]:
    """Return the text up to the budget, at the end of a line if there is one, and the reason of a cut."""
    if len(text) <= budget.text_chars:
        return text, None
    head = text[: budget.text_chars]
    return head[: head.rfind("\n") + 1] or head, budget.reason("text_chars")


def first_rows(rows: Sequence[Sequence[str]], budget: Budget) -> tuple[list[Sequence[str]], str | None]:
    """Return the rows of a table of which each is as wide as the widest, up to the budget, and the reason of a cut."""
    width = max(map(len, rows), default=1)
    most = max(budget.cells // max(width, 1), 1)
    return list(islice(rows, most)), budget.reason("cells") if len(rows) > most else None
