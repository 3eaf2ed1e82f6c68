"""What changed between two generations: pages, and units in their places, with quotes that hold in their passages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.building import build
from support.envelopes import BACKUP, DEPLOY, SECTION, Wiki, envelope

from rag_assets.monitoring.alerts import NoticeCounts, notify
from rag_assets.steps.chunks.chunking import APART
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import PAGE_FACTS, PASSAGE_COLUMNS
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.checking.guarantee import follow
from rag_serving.config.loading import Config, load_config
from rag_serving.indexes.catalog import published_at, published_before
from rag_serving.indexes.generation import Generation
from rag_serving.records.sets import SetTables
from rag_serving.sets.history import OWN_READERS, PageChange, UnitChange, page_changes, unit_changes
from rag_serving.text.structure import structure_of

EDITED = SECTION.format(
    heading="Rolling out", text="Run the release pipeline and watch the canary for twenty minutes. Tell the pager."
) + SECTION.format(heading="Rolling back", text="To roll back a release, run the rollback pipeline.")


def row(text: str, index: int = 0, version: int = 1) -> dict[str, Any]:
    fields = {"chunk_id": f"1:{version}:{index}", "url": "https://wiki.example/1#a"}
    return {**fields, "text": text, "structure": structure_of(text).encode()}


def told(old: str, new: str) -> list[tuple[str | None, str | None]]:
    return words_of(unit_changes([row(old)], [row(new, version=2)]))


def words_of(changes: Sequence[UnitChange]) -> list[tuple[str | None, str | None]]:
    return [(each.old.text if each.old else None, each.new.text if each.new else None) for each in changes]


def test_what_went_stands_beside_what_came_in_its_place() -> None:
    assert told("One stays. Keep logs for 7 days.", "One stays. Keep logs for 30 days.") == [
        ("Keep logs for 7 days.", "Keep logs for 30 days.")
    ]
    assert told("One stays.", "One stays. Two is new.") == [(None, "Two is new.")]
    assert told("One goes. Two stays.", "Two stays.") == [("One goes.", None)]
    assert told("Ask Ann first.", "The harbour is closed on Sundays.") == [
        ("Ask Ann first.", None),
        (None, "The harbour is closed on Sundays."),
    ]
    assert told("The   same words.", "The same\nwords.") == []


def test_rows_and_items_are_units() -> None:
    table = "| Room | Seats |\n|---|---|\n| Fjord | {} |\n| Sea | 4 |"
    assert told(table.format(8), table.format(12)) == [("| Fjord | 8 |", "| Fjord | 12 |")]
    assert told("- one thing\n- another thing", "- one thing\n- another thing\n- a third") == [(None, "a third")]


def test_text_with_readers_of_its_own_is_not_told_of_the_past() -> None:
    assert OWN_READERS == APART
    old, new = [row("Own."), row("Of another page.", OWN_READERS)], [row("Own.", version=2)]
    assert unit_changes(old, new) == []
    assert unit_changes(old, [*new, row("Of another page.", OWN_READERS, 2)]) == []
    (came,) = unit_changes(old, [*new, row("Of another page now.", OWN_READERS, 2)])
    assert (came.old, came.new and came.new.text) == (None, "Of another page now.")


def tables(pages: dict[str, tuple[int, str]]) -> SetTables:
    """Pages with a version and a text."""
    facts = [
        {**dict.fromkeys(PAGE_FACTS.columns.names), "page_id": one, "version": version, "title": f"Page {one}"}
        for one, (version, _) in pages.items()
    ]
    texts = [
        {**dict.fromkeys(PASSAGE_COLUMNS), **row(text, version=version), "page_id": one}
        for one, (version, text) in pages.items()
    ]
    return SetTables(PAGE_FACTS.table(facts), pa.Table.from_pylist(texts), frozenset({"everyone"}))


def test_a_page_that_may_be_hidden_now_is_not_told_of() -> None:
    old, new = tables({"1": (1, "One."), "2": (1, "Two.")}), tables({"1": (1, "One.")})
    assert page_changes(old, new) == []
    assert page_changes(old, new, ["1", "2"]) == []


def test_a_page_with_another_version_and_the_same_words_changed() -> None:
    (change,) = page_changes(tables({"1": (1, "One.")}), tables({"1": (2, "One.")}))
    assert (change.what, change.old_version, change.new_version, change.units) == ("changed", 1, 2, ())


def opened(wiki: Wiki, generation_id: str) -> tuple[Generation, SetTables]:
    generation = Generation.open(Store(wiki.home), "demo", generation_id, load_config(wiki.config_path))
    found = generation.for_reader(Principal("demo")).set_tables()
    assert found is not None
    return generation, found


def test_an_edit_a_new_page_and_a_deleted_one_over_two_builds(tmp_path: Path) -> None:
    wiki = Wiki(tmp_path)
    build(wiki)
    store, config = Store(wiki.home), load_config(wiki.config_path)
    monitoring = config.monitoring.model_copy(update={"notice_folder": tmp_path / "notices"})
    config = config.model_copy(update={"monitoring": monitoring})
    _follow(config, "Which pages mention pager?")
    before = store.current("demo") or ""
    page = envelope("101", "Deploy guide", EDITED, version=2)
    page["version"]["by"] = {"displayName": "Ann Lee"}
    wiki.write("eng", page)
    wiki.write("eng", envelope("103", "New guide", BACKUP.replace("two", "three"), version=3))
    wiki.delete("eng", "102")
    build(wiki)
    (first, old), (second, new) = opened(wiki, before), opened(wiki, store.current("demo") or "")
    moments = {one: datetime.fromisoformat(when) for one, when in published_at(store, "demo").items()}
    assert published_before(store, "demo", moments[second.id] + timedelta(seconds=1)) == second.id
    assert published_before(store, "demo", moments[second.id]) == first.id
    assert published_before(store, "demo", moments[first.id]) is None
    changes = {each.page_id: each for each in page_changes(old, new)}
    assert {one: each.what for one, each in changes.items()} == {"101": "changed", "103": "added"}
    _quotes_hold(changes["101"], old, new)
    assert (changes["101"].author, changes["101"].old_version, changes["101"].new_version) == ("Ann Lee", 1, 2)
    assert [
        (each.old.text if each.old else None, each.new.text if each.new else None) for each in changes["101"].units
    ] == [
        (
            "Run the release pipeline and watch the canary for ten minutes.",
            "Run the release pipeline and watch the canary for twenty minutes.",
        ),
        (None, "Tell the pager."),
    ]
    assert DEPLOY != EDITED
    for generation in (first, second):
        generation.close()
    assert notify(config, "demo") == NoticeCounts(1, broken=1, sent=1)
    (notice,) = (tmp_path / "notices").glob("*.eml")
    payload = message_from_bytes(notice.read_bytes()).get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert "Before:\n1\n\nNow:\n2 (new: Deploy guide)" in payload.decode()


def _follow(config: Config, question: str) -> None:
    with closing(Pipeline.open(config, "demo")) as pipeline:
        reader = Principal("demo", "ann")
        answer = pipeline.ask(reader, question)
        assert answer.set is not None
        assert answer.receipt_id
        follow(pipeline, reader, answer.receipt_id)


def _quotes_hold(change: PageChange, old: SetTables, new: SetTables) -> None:
    for tables_of, wordings in ((old, [each.old for each in change.units]), (new, [each.new for each in change.units])):
        texts = {one["chunk_id"]: one for one in tables_of.texts.to_pylist()}
        for wording in filter(None, wordings):
            passage = texts[wording.chunk_id]
            assert passage["text"][wording.start : wording.end] == wording.text
            assert wording.url == passage["url"]
