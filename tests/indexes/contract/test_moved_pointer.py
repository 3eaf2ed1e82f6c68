"""A pointer that moves, forward and back: open questions end on the generation they began with, others go with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.index_backends import BACKENDS, Backend, Backends
from support.synthetic import MODEL, TENANT, chunk_row, clustered_vectors
from support.waiting import wait_until

from rag_assets.publishing.build import build_generation
from rag_serving.access.principals import Principal
from rag_serving.artifacts.schema import GENERATION_CHUNKS
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import Config, parse_config
from rag_serving.indexes.current import CurrentGeneration, UnpublishedError
from rag_serving.indexes.view import ReaderView

ANYBODY, STAFF = Principal(TENANT), Principal(TENANT, None, frozenset({"staff"}))
CLASSES = ("everyone", "group:staff")


@dataclass(frozen=True)
class Installation:
    backend: Backend
    config: Config

    def publish(self, words: str, restricted: str = "group:staff") -> str:
        """Publish four chunks of these words, every second one restricted; gives the generation's id."""
        classes = ("everyone", restricted)
        chunks = [chunk_row("1", n, f"{words} number{n}", readers=classes[n % 2]) for n in range(4)]
        vectors = clustered_vectors(4, dimension=8, seed=len(words))
        store = Store(self.config.home)
        generation = build_generation(store, TENANT, GENERATION_CHUNKS.table(chunks), vectors, self.config, MODEL)
        generation.close()
        self.point_to(generation.id)
        return generation.id

    def point_to(self, generation_id: str) -> None:
        self.backend.publish(self.config, TENANT, generation_id)

    def current(self) -> CurrentGeneration:
        return CurrentGeneration(Store(self.config.home), TENANT, self.config)


@pytest.fixture(params=[name for name in BACKENDS if name != "chroma_server"])
def installation(request: pytest.FixtureRequest, backends: Backends, tmp_path: Path) -> Installation:
    backend = backends.get(request.param)
    content = {"home": str(tmp_path), "tenants": {TENANT: {}}, **backend.settings(tmp_path)}
    return Installation(backend, parse_config(content))


def texts(view: ReaderView) -> list[str]:
    return [chunk.text for chunk in view.chunks(view.page_rows("1").tolist())]


def test_a_question_ends_on_the_generation_that_it_began_with(installation: Installation) -> None:
    first = installation.publish("old berth")
    current = installation.current()
    with current.acquire() as old:
        view = old.for_reader(ANYBODY)
        assert len(view) == 2
        second = installation.publish("new crane")
        with current.acquire() as new:
            assert (old.id, new.id) == (first, second)
            assert texts(new.for_reader(STAFF)) == [f"new crane number{n}" for n in range(4)]
        assert texts(view) == ["old berth number0", "old berth number2"]
        assert texts(old.for_reader(STAFF)) == [f"old berth number{n}" for n in range(4)]
        assert not view.lexical({"crane": 1.0}, 4)
    installation.point_to(first)  # a rollback
    with current.acquire() as back:
        assert back.id == first
        assert texts(back.for_reader(ANYBODY)) == ["old berth number0", "old berth number2"]
    current.close()


def test_who_lost_a_page_loses_it_with_the_pointer(installation: Installation) -> None:
    installation.publish("berth plan")
    current = installation.current()
    with current.acquire() as generation:
        assert len(generation.for_reader(STAFF)) == 4
    installation.publish("berth plan two", restricted="group:board")
    with current.acquire() as generation:
        assert len(generation.for_reader(STAFF)) == 2
    current.close()


def test_nothing_is_asked_of_what_is_not_published(installation: Installation) -> None:
    current = installation.current()
    with pytest.raises(UnpublishedError), current.acquire():
        pass
    assert current.refusal()
    first = installation.publish("late berth")
    wait_until(lambda: current.named() == first)
    with current.acquire() as generation:
        assert len(generation.for_reader(ANYBODY)) == 2
    current.close()
