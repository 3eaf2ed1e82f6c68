"""Fewer readers of a page are published whatever else fails: no chunk is built for that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.building import build_json
from support.envelopes import SECTION, TWIN, Wiki, envelope
from support.examples import by_day
from support.synthetic import chunk_table

from rag_assets import asset_checks
from rag_assets.assets import builds
from rag_assets.making import Making, generations, selections
from rag_assets.making.tables import make_chunks, make_pages, make_sections
from rag_assets.progress import Reporter
from rag_assets.publishing.checks import CheckResult, check_generation
from rag_assets.publishing.publish import SourceReaders, narrowed_table, publish_narrowed
from rag_assets.state import planning
from rag_serving.access.principals import Principal
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import load_config
from rag_serving.indexes.catalog import list_generations
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import find_damage
from rag_serving.models import ModelError

ANYBODY, STAFF = Principal("demo"), Principal("demo", "ann", frozenset({"staff"}))
Break = Callable[[Wiki, pytest.MonkeyPatch], None]


@pytest.fixture
def wiki(twins: Wiki) -> Wiki:
    return twins


def pages_for(wiki: Wiki, reader: Principal) -> set[str]:
    """The pages of the published generation that a reader sees, those of places included."""
    config, store = load_config(wiki.config_path), Store(wiki.home)
    generation = Generation.open(store, "demo", store.current("demo") or "", config)
    view = generation.for_reader(reader)
    chunk_ids = [name for name in generation.chunk_ids() if view.row_of(name) is not None]
    generation.close()
    return {name.partition(":")[0] for name in chunk_ids}


def narrow(wiki: Wiki) -> None:
    """Let only staff read one source, and take a page from the other."""
    sources = {"eng": wiki.source("eng", readers=["group:staff"]), "ops": wiki.source("ops")}
    wiki.configure(sources=sources)
    wiki.delete("eng", "102")
    wiki.write("eng", envelope("101", "Deploy guide", SECTION.format(heading="New", text="All is new."), version=2))


def ingest(wiki: Wiki, *sources: str) -> None:
    """Write what a build makes of these sources before it fails."""
    config = load_config(wiki.config_path)
    for key in sources:
        making = Making(key, config, Store(wiki.home), Reporter(), logging.getLogger())
        for make in (make_pages, make_sections, make_chunks):
            make(making)


def fails(check: str) -> Break:
    def break_it(_: Wiki, patch: pytest.MonkeyPatch) -> None:
        def failing(*arguments: Any) -> list[CheckResult]:
            results = check_generation(*arguments)
            return [replace(one, passed=False) if one.name == check else one for one in results]

        patch.setattr(generations, "check_generation", failing)

    return break_it


def raises(module: Any, name: str) -> Break:
    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"{name} is broken")

    return lambda _, patch: patch.setattr(module, name, failing)


def gate(wiki: Wiki, patch: pytest.MonkeyPatch) -> None:
    strict = wiki.folder / "strict.toml"
    strict.write_text("[floors]\ntext_kept = 1.0\n", encoding="utf-8")
    patch.setenv("CITELOCK_EVALUATION__GATES", str(strict))
    wiki.write("ops", envelope("201", "Pager guide", SECTION.format(heading="Pager", text="Less.")))


def budget(_: Wiki, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("CITELOCK_BUDGETS__TOKENS_PER_DAY", "1")


def collision(wiki: Wiki, _: pytest.MonkeyPatch) -> None:
    wiki.write("ops", envelope("101", "Another", SECTION.format(heading="Other", text="Another page of this id.")))


def source_away(wiki: Wiki, patch: pytest.MonkeyPatch) -> None:
    (wiki.folder / "ops").rename(wiki.folder / "moved")
    fails("ids")(wiki, patch)


CAUSES: dict[str, Break] = {
    **{spec.name: fails(spec.name) for spec in asset_checks.GENERATION},
    "gate of quality": gate,
    "evaluation": raises(builds, "evaluate_candidate"),
    "selection": raises(selections, "find_duplicates"),
    "contexts": raises(selections, "build_contexts"),
    "embedding": raises(generations, "embed_passages"),
    "dense index": raises(generations, "build_dense"),
    "lexical index": raises(generations, "build_lexical_index"),
    "commit": raises(generations, "commit_generation"),
    "publication": raises(generations, "publish"),
    "budget": budget,
    "colliding page ids": collision,
    "another source": source_away,
}


# A check, what a person sets, which stops a step, the last step, and what stops a build before its steps.
KINDS = {"gate of quality", "budget", "publication", "colliding page ids"}


@pytest.mark.parametrize("cause", by_day(KINDS, CAUSES))
def test_fewer_readers_are_published_whatever_fails(wiki: Wiki, monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    store, config = Store(wiki.home), load_config(wiki.config_path)
    before = store.current("demo")
    assert pages_for(wiki, ANYBODY) == {"101", "102", "201", "300"}
    narrow(wiki)
    with monkeypatch.context() as patch:
        CAUSES[cause](wiki, patch)
        facts = build_json(wiki, code=1)["tenants"]["demo"]
        assert (facts["published"], facts["narrowed_from"]) == (False, before)
        assert facts["generation"] == store.current("demo") != before
        assert pages_for(wiki, ANYBODY) == {"201"}
        assert pages_for(wiki, STAFF) == {"101", "201", "300"}
        assert find_damage(store, "demo", facts["generation"], config, "digests") == []


def test_the_next_build_that_gets_through_publishes_its_own(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(wiki)
    ingest(wiki, "eng")
    narrowed = publish_narrowed(load_config(wiki.config_path), "demo")
    assert narrowed == Store(wiki.home).current("demo")
    with monkeypatch.context() as patch:
        fails("vectors")(wiki, patch)
        assert build_json(wiki, code=1)["tenants"]["demo"]["generation"] == narrowed
    facts = build_json(wiki)["tenants"]["demo"]
    assert facts["published"]
    assert "narrowed_from" not in facts
    assert facts["generation"] != narrowed
    assert pages_for(wiki, ANYBODY) == {"201", "301"}
    assert pages_for(wiki, STAFF) == {"101", "201", "300", "301"}


def test_readers_that_come_back_are_published_again(wiki: Wiki) -> None:
    first = Store(wiki.home).current("demo")
    wiki.configure(sources={"eng": wiki.source("eng", readers=["group:staff"]), "ops": wiki.source("ops")})
    ingest(wiki, "eng")
    assert publish_narrowed(load_config(wiki.config_path), "demo") not in (None, first)
    wiki.configure()
    facts = build_json(wiki)["tenants"]["demo"]
    assert (facts["published"], facts["generation"]) == (True, first)
    assert pages_for(wiki, ANYBODY) == {"101", "102", "201", "300"}


def test_a_model_without_a_name_holds_nothing_up(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless(*_: Any) -> None:
        raise ModelError("no embedding server answers")

    narrow(wiki)
    monkeypatch.setattr("rag_assets.build.command.wanted_inputs", nameless)
    assert build_json(wiki, code=1)["errors"] == {"embedding": "no embedding server answers"}
    assert pages_for(wiki, ANYBODY) == {"201"}
    assert planning.published_inputs(Store(wiki.home), "demo") == ""


def test_a_killed_build_holds_nothing_up(wiki: Wiki, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow(wiki)
    killed = raises(selections, "find_duplicates")
    with monkeypatch.context() as patch:
        killed(wiki, patch)
        patch.setattr("rag_assets.publishing.publish.publish_narrowed", lambda *_: None)  # no hook ran
        build_json(wiki, code=1)
    assert "102" in pages_for(wiki, ANYBODY)
    told: list[str] = []

    def first(*_: Any) -> None:
        told.extend(pages_for(wiki, ANYBODY))
        raise RuntimeError("killed again")

    monkeypatch.setattr(selections, "find_duplicates", first)
    build_json(wiki, code=1)
    assert told == ["201"]


def test_nobody_reads_more_and_nothing_is_published_where_nobody_reads_less(wiki: Wiki) -> None:
    before = Store(wiki.home).current("demo")
    wiki.write("eng", envelope("103", "Another", SECTION.format(heading="More", text="A page that is new.")))
    ingest(wiki, "eng")
    assert publish_narrowed(load_config(wiki.config_path), "demo") is None
    assert Store(wiki.home).current("demo") == before


def test_of_narrowed_generations_one_stays_and_the_older_ones_with_more_readers_can_be_gone_back_to(
    wiki: Wiki,
) -> None:
    store = Store(wiki.home)
    first = store.current("demo")
    for page_id in ("101", "102"):
        wiki.delete("eng", page_id)
        ingest(wiki, "eng")
        assert publish_narrowed(load_config(wiki.config_path), "demo") == store.current("demo") != first
    published = {info.id for info in list_generations(store, "demo") if info.published}
    assert published == {first, store.current("demo")}
    assert read_manifest(store, "demo", store.current("demo") or "").shards == ()


def test_places_of_the_same_text_lose_their_readers_as_well(wiki: Wiki) -> None:
    def places() -> list[str]:
        config, store = load_config(wiki.config_path), Store(wiki.home)
        generation = Generation.open(store, "demo", store.current("demo") or "", config)
        found = [one["readers"] for row in generation.table["places"].to_pylist() for one in row or ()]
        generation.close()
        return found

    assert places() == ["everyone"] * TWIN.count("<h2>")
    wiki.configure(sources={"eng": wiki.source("eng"), "ops": wiki.source("ops", readers=["group:staff"])})
    ingest(wiki, "ops")
    assert publish_narrowed(load_config(wiki.config_path), "demo")
    assert places() == ["group:staff"] * TWIN.count("<h2>")


def test_a_page_that_was_cut_anew_is_for_those_who_may_read_all_of_it() -> None:
    table = chunk_table(4)
    page = table["page_id"][0].as_py()
    chunks = dict.fromkeys(table["chunk_id"].to_pylist(), "everyone")
    old = narrowed_table(table, {"eng": SourceReaders(dict.fromkeys(table["page_id"].to_pylist(), "everyone"), chunks)})
    assert old is None
    parts = {page: {"everyone", "group:staff"}}
    new = SourceReaders(dict.fromkeys(table["page_id"].to_pylist(), "everyone"), {}, parts)
    narrowed = narrowed_table(table, {"eng": new})
    assert narrowed is not None
    of_page = {row["page_id"]: row["readers"] for row in narrowed.to_pylist()}
    assert of_page.pop(page) == "group:staff"
    assert narrowed_table(table, {"eng": None}) is None
    assert set(narrowed_table(table, {})["readers"].to_pylist()) == {"nobody"}  # type: ignore[index]


def test_altered_files_are_not_published_anew(wiki: Wiki) -> None:
    store = Store(wiki.home)
    folder = store.generation("demo", store.current("demo") or "")
    path = next(path for path in sorted(folder.rglob("*")) if path.name.startswith("sentence"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    narrow(wiki)
    config = load_config(wiki.config_path)
    with pytest.raises(Exception, match=r"manifest|altered|damaged"):
        publish_narrowed(config, "demo")
    assert store.current("demo") == folder.name
