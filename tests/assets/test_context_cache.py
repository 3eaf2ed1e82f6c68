"""Contexts kept: through renames, through versions of the file, and never the wrong ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from model_of_contexts import tables_of

from rag_assets.llm_contexts.writer import FILE, SEAL_PURPOSE, ContextCache, known_contexts
from rag_assets.steps.contexts.contextualize import WrittenContext
from rag_assets.steps.contexts.prompt import ContextDocument, build_documents
from rag_serving.artifacts.secret import Seal

MODEL = "ollama/llama3.2"


def document(**changes: Any) -> ContextDocument:
    """A page of one passage."""
    row = tables_of(1, 1)[0]
    row.update(changes)
    (made,) = build_documents(pa.Table.from_pylist([row]), 4_000)
    return made


def titled(title: str) -> ContextDocument:
    return document(title=title, heading_path=[title, "Setup"])


def written(text: str, provider: str = "ollama", made_at: float = 1.5) -> WrittenContext:
    return WrittenContext(text, 0.9, (), 1, 40, 4, 0, provider, "llama3.2", made_at, (1.0, 0.8, 1.0, 1.0))


def keep(cache: ContextCache, of: ContextDocument, context: WrittenContext) -> None:
    (passage,) = of.passages
    cache.remember({passage.key: context}, {passage.key: passage.place})


def known(cache: ContextCache, of: ContextDocument) -> list[WrittenContext]:
    return list(known_contexts(cache, [of]).values())


def test_a_renamed_page_keeps_its_contexts(tmp_path: Path) -> None:
    cache, context = ContextCache(tmp_path, MODEL), written("It tells of broker setup.")
    keep(cache, titled("Old guide"), context)
    assert known(cache, titled("New guide")) == [context]
    assert cache.lookup([titled("New guide").passages[0].key])  # and under its own key from then on


def test_a_context_that_names_what_only_the_old_title_had_is_not_kept(tmp_path: Path) -> None:
    cache = ContextCache(tmp_path, MODEL)
    keep(cache, titled("Zephyr guide"), written("It tells of broker setup in the Zephyr guide."))
    assert known(cache, titled("Zephyr guide"))
    assert not known(cache, titled("New guide"))


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "another text"},
        {"heading_path": ["New guide", "Elsewhere"]},
        {"readers": "group:staff"},
        {"page_id": "p9"},
    ],
)
def test_a_rename_that_changes_more_keeps_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    cache = ContextCache(tmp_path, MODEL)
    keep(cache, titled("Old guide"), written("It tells of broker setup."))
    new = {"title": "New guide", "heading_path": ["New guide", "Setup"], **changes}
    assert not known(cache, document(**new))


def test_of_two_models_the_first_is_preferred_and_of_two_contexts_the_newest(tmp_path: Path) -> None:
    both = ContextCache(tmp_path, MODEL, "openai/llama3.2")
    keep(both, titled("A"), written("It tells of setup.", "openai"))
    keep(both, titled("B"), written("It tells of broker.", "openai", made_at=9.0))
    assert [context.text for context in known(both, titled("C"))] == ["It tells of broker."]
    keep(both, titled("A"), written("It tells of replica."))
    assert [context.text for context in known(both, titled("A"))] == ["It tells of replica."]
    assert not known(ContextCache(tmp_path, "ollama/other"), titled("A"))


def test_a_file_of_a_later_program_is_put_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert not known(ContextCache(tmp_path, MODEL), titled("Guide"))
    assert (tmp_path / f"{FILE}.damaged-1").exists()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE contexts SET context = 'It tells where the deposit goes.'",
        "UPDATE contexts SET prompt_version = prompt_version + 1",
        "UPDATE contexts SET seal = NULL",
        "UPDATE contexts SET seal = x'00'",
        "UPDATE contexts SET place = key, key = place",
    ],
)
def test_who_cannot_seal_cannot_put_a_context_into_the_cache(tmp_path: Path, edit: str) -> None:
    cache = ContextCache(tmp_path, MODEL, seal=Seal(tmp_path, SEAL_PURPOSE))
    keep(cache, titled("Guide"), written("It tells of broker setup."))
    again = ContextCache(tmp_path, MODEL, seal=Seal(tmp_path, SEAL_PURPOSE))
    assert known(again, titled("Guide"))
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute(edit)
    assert not known(again, titled("Guide"))
    keep(cache, titled("Guide"), written("It tells of broker setup."))
    assert known(again, titled("Guide"))
