"""A wiki as what questions are made of: its sections with their units, its words, which pages say nearly the same.

Belongs here: reading sections and chunks that are cut as they are indexed. Does not belong here: questions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from evals.bench.passages.corpora import Corpus
from rag_assets.steps.dedup.shingles import jaccard, shingles_of, words_of
from rag_serving.access.principals import EVERYONE
from rag_serving.text.analyzer import STOP_WORDS, analyze
from rag_serving.text.structure import columns_of, line_of
from rag_serving.text.units import Unit, cells_of, units

_MARKS = re.compile(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)|\\(?=[|*_<>\[\]])")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_NEARLY_SAME = 0.5  # share of a section's triples that makes two pages near-duplicates
_SHORTEST_SHARED = 25  # words: what is shorter may stand on two pages by accident
_SKETCH = 8  # smallest hashes of a section's triples: what is nearly the same shares one
_MOST_HOLDERS = 6  # pages with the same triple: on more of them it came with their template
OF_A_TEMPLATE = 8  # sections with the same heading: it came with the template of their pages
_AROUND = "?,.:;()\"'“”‘’`"
_LAST_PART = re.compile(r"^\S+[.-]([A-Za-z]{3,})$")
_INSIDE = re.compile(r"(?<=[a-z,;] )([A-Za-z][\w.-]*[\w])")


@dataclass(frozen=True)
class Section:
    """A section as it is indexed."""

    corpus: str
    row: Mapping[str, Any]
    title: str

    @property
    def id(self) -> str:
        return str(self.row["section_id"])

    @property
    def page_id(self) -> str:
        return str(self.row["page_id"])

    @property
    def heading(self) -> str:
        return plain(self.row["heading"] or self.title)

    @property
    def text(self) -> str:
        return str(self.row["text"])

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(plain(name) for name in (self.title, *self.row["heading_path"])))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        blocks = [(block["kind"], block["start"], block["end"]) for block in self.row["blocks"]]
        return tuple(units(self.text, blocks))

    def of(self, kind: str) -> list[Unit]:
        """Return the units of one kind, in order."""
        return [unit for unit in self.units if unit.kind == kind]

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tables whose columns have names."""
        rows: dict[int, list[Unit]] = defaultdict(list)
        for unit in self.units:
            if unit.kind in ("table", "header"):
                rows[unit.block].append(unit)
        found = (_table([line_of(unit, self.text) for unit in those], those[0].kind) for those in rows.values())
        return tuple(table for table in found if table)


