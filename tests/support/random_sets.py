"""Corpora with readers, and queries over sets, made at random: small, full of what is hard to read, often alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rag_serving.indexes.set_tables import Facts, SetTablesOfReaders
from rag_serving.records.sets import Condition, SetQuery, SetTables
from rag_serving.sets.cells import shown, value_of
from support.set_tables import PAGES, TEXTS, Piece, page_facts, passages

CLASSES = ("everyone", "group:a", "group:b", "group:a&group:b")
_READERS = pa.field("readers", pa.string())
_CHUNKS, _FACTS = TEXTS.append(_READERS), PAGES.append(_READERS)
WORDS = (
    "Gdańsk", "gdansk", "GDAŃSK", "Gdan\u0301sk", "desk", "a_b", "C++", "straße", "STRASSE", "ﬁle", "file", "*desk*",
    "`a_b`", "harbour", "harbourmaster", "in**ner", "K", "№ 5", "x²", "x2", "(desk)", "desk-top", "the", "\n", "  ",
)  # fmt: skip
VALUES = (
    "7", "12", "7.5", "1,234", "1,234.5", "1.234,5", "12 000", "", "-", "about 20", "10 EUR", "€2.50", "$5", "3 kr",
    "15 minutes", "4 hours", "1 h 30", "250 ms", "90 s", "2 months", "1 year", "512 MB", "1 GiB", "1.5 GB", "99 %",
    "2025-08-21", "21 August 2025", "21.08.2025", "yes", "No", "ACCEPTED", "accepted", "Rosa Almeida", "5 | 6",
)  # fmt: skip
ALIKE = (
    ("1", "2", "3.5", "12"), ("10 EUR", "€2.50", ""), ("15 min", "4 hours", "1 h 30"), ("512 MB", "1 GB", "1 GiB"),
    ("2025-08-21", "1 May 2026"), ("open", "closed", "*open*"),
)  # fmt: skip
COLUMNS = ("Name", "Office", "Seats", "name", "", "**Price**")
_BORDER = datetime(2025, 12, 31, 23, 59, tzinfo=UTC)
KEYS = ("Status", "Owner", "Date", "a_b")


class Corpus(NamedTuple):
    """All rows of a generation with their reader classes."""

    pages: list[dict[str, Any]]
    chunks: list[dict[str, Any]]

    def without_hidden(self, classes: Sequence[str]) -> Corpus:
        """Return the corpus in which nothing is and nothing names what these classes do not open."""
        pages = [page for page in self.pages if page["readers"] in classes]
        known = {page["page_id"] for page in pages}
        open_pages = []
        for page in pages:
            links = [
                {**link, "page_id": link["page_id"] if link["page_id"] in known else None} for link in page["links"]
            ]
            above = [each for each in page["ancestors"] if each in known]
            told = {"ancestors": above, "ancestor_titles": above}
            open_pages.append({**page, **told, "links": [link for link in links if link["page_id"] or link["url"]]})
        return Corpus(open_pages, [chunk for chunk in self.chunks if chunk["readers"] in classes])

    def tables(self, classes: Sequence[str] = CLASSES) -> SetTables:
        """Return what the product lets these classes see; every third passage is a near-duplicate."""
        texts = pa.Table.from_pylist(self.chunks, schema=_CHUNKS)
        rest = pa.array([place % 3 > 0 for place in range(len(texts))], pa.bool_())
        facts = Facts(pa.Table.from_pylist(self.pages, schema=_FACTS), texts.filter(pc.invert(rest)))
        tables = SetTablesOfReaders(texts.filter(rest), lambda: facts).of(frozenset(classes))
        assert tables
        return tables


def random_corpus(draw: Random, most: int = 6) -> Corpus:
    """Return some pages, some of them without text."""
    ids = sorted(draw.sample(["1", "10", "2", "3", "a", "ä", "z9"], draw.randint(1, most)))
    pages, chunks = [], []
    for page_id in ids:
        others = draw.sample(ids, draw.randint(0, min(2, len(ids))))
        page = page_facts(
            page_id,
            title=draw.choice(["Offices", "Offices", "Old *Gdańsk* page", "Fees", "straße"]),
            space=draw.choice(["OPS", "ENG"]),
            status=draw.choice(["current", "archived"]),
            updated_at=draw.choice([None, *(_BORDER + timedelta(days=draw.randint(-40, 60)) for _ in range(3))]),
            labels=draw.sample(["adr", "ADR", "runbook", "the desk"], draw.randint(0, 2)),
            ancestors=[each for each in others if each != page_id],
            ancestor_titles=[each for each in others if each != page_id],
            author=draw.choice([None, "Rosa Almeida", "Jin"]),
            kind=draw.choice(["page", "page", "document", "comments", "attachment"]),
            category=draw.choice([None, "guide"]),
            lang=draw.choice([None, "en", "de"]),
            words=draw.choice([0, 7, 7, 100]),
            links=[
                {"page_id": draw.choice([each, None]), "url": draw.choice([None, "https://x.example"])}
                for each in draw.sample(ids, draw.randint(0, min(2, len(ids)))) if each != page_id
            ],
            readers=draw.choice(CLASSES),
        )  # fmt: skip
        pages.append(page)
        for row in passages(page, [random_piece(draw) for _ in range(draw.randint(0, 5))]):
            chunks.append({**row, "readers": draw.choice([page["readers"], page["readers"], *CLASSES])})
    return Corpus(pages, chunks)


def random_piece(draw: Random) -> Piece:
    """Return a passage of a few blocks, which may begin inside a table."""
    headings = draw.choice([(), ("Rooms",), ("Rooms",), ("Rooms", "Small"), ("Fees",), ("Rooms", "Small", "Blue")])
    header = _row(draw, COLUMNS, 3) if draw.random() < 0.3 else ""
    parts = [_table(draw, has_header=False)] if header else []
    parts += [draw.choice([_table, _prose, _list, _keys])(draw) for _ in range(draw.randint(1, 3))]
    return Piece("\n\n".join(parts), headings, header)


def random_query(draw: Random, corpus: Corpus) -> SetQuery:
    """Return a query that mostly can be run, and often has members."""
    kind = draw.choice(["pages", "pages", "pages", "rows", "rows", "rows", "items", "headings"])
    fields, sections = [*_PAGE_FIELDS], list[tuple[str, str]]()
    if kind != "pages":
        sections = _sections(draw, kind, corpus)
        ids = [each for each, _ in sections]
        texts = [chunk["text"] for chunk in corpus.chunks if chunk["page_id"] in ids and "|---" in chunk["text"]]
        headers = [shown(name) for text in texts for name in text.split("|---")[0].splitlines()[-1].split("|")[1:-1]]
        fields = ["text"] if kind != "rows" else [name for name in headers if name] or ["Name"]
    where = tuple(_condition(draw, kind, fields, corpus) for _ in range(draw.choice([0, 0, 1, 1, 2])))
    operations = ["list", "list", "count", "count", *(["sum", "average", "min", "max"] if fields != ["text"] else [])]
    operation = draw.choice(operations)
    able = ["words", "words", "updated", "property:Date"] if kind == "pages" else fields
    column = draw.choice(able) if operation not in ("list", "count") else draw.choice([None] * 9 + able[:1])
    order = (draw.choice(able if draw.random() < 0.7 else fields), draw.random() < 0.5) if draw.random() < 0.4 else None
    group = draw.choice([None, None, draw.choice(fields)])
    return SetQuery(
        kind, where, operation, column if operation != "count" else None,  # type: ignore[arg-type]
        tuple(sections), group, order, draw.choice([None, 1, 2]) if order else None,
    )  # fmt: skip


_PAGE_FIELDS = ["title", "space", "label", "updated", "status", "author", "language", "words", "category",
                *(f"property:{key}" for key in KEYS)]  # fmt: skip
_KNOWN = {"title": "offices", "space": "ops", "label": "Adr", "status": "current", "author": "rosa almeida",
          "language": "de", "category": "guide"}  # fmt: skip
_ORDERED = ("lt", "le", "gt", "ge")


def _sections(draw: Random, kind: str, corpus: Corpus) -> list[tuple[str, str]]:
    signs = {"rows": "|---", "items": "- "}
    chunks = [chunk for chunk in corpus.chunks if signs.get(kind, "") in chunk["text"]] or corpus.chunks
    known = [
        (chunk["page_id"], "" if kind == "headings" and draw.random() < 0.2 else chunk["anchor"]) for chunk in chunks
    ] or [("1", "Rooms")]
    return [draw.choice(known) for _ in range(draw.choice([1, 1, 1, 2]))]


def _condition(draw: Random, kind: str, fields: Sequence[str], corpus: Corpus) -> Condition:
    name = draw.choice([*fields, *(["mentions"] * 6 + ["above", "links_to", "linked_from"] if kind == "pages" else [])])
    if name in ("above", "links_to", "linked_from"):
        ids = [page["page_id"] for page in corpus.pages]
        return Condition(name, draw.choice(["eq", "eq", "ne"]), draw.choice([*ids, "https://x.example"]))
    if name == "mentions":
        words = " ".join(draw.choice(WORDS) for _ in range(draw.choice([1, 1, 2])))
        return Condition(name, "contains", words if draw.random() < 0.8 else words[:-1])
    if name == "updated":
        day = draw.choice(["2026", "2025", "2026-01", "2025-12", "2025-12-31", "2026-01-15"])
        return Condition(name, draw.choice([*_ORDERED, "eq", "ne"]), day)
    if name == "words":
        return Condition(name, draw.choice([*_ORDERED, "eq", "ne"]), draw.choice(["7", "8", "100", "7.5"]))
    value = _KNOWN.get(name) or draw.choice(draw.choice([*ALIKE, VALUES]))
    operators = ["eq", "ne", "contains", *(_ORDERED if name not in _KNOWN and value_of(value) else ())]
    return Condition(name, draw.choice(operators), draw.choice([value, value, value.split(" ")[0]]) or "12")  # type: ignore[arg-type]


def _cell(draw: Random, values: Sequence[str]) -> str:
    text = draw.choice(values).replace("|", "\\|")
    marked = [f"**{text}**" if text else "", f"[{text}](https://x.example/a_(b))", f"`{text}`", f"{text}<br>"]
    return draw.choice([text, text, text, *marked])


def _row(draw: Random, values: Sequence[str], width: int) -> str:
    return "|" + "".join(f" {_cell(draw, values)} |" for _ in range(width))


def _table(draw: Random, has_header: bool | None = None) -> str:
    width = draw.choice([2, 2, 3])
    is_named = draw.random() < 0.7 if has_header is None else has_header
    pools = [draw.choice([*ALIKE, *ALIKE, VALUES]) for _ in range(width)]
    rows = [f"{_row(draw, COLUMNS, width)}\n|{'---|' * width}"] if is_named else []
    for _ in range(draw.randint(1, 4)):
        cells = [draw.choice(KEYS)] if has_header is None and not is_named and width == 2 else [_cell(draw, pools[0])]
        cells += [_cell(draw, pool) for pool in pools[1:]]
        rows.append("|" + "".join(f" {cell} |" for cell in cells[: draw.choice([width, width, width, 1])]))
    if draw.random() < 0.01:
        rows[-1] = rows[-1].rstrip(" |")
    return "\n".join(rows)


def _prose(draw: Random) -> str:
    return draw.choice(["", "> "]) + " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 6))) + "."


def _list(draw: Random) -> str:
    marks = draw.choice([("- ", "  - "), ("1. ", "   - "), ("* [x] ", "  * ")])
    return "\n".join(
        f"{marks[place > 0 and draw.random() < 0.3]}{draw.choice(WORDS)} {draw.choice([*VALUES, 'Two. Three.'])}"
        for place in range(draw.randint(1, 4))
    )


def _keys(draw: Random) -> str:
    fence = draw.random() < 0.1
    lines = [
        f"{draw.choice(['', '- ', '> '])}{draw.choice(['{}', '**{}**', '{}'])}: ".format(draw.choice(KEYS))
        + draw.choice([draw.choice(VALUES), "Rosa. And Jin.", "**REJECTED**"])
        for _ in range(draw.randint(1, 3))
    ]
    return "\n".join(["```", *lines, "```"] if fence else lines)
