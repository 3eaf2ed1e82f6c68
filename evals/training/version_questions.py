"""Questions that several versions of one documentation answer, each in its own way: the newest is right.

Belongs here: the versions as one corpus, and what of them differs. Does not belong here: questions of one version.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from evals.bench.passages.corpora import file_pages
from evals.training.heading_questions import heading_pairs, pair_of, place_of, with_subject
from evals.training.pairs import Pair
from evals.training.table_questions import Cell, cell_question, cells, facts_of
from evals.training.wiki import Section, Wiki, content_terms, plain

RELEASED = {"20": 2018, "24": 2019, "38": 2024, "39": 2025}
"""The versions by the years that their pages count as written in, oldest first."""
Row = tuple[str, str, str]  # name of the page, row, column


def version_pages(folder: Path) -> pa.Table:
    """Return rows of PAGES of all versions: page ids begin with the version, spaces and dates differ."""
    return pa.concat_tables(_of_version(file_pages(folder / version, "html"), version) for version in RELEASED)


def version_pairs(wiki: Wiki, seed: int = 0) -> Iterator[Pair]:
    """Yield questions for cells and sections of the newest version that an older one has and words differently."""
    newest, older = _by_version(wiki)
    rows = [_rows(sections) for sections in older]
    for place, (section, cell) in _rows(newest).items():
        stale = [found[place] for found in rows if place in found and _differ(found[place][1], cell)]
        question = cell_question(cell, random.Random(f"{seed}:{place}")) if stale and facts_of(cell.value) else ""
        if len(content_terms(question)) < 3 and question:
            question = with_subject(section, question)
        if question:
            pair = pair_of(wiki, section, question, "version", answer=plain(cell.line.strip("|")))
            others = tuple(place_of(old) for old, _ in stale)
            yield replace(pair, source="version", facts=facts_of(cell.value), also=(), superseded=others)
    yield from _sections(wiki, older)


def _sections(wiki: Wiki, older: Sequence[Sequence[Section]]) -> Iterator[Pair]:
    """Yield the questions of headings whose sections differ from those of older versions."""
    before: dict[tuple[str, ...], list[Section]] = defaultdict(list)
    for section in (section for sections in older for section in sections):
        before[_path(section)].append(section)
    for pair in heading_pairs(wiki):
        section = wiki.by_id[pair.section_id]
        stale = [old for old in before.get(_path(section), ()) if old.text.split() != section.text.split()]
        if stale and _version(section) == max(RELEASED):
            others = tuple(place_of(old) for old in stale)
            yield replace(pair, kind="version", source="version", also=(), superseded=others)


def _by_version(wiki: Wiki) -> tuple[Sequence[Section], Sequence[Sequence[Section]]]:
    found: dict[str, list[Section]] = {version: [] for version in RELEASED}
    for section in wiki.sections:
        found[_version(section)].append(section)
    *older, newest = found.values()
    return newest, older


def _rows(sections: Sequence[Section]) -> Mapping[Row, tuple[Section, Cell]]:
    """Return the cells of a version by the place that another version has them at, those that stand there once."""
    found: dict[Row, list[tuple[Section, Cell]]] = defaultdict(list)
    for section in sections:
        for table in section.tables:
            for cell in cells(table):
                found[_path(section)[0], cell.row, cell.column].append((section, cell))
    return {place: those[0] for place, those in found.items() if len(those) == 1}


def _differ(one: Cell, other: Cell) -> bool:
    return plain(one.value).casefold() != plain(other.value).casefold()


def _path(section: Section) -> tuple[str, ...]:
    return section.page_id.partition(".")[2], *section.path


def _version(section: Section) -> str:
    return section.page_id.partition(".")[0]


def _of_version(pages: pa.Table, version: str) -> pa.Table:
    written = datetime(RELEASED[version], 1, 1, tzinfo=UTC)
    values = {
        "page_id": pc.binary_join_element_wise(version, pages["page_id"], "."),
        "space": pa.array([f"KAFKA-{version}"] * len(pages)),
        "updated_at": pa.array([written] * len(pages), pages.schema.field("updated_at").type),
    }
    for name, column in values.items():
        pages = pages.set_column(pages.column_names.index(name), pages.schema.field(name), column)
    return pages
