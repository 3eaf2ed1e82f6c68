"""A home that an earlier program wrote: refused by the name of its file with the command that mends it, and mended.

Homes whose tables only lack columns that are optional now go on as they are (`test_page_facts_build.py`), as does a
database of telemetry (`telemetry/test_telemetry.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.building import build
from support.command_line import run
from support.envelopes import Wiki

from rag_serving.artifacts import schema
from rag_serving.artifacts.schema import TableSchema

TABLES = {each.name: each for each in vars(schema).values() if isinstance(each, TableSchema)}
QUESTION = "Who deploys?"


@contextmanager
def changed(*tables: TableSchema) -> Iterator[None]:
    """As after a release that changes the form of these tables: its program reads a higher version of each."""
    before = {table.name: table.version for table in tables}
    for table in tables:
        object.__setattr__(table, "version", table.version + 1)  # a constant of the program, and frozen
    try:
        yield
    finally:
        for table in tables:
            object.__setattr__(table, "version", before[table.name])


def answered(wiki: Wiki) -> dict[str, object]:
    code, out, err = run("ask", QUESTION, "--json", "--config", str(wiki.config_path))
    assert (code, err) == (0, "")
    told = json.loads(out)
    return {"answer": told["answer"], "quotes": [each["quote"] for each in told["citations"]]}


def test_after_a_release_that_changes_all_tables_one_build_brings_the_same_answer(built_wiki: Wiki) -> None:
    before = answered(built_wiki)
    with changed(*TABLES.values()):
        code, out, err = run("ask", QUESTION, "--config", str(built_wiki.config_path))
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert "citelock doctor" in err
        doctor = run("doctor", "--config", str(built_wiki.config_path))[1]
        version = TABLES["generation_chunks"].version
        assert f"has version {version - 1} of table 'generation_chunks', this program reads version {version}" in doctor
        assert "citelock build" in doctor
        build(built_wiki)
        assert answered(built_wiki) == before


@pytest.mark.nightly
@pytest.mark.parametrize("name", TABLES)
def test_after_a_release_that_changes_one_table_one_build_brings_the_same_answer(built_wiki: Wiki, name: str) -> None:
    before = answered(built_wiki)
    with changed(TABLES[name]):
        build(built_wiki)
        assert answered(built_wiki) == before