@dataclass(frozen=True)
class Table:
    """A table: the names of its columns, and its rows as they stand and as cells."""

    columns: tuple[str, ...]
    lines: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Wiki:
    """The sections of a corpus that everyone may read and search finds, and what its words are."""

    def __init__(self, corpus: Corpus, titles: Mapping[str, str]) -> None:
        self.name, self.corpus = corpus.name, corpus
        indexed = {
            row["section_id"]
            for row in corpus.chunks.select(["section_id", "readers"]).to_pylist()
            if row["readers"] == EVERYONE
        }
        rows = (row for row in corpus.sections.to_pylist() if row["section_id"] in indexed)
        self.sections = tuple(Section(self.name, row, titles[row["page_id"]]) for row in rows)
        self.terms = {
            section.id: frozenset(analyze("\n".join((*section.path, section.text)))) for section in self.sections
        }
        self.path_terms = {section.id: frozenset(analyze("\n".join(section.path))) for section in self.sections}
        self.by_id = {section.id: section for section in self.sections}
        self.page_of = {section.id: section.page_id for section in self.sections}
        self._holding: dict[str, set[str]] = defaultdict(set)
        for section, terms in self.terms.items():
            for term in terms:
                self._holding[term].add(section)

    def holding(self, terms: Iterable[str]) -> set[str]:
        """Return the ids of the sections whose text and headings hold all terms; all sections for none."""
        sets = sorted((self._holding.get(term, set()) for term in terms), key=len)
        return set.intersection(*sets) if sets else set(self.terms)

    def knows(self, term: str) -> bool:
        """Return whether any section holds a term."""
        return term in self._holding

    def holding_most(self, terms: Sequence[str], missing: int = 1) -> set[str]:
        """Return the ids of the sections that hold all terms but a few."""
        counts: Counter[str] = Counter()
        for term in terms:
            counts.update(self._holding.get(term, ()))
        return {section for section, held in counts.items() if held >= max(1, len(terms) - missing)}

    @cached_property
    def headings(self) -> Counter[str]:
        """Return how many sections have a heading, by its terms."""
        return Counter(key_of(section.heading) for section in self.sections)

    @cached_property
    def groups(self) -> Mapping[str, str]:
        """The group of each page: the smallest id of the pages that near-duplicate sections join it with."""
        parent = {section.page_id: section.page_id for section in self.sections}

        def top(page: str) -> str:
            while parent[page] != page:
                page = parent[page] = parent[parent[page]]
            return page

        for one, other in self._near_duplicates:
            first, second = sorted((top(self.page_of[one]), top(self.page_of[other])))
            parent[second] = first
        return {page: top(page) for page in parent}

    @cached_property
    def twins(self) -> Mapping[str, frozenset[str]]:
        """The sections of other pages that say nearly the same as a section, under the same heading."""
        found: dict[str, set[str]] = defaultdict(set)
        for one, other in self._near_duplicates:
            if key_of(self.by_id[one].heading) == key_of(self.by_id[other].heading):
                found[one].add(other)
                found[other].add(one)
        return {section: frozenset(others) for section, others in found.items()}

    @cached_property
    def _near_duplicates(self) -> tuple[tuple[str, str], ...]:
        """Pairs of sections of two pages that say nearly the same."""
        own = (section for section in self.sections if self.headings[key_of(section.heading)] < OF_A_TEMPLATE)
        long = [section for section in own if len(section.text.split()) >= _SHORTEST_SHARED]
        sets = shingles_of([words_of(section.text) for section in long]).sets()
        shingles = dict(zip((section.id for section in long), sets, strict=True))
        holders: dict[int, list[str]] = defaultdict(list)
        for section, those in shingles.items():
            for number in those[:_SKETCH].tolist():
                holders[number].append(section)
        few = (sections for sections in holders.values() if len({*map(self.page_of.get, sections)}) <= _MOST_HOLDERS)
        pairs = {(sections[0], other) for sections in few for other in sections[1:]}
        apart = (pair for pair in sorted(pairs) if self.page_of[pair[0]] != self.page_of[pair[1]])
        return tuple(pair for pair in apart if jaccard(shingles[pair[0]], shingles[pair[1]]) >= _NEARLY_SAME)

    @cached_property
    def names(self) -> frozenset[str]:
        """Words that are written with a capital inside sentences more often than not: proper names."""
        big: Counter[str] = Counter()
        small: Counter[str] = Counter()
        for section in self.sections:
            for unit in section.of("sentence"):
                for word in _INSIDE.findall(plain(unit.of(section.text))):
                    (big if word[0].isupper() else small)[word.lower()] += 1
        return frozenset(word for word, count in big.items() if count > small[word] and word not in STOP_WORDS)

    @cached_property
    def row_keys(self) -> tuple[tuple[str, str, str], ...]:
        """The names of the rows of all tables, each with the name of its column, in lower case, and its page."""
        found = (
            (plain(row[0]), table.columns[0].lower(), section.page_id)
            for section in self.sections
            for table in section.tables
            for row in table.rows
        )
        return tuple(dict.fromkeys(row for row in found if is_name(row[0])))

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of columns that two tables or more have, in lower case."""
        tables = (table for section in self.sections for table in section.tables)
        found = Counter(name for table in tables for name in {column.lower() for column in table.columns[1:]})
        return tuple(sorted(name for name, count in found.items() if count > 1 and is_name(name)))

    @cached_property
    def last_parts(self) -> tuple[str, ...]:
        """The last parts of dotted and dashed names of rows and headings."""
        keys = (*(key for key, *_ in self.row_keys), *(section.heading for section in self.sections))
        found = (_LAST_PART.search(key) for key in keys)
        return tuple(dict.fromkeys(match[1].lower() for match in found if match))

    @cached_property
    def names_by_shape(self) -> Mapping[str, Sequence[str]]:
        """Proper names of headings and titles, by how they are written."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for section in self.sections:
            for word in " ".join(section.path).split():
                bare = word.strip(_AROUND)
                shape = shape_of(bare)
                if shape in ("dotted", "camel") or (shape == "capitals" and bare.lower() in self.names):
                    found[shape][bare] = None
        return {shape: tuple(names) for shape, names in found.items()}


def is_name(key: str) -> bool:
    """Return whether the text of a cell can name something: a few words with a letter among them."""
    return bool(re.search(r"[A-Za-z]{3}", key)) and len(key.split()) <= 4 and len(key) <= 40


def shape_of(word: str) -> str:
    """Return the shape by which a word is a name: dotted, camel, capitals or capitalized; empty: it is none."""
    bare = word.strip(_AROUND)
    if re.fullmatch(r"[A-Za-z]\w*(?:[._]\w+)+", bare):
        return "dotted"
    if re.search(r"[a-z][A-Z]|[A-Z]{2}[a-z]", bare):
        return "camel"
    if re.fullmatch(r"[A-Z][A-Z0-9]+", bare):
        return "capitals"
    return "capitalized" if re.fullmatch(r"[A-Z][a-z]{2,}", bare) else ""


def plain(text: str) -> str:
    """Return a text on one line without Markdown's marks."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", text)).split())


def key_of(heading: str) -> str:
    """Return what two headings that say the same have in common."""
    return " ".join(analyze(heading))


def content_terms(question: str) -> list[str]:
    """Return the terms of a question that carry its topic, each once."""
    return list(dict.fromkeys(analyze(question)))


def _table(lines: Sequence[str], first: str) -> Table | None:
    head = columns_of(lines[0].splitlines()[0]) if first == "header" else []
    if not head and first == "table":
        head = _guessed(cells_of(lines[0]))
    columns = tuple(plain(name) for name in head)
    rows = tuple(tuple(cells_of(line)) for line in lines[1:])
    return Table(columns, tuple(lines[1:]), rows) if columns and rows else None


def _guessed(cells: Sequence[str]) -> list[str]:
    """Return the cells of a first row that can only name columns: each bold."""
    return list(cells) if len(cells) > 1 and all(re.fullmatch(r"\*\*[^*]+\*\*", cell) for cell in cells) else []
