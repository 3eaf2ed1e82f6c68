"""Names that mean something to SQL, JSON, a path or a filter are names like any other, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from support.index_backends import BACKENDS, Backends
from support.synthetic import MODEL, TENANT, WORDS, chunk_row, clustered_vectors

from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal, reader_class
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import parse_config
from rag_serving.indexes.databases import ServedGeneration
from rag_serving.indexes.view import ReaderView
from rag_serving.query.parsing import read_query
from rag_serving.records.queries import Filters

NAMES = (
    "'; DROP TABLE document_chunks; --",
    "' OR '1'='1",
    "x') OR true OR ('",
    '"}], "should": [{"key": "tenant"',
    '{"$ne": null}',
    "%(tenant)s %s %%",
    ":tenant $1 {tenant}",
    "a\\'b\\\\",
    "../../other/current",
    "everyone",
    "nobody",
    "group:staff|everyone",
    "a&b|c",
    "ﬁ\u202e\u200bnull",
    "İstanbul ẞ",
    "\U0001f512" * 40,
    "new\nline\ttab",
    "x" * 3000,
)
"""What nobody calls a space, and somebody who means ill does."""


@pytest.fixture(scope="module", params=BACKENDS)
def opened(
    request: pytest.FixtureRequest, backends: Backends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServedGeneration]:
    """A page for each name: its space, title, label and source are called so, and a group of that name may read it."""
    home, backend = tmp_path_factory.mktemp("names"), backends.get(request.param)
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, **backend.settings(home)})
    rows = [
        chunk_row(
            f"{number}",
            0,
            f"marker{number} {WORDS[number]} {name}",
            readers=reader_class([[f"group:{name}"]]),
            **{"space": name, "title": name, "labels": [name], "source": name, "heading_path": [name]},
        )
        for number, name in enumerate(NAMES)
    ]
    vectors = clustered_vectors(len(rows), dimension=8)
    built = build_generation(Store(home), TENANT, GENERATION_CHUNKS.table(rows), vectors, config, MODEL)
    built.close()
    backend.publish(config, TENANT, built.id)
    with ExitStack() as stack:
        yield stack.enter_context(backend.opened(config, TENANT, built.id))


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_group_of_any_name_reads_its_own_page_alone(opened: ServedGeneration, number: int) -> None:
    view = opened.for_reader(Principal(TENANT, None, frozenset({NAMES[number]})))
    assert pages_of(view) == {number}
    assert {*view.facets().spaces} == {NAMES[number]}


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_user_of_that_name_reads_nothing(opened: ServedGeneration, number: int) -> None:
    assert pages_of(opened.for_reader(Principal(TENANT, NAMES[number]))) == set()
    assert len(opened.for_reader(Principal(NAMES[number], None, frozenset(NAMES)))) == 0


def test_each_name_filters_for_what_is_called_so(opened: ServedGeneration) -> None:
    view = opened.for_reader(Principal(TENANT, None, frozenset(NAMES)))
    assert pages_of(view) == {*range(len(NAMES))}
    for number, name in enumerate(NAMES):
        for filters in (Filters(space=(name,)), Filters(labels=(name,)), Filters(source=(name,))):
            rows = np.flatnonzero(view.matching(filters)).tolist()
            assert [int(one.split(":")[0]) for one in view.chunk_ids(rows)] == [number], filters


def test_questions_of_such_words_find_what_holds_them(opened: ServedGeneration) -> None:
    view = opened.for_reader(Principal(TENANT, None, frozenset(NAMES)))
    for number, name in enumerate(NAMES):
        terms = {**read_query(f"marker{number}").terms, **read_query(name).terms}
        found = view.chunk_ids([hit.row for hit in view.lexical(terms, len(NAMES))])
        assert found[0].startswith(f"{number}:"), name
        assert view.row_of(name) is None
        assert not view.has_page(name)


def pages_of(view: ReaderView) -> set[int]:
    """The numbers of the pages that a search of everything finds."""
    hits = view.dense(clustered_vectors(1, dimension=8)[0], len(NAMES))
    return {int(one.split(":")[0]) for one in view.chunk_ids([hit.row for hit in hits])}
