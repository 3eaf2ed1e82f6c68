"""The leak test can fail: each of these faults, put into the product on purpose, it finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asking import Asker, told_by_markers
from brute_force import Judge
from built_wiki import WordEmbedder, configuration, publish_wiki
from restricted_wiki import TENANT, Wiki, restricted_wiki
from support.examples import by_day

from rag_assets.steps import readers
from rag_assets.steps.sections import transclusion
from rag_serving.access import principals as access
from rag_serving.ask import Pipeline
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.lexical import LexicalIndex
from rag_serving.indexes.page_contents import DuplicateLocations
from rag_serving.indexes.readable_rows import ReadableRows
from rag_serving.indexes.view import HiddenRowError, ReaderView

PAIRS = 1500


@pytest.fixture(scope="module")
def wiki(seed: int) -> Wiki:
    return restricted_wiki(700, seed + 2000, including=0.2)


@pytest.fixture(scope="module")
def home(wiki: Wiki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("mutations")
    publish_wiki(home, wiki)
    return home


def leaks(home: Path, wiki: Wiki, pairs: int = PAIRS) -> Iterator[str]:
    embedder, judge = WordEmbedder(), Judge(wiki)
    pipeline = Pipeline.open(configuration(home, wiki), TENANT, embedder)
    try:
        yield from Asker(pipeline, embedder, judge, told_by_markers(judge), random.Random("mutations")).leaks(pairs)
    finally:
        pipeline.close()


def one_clause_is_enough(names: frozenset[str], classes: frozenset[str]) -> frozenset[str]:
    clauses = {readers: access.clauses_of(readers) for readers in classes}
    return frozenset(one for one in classes if not clauses[one] or any(names & clause for clause in clauses[one]))


def dense_without_filter(generation: Generation, vector: Any, k: int, *_: object) -> Any:
    return generation.exact(vector, k, frozenset(generation.reader_classes))


def lexical_without_filter(scores: Callable[..., Any]) -> Callable[..., Any]:
    return lambda index, terms, allowed=None: scores(index, terms)  # noqa: ARG005


def open_to_whoever_has_many_classes(rows: ReadableRows, classes: frozenset[str]) -> Any:
    return READABLE(rows, rows.classes if len(classes) > 3 else classes)


def all_places(places: DuplicateLocations, row: int, classes: frozenset[str]) -> Any:  # noqa: ARG001
    return OF(places, row, places.classes)


def everything_is_visible(view: ReaderView, generation: Generation, *_: Any) -> None:
    INIT(view, generation, generation.known_classes, lambda classes: classes)


OF = DuplicateLocations.of
READABLE = ReadableRows.of
INIT = ReaderView.__init__
SERVING_FAULTS: dict[str, tuple[object, str, object]] = {
    "one clause is enough": (access, "_satisfied", one_clause_is_enough),
    "the dense index is not filtered": (Generation, "dense", dense_without_filter),
    "the lexical index is not filtered": (LexicalIndex, "scores", lexical_without_filter(LexicalIndex.scores)),
    "many classes open all": (ReadableRows, "of", open_to_whoever_has_many_classes),
    "a view shows everything": (ReaderView, "__init__", everything_is_visible),
    "also_at is told to everybody": (DuplicateLocations, "of", all_places),
    "everybody may see every receipt": (Pipeline, "receipt", lambda self, _, i: self.receipts.get(i, self.tenant)),
}


def test_without_a_fault_nothing_is_found(home: Path, wiki: Wiki) -> None:
    assert list(leaks(home, wiki, PAIRS // 6)) == []


@pytest.mark.parametrize("fault", SERVING_FAULTS)
def test_a_fault_in_serving_is_found(home: Path, wiki: Wiki, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SERVING_FAULTS[fault])
    try:
        leak = next(leaks(home, wiki), None)
    except HiddenRowError:  # the view refuses what an index without a filter finds
        return
    assert leak is not None


def own_restrictions_alone(page_id: str, _: object) -> Iterator[str]:
    yield page_id


def nearest_ancestor_alone(page_id: str, pages: Any) -> Iterator[str]:
    yield page_id
    yield from (pages[page_id].ancestors or ())[-1:]


def open_where_not_understood(restrictions: object) -> str | None:
    try:
        return UNDERSTOOD(restrictions)
    except readers.RestrictionError:
        return access.EVERYONE


UNDERSTOOD = readers.restriction_readers
BUILDING_FAULTS: dict[str, tuple[object, str, object]] = {
    "ancestors do not narrow": (readers, "lineage", own_restrictions_alone),
    "only the parent narrows": (readers, "lineage", nearest_ancestor_alone),
    "what is not understood restricts nothing": (readers, "restriction_readers", open_where_not_understood),
    "included text is as open as the page": (transclusion, "intersect_readers", lambda first, _: first),
}


# In what a page has of others, and in what it shows of others.
KINDS = {"ancestors do not narrow", "included text is as open as the page"}


@pytest.mark.parametrize("fault", by_day(KINDS, BUILDING_FAULTS))
def test_a_fault_in_building_is_found(tmp_path: Path, wiki: Wiki, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BUILDING_FAULTS[fault])
    publish_wiki(tmp_path, wiki)
    assert next(leaks(tmp_path, wiki), None) is not None
