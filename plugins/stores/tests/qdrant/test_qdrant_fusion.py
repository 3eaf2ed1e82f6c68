"""What other programs may ask of the collections: the engine's own fusion of vectors and terms, and its filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.qdrant_corpus import TENANT, built, publisher, qdrant_config, restricted_chunks
from support.qdrant_server import QdrantServer, started_qdrant
from support.synthetic import clustered_vectors

from citelock_stores.qdrant import filters
from citelock_stores.qdrant.connection import QdrantConnection
from citelock_stores.qdrant.points import DENSE, SPARSE, number_of
from rag_serving.config.loading import Config
from rag_serving.indexes.generation import Generation


@pytest.fixture(scope="module")
def server() -> Iterator[QdrantServer]:
    with started_qdrant() as started:
        yield started


@pytest.fixture(scope="module")
def published(server: QdrantServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Generation]:
    config = qdrant_config(tmp_path_factory.mktemp("home"), server.url, collections="shared", collection="book-chunks")
    disk = built(config, restricted_chunks(120, book=True))
    for tenant, generation in ((TENANT, disk), ("other", built(config, restricted_chunks(120, seed=3), "other"))):
        publisher(config, tenant).publish(generation.id)
    return config, disk


def hybrid(config: Config, narrowed: Any, limit: int = 50) -> list[Any]:
    """The engine's fusion by reciprocal ranks of the nearest vectors and of a term's chunks, each filtered."""
    from qdrant_client import models

    vector, terms = clustered_vectors(1, seed=8)[0].tolist(), models.SparseVector(indices=[3, 7], values=[1.0, 1.0])
    prefetch = [
        models.Prefetch(query=vector, using=DENSE, limit=limit, filter=narrowed),
        models.Prefetch(query=terms, using=SPARSE["lexical"], limit=limit, filter=narrowed),
    ]
    connection = QdrantConnection(config.index, 10)
    answer = connection.ask(
        lambda client: client.query_points(
            "book-chunks",
            prefetch=prefetch,
            query=models.FusionQuery(fusion=models.Fusion.RRF),
            limit=limit,
            with_payload=["readers", "tenant", "row"],
        )
    )
    connection.close()
    return list(answer.points)


def test_fusion_finds_nothing_that_its_parts_may_not(published: tuple[Config, Generation]) -> None:
    config, disk = published
    for classes in (["everyone"], ["group:a"], ["everyone", "group:b", "user:ann"]):
        points = hybrid(config, filters.readable(TENANT, disk.id, "chunk", classes))
        assert points
        assert {point.payload["tenant"] for point in points} == {TENANT}
        assert {point.payload["readers"] for point in points} <= set(classes)
        assert all(disk.readers_of(number_of(point.id)) in classes for point in points)
        scores = [point.score for point in points]
        assert scores == sorted(scores, reverse=True)


def test_without_a_filter_the_same_search_finds_other_tenants(published: tuple[Config, Generation]) -> None:
    config, _ = published
    assert {point.payload["tenant"] for point in hybrid(config, None)} == {TENANT, "other"}


def test_a_filter_without_a_class_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="without a reader class"):
        filters.readable(TENANT, "g", "chunk", [])


def test_chapters_and_words_of_a_book_can_be_filtered_by_name(published: tuple[Config, Generation]) -> None:
    from qdrant_client import models

    config, disk = published
    texts = disk.table["text"].to_pylist()
    connection = QdrantConnection(config.index, 10)
    conditions = [
        models.FieldCondition(key="chapter", match=models.MatchValue(value="1 Port")),
        models.FieldCondition(key="page", range=models.Range(gte=2, lte=9)),
        models.FieldCondition(key="text", match=models.MatchText(text="crane")),
    ]
    narrowed = filters.readable(TENANT, disk.id, "chunk", ["everyone", "group:a"], conditions)
    records, _ = connection.ask(lambda client: client.scroll("book-chunks", scroll_filter=narrowed, limit=100))
    orders = disk.table["page_order"].to_pylist()
    expected = [
        row
        for row, text in enumerate(texts)
        if "crane" in text and 2 <= orders[row] <= 9 and disk.readers_of(row) in {"everyone", "group:a"}
    ]
    assert sorted(number_of(record.id) for record in records) == expected
    assert expected
    connection.close()


@pytest.mark.usefixtures("published")
def test_the_collection_has_the_name_and_fields_of_the_schema(server: QdrantServer) -> None:
    (name,) = server.collections
    assert name == "book-chunks"
    schema = server.collections[name].schema
    fields = {"chapter", "section", "page", "passage_id", "source_file", "text", "tenant", "readers"}
    assert fields <= schema.keys()
    assert (schema["page"], schema["text"], schema["chapter"]) == ("integer", "text", "keyword")
