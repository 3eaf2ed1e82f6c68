"""Questions that tables answer, with the cell as fact.

Belongs here: which cells can be asked for, and how. Does not belong here: `key: value` lines and lists
(`line_questions`), other wordings (`rewordings`), rows that do not exist (`near_misses`).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from evals.training.heading_questions import pair_of, with_subject
from evals.training.pairs import Pair
from evals.training.wiki import Table, Wiki, content_terms, plain

_NOTHING = re.compile(r"^(?:[-–—*.?/ ]*|n/?a|none|tbd|todo|null|[a-z]|✓|✔|see .*|<.*|.*@user.*)$", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z]{2}|^\d{1,6}$")
_COLUMN = re.compile(r"[A-Za-z][A-Za-z '/-]*")
_NOTE = re.compile(r"\s*\(.*\)$")
_NUMBERED = re.compile(
    r"\b(?:code|error|severity|level|status|version|step|phase|stage|number|port|rule)$", re.IGNORECASE
)
_DEFAULT = frozenset({"default", "default value", "defaults"})
_MEANING = frozenset({"description", "meaning", "definition", "means", "it means", "explanation", "purpose"})
_OF_PEOPLE = frozenset({"owner", "contact", "author", "maintainer", "maintainers", "lead"})
_ASKS = frozenset({"how", "when", "where", "who", "why", "what"})
_NO_COLUMNS = frozenset(
    {"comment", "comments", "notes", "note", "remark", "remarks", "example", "links", "link", "details"}
)
_DOES = {"owns": "own", "uses": "use", "reads": "read", "writes": "write", "needs": "need", "covers": "cover",
         "holds": "hold", "contains": "contain", "returns": "return", "runs": "run", "replaces": "replace"}  # fmt: skip
_VERBS = frozenset({"takes", "lasts", "goes", "comes", "has", "is", "asks", "does", "can", "may", "must"})
_MOST_ROWS_KNOWN = 3  # pages that may have the same row and column
_COMMON_NAME = 12  # sections with a row's name, from which it says too little alone
LONGEST_FACT = 12  # words
_LONGEST_CELL = 60
_MOST_COLUMN_WORDS, _MOST_KEY_WORDS = 4, 5


class Cell(NamedTuple):
    """Hold what a table says: the value of a row in a column."""

    row: str
    column: str
    value: str
    line: str
    key_column: str


def table_pairs(wiki: Wiki, seed: int = 0) -> Iterator[Pair]:
    """Yield questions for cells; a row and column that two pages have are asked for with the name of the page."""
    found = [(section, cell) for section in wiki.sections for table in section.tables for cell in cells(table)]
    known = Counter(_place(cell) for _, cell in found)
    for section, cell in found:
        if known[_place(cell)] > _MOST_ROWS_KNOWN:
            continue
        question = cell_question(cell, random.Random(f"{seed}:{section.id}:{cell.row}:{cell.column}"))
        if question and (known[_place(cell)] > 1 or _is_common(wiki, cell)):
            question = with_subject(section, question)
        if question:
            kind = "definition" if cell.column.lower() in _MEANING else "table"
            pair = pair_of(wiki, section, question, kind, answer=plain(cell.line.strip("|")))
            yield replace(pair, source="table", facts=facts_of(cell.value))


def cells(table: Table) -> Iterator[Cell]:
    """Yield the cells that can be asked for by the name of their row, in tables where it names one row alone."""
    keys = Counter(plain(row[0]).lower() for row in table.rows if row)
    for line, row in zip(table.lines, table.rows, strict=True):
        key = plain(row[0]) if row else ""
        if keys[key.lower()] != 1 or not is_key(key):
            continue
        values = Counter(plain(value).lower() for value in row)
        for column, value in zip(table.columns[1:], row[1:], strict=False):
            if is_column(column) and _is_value(value) and values[plain(value).lower()] == 1:
                yield Cell(key, column, value, line, table.columns[0])


def cell_question(cell: Cell, chance: random.Random) -> str:
    """Return a question for a cell, in the words of its column; empty where these ask for nothing."""
    row, column = named(cell), cell.column.lower()
    first, last = column.split()[0], column.split()[-1]
    if not row:
        return ""
    if column in _DEFAULT:
        return chance.choice((f"what is the default of {row}", f"default value of {row}", f"{row} default"))
    if column in _MEANING:
        return chance.choice((f"what does {row} mean", f"what is {row}", f"{row} meaning"))
    if column == "type":
        return chance.choice((f"what type is {row}", f"{row} type"))
    if column in _OF_PEOPLE:
        return chance.choice((f"who is the {column} of {row}", f"{row} {column}"))
    if column in _DOES:
        return chance.choice((f"what does {row} {_DOES[column]}", f"{row} {column}"))
    if last in ("by", "for", "to", "when", "from", "in", "at"):
        return f"{row} {column}" if last == "when" else chance.choice((f"what is {row} {column}", f"{row} {column}"))
    if first in _ASKS or first in _VERBS or first in _DOES or first.endswith("ed"):
        return f"{row} {column}"
    if re.match(r"\d", plain(cell.value)) and re.fullmatch(r"[a-z]+[^s]s", column):
        return chance.choice((f"how many {column} for {row}", f"{row} {column}"))
    return chance.choice((f"what is the {column} of {row}", f"{column} for {row}", f"{row} {column}"))


def named(cell: Cell) -> str:
    """Return the row's name; a bare number says what it numbers, and is empty where no column tells."""
    key = _NOTE.sub("", cell.row)
    if not key.replace(".", "").isdigit():
        return key
    return f"{cell.key_column.lower()} {key}" if _NUMBERED.search(cell.key_column) else ""


def facts_of(value: str) -> tuple[str, ...]:
    """Return a value that is short enough to be looked for."""
    said = plain(value)
    return (said,) if len(said.split()) <= LONGEST_FACT else ()


def is_key(key: str) -> bool:
    """Return whether a text can name a row or a term: a few words, mostly letters and digits."""
    bare = _NOTE.sub("", key)
    signs = sum(not (char.isalnum() or char in " .-_") for char in bare)
    is_short = 1 <= len(bare.split()) <= _MOST_KEY_WORDS and len(bare) <= 60
    return is_short and bool(_NAME.search(bare)) and 4 * signs <= len(bare) and bool(content_terms(bare))


def is_column(column: str) -> bool:
    """Return whether the name of a column can be asked for."""
    return (
        1 <= len(column.split()) <= _MOST_COLUMN_WORDS
        and bool(_COLUMN.fullmatch(column))
        and (column.lower() not in _NO_COLUMNS)
    )


def is_nothing(said: str) -> bool:
    """Return whether a cell or value says nothing."""
    return bool(_NOTHING.match(said)) or not re.search(r"\w", said)


def _is_value(value: str) -> bool:
    said = plain(value)
    return not is_nothing(said) and len(said.split()) <= _LONGEST_CELL


def _place(cell: Cell) -> tuple[str, str]:
    return cell.row.lower(), cell.column.lower()


def _is_common(wiki: Wiki, cell: Cell) -> bool:
    """Return whether a row's name is too common to be asked for alone."""
    terms = content_terms(_NOTE.sub("", cell.row))
    return not terms or len(wiki.holding(terms)) > _COMMON_NAME
